//! A start that fails takes itself back and harms nobody.

use std::time::Duration;

use scopectl::{ErrorKind, Phase, Stop};

use crate::support::{Frozen, Lab, Payload, cgroup_of, is_inside, spec};

/// The manager is stopped while the call is on its way, so that the process dies after the check and before the job runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_processes_one_dies_and_the_other_two_live_on_in_their_old_cgroup() {
    let lab = Lab::new().await;
    for attempt in 0.. {
        assert!(attempt < 50, "the death always came before the check");
        let name = format!("undone-{attempt}.scope");
        let mut payloads: Vec<Payload> = (0..3).map(|_| Payload::spawn()).collect();
        let home = cgroup_of(payloads[0].pid()).unwrap();
        let processes: Vec<_> = payloads.iter().map(Payload::process).collect();

        let frozen = Frozen::new(lab.embedded.manager_pid());
        let manager = lab.manager.clone();
        let start = tokio::spawn({
            let name = name.clone();
            async move { manager.start_scope(&spec(&name), processes).await }
        });
        while lab.manager.load().starts_in_flight == 0 {
            tokio::task::yield_now().await;
        }
        // Dead and not reaped: systemd takes it without a word.
        payloads[1].kill_without_reaping();
        drop(frozen);

        let error = start.await.unwrap().expect_err("one of them died");
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error:?}");
        assert!(error.to_string().contains(&payloads[1].pid().to_string()));
        for n in [0, 2] {
            assert!(
                payloads[n].is_running(),
                "the undo harmed an innocent process"
            );
            let pid = payloads[n].pid();
            let undo = error.undo().cloned().unwrap_or_default();
            let now = cgroup_of(pid).unwrap();
            if undo.left_inside.contains(&pid) {
                assert!(is_inside(&now, &name));
            } else {
                assert_eq!(now, home, "{error}");
            }
        }
        assert_eq!(lab.scope_directories(), Vec::<std::path::PathBuf>::new());
        if error.phase() == Some(Phase::Verify) {
            assert_eq!(error.undo().unwrap().moved_back.len(), 2, "{error:?}");
            break;
        }
    }
}

/// The manager does not answer at all, and comes back long after the start was given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_the_manager_carries_out_after_its_deadline_is_undone_then() {
    let lab = Lab::new().await;
    let name = "late.scope";
    let mut payload = Payload::spawn();
    let home = cgroup_of(payload.pid()).unwrap();
    let frozen = Frozen::new(lab.embedded.manager_pid());
    let error = lab
        .manager
        .start_scope(
            &spec(name).start_timeout(Duration::from_millis(300)),
            [payload.process()],
        )
        .await
        .expect_err("the manager is stopped");
    assert!(
        matches!(error.kind(), ErrorKind::CallTimeout | ErrorKind::Timeout),
        "{error:?}"
    );
    assert_eq!(cgroup_of(payload.pid()).unwrap(), home);
    drop(frozen);
    // The manager works off its queue: the call is carried out, found, and taken back.
    let witness = lab.witness().await;
    let undone = tokio::time::timeout(Duration::from_secs(30), async {
        // Answers come in order, so after this one the late call has been handled.
        lab.loaded_scopes(&witness).await;
        while !lab.loaded_scopes(&witness).await.is_empty()
            || cgroup_of(payload.pid()).unwrap() != home
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    undone.await.expect("the late scope is taken back");
    assert!(payload.is_running());
    // And the name is free.
    let scope = lab
        .manager
        .start_scope(&spec(name), [payload.process()])
        .await
        .unwrap();
    scope.stop(Stop::Kill).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_nobody_waits_for_is_undone_and_one_that_shall_be_kept_stays() {
    let lab = Lab::new().await;
    for keep in [false, true] {
        let name = format!("dropped-{keep}.scope");
        let mut payload = Payload::spawn();
        let home = cgroup_of(payload.pid()).unwrap();
        let frozen = Frozen::new(lab.embedded.manager_pid());
        let spec = spec(&name).keep_on_drop(keep);
        let start = lab.manager.start_scope(&spec, [payload.process()]);
        tokio::time::timeout(Duration::from_millis(50), start)
            .await
            .expect_err("the manager is stopped");
        drop(frozen);
        let ended = tokio::time::timeout(Duration::from_secs(10), async {
            while lab.manager.load() != scopectl::Load::default()
                || is_inside(&cgroup_of(payload.pid()).unwrap(), &name) != keep
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        ended.await.expect("the start ends");
        assert!(payload.is_running());
        if keep {
            lab.manager.adopt(&name).await.unwrap();
        } else {
            assert_eq!(cgroup_of(payload.pid()).unwrap(), home);
        }
    }
}
