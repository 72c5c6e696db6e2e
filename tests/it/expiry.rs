//! Starts whose time is up.

use scopectl::{ErrorKind, Phase, ScopeSpec};

use crate::cgroups::Sleeper;
use crate::lab::{Lab, STEP, check_fast, error, scope};

#[test]
fn a_job_that_does_not_end_is_cancelled_and_nothing_is_left() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("slow.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(error.phase(), Some(Phase::Job));
        // A job that waits has others before it; this one is slow itself.
        assert!(error.to_string().contains("is still running"), "{error}");
        assert_eq!(lab.fake.calls("CancelJob").len(), 1);
        assert!(lab.fake.unit("slow.scope").is_none());
        lab.fake.table(|table| assert!(table.jobs.is_empty()));
        assert!(sleeper.is_running());
        assert_eq!(sleeper.cgroup(), before);
        lab.assert_idle().await;
    });
}

#[test]
fn a_job_that_ends_while_it_is_cancelled_is_a_late_success() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let mut cancels = lab.fake.hold("CancelJob");
        let start = lab.start(ScopeSpec::new("late.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        let cancel = cancels.next().await;
        job.run();
        job.end("done").await;
        cancel.refuse_as_systemd("NoSuchJob").await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("late.scope"));
        assert!(lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}

#[test]
fn a_job_that_cannot_be_cancelled_is_waited_for_in_the_background_and_then_undone() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let mut cancels = lab.fake.hold("CancelJob");
        let spec = ScopeSpec::new("stuck.scope");
        let start = lab.start(spec, [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        cancels.next().await.reply(&()).await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(!error.undo().unwrap().unit_stopped);
        // A stop could meet the process inside.
        assert!(lab.fake.calls("StopUnit").is_empty());
        let home = sleeper.cgroup();
        job.run();
        job.end("done").await;
        lab.fake.until(|table| table.units.is_empty()).await;
        assert_eq!(sleeper.cgroup(), home);
        let stops = lab.fake.calls("StopUnit");
        assert!(stops.iter().all(|stop| !stop.populated));
        assert!(lab.fake.unit("stuck.scope").is_none());
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_scope_that_has_run_and_ended_is_no_timeout() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("over.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.run();
        job.vanish();
        sleeper.end();
        lab.fake.until(|table| table.units.is_empty()).await;
        let scope = scope(start).await;
        assert_eq!(scope.ended(), [sleeper.pid()]);
        lab.assert_idle().await;
    });
}
