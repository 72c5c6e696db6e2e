//! After the job: who is inside, who is not, and the way back.

use scopectl::{Descendants, ErrorKind, Phase};

use crate::cgroups::Sleeper;
use crate::fake::{Call, Job};
use crate::lab::{Lab, check, error, patient, scope};

const NAME: &str = "inside.scope";

/// Call and job, with a chance to change the world in between.
async fn replied(calls: &mut crate::fake::Held) -> (Call, Job) {
    let call = calls.next().await;
    let job = call.take();
    call.reply_job(&job).await;
    (call, job)
}

/// Nothing was inside whenever the fake was asked to stop the unit, and it is gone.
fn assert_unit_undone(lab: &Lab) {
    let stops = lab.fake.calls("StopUnit");
    assert!(stops.iter().all(|stop| !stop.populated), "{stops:?}");
    assert!(lab.fake.unit(NAME).is_none());
    assert!(!lab.fake.cgroup().path(NAME).exists());
}

#[test]
fn a_process_that_died_before_the_job_ran_was_never_inside() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [sleeper.process()]);
        let (_call, job) = replied(&mut calls).await;
        sleeper.end();
        job.run();
        job.end("done").await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error}");
        assert_eq!(error.phase(), Some(Phase::Verify));
        assert!(error.to_string().contains(&sleeper.pid().to_string()));
        // An empty scope would stay active for ever.
        assert_eq!(lab.fake.calls("StopUnit").len(), 1);
        assert_unit_undone(&lab);
        lab.assert_idle().await;
    });
}

#[test]
fn a_zombie_that_died_before_the_job_ran_was_never_inside() {
    check(async {
        let lab = Lab::new().await;
        let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [sleeper.process()]);
        let (_call, job) = replied(&mut calls).await;
        sleeper.kill_only();
        job.run();
        job.end("done").await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error}");
        assert_unit_undone(&lab);
        lab.assert_idle().await;
    });
}

#[test]
fn a_process_that_ran_inside_and_ended_is_a_success_that_says_so() {
    check(async {
        for reaped in [true, false] {
            let lab = Lab::new().await;
            let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
            let mut calls = lab.fake.hold("StartTransientUnit");
            let start = lab.start(patient(NAME), [sleeper.process()]);
            let (_call, job) = replied(&mut calls).await;
            job.run();
            if reaped {
                sleeper.end();
            } else {
                sleeper.kill_only();
            }
            job.end("done").await;
            let scope = scope(start).await;
            assert_eq!(scope.ended(), [sleeper.pid()]);
            assert!(lab.fake.calls("StopUnit").is_empty());
            lab.assert_idle().await;
        }
    });
}

#[test]
fn a_directory_that_is_gone_before_the_signal_is_a_scope_that_has_ended() {
    check(async {
        for reaped in [true, false] {
            let lab = Lab::new().await;
            let mut sleeper = Sleeper::inside(&lab.fake.cgroup().make("old"));
            let mut calls = lab.fake.hold("StartTransientUnit");
            let start = lab.start(patient(NAME), [sleeper.process()]);
            let (_call, job) = replied(&mut calls).await;
            job.run();
            if reaped {
                sleeper.end();
            } else {
                sleeper.kill_only();
            }
            lab.fake.table(|table| table.forget(NAME));
            assert!(!lab.fake.cgroup().path(NAME).exists());
            job.end("done").await;
            let scope = scope(start).await;
            assert_eq!(scope.ended(), [sleeper.pid()]);
            let gone = scope.cgroup().unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::CgroupGone);
            scope.stop(scopectl::Stop::GRACEFUL).await.unwrap();
            lab.assert_idle().await;
        }
    });
}

#[test]
fn a_directory_that_is_gone_while_its_process_lives_elsewhere_is_an_error() {
    check(async {
        let lab = Lab::new().await;
        let old = lab.fake.cgroup().make("old");
        let mut sleeper = Sleeper::inside(&old);
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [sleeper.process()]);
        let (_call, job) = replied(&mut calls).await;
        job.run();
        // Somebody takes the process out, and systemd sees the scope end.
        std::fs::write(old.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
        lab.fake.table(|table| table.forget(NAME));
        job.end("done").await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::Cgroup, "{error}");
        assert!(error.to_string().contains("/old"), "{error}");
        assert!(sleeper.is_running());
        assert_unit_undone(&lab);
        lab.assert_idle().await;
    });
}

#[test]
fn a_process_that_the_job_left_outside_is_put_inside() {
    check(async {
        let lab = Lab::new().await;
        let old = lab.fake.cgroup().make("old");
        let (left, moved) = (Sleeper::inside(&old), Sleeper::inside(&old));
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [left.process(), moved.process()]);
        let (_call, job) = replied(&mut calls).await;
        job.run();
        std::fs::write(old.join("cgroup.procs"), left.pid().to_string()).unwrap();
        job.end("done").await;
        let scope = scope(start).await;
        let mut both = [left.pid(), moved.pid()];
        both.sort_unstable();
        assert_eq!(scope.cgroup().unwrap().processes().unwrap(), both);
        lab.assert_idle().await;
    });
}

#[test]
fn the_others_go_back_where_they_came_from_when_one_of_three_dies() {
    check(async {
        let lab = Lab::new().await;
        let (here, there) = (
            lab.fake.cgroup().make("here"),
            lab.fake.cgroup().make("there"),
        );
        let mut first = Sleeper::inside(&here);
        let mut second = Sleeper::inside(&here);
        let mut third = Sleeper::inside(&there);
        let mut calls = lab.fake.hold("StartTransientUnit");
        let processes = [first.process(), second.process(), third.process()];
        let start = lab.start(patient(NAME), processes);
        let (_call, job) = replied(&mut calls).await;
        second.end();
        job.run();
        assert_eq!(first.cgroup(), lab.fake.cgroup().proc_path(NAME));
        job.end("done").await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error}");
        let undo = error.undo().unwrap();
        assert_eq!(undo.moved_back, [first.pid(), third.pid()]);
        assert!(undo.left_inside.is_empty());
        assert!(first.is_running() && third.is_running());
        assert_eq!(first.cgroup(), lab.fake.cgroup().proc_path("here"));
        assert_eq!(third.cgroup(), lab.fake.cgroup().proc_path("there"));
        assert!(lab.fake.calls("KillUnit").is_empty());
        assert_unit_undone(&lab);
        lab.assert_idle().await;
    });
}

#[test]
fn a_process_that_cannot_go_back_stays_inside_and_keeps_its_unit() {
    check(async {
        let lab = Lab::new().await;
        let old = lab.fake.cgroup().make("old");
        let (mut lives, mut dies) = (Sleeper::inside(&old), Sleeper::new());
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [lives.process(), dies.process()]);
        let (_call, job) = replied(&mut calls).await;
        dies.end();
        job.run();
        std::fs::remove_dir(old).unwrap();
        job.end("done").await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error}");
        let undo = error.undo().unwrap();
        assert_eq!(undo.left_inside, [lives.pid()]);
        assert!(!undo.unit_stopped);
        assert!(error.to_string().contains("left inside"), "{error}");
        assert!(lives.is_running());
        assert_eq!(lives.cgroup(), lab.fake.cgroup().proc_path(NAME));
        assert!(lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}

/// A shell with a child that was forked before the start; both are in `old`.
fn family(lab: &Lab) -> (Sleeper, std::path::PathBuf) {
    let old = lab.fake.cgroup().make("old");
    let shell = Sleeper::running(
        std::process::Command::new("sh")
            .args(["-c", "echo $$ >\"$0\"; sleep 1000 & wait"])
            .arg(old.join("cgroup.procs")),
    );
    while crate::cgroups::processes_in(&old).len() < 2 {
        std::thread::yield_now();
    }
    (shell, old)
}

#[test]
fn descendants_that_stay_outside_are_refused_moved_or_left_as_asked() {
    check(async {
        for policy in [Descendants::Refuse, Descendants::Move, Descendants::Leave] {
            let lab = Lab::new().await;
            let (mut shell, old) = family(&lab);
            let spec = patient(NAME).descendants(policy);
            let ended = crate::lab::ended(lab.start(spec, [shell.process()])).await;
            let left = crate::cgroups::processes_in(&old).len();
            match policy {
                Descendants::Refuse => {
                    let error = ended.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::DescendantsOutside, "{error}");
                    assert_eq!(left, 2);
                    assert_unit_undone(&lab);
                }
                Descendants::Move => {
                    let scope = ended.unwrap();
                    assert_eq!(scope.cgroup().unwrap().processes().unwrap().len(), 2);
                    assert_eq!(left, 0);
                }
                _ => {
                    assert_eq!(ended.unwrap().ended(), []);
                    assert_eq!(left, 1);
                }
            }
            assert!(shell.is_running());
            lab.assert_idle().await;
        }
    });
}

#[test]
fn a_process_in_the_unit_that_comes_from_nobody_who_was_named_keeps_the_unit() {
    check(async {
        let lab = Lab::new().await;
        let old = lab.fake.cgroup().make("old");
        let (lives, mut dies) = (Sleeper::inside(&old), Sleeper::new());
        let mut calls = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient(NAME), [lives.process(), dies.process()]);
        let (_call, job) = replied(&mut calls).await;
        dies.end();
        job.run();
        // Somebody else has joined.
        let mut child = Sleeper::inside(&lab.fake.cgroup().path(NAME));
        job.end("done").await;
        let error = error(start).await;
        assert!(child.is_running());
        assert_eq!(child.cgroup(), lab.fake.cgroup().proc_path(NAME));
        let undo = error.undo().unwrap();
        assert_eq!(undo.left_inside, [child.pid()]);
        assert_eq!(undo.moved_back, [lives.pid()]);
        assert!(!undo.unit_stopped && lab.fake.calls("StopUnit").is_empty());
        lab.assert_idle().await;
    });
}
