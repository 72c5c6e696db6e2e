//! Every way in which a job can end.

use scopectl::{ErrorKind, JobResult, Phase, ScopeSpec};

use crate::cgroups::Sleeper;
use crate::lab::{Lab, STEP, check, check_fast, error, patient};

#[test]
fn every_result_but_done_is_an_error_that_carries_it() {
    check(async {
        let lab = Lab::new().await;
        let results = [
            "canceled",
            "timeout",
            "failed",
            "dependency",
            "skipped",
            "invalid",
            "assert",
            "unsupported",
            "collected",
            "once",
            "frozen",
            "concurrency",
            "a result of next year",
        ];
        for result in results {
            let mut sleeper = Sleeper::new();
            let before = sleeper.cgroup();
            let mut starts = lab.fake.hold("StartTransientUnit");
            let start = lab.start(patient("result.scope"), [sleeper.process()]);
            let call = starts.next().await;
            let job = call.take();
            call.reply_job(&job).await;
            // As systemd does: one that never ran leaves no unit.
            lab.fake.table(|table| table.forget("result.scope"));
            job.end(result).await;
            let error = error(start).await;
            assert_eq!(error.kind(), ErrorKind::JobFailed, "{error}");
            assert_eq!(error.job_result(), Some(&JobResult::parse(result)));
            assert_eq!(error.phase(), Some(Phase::Job));
            assert_eq!(error.unit(), Some("result.scope"));
            assert!(error.to_string().contains(result), "{error}");
            assert!(sleeper.is_running());
            assert_eq!(sleeper.cgroup(), before);
            lab.assert_idle().await;
        }
        assert!(lab.fake.calls("StopUnit").is_empty());
    });
}

#[test]
fn a_unit_that_a_failed_job_left_behind_is_taken_away() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("failed.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.fail();
        job.end("failed").await;
        let error = error(start).await;
        assert_eq!(error.job_result(), Some(&JobResult::Failed));
        assert!(error.undo().unwrap().unit_stopped);
        assert!(lab.fake.unit("failed.scope").is_none());
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_failure_whose_signal_was_lost_is_found_by_asking() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("lost.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.fail();
        job.vanish();
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::JobFailed, "{error}");
        assert!(lab.fake.unit("lost.scope").is_none());
        lab.assert_idle().await;
    });
}
