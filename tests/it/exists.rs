//! A unit of the wanted name is there already.

use scopectl::{ErrorKind, IfExists, ScopeSpec};

use crate::cgroups::{Sleeper, processes_in};
use crate::lab::{FOREVER, Lab, STEP, check, check_fast, error, patient, scope};

const NAME: &str = "taken.scope";

fn spec(policy: IfExists) -> ScopeSpec {
    patient(NAME).if_exists(policy)
}

/// The unit that was there is as before, and so is the process that was to be put in one.
async fn assert_nothing_happened(lab: &Lab, before: &str, sleeper: &mut Sleeper) {
    assert_eq!(lab.fake.unit(NAME).unwrap().description, "somebody else's");
    for member in ["StopUnit", "ResetFailedUnit", "KillUnit", "CancelJob"] {
        assert_eq!(lab.fake.calls(member), [], "{member}");
    }
    assert!(sleeper.is_running());
    assert_eq!(sleeper.cgroup(), before);
    lab.assert_idle().await;
}

#[test]
fn fail_leaves_the_unit_alone_whatever_its_state() {
    check(async {
        for (active, sub) in [("active", "running"), ("failed", "failed")] {
            let lab = Lab::new().await;
            lab.fake.add_unit(NAME, "somebody else's");
            lab.fake.table(|table| table.set(NAME, active, sub));
            let mut sleeper = Sleeper::new();
            let before = sleeper.cgroup();
            let error = error(lab.start(spec(IfExists::Fail), [sleeper.process()])).await;
            assert_eq!(error.kind(), ErrorKind::UnitExists);
            let name = "org.freedesktop.systemd1.UnitExists";
            assert_eq!(error.dbus_name(), Some(name));
            assert!(error.to_string().contains(active), "{error}");
            assert_eq!(lab.fake.calls("StartTransientUnit").len(), 1);
            assert_nothing_happened(&lab, &before, &mut sleeper).await;
        }
    });
}

#[test]
fn reset_failed_takes_the_name_of_a_failed_unit() {
    check(async {
        let lab = Lab::new().await;
        lab.fake.add_unit(NAME, "somebody else's");
        lab.fake.table(|table| table.set(NAME, "failed", "failed"));
        let sleeper = Sleeper::new();
        scope(lab.start(spec(IfExists::ResetFailed), [sleeper.process()])).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(NAME));
        assert_eq!(lab.fake.calls("ResetFailedUnit").len(), 1);
        lab.assert_idle().await;
    });
}

#[test]
fn reset_failed_tries_once_more_and_no_further() {
    check(async {
        let lab = Lab::new().await;
        lab.fake.add_unit(NAME, "somebody else's");
        lab.fake.table(|table| table.set(NAME, "failed", "failed"));
        let mut sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(spec(IfExists::ResetFailed), [sleeper.process()]);
        starts.next().await.refuse_as_systemd("UnitExists").await;
        let second = starts.next().await;
        // Somebody was quicker.
        lab.fake.add_unit(NAME, "somebody else's");
        lab.fake.table(|table| table.set(NAME, "failed", "failed"));
        second.refuse_as_systemd("UnitExists").await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::UnitExists, "{error}");
        assert_eq!(lab.fake.calls("ResetFailedUnit").len(), 1);
        assert!(starts.try_next().is_none());
        assert!(lab.fake.unit(NAME).is_some());
        assert!(lab.fake.calls("StopUnit").is_empty());
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn reset_failed_does_not_touch_a_unit_that_runs() {
    check(async {
        let lab = Lab::new().await;
        let directory = lab.fake.add_unit(NAME, "somebody else's");
        let mut inside = Sleeper::inside(&directory);
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        let error = error(lab.start(spec(IfExists::ResetFailed), [sleeper.process()])).await;
        assert_eq!(error.kind(), ErrorKind::UnitExists);
        assert!(inside.is_running());
        assert_nothing_happened(&lab, &before, &mut sleeper).await;
    });
}

#[test]
fn wait_gone_outlasts_a_dying_unit() {
    check(async {
        // Systemd still says `active` when the last process has ended.
        for (active, sub) in [
            ("active", "running"),
            ("active", "abandoned"),
            ("deactivating", "stop-sigterm"),
            ("inactive", "dead"),
        ] {
            let lab = Lab::new().await;
            lab.fake.add_unit(NAME, "somebody else's");
            lab.fake.table(|table| {
                table.set(NAME, active, sub);
                table.units.get_mut(NAME).unwrap().goes_after = Some(5);
            });
            let sleeper = Sleeper::new();
            scope(lab.start(spec(IfExists::WaitGone), [sleeper.process()])).await;
            assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(NAME));
            assert_eq!(lab.fake.calls("StartTransientUnit").len(), 2);
            assert!(lab.fake.calls("StopUnit").is_empty());
            lab.assert_idle().await;
        }
    });
}

#[test]
fn wait_gone_resets_a_unit_that_failed_in_the_end() {
    check(async {
        let lab = Lab::new().await;
        lab.fake.add_unit(NAME, "somebody else's");
        lab.fake.table(|table| table.set(NAME, "failed", "failed"));
        let sleeper = Sleeper::new();
        scope(lab.start(spec(IfExists::WaitGone), [sleeper.process()])).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(NAME));
        lab.assert_idle().await;
    });
}

#[test]
fn wait_gone_may_meet_the_answer_more_than_once() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(spec(IfExists::WaitGone), [sleeper.process()]);
        for _ in 0..3 {
            let call = starts.next().await;
            lab.fake.add_unit(NAME, "somebody else's");
            lab.fake
                .table(|table| table.units.get_mut(NAME).unwrap().goes_after = Some(1));
            call.refuse_as_systemd("UnitExists").await;
        }
        starts.next().await.answer().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path(NAME));
        lab.assert_idle().await;
    });
}

#[test]
fn wait_gone_ends_in_time_when_the_unit_stays_for_ever() {
    check_fast(STEP, async {
        let lab = Lab::new().await;
        lab.fake.add_unit(NAME, "somebody else's");
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        let spec = ScopeSpec::new(NAME).if_exists(IfExists::WaitGone);
        let error = error(lab.start(spec, [sleeper.process()])).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("without a process"), "{error}");
        assert_nothing_happened(&lab, &before, &mut sleeper).await;
    });
}

#[test]
fn wait_gone_does_not_wait_for_a_unit_that_runs() {
    check(async {
        let lab = Lab::new().await;
        let directory = lab.fake.add_unit(NAME, "somebody else's");
        let mut inside = Sleeper::inside(&directory);
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        // With a day's time: a start that waited would not end within the test.
        let spec = spec(IfExists::WaitGone).start_timeout(FOREVER);
        let error = error(lab.start(spec, [sleeper.process()])).await;
        assert_eq!(error.kind(), ErrorKind::UnitExists);
        assert!(inside.is_running());
        assert_nothing_happened(&lab, &before, &mut sleeper).await;
    });
}

#[test]
fn attach_joins_a_delegated_unit_through_systemd() {
    check(async {
        let lab = Lab::new().await;
        let directory = lab.fake.add_unit(NAME, "somebody else's");
        lab.fake
            .table(|table| table.units.get_mut(NAME).unwrap().delegated = true);
        let inside = Sleeper::inside(&directory);
        let sleeper = Sleeper::new();
        let scope = scope(lab.start(spec(IfExists::Attach), [sleeper.process()])).await;
        let mut both = [inside.pid(), sleeper.pid()];
        both.sort_unstable();
        assert_eq!(scope.cgroup().unwrap().processes().unwrap(), both);
        assert_eq!(lab.fake.calls("AttachProcessesToUnit").len(), 1);
        lab.assert_idle().await;
    });
}

#[test]
fn attach_joins_a_unit_that_this_library_started() {
    check(async {
        let lab = Lab::new().await;
        let (first, second) = (Sleeper::new(), Sleeper::new());
        scope(lab.start(spec(IfExists::Fail), [first.process()])).await;
        scope(lab.start(spec(IfExists::Attach), [second.process()])).await;
        assert_eq!(second.cgroup(), lab.fake.cgroup().proc_path(NAME));
        assert!(lab.fake.calls("AttachProcessesToUnit").is_empty());
        lab.assert_idle().await;
    });
}

#[test]
fn attach_refuses_any_other_unit() {
    check(async {
        let lab = Lab::new().await;
        let directory = lab.fake.add_unit(NAME, "somebody else's");
        let inside = Sleeper::inside(&directory);
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        let error = error(lab.start(spec(IfExists::Attach), [sleeper.process()])).await;
        assert_eq!(error.kind(), ErrorKind::UnitExists);
        assert!(error.to_string().contains("neither delegated"), "{error}");
        assert_eq!(processes_in(&directory), [inside.pid()]);
        assert_nothing_happened(&lab, &before, &mut sleeper).await;
    });
}

#[test]
fn attach_does_not_join_a_unit_that_is_ending() {
    check(async {
        let lab = Lab::new().await;
        lab.fake.add_unit(NAME, "somebody else's");
        lab.fake.table(|table| {
            table.set(NAME, "deactivating", "stop-sigterm");
            table.units.get_mut(NAME).unwrap().delegated = true;
        });
        let mut sleeper = Sleeper::new();
        let before = sleeper.cgroup();
        let error = error(lab.start(spec(IfExists::Attach), [sleeper.process()])).await;
        assert_eq!(error.kind(), ErrorKind::UnitExists);
        assert_nothing_happened(&lab, &before, &mut sleeper).await;
    });
}

#[test]
fn an_attach_that_fails_leaves_the_unit_to_its_own_processes() {
    check(async {
        let lab = Lab::new().await;
        let directory = lab.fake.add_unit(NAME, "somebody else's");
        lab.fake
            .table(|table| table.units.get_mut(NAME).unwrap().delegated = true);
        let mut inside = Sleeper::inside(&directory);
        let old = lab.fake.cgroup().make("old");
        let (mut dies, mut lives) = (Sleeper::inside(&old), Sleeper::inside(&old));
        let mut attaches = lab.fake.hold("AttachProcessesToUnit");
        let processes = [dies.process(), lives.process()];
        let start = lab.start(spec(IfExists::Attach), processes);
        let call = attaches.next().await;
        dies.end();
        std::fs::write(directory.join("cgroup.procs"), lives.pid().to_string()).unwrap();
        call.reply(&()).await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error}");
        assert_eq!(error.undo().unwrap().moved_back, [lives.pid()]);
        assert_eq!(lives.cgroup(), lab.fake.cgroup().proc_path("old"));
        assert!(inside.is_running() && lives.is_running());
        assert!(lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}
