//! Ending a scope.

use std::time::Duration;

use scopectl::{ErrorKind, JobResult, Phase, Result, Scope, Stop};
use tokio::task::JoinHandle;

use crate::cgroups::Sleeper;
use crate::lab::{FOREVER, Lab, STEP, check, check_fast, patient, scope};

const NAME: &str = "stop.scope";

async fn running(lab: &Lab) -> (Scope, Sleeper) {
    let sleeper = Sleeper::new();
    let scope = scope(lab.start(patient(NAME), [sleeper.process()])).await;
    (scope, sleeper)
}

fn stop(scope: &Scope, how: Stop) -> JoinHandle<Result<()>> {
    let scope = scope.clone();
    tokio::spawn(async move { scope.stop(how).await })
}

fn directory(lab: &Lab) -> std::path::PathBuf {
    lab.fake.cgroup().path(NAME)
}

#[test]
fn every_way_of_stopping_ends_processes_unit_and_directory() {
    check(async {
        let by_signal = |signal, timeout| Stop::Graceful { signal, timeout };
        for how in [
            Stop::GRACEFUL,
            Stop::Kill,
            by_signal(Some(15), None),
            by_signal(None, Some(FOREVER)),
            by_signal(Some(15), Some(FOREVER)),
        ] {
            let lab = Lab::new().await;
            let (scope, mut sleeper) = running(&lab).await;
            scope.stop(how).await.unwrap();
            assert!(!sleeper.is_running(), "{how:?}");
            assert!(lab.fake.unit(NAME).is_none(), "{how:?}");
            assert!(!directory(&lab).exists(), "{how:?}");
            lab.assert_idle().await;
            // And once more.
            scope.stop(how).await.unwrap();
            lab.assert_idle().await;
        }
    });
}

#[test]
fn what_ignores_the_signal_is_killed_when_its_time_is_up() {
    check(async {
        let lab = Lab::new().await;
        let ready = lab.fake.cgroup().make("old");
        // It ignores the signal from the moment when it is in this directory.
        let mut stubborn = Sleeper::running(
            std::process::Command::new("sh")
                .args([
                    "-c",
                    "trap '' TERM; echo $$ >\"$0\"; while :; do sleep 1000; done",
                ])
                .arg(ready.join("cgroup.procs")),
        );
        while !stubborn.cgroup().ends_with("/old") {
            tokio::task::yield_now().await;
        }
        let spec = patient(NAME).descendants(scopectl::Descendants::Move);
        let scope = scope(lab.start(spec, [stubborn.process()])).await;
        let how = Stop::Graceful {
            signal: Some(15),
            timeout: Some(Duration::from_millis(50)),
        };
        scope.stop(how).await.unwrap();
        assert!(!stubborn.is_running());
        assert!(!directory(&lab).exists());
        assert_eq!(lab.fake.calls("KillUnit").len(), 1);
        lab.assert_idle().await;
    });
}

#[test]
fn a_scope_that_has_ended_is_not_stopped_again() {
    check(async {
        let lab = Lab::new().await;
        let (scope, mut sleeper) = running(&lab).await;
        sleeper.end();
        scope.stop(Stop::GRACEFUL).await.unwrap();
        assert!(lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}

#[test]
fn a_scope_that_ends_right_before_the_call_is_a_success() {
    check(async {
        let lab = Lab::new().await;
        let (scope, mut sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let call = stops.next().await;
        sleeper.end();
        // With nobody inside, the fake answers NoSuchUnit.
        call.answer().await;
        stop.await.unwrap().unwrap();
        assert!(lab.fake.unit(NAME).is_none());
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_job_that_fails_is_reported() {
    check(async {
        let lab = Lab::new().await;
        let (scope, mut sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        for result in ["failed", "canceled", "timeout"] {
            let stop = stop(&scope, Stop::GRACEFUL);
            let call = stops.next().await;
            let job = call.take();
            call.reply_job(&job).await;
            job.end(result).await;
            let error = stop.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::JobFailed, "{error}");
            assert_eq!(error.job_result(), Some(&JobResult::parse(result)));
            assert_eq!(error.phase(), Some(Phase::Stop));
            assert_eq!(error.unit(), Some(NAME));
            lab.assert_idle().await;
        }
        assert!(sleeper.is_running());
    });
}

#[test]
fn a_refused_stop_is_reported() {
    check(async {
        let lab = Lab::new().await;
        let (scope, mut sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let denied = "org.freedesktop.DBus.Error.AccessDenied";
        stops.next().await.refuse(denied, "Permission denied").await;
        let error = stop.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_name_that_belongs_to_another_unit_by_now_is_left_alone() {
    check(async {
        for how in [
            Stop::GRACEFUL,
            Stop::Kill,
            Stop::Graceful {
                signal: Some(15),
                timeout: None,
            },
        ] {
            let lab = Lab::new().await;
            let (scope, mut sleeper) = running(&lab).await;
            sleeper.end();
            lab.fake.table(|table| table.forget(NAME));
            let directory = lab.fake.add_unit(NAME, "another");
            let mut other = Sleeper::inside(&directory);
            scope.stop(how).await.unwrap();
            assert!(other.is_running());
            assert_eq!(lab.fake.unit(NAME).unwrap().active, "active");
            for member in ["StopUnit", "KillUnit", "ResetFailedUnit"] {
                assert!(lab.fake.calls(member).is_empty(), "{member}");
            }
            lab.assert_idle().await;
        }
    });
}

#[test]
fn an_adopted_scope_whose_name_was_taken_again_is_left_alone() {
    check(async {
        let lab = Lab::new().await;
        let directory = lab.fake.add_unit(NAME, "somebody's");
        let mut inside = Sleeper::inside(&directory);
        let scope = lab.manager.adopt(NAME).await.unwrap();
        inside.end();
        lab.fake.table(|table| table.forget(NAME));
        let directory = lab.fake.add_unit(NAME, "somebody's");
        lab.fake
            .table(|table| table.units.get_mut(NAME).unwrap().invocation = vec![8; 16]);
        let mut other = Sleeper::inside(&directory);
        scope.stop(Stop::GRACEFUL).await.unwrap();
        assert!(other.is_running());
        assert!(lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}

#[test]
fn a_unit_that_failed_is_reset() {
    check(async {
        let lab = Lab::new().await;
        let (scope, _sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let call = stops.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        // As a scope does whose processes had to be killed.
        std::fs::write(directory(&lab).join("cgroup.kill"), "1").unwrap();
        while crate::cgroups::is_populated(&directory(&lab)) {
            tokio::task::yield_now().await;
        }
        std::fs::remove_dir(directory(&lab)).unwrap();
        lab.fake.table(|table| table.set(NAME, "failed", "failed"));
        job.end("done").await;
        stop.await.unwrap().unwrap();
        assert!(lab.fake.unit(NAME).is_none());
        assert_eq!(lab.fake.calls("ResetFailedUnit").len(), 1);
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_whose_signal_comes_before_the_reply_ends() {
    check(async {
        let lab = Lab::new().await;
        let (scope, _sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let call = stops.next().await;
        let job = call.take();
        job.stop().await;
        job.end("done").await;
        call.reply_job(&job).await;
        stop.await.unwrap().unwrap();
        assert!(!directory(&lab).exists());
        lab.assert_idle().await;
    });
}

#[test]
fn two_stops_at_once_share_one_job() {
    check(async {
        let lab = Lab::new().await;
        let (scope, _sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let (one, two) = (stop(&scope, Stop::GRACEFUL), stop(&scope, Stop::GRACEFUL));
        let (first, second) = (stops.next().await, stops.next().await);
        let job = first.take();
        first.reply_job(&job).await;
        second.reply_job(&job).await;
        job.stop().await;
        job.end("done").await;
        one.await.unwrap().unwrap();
        two.await.unwrap().unwrap();
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_job_that_never_ends_is_a_timeout() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let (scope, mut sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let call = stops.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        let error = stop.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_whose_signal_never_comes_finds_the_end_by_asking() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let (scope, _sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let call = stops.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.stop().await;
        job.vanish();
        stop.await.unwrap().unwrap();
        lab.assert_idle().await;
    });
}

#[test]
fn a_manager_that_ended_for_good_ends_the_stop() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let (scope, mut sleeper) = running(&lab).await;
        lab.fake.end().await;
        let error = scope.stop(Stop::GRACEFUL).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn what_a_manager_leaves_of_the_directory_is_removed() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let (scope, _sleeper) = running(&lab).await;
        // Somebody's subgroup, on which this manager's own rmdir fails.
        std::fs::create_dir(directory(&lab).join("left")).unwrap();
        scope.stop(Stop::GRACEFUL).await.unwrap();
        assert!(!directory(&lab).exists());
        lab.assert_idle().await;
    });
}

/// It was an error, whatever had become of the unit.
#[test]
fn a_call_that_is_taken_and_never_answered_is_a_success_once_the_unit_is_gone() {
    check_fast(STEP, async {
        let lab = Lab::with(|connect| connect.call_timeout(Duration::from_secs(10))).await;
        let (scope, mut sleeper) = running(&lab).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = stop(&scope, Stop::GRACEFUL);
        let call = stops.next().await;
        let job = call.take();
        job.stop().await;
        job.vanish();
        stop.await.unwrap().unwrap();
        assert!(!sleeper.is_running());
        assert_eq!(lab.fake.calls("StopUnit").len(), 1);
        lab.assert_idle().await;
        drop(call);
    });
}
