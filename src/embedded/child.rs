//! From the clone to the `exec` of the manager: its own session, namespaces, cgroup and mounts.
//!
//! Only system calls, no allocation (see [`clone_process`](crate::sys::clone_process)): everything is laid out in [`Child`] before. A step that fails is
//! written, with its errno, into a pipe that a successful `exec` closes.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode};
use rustix::io::{Errno, write};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};

use crate::sys;

/// Where the state directory is mounted inside the manager's namespace.
pub(super) const INSIDE: &str = "/run/scopectl";

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What the child was doing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Step { $($(#[$doc])* $name,)* }

        impl Step {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Completes "cannot ...".
            pub(super) fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

steps! {
    Session = "leave the caller's session",
    Stdio = "redirect its standard streams",
    Join = "join its cgroup",
    Namespaces = "make a mount and a cgroup namespace",
    Propagation = "detach its mounts from the caller's",
    Init = "move to init.scope",
    State = "take along its state directory (open_tree, kernel 5.2)",
    Bind = "bind /proc, /sys and /dev into the root directory",
    Cgroup2 = "mount cgroup2 on /sys/fs/cgroup",
    Run = "mount a tmpfs on /run",
    Directories = "make the directories in /run",
    Attach = "mount its state directory",
    Chroot = "change its root directory",
    Exec = "execute systemd",
}

/// One `open_tree` + `move_mount`.
pub(super) struct Bind {
    pub(super) from: CString,
    pub(super) to: CString,
}

/// Everything that the child needs.
pub(super) struct Child {
    pub(super) null: OwnedFd,
    pub(super) log: OwnedFd,
    pub(super) errors: OwnedFd,
    /// `cgroup.procs` of the fresh cgroup and of its `init.scope`.
    pub(super) procs: OwnedFd,
    pub(super) init_procs: OwnedFd,
    pub(super) state: CString,
    /// A directory to `chroot` into, and what it gets from the machine.
    pub(super) root: Option<CString>,
    pub(super) binds: Vec<Bind>,
    /// These four are below `root`.
    pub(super) cgroup_mount: CString,
    pub(super) run: CString,
    pub(super) directories: Vec<CString>,
    pub(super) inside: CString,
    pub(super) exec: sys::Exec,
}

impl Child {
    /// The child's side. Returns only on failure.
    pub(super) fn run(&self, in_cgroup: bool) -> u8 {
        let (step, error) = match self.prepare(in_cgroup) {
            Ok(()) => {
                sys::restore_default_signals();
                (Step::Exec, self.exec.exec())
            }
            Err((step, error)) => (step, error.raw_os_error()),
        };
        let [a, b, c, d] = error.to_ne_bytes();
        let _ = write(&self.errors, &[step as u8, a, b, c, d]);
        1
    }

    fn prepare(&self, in_cgroup: bool) -> Result<(), (Step, Errno)> {
        rustix::process::setsid().map_err(at(Step::Session))?;
        stdio_to(self.null.as_fd(), self.log.as_fd()).map_err(at(Step::Stdio))?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        if !in_cgroup {
            write(&self.procs, b"0").map_err(at(Step::Join))?;
        }
        // The root of the cgroup namespace is the cgroup that the process is in now; without a namespace of its own 252 says it cannot freeze.
        sys::unshare_mount_and_cgroup().map_err(at(Step::Namespaces))?;
        // Not private: an unmount on the machine shall reach us, or a device that is unmounted there would stay in use here. Nothing goes the other way.
        mount_change(
            c"/",
            MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
        )
        .map_err(at(Step::Propagation))?;
        write(&self.init_procs, b"0").map_err(at(Step::Init))?;
        self.mounts()?;
        if let Some(root) = &self.root {
            rustix::process::chroot(root.as_c_str()).map_err(at(Step::Chroot))?;
        }
        rustix::process::chdir(c"/").map_err(at(Step::Chroot))
    }

    fn mounts(&self) -> Result<(), (Step, Errno)> {
        // Taken before /run is covered: it may be there.
        let state = open_tree(
            CWD,
            self.state.as_c_str(),
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
        )
        .map_err(at(Step::State))?;
        for bind in &self.binds {
            let tree = open_tree(
                CWD,
                bind.from.as_c_str(),
                OpenTreeFlags::OPEN_TREE_CLONE
                    | OpenTreeFlags::OPEN_TREE_CLOEXEC
                    | OpenTreeFlags::AT_RECURSIVE,
            )
            .map_err(at(Step::Bind))?;
            attach(&tree, &bind.to).map_err(at(Step::Bind))?;
        }
        // What is there (v1 hierarchies below a tmpfs, or a cgroup2 that shows more than ours). What cannot be unmounted is covered all the same.
        for _ in 0..16 {
            if unmount(self.cgroup_mount.as_c_str(), UnmountFlags::DETACH).is_err() {
                break;
            }
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount(
            c"cgroup2",
            self.cgroup_mount.as_c_str(),
            c"cgroup2",
            flags | MountFlags::NOEXEC,
            None,
        )
        .map_err(at(Step::Cgroup2))?;
        mount(
            c"tmpfs",
            self.run.as_c_str(),
            c"tmpfs",
            flags,
            Some(c"mode=0755"),
        )
        .map_err(at(Step::Run))?;
        for directory in &self.directories {
            rustix::fs::mkdir(directory.as_c_str(), Mode::from_raw_mode(0o755))
                .map_err(at(Step::Directories))?;
        }
        attach(&state, &self.inside).map_err(at(Step::Attach))
    }
}

fn attach(tree: &OwnedFd, to: &CString) -> Result<(), Errno> {
    move_mount(
        tree,
        c"",
        CWD,
        to.as_c_str(),
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

fn at(step: Step) -> impl Fn(Errno) -> (Step, Errno) {
    move |error| (step, error)
}

/// Standard input from one, standard output and error to the other.
pub(super) fn stdio_to(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(output)
}

/// Reads what [`Child::run`] wrote.
pub(super) fn decode(report: &[u8]) -> Option<(Step, Errno)> {
    let [step, a, b, c, d] = *report else {
        return None;
    };
    let step = *Step::ALL.get(usize::from(step))?;
    Some((
        step,
        Errno::from_raw_os_error(i32::from_ne_bytes([a, b, c, d])),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_another_length_or_step_is_no_report() {
        assert!(decode(&[]).is_none());
        assert!(decode(&[0, 1, 0, 0]).is_none());
        assert!(decode(&[200, 1, 0, 0, 0]).is_none());
        let [a, b, c, d] = Errno::PERM.raw_os_error().to_ne_bytes();
        assert_eq!(
            decode(&[Step::Exec as u8, a, b, c, d]),
            Some((Step::Exec, Errno::PERM))
        );
    }

    #[test]
    fn every_step_is_found_at_its_own_number() {
        for (number, step) in Step::ALL.iter().enumerate() {
            assert_eq!(*step as usize, number);
        }
    }
}
