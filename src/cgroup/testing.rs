//! For tests: a cgroup of their own, removed with everything in it at the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::dir::Dir;
use super::hierarchy::Hierarchy;
use super::{procs, remove};
use crate::process::Process;
use crate::skip::skip;

pub(crate) struct TestCgroup {
    parent: PathBuf,
    name: String,
}

impl TestCgroup {
    /// `None`, and a word about it on stderr, where no cgroup can be made.
    pub(crate) fn new(what: &str) -> Option<Self> {
        let parent = match Hierarchy::detect().and_then(|found| found.open("/")) {
            Ok(dir) => dir.path().to_owned(),
            Err(error) => {
                skip(error);
                return None;
            }
        };
        let name = format!("test-procgroup-{}-{what}", std::process::id());
        if let Err(error) = fs::create_dir(parent.join(&name)) {
            skip(format_args!(
                "cannot make a cgroup in {}: {error}",
                parent.display()
            ));
            return None;
        }
        Some(Self { parent, name })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    pub(crate) fn dir(&self) -> Dir {
        Dir::open_path(&self.path()).unwrap()
    }

    /// Its path in `/proc/PID/cgroup`.
    pub(crate) fn proc_path(&self) -> String {
        format!("/{}", self.name)
    }

    pub(crate) fn make(&self, below: &str) {
        fs::create_dir_all(self.path().join(below)).unwrap();
    }

    /// A `sleep` that was moved into a cgroup below.
    pub(crate) fn sleep_in(&self, below: &str) -> Sleep {
        let child = sleep();
        let procs = self.path().join(below).join("cgroup.procs");
        fs::write(procs, child.id().to_string()).unwrap();
        child
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let Ok(dir) = Dir::open_path(&self.path()) else {
            return;
        };
        for pid in procs::of_tree(&dir).unwrap_or_default() {
            if let Ok(process) = Process::open(pid) {
                let _ = process.send_signal(9);
            }
        }
        let _ = fs::write(self.path().join("cgroup.kill"), "1");
        let Ok(parent) = Dir::open_path(Path::new(&self.parent)) else {
            return;
        };
        // What was killed may take a moment to leave.
        for _ in 0..1000 {
            if remove::remove_tree(&parent, &self.name).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        eprintln!("could not remove {}", self.path().display());
    }
}

/// A child that is killed and reaped when dropped.
pub(crate) struct Sleep(Child);

pub(crate) fn sleep() -> Sleep {
    Sleep(Command::new("sleep").arg("1000").spawn().unwrap())
}

impl Sleep {
    /// Ends it and leaves it unreaped.
    pub(crate) fn make_zombie(&mut self) -> io::Result<()> {
        self.0.kill()?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options)?;
        Ok(())
    }
}

impl Deref for Sleep {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Sleep {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
