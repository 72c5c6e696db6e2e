//! A start that nobody waits for any more.

use std::pin::pin;

use scopectl::Load;

use crate::cgroups::Sleeper;
use crate::lab::{Lab, check, patient, scope};

const NAME: &str = "dropped.scope";

/// The process is back, the unit gone, and it was not stopped as long as something was inside.
async fn assert_undone(lab: &Lab, sleeper: &mut Sleeper) {
    lab.fake.until(|table| table.units.is_empty()).await;
    assert!(sleeper.is_running());
    assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("old"));
    assert!(
        lab.fake
            .calls("StopUnit")
            .iter()
            .all(|stop| !stop.populated)
    );
    lab.idle().await;
}

#[test]
fn a_start_dropped_before_the_reply_ends_and_is_undone() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [sleeper.process()]);
        let call = starts.next().await;
        start.abort();
        assert!(start.await.unwrap_err().is_cancelled());
        let job = call.take();
        call.reply_job(&job).await;
        job.run();
        job.end("done").await;
        assert_undone(&lab, &mut sleeper).await;
    });
}

#[test]
fn a_start_dropped_while_its_job_runs_ends_and_is_undone() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        job.run();
        start.abort();
        assert!(start.await.unwrap_err().is_cancelled());
        job.end("done").await;
        assert_undone(&lab, &mut sleeper).await;
    });
}

#[test]
fn a_start_dropped_when_it_was_ready_is_undone() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut starts = lab.fake.hold("StartTransientUnit");
        let spec = patient(NAME);
        {
            let mut start = pin!(lab.manager.start_scope(&spec, [sleeper.process()]));
            let call = tokio::select! {
                _ = &mut start => panic!("it cannot have ended"),
                call = starts.next() => call,
            };
            // From here on the future is not polled any more.
            call.answer().await;
            lab.idle().await;
            assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(NAME));
        }
        assert_undone(&lab, &mut sleeper).await;
    });
}

#[test]
fn a_start_dropped_in_the_queue_leaves_no_trace() {
    check(async {
        let lab = Lab::with(|connect| connect.max_in_flight(1)).await;
        let first = Sleeper::new();
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut starts = lab.fake.hold("StartTransientUnit");
        let busy = lab.start(patient("busy.scope"), [first.process()]);
        let call = starts.next().await;
        let start = lab.start(patient(NAME), [sleeper.process()]);
        while lab.manager.load().starts_queued == 0 {
            tokio::task::yield_now().await;
        }
        start.abort();
        assert!(start.await.unwrap_err().is_cancelled());
        drop(starts);
        call.answer().await;
        scope(busy).await;
        lab.idle().await;
        // The end of a start that was sent may still have been under way.
        lab.fake
            .until(|table| !table.units.contains_key(NAME))
            .await;
        assert!(sleeper.is_running());
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("old"));
    });
}

#[test]
fn a_dropped_start_that_is_to_be_kept_is_kept() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME).keep_on_drop(true), [sleeper.process()]);
        let call = starts.next().await;
        start.abort();
        assert!(start.await.unwrap_err().is_cancelled());
        call.answer().await;
        lab.idle().await;
        // An answered question afterwards: whatever an undo would have begun with has been sent.
        assert_eq!(lab.manager.adopt(NAME).await.unwrap().name().as_str(), NAME);
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(NAME));
        assert!(sleeper.is_running());
        assert!(lab.fake.calls("StopUnit").is_empty());
        assert_eq!(lab.manager.load(), Load::default());
    });
}

#[test]
fn a_dropped_start_that_fails_is_undone_too() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [sleeper.process()]);
        let call = starts.next().await;
        start.abort();
        assert!(start.await.unwrap_err().is_cancelled());
        let job = call.take();
        call.reply_job(&job).await;
        job.fail();
        job.end("failed").await;
        assert_undone(&lab, &mut sleeper).await;
    });
}
