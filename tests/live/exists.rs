//! Units that are there already.

use scopectl::{ErrorKind, IfExists, Stop};

use crate::support::{Lab, Payload, cgroup_of, is_inside, spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_unit_is_refused_by_fail_and_by_reset_failed() {
    let lab = Lab::new().await;
    let mut first = Payload::spawn();
    lab.manager
        .start_scope(&spec("there.scope"), [first.process()])
        .await
        .unwrap();
    for policy in [IfExists::Fail, IfExists::ResetFailed] {
        let mut second = Payload::spawn();
        let home = cgroup_of(second.pid());
        let error = lab
            .manager
            .start_scope(&spec("there.scope").if_exists(policy), [second.process()])
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnitExists);
        assert_eq!(
            error.dbus_name(),
            Some("org.freedesktop.systemd1.UnitExists")
        );
        assert_eq!(error.unit(), Some("there.scope"));
        assert!(second.is_running());
        assert_eq!(cgroup_of(second.pid()), home);
    }
    assert!(first.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_unit_is_reset_and_its_name_taken() {
    let lab = Lab::new().await;
    let witness = lab.witness().await;
    let mut failed = Payload::spawn();
    // A run-time limit that is over at once leaves the scope failed.
    lab.start_foreign(
        &witness,
        "failed.scope",
        failed.pid(),
        vec![("RuntimeMaxUSec", zbus::Variant::from(1u64))],
    )
    .await;
    failed.wait();
    lab.until_active_state(&witness, "failed.scope", "failed")
        .await;

    let refused = Payload::spawn();
    let error = lab
        .manager
        .start_scope(
            &spec("failed.scope").if_exists(IfExists::Fail),
            [refused.process()],
        )
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnitExists);

    let mut payload = Payload::spawn();
    let scope = lab
        .manager
        .start_scope(&spec("failed.scope"), [payload.process()])
        .await
        .unwrap();
    assert!(is_inside(&payload.release(), "failed.scope"));
    scope.stop(Stop::Kill).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_that_we_started_or_that_is_delegated_may_be_joined_and_no_other() {
    let lab = Lab::new().await;
    let witness = lab.witness().await;
    let first = Payload::spawn();
    lab.manager
        .start_scope(&spec("ours.scope"), [first.process()])
        .await
        .unwrap();
    let second = Payload::spawn();
    lab.start_foreign(
        &witness,
        "delegated.scope",
        second.pid(),
        vec![("Delegate", zbus::Variant::from(true))],
    )
    .await;
    let third = Payload::spawn();
    lab.start_foreign(&witness, "foreign.scope", third.pid(), Vec::new())
        .await;

    for (name, joins) in [
        ("ours.scope", true),
        ("delegated.scope", true),
        ("foreign.scope", false),
    ] {
        let mut joiner = Payload::spawn();
        let home = cgroup_of(joiner.pid()).unwrap();
        let joined = lab
            .manager
            .start_scope(&spec(name).if_exists(IfExists::Attach), [joiner.process()])
            .await;
        if joins {
            let scope = joined.unwrap_or_else(|e| panic!("{name}: {e:?}"));
            assert!(is_inside(&joiner.release(), name));
            assert_eq!(scope.name(), name);
        } else {
            let error = joined.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnitExists, "{error:?}");
            assert!(joiner.is_running());
            assert_eq!(cgroup_of(joiner.pid()).unwrap(), home);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_scope_can_be_opened_and_one_that_is_not_there_cannot() {
    let lab = Lab::new().await;
    let witness = lab.witness().await;
    let mut payload = Payload::spawn();
    lab.start_foreign(&witness, "adopted.scope", payload.pid(), Vec::new())
        .await;
    let scope = lab.manager.adopt("adopted.scope").await.unwrap();
    assert_eq!(
        scope.cgroup().unwrap().processes().unwrap(),
        [payload.pid()]
    );
    scope.stop(Stop::Kill).await.unwrap();
    assert!(!payload.is_running());
    let error = lab.manager.adopt("adopted.scope").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchUnit);
    let error = lab.manager.adopt("app.slice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}
