//! Connections that end: before the call, between call and reply, between reply and signal, in a stop, and for good.

use scopectl::{ErrorKind, Instance, Manager, ScopeSpec, Stop};

use crate::cgroups::Sleeper;
use crate::lab::{Lab, STEP, check, check_fast, error, patient, scope};

#[test]
fn a_connection_that_ended_before_the_call_is_made_again() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        lab.fake.hang_up().await;
        scope(lab.start(patient("before.scope"), [sleeper.process()])).await;
        assert_eq!(
            sleeper.cgroup(),
            lab.fake.cgroup().proc_path("before.scope")
        );
        lab.assert_idle().await;
    });
}

#[test]
fn a_call_that_was_lost_with_its_connection_is_sent_on_the_next_one() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("lost.scope"), [sleeper.process()]);
        starts.next().await.hang_up().await;
        starts.next().await.answer().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("lost.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn a_connection_that_ends_between_call_and_reply_leads_to_questions_on_the_next_one() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let mut questions = lab.fake.hold("ListUnitsByNames");
        let start = lab.start(patient("taken.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.hang_up().await;
        // The job is still there when it is asked for first.
        questions.next().await.answer().await;
        questions.next().await.answer().await;
        drop(questions);
        job.run();
        job.vanish();
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("taken.scope"));
        assert!(starts.try_next().is_none());
        lab.assert_idle().await;
    });
}

#[test]
fn a_connection_that_ends_between_reply_and_signal_leads_to_questions_on_the_next_one() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let mut questions = lab.fake.hold("ListUnitsByNames");
        let start = lab.start(patient("replied.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        call.hang_up().await;
        questions.next().await.answer().await;
        drop(questions);
        job.run();
        job.vanish();
        scope(start).await;
        assert_eq!(
            sleeper.cgroup(),
            lab.fake.cgroup().proc_path("replied.scope")
        );
        lab.assert_idle().await;
    });
}

#[test]
fn a_connection_that_ends_while_the_reply_is_read_leads_to_questions_too() {
    check(async {
        for _ in 0..20 {
            let lab = Lab::new().await;
            let sleeper = Sleeper::new();
            let mut starts = lab.fake.hold("StartTransientUnit");
            let start = lab.start(patient("replied.scope"), [sleeper.process()]);
            let call = starts.next().await;
            let job = call.take();
            job.run();
            job.vanish();
            call.reply_job(&job).await;
            call.hang_up().await;
            scope(start).await;
            lab.assert_idle().await;
        }
    });
}

#[test]
fn a_job_that_failed_while_nobody_listened_is_an_error() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("failed.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.fail();
        job.vanish();
        call.hang_up().await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::JobFailed, "{error}");
        assert!(lab.fake.unit("failed.scope").is_none());
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_whose_connection_ends_before_it_is_taken_is_sent_again() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let scope = scope(lab.start(patient("stop.scope"), [sleeper.process()])).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = tokio::spawn(async move { scope.stop(Stop::GRACEFUL).await });
        stops.next().await.hang_up().await;
        stops.next().await.answer().await;
        stop.await.unwrap().unwrap();
        assert!(!lab.fake.cgroup().path("stop.scope").exists());
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_whose_connection_ends_after_it_is_taken_is_waited_for() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let scope = scope(lab.start(patient("stop.scope"), [sleeper.process()])).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = tokio::spawn(async move { scope.stop(Stop::GRACEFUL).await });
        let call = stops.next().await;
        let job = call.take();
        let mut questions = lab.fake.hold("ListUnitsByNames");
        call.hang_up().await;
        questions.next().await.answer().await;
        drop(questions);
        job.stop().await;
        job.vanish();
        stop.await.unwrap().unwrap();
        assert!(stops.try_next().is_none());
        assert!(!lab.fake.cgroup().path("stop.scope").exists());
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_whose_connection_ends_after_the_reply_is_waited_for() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let scope = scope(lab.start(patient("stop.scope"), [sleeper.process()])).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = tokio::spawn(async move { scope.stop(Stop::GRACEFUL).await });
        let call = stops.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        call.hang_up().await;
        job.stop().await;
        job.vanish();
        stop.await.unwrap().unwrap();
        lab.assert_idle().await;
    });
}

#[test]
fn a_manager_that_ended_for_good_ends_the_start_and_harms_nobody() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let old = lab.fake.cgroup().make("old");
        let mut sleeper = Sleeper::inside(&old);
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(ScopeSpec::new("gone.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        job.run();
        lab.fake.end().await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
        assert_eq!(error.undo().unwrap().moved_back, [sleeper.pid()]);
        assert!(sleeper.is_running());
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("old"));
        lab.assert_idle().await;
    });
}

#[test]
fn a_manager_that_ended_before_the_call_is_an_error_that_says_so() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        lab.fake.end().await;
        let start = lab.start(ScopeSpec::new("gone.scope"), [sleeper.process()]);
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_manager_that_came_back_is_found_again() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("back.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.fake.end().await;
        job.run();
        job.vanish();
        lab.fake.listen();
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("back.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn nothing_that_listens_is_no_manager() {
    check(async {
        let lab = Lab::new().await;
        lab.fake.end().await;
        let connect = Manager::connect(Instance::Address(lab.fake.address()));
        let error = connect.await.expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::NoManager);
        assert!(error.to_string().contains("systemd/private"), "{error}");
    });
}
