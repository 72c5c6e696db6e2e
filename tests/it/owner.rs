//! A real bus, on which systemd's name changes hands, as it does when systemd executes itself again.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use scopectl::{ErrorKind, Instance, Manager, Stop};

use crate::cgroups::Sleeper;
use crate::fake::Fake;
use crate::lab::{Lab, check, error, patient, scope};

/// A dbus-daemon of the test's own. Dropping it ends it.
struct Bus {
    daemon: Child,
    directory: PathBuf,
}

impl Bus {
    fn start(name: &str) -> Self {
        let directory = format!("scopectl-it-bus-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        let config = directory.join("bus.conf");
        let text = format!(
            r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={}/bus</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#,
            directory.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut daemon = Command::new("dbus-daemon")
            .arg("--config-file")
            .arg(&config)
            .args(["--nofork", "--nopidfile", "--nosyslog", "--print-address"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon is installed");
        // It prints its address when it listens.
        let mut line = String::new();
        let stdout = daemon.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("unix:"), "{line:?}");
        Self { daemon, directory }
    }

    fn address(&self) -> String {
        format!("unix:path={}/bus", self.directory.display())
    }

    async fn lab(&self) -> Lab {
        let fake = Fake::on_bus(&self.address()).await;
        let manager = Manager::connect(Instance::Address(self.address()));
        let manager = manager.await.expect("the bus answers");
        Lab { manager, fake }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn a_scope_is_started_and_stopped_over_a_bus() {
    check(async {
        let bus = Bus::start("plain");
        let lab = bus.lab().await;
        let mut sleeper = Sleeper::new();
        let scope = scope(lab.start(patient("bus.scope"), [sleeper.process()])).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("bus.scope"));
        scope.stop(Stop::GRACEFUL).await.unwrap();
        assert!(!sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_new_owner_between_reply_and_signal_leads_to_questions() {
    check(async {
        let bus = Bus::start("signal");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("owner.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        lab.fake.leave_bus().await;
        job.run();
        job.vanish();
        lab.fake.join_bus().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("owner.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn the_new_owners_signal_is_heard() {
    check(async {
        let bus = Bus::start("heard");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let mut questions = lab.fake.hold("ListUnitsByNames");
        let start = lab.start(patient("owner.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        lab.fake.leave_bus().await;
        lab.fake.join_bus().await;
        // The job survives a re-execution, and is still there when it is asked for.
        let question = questions.next().await;
        question.answer().await;
        drop(questions);
        job.run();
        job.end("done").await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("owner.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn a_call_in_the_old_owners_hands_is_answered_by_the_bus_and_sent_again() {
    check(async {
        let bus = Bus::start("call");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("owner.scope"), [sleeper.process()]);
        let _lost = starts.next().await;
        lab.fake.leave_bus().await;
        lab.fake.join_bus().await;
        starts.next().await.answer().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("owner.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn a_call_that_the_old_owner_took_is_not_sent_again() {
    check(async {
        let bus = Bus::start("taken");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("owner.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        lab.fake.leave_bus().await;
        job.run();
        job.vanish();
        lab.fake.join_bus().await;
        scope(start).await;
        assert!(starts.try_next().is_none());
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("owner.scope"));
        lab.assert_idle().await;
    });
}

#[test]
fn a_stop_outlasts_a_new_owner() {
    check(async {
        let bus = Bus::start("stop");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        let scope = scope(lab.start(patient("owner.scope"), [sleeper.process()])).await;
        let mut stops = lab.fake.hold("StopUnit");
        let stop = tokio::spawn(async move { scope.stop(Stop::GRACEFUL).await });
        let call = stops.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        lab.fake.leave_bus().await;
        job.stop().await;
        job.vanish();
        lab.fake.join_bus().await;
        stop.await.unwrap().unwrap();
        lab.assert_idle().await;
    });
}

#[test]
fn a_start_outlasts_the_moment_in_which_nobody_owns_the_name() {
    check(async {
        let bus = Bus::start("moment");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        lab.fake.leave_bus().await;
        let start = lab.start(patient("moment.scope"), [sleeper.process()]);
        while lab.manager.load().starts_in_flight == 0 {
            tokio::task::yield_now().await;
        }
        // The name is asked for on a new connection, which takes several answers of the bus; the call needs one.
        lab.fake.join_bus().await;
        scope(start).await;
        assert_eq!(
            sleeper.cgroup(),
            lab.fake.cgroup().proc_path("moment.scope")
        );
        lab.assert_idle().await;
    });
}

#[test]
fn a_bus_without_a_systemd_on_it_is_no_manager() {
    check(async {
        let bus = Bus::start("none");
        let lab = bus.lab().await;
        lab.fake.leave_bus().await;
        let mut sleeper = Sleeper::new();
        let error = error(lab.start(patient("nobody.scope"), [sleeper.process()])).await;
        assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
        assert!(sleeper.is_running());
        lab.assert_idle().await;
    });
}

#[test]
fn a_bus_that_ended_and_came_back_is_connected_to_again() {
    check(async {
        let bus = Bus::start("again");
        let lab = bus.lab().await;
        let sleeper = Sleeper::new();
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("again.scope"), [sleeper.process()]);
        let call = starts.next().await;
        let job = call.take();
        call.reply_job(&job).await;
        lab.waiting().await;
        drop(bus);
        job.run();
        job.vanish();
        let _bus = Bus::start("again");
        lab.fake.join_bus().await;
        scope(start).await;
        assert_eq!(sleeper.cgroup(), lab.fake.cgroup().proc_path("again.scope"));
        lab.assert_idle().await;
    });
}
