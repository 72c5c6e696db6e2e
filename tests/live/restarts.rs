//! One unit name, again and again.

use scopectl::{IfExists, Stop};

use crate::support::{Lab, Payload, is_inside, scale, spec};

/// A killed process, and at once the next start under the same name: systemd still has the old unit, `active` and empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_the_same_name_waits_for_the_old_unit_and_then_holds_its_process() {
    let lab = Lab::new().await;
    let rounds = scale(200, 1000);
    let name = "restarted.scope";
    let mut waited = 0;
    for round in 0..rounds {
        let mut payload = Payload::spawn();
        let scope = lab
            .manager
            .start_scope(
                &spec(name).if_exists(IfExists::WaitGone),
                [payload.process()],
            )
            .await
            .unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        let path = payload.release();
        assert!(
            is_inside(&path, name),
            "round {round}: the payload is in {path}"
        );
        assert!(scope.cgroup().unwrap().events().unwrap().populated);
        if scope.timings().call > std::time::Duration::from_millis(2) {
            waited += 1;
        }
        payload.kill();
    }
    println!(
        "figure: {rounds} restarts under one name: 0 failures ({waited} waited for the old unit)"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_unit_of_the_same_name_fails_wait_gone_at_once() {
    let lab = Lab::new().await;
    let first = Payload::spawn();
    let scope = lab
        .manager
        .start_scope(&spec("busy.scope"), [first.process()])
        .await
        .unwrap();
    let second = Payload::spawn();
    let error = lab
        .manager
        .start_scope(
            &spec("busy.scope").if_exists(IfExists::WaitGone),
            [second.process()],
        )
        .await
        .unwrap_err();
    assert_eq!(error.kind(), scopectl::ErrorKind::UnitExists, "{error:?}");
    scope.stop(Stop::Kill).await.unwrap();
}
