//! A cgroup of the test's own, and processes to put in it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use scopectl::Process;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A directory in the cgroup2 hierarchy, below the test's own cgroup. Dropping it ends what is inside and removes it.
#[derive(Debug)]
pub(crate) struct TestCgroup {
    path: PathBuf,
    proc_path: String,
}

impl TestCgroup {
    pub(crate) fn new() -> Self {
        let own = cgroup_of(std::process::id()).expect("the test is in a cgroup2 cgroup");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A slice by its name, so that units lie in it as they do in a slice.
        let name = format!("scopectl-it-{}-{number}.slice", std::process::id());
        let proc_path = format!("{}/{name}", own.trim_end_matches('/'));
        let path = mount_point().join(proc_path.trim_start_matches('/'));
        fs::create_dir(&path).expect("root may make a cgroup");
        Self { path, proc_path }
    }

    pub(crate) fn make(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{name}: {error}"),
            _ => path,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// As it is read in `/proc/PID/cgroup`.
    pub(crate) fn proc_path(&self, name: &str) -> String {
        format!("{}/{name}", self.proc_path)
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        for _ in 0..1000 {
            if !is_populated(&self.path) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        remove_tree(&self.path);
    }
}

fn remove_tree(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}

/// Where the whole cgroup2 hierarchy is mounted.
fn mount_point() -> PathBuf {
    let text = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    text.lines()
        .filter(|line| line.contains(" - cgroup2 "))
        .find_map(|line| {
            let mut fields = line.split(' ').skip(3);
            (fields.next() == Some("/")).then(|| fields.next().map(PathBuf::from))?
        })
        .expect("cgroup2 is mounted")
}

pub(crate) fn is_populated(cgroup: &Path) -> bool {
    fs::read_to_string(cgroup.join("cgroup.events"))
        .is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
}

pub(crate) fn processes_in(cgroup: &Path) -> Vec<u32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The `0::` path of a process.
pub(crate) fn cgroup_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned)
}

/// A process that does nothing. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Sleeper(Child);

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self::running(Command::new("sleep").arg("1000"))
    }

    pub(crate) fn running(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().expect("it runs"))
    }

    /// One that is in `cgroup` from now on.
    pub(crate) fn inside(cgroup: &Path) -> Self {
        let sleeper = Self::new();
        fs::write(cgroup.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
        sleeper
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn process(&self) -> Process {
        Process::open(self.pid()).expect("the process runs")
    }

    pub(crate) fn cgroup(&self) -> String {
        cgroup_of(self.pid()).expect("the process was not reaped")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Kills it and leaves it a zombie.
    pub(crate) fn kill_only(&mut self) {
        use nix::sys::signal::{Signal, kill};
        use nix::sys::wait::{Id, WaitPidFlag, waitid};
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        kill(pid, Signal::SIGKILL).unwrap();
        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    }

    /// Kills and reaps it.
    pub(crate) fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}
