//! Replies that come an hour late.

use std::time::Duration;

use scopectl::{ErrorKind, ScopeSpec};
use tokio::time::Instant;

use crate::cgroups::Sleeper;
use crate::lab::{LONG_STEP, Lab, check_fast, error, scope};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// The default of the start's time, and of the undo's.
const LIMIT: Duration = Duration::from_secs(30 + 10);

#[test]
fn a_reply_after_an_hour_to_a_call_that_was_not_taken_finds_nobody() {
    check_fast(LONG_STEP, async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        let begun = Instant::now();
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("late.scope"), [sleeper.process()]);
        let call = calls.next().await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::CallTimeout, "{error}");
        assert!(begun.elapsed() < LIMIT + TICKS);
        lab.assert_idle().await;
        tokio::time::sleep_until(begun + HOUR).await;
        // The job is the answer to a question that nobody asks any more.
        let job = call.take();
        lab.fake.table(|table| table.forget("late.scope"));
        call.reply_job(&job).await;
        job.end("failed").await;
        drop(calls);
        // The connection is as good as before.
        let again = Sleeper::new();
        scope(lab.start(ScopeSpec::new("next.scope"), [again.process()])).await;
        assert!(sleeper.is_running());
        assert_eq!(sleeper.cgroup(), before);
        lab.assert_idle().await;
    });
}

#[test]
fn a_reply_after_an_hour_to_a_call_that_was_taken_is_not_waited_for() {
    check_fast(LONG_STEP, async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let begun = Instant::now();
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("late.scope"), [sleeper.process()]);
        let call = calls.next().await;
        let job = call.take();
        job.run();
        job.end("done").await;
        scope(start).await;
        assert!(begun.elapsed() < LIMIT);
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("late.scope"));
        lab.assert_idle().await;
        tokio::time::sleep_until(begun + HOUR).await;
        call.reply_job(&job).await;
        assert_eq!(lab.manager.version().await.unwrap(), 257);
        lab.assert_idle().await;
    });
}

#[test]
fn who_has_two_hours_gets_the_scope_after_one() {
    check_fast(LONG_STEP, async {
        let lab = Lab::with(|connect| connect.call_timeout(2 * HOUR)).await;
        let sleeper = Sleeper::new();
        let mut calls = lab.fake.hold("StartTransientUnit");
        let spec = ScopeSpec::new("slow.scope").start_timeout(2 * HOUR);
        let start = lab.start(spec, [sleeper.process()]);
        let call = calls.next().await;
        tokio::time::sleep(HOUR).await;
        assert!(!start.is_finished());
        call.answer().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("slow.scope"));
        assert_eq!(lab.fake.calls("StartTransientUnit").len(), 1);
        lab.assert_idle().await;
    });
}

/// What the clock may move while a step is taken (see [`check_fast`]).
const TICKS: Duration = Duration::from_secs(60);
