//! JobRemoved: before the reply, after it, never, for somebody else, twice, and too many of them.

use scopectl::ScopeSpec;

use crate::cgroups::Sleeper;
use crate::lab::{Lab, STEP, check, check_fast, patient, scope};

#[test]
fn a_signal_after_the_reply_ends_the_start() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("after.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.run();
        job.end("done").await;
        let scope = scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("after.scope"));
        assert_eq!(scope.cgroup().unwrap().proc_path(), sleeper.cgroup());
        lab.assert_idle().await;
    });
}

#[test]
fn a_signal_before_the_reply_ends_the_start() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("before.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        job.run();
        job.end("done").await;
        call.reply_job(&job).await;
        scope(start).await;
        assert_eq!(
            sleeper.cgroup(),
            lab.fake.cgroup().proc_path("before.scope")
        );
        lab.assert_idle().await;
    });
}

#[test]
fn a_signal_that_never_comes_is_replaced_by_a_question_at_the_deadline() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("never.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.run();
        job.vanish();
        let scope = scope(start).await;
        assert_eq!(scope.cgroup().unwrap().proc_path(), sleeper.cgroup());
        assert!(lab.fake.calls("CancelJob").is_empty());
        assert!(lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}

#[test]
fn signals_for_other_jobs_end_nothing() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let other_sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("mine.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        let other_start = lab.start(patient("other.scope"), [other_sleeper.process()]);
        let other_call = starts.next().await;
        let other = other_call.take();
        other_call.reply_job(&other).await;
        other.run();
        other.end("done").await;
        // It comes after the other's, on the same way.
        scope(other_start).await;
        assert!(!start.is_finished());
        assert_eq!(lab.manager.load().jobs_waited_for, 1);
        job.run();
        job.end("done").await;
        scope(start).await;
        lab.assert_idle().await;
    });
}

#[test]
fn a_signal_that_comes_twice_counts_once() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("twice.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.run();
        job.end("done").await;
        job.announce("failed").await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("twice.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn more_early_signals_than_are_kept_lead_to_a_question() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("flood.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        job.run();
        job.end("done").await;
        for _ in 0..1300 {
            // The jobs of others, on a manager that tells everybody everything.
            let mut stranger = job.clone();
            stranger.id = lab.fake.table(|table| table.new_job("stranger.scope"));
            stranger.end("done").await;
        }
        call.reply_job(&job).await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("flood.scope"));
        lab.assert_idle().await;
    });
}
