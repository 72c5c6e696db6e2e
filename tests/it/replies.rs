//! The reply to the start call: an error, or none.

use std::time::Duration;

use scopectl::ErrorKind;

use crate::cgroups::Sleeper;
use crate::lab::{Lab, STEP, check, check_fast, error, patient, scope};

const SECONDS: Duration = Duration::from_secs(10);

const NO_REPLY: &str = "org.freedesktop.DBus.Error.NoReply";

#[test]
fn a_lost_reply_to_a_call_that_was_taken_is_told_by_the_mark_in_the_description() {
    check_fast(STEP, async {
        let lab = Lab::with(|connect| connect.call_timeout(SECONDS)).await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("taken.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        job.run();
        job.end("done").await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("taken.scope"));
        assert_eq!(lab.fake.calls("StartTransientUnit").len(), 1);
        lab.assert_idle().await;
    });
}

#[test]
fn a_call_that_was_not_taken_is_sent_again() {
    check_fast(STEP, async {
        let lab = Lab::with(|connect| connect.call_timeout(SECONDS)).await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("again.scope"), [sleeper.process()]);
        drop(starts.next().await);
        starts.next().await.answer().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("again.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn calls_that_are_never_answered_end_the_start() {
    check_fast(STEP, async {
        let lab = Lab::with(|connect| connect.call_timeout(SECONDS)).await;
        let mut sleeper = Sleeper::new();
        let starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("silent.scope"), [sleeper.process()]);
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::CallTimeout, "{error}");
        assert!(sleeper.is_running());
        drop(starts);
        lab.assert_idle().await;
    });
}

#[test]
fn no_reply_to_a_call_that_was_taken_is_a_success() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("reexec.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        job.run();
        job.vanish();
        call.refuse(NO_REPLY, "Message recipient disconnected.")
            .await;
        scope(start).await;
        assert_eq!(
            sleeper.cgroup(),
            lab.fake.cgroup().proc_path("reexec.scope")
        );
        lab.assert_idle().await;
    });
}

#[test]
fn no_reply_to_a_call_that_was_not_taken_leads_to_another_one() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("reexec.scope"), [sleeper.process()]);
        let call = starts.next().await;
        call.refuse(NO_REPLY, "Message recipient disconnected.")
            .await;
        starts.next().await.answer().await;
        scope(start).await;
        lab.assert_idle().await;
    });
}

#[test]
fn unit_exists_after_a_lost_reply_may_be_our_own_unit() {
    check_fast(STEP, async {
        let lab = Lab::with(|connect| connect.call_timeout(SECONDS)).await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let mut questions = lab.fake.hold("ListUnitsByNames");
        let start = lab.start(patient("ours.scope"), [sleeper.process()]);
        let first = starts.next().await;
        // Asked while the first call is still in the manager's queue, the answer is no.
        questions.next().await.answer().await;
        drop(questions);
        let second = starts.next().await;
        let job = first.take();
        job.run();
        job.end("done").await;
        second.refuse_as_systemd("UnitExists").await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("ours.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn an_older_systemd_that_does_not_know_pidfds_is_given_pids_from_then_on() {
    check(async {
        let lab = Lab::new().await;
        lab.fake.table(|table| table.without_pidfds = true);
        for name in ["first.scope", "second.scope"] {
            let sleeper = Sleeper::new();
            scope(lab.start(patient(name), [sleeper.process()])).await;
            assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(name));
        }
        assert_eq!(lab.fake.calls("StartTransientUnit").len(), 3);
        lab.assert_idle().await;
    });
}

#[test]
fn a_property_that_systemd_does_not_know_is_an_error_of_its_own() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("unknown.scope").delegate(true), [sleeper.process()]);
        // With the pidfds it may be these that are meant; without them it is something else.
        starts.next().await.refuse_pidfds().await;
        let text = "Cannot set property Delegate, or unknown property.";
        let name = "org.freedesktop.DBus.Error.PropertyReadOnly";
        starts.next().await.refuse(name, text).await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::UnknownProperty);
        assert_eq!(error.dbus_name(), Some(name));
        assert!(error.to_string().contains("Delegate"), "{error}");
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_refusal_is_told_by_its_name_and_sent_once() {
    check(async {
        let lab = Lab::new().await;
        for (name, kind) in [
            ("ShuttingDown", ErrorKind::Busy),
            ("TransactionIsDestructive", ErrorKind::Busy),
            ("NoSuchProcess", ErrorKind::ProcessGone),
            ("SomethingNew", ErrorKind::Refused),
        ] {
            let sleeper = Sleeper::new();
            let mut starts = lab.fake.hold("StartTransientUnit");
            let start = lab.start(patient("refused.scope"), [sleeper.process()]);
            starts.next().await.refuse_as_systemd(name).await;
            let error = error(start).await;
            assert_eq!(error.kind(), kind, "{error}");
            assert!(starts.try_next().is_none());
            lab.assert_idle().await;
        }
    });
}
