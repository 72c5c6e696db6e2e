//! What an embedded manager leaves, and its removal: every process in its cgroup, the cgroup tree, the state directory.
//!
//! The parent, the guardian and a later sweep all run this, at the same time if it comes to that: each step takes "already gone" as success, and the names
//! are random, so nobody else's things can be meant. The guardian is a forked copy of a process that may have had threads; therefore nothing here allocates,
//! and directories are read into buffers on the stack.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, openat, openat2, unlinkat,
};
use rustix::io::{Errno, pread, read, write};
use rustix::process::{Pid, Signal, kill_process};

/// Deeper trees are given up with ELOOP. (One level needs about 2.5 KiB of stack.)
const MAX_DEPTH: u32 = 128;

/// Where one instance's things are, by descriptors that stay valid in a forked copy.
pub(super) struct Remains {
    /// The name of the cgroup and of the state directory.
    pub(super) name: CString,
    /// The cgroups in which the instance's cgroup may have been made.
    pub(super) cgroups: Vec<OwnedFd>,
    /// The directory that holds the state directories.
    pub(super) base: OwnedFd,
    /// The path of `base`, if it is to be removed once it is empty.
    pub(super) base_path: Option<CString>,
}

/// What could not be removed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    /// The deadline passed and something still runs (or cannot die: a process in uninterruptible sleep).
    Processes(Errno),
    Cgroup(Errno),
    Directory(Errno),
}

impl Remains {
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.cgroups
            .iter()
            .chain([&self.base])
            .map(AsRawFd::as_raw_fd)
    }

    /// Kills and removes all of it. The state directory is kept if the cgroup is, so that a later sweep tries again.
    pub(super) fn clear(&self, timeout: Duration) -> Result<(), Left> {
        let deadline = Instant::now() + timeout;
        for parent in &self.cgroups {
            let dir = match open_dir(parent.as_fd(), &self.name) {
                Ok(dir) => dir,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(Left::Cgroup(error)),
            };
            kill(dir.as_fd(), deadline).map_err(Left::Processes)?;
            drop(dir);
            remove_tree(parent.as_fd(), &self.name, Files::Keep, deadline, MAX_DEPTH)
                .map_err(Left::Cgroup)?;
        }
        remove_tree(
            self.base.as_fd(),
            &self.name,
            Files::Remove,
            deadline,
            MAX_DEPTH,
        )
        .map_err(Left::Directory)?;
        if let Some(path) = &self.base_path {
            // Only succeeds for the last instance.
            let _ = unlinkat(CWD, path.as_c_str(), AtFlags::REMOVEDIR);
        }
        Ok(())
    }
}

/// Opens a directory below another, never through a link or into another file system.
pub(super) fn open_dir(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    openat2(
        parent,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
    )
}

/// Kills every process in a cgroup and below, and waits until none is left.
fn kill(cgroup: BorrowedFd<'_>, deadline: Instant) -> Result<(), Errno> {
    loop {
        // Before kernel 5.14 there is no cgroup.kill.
        match write_file(cgroup, c"cgroup.kill", b"1") {
            Ok(()) => {}
            Err(Errno::NOENT) => match kill_each(cgroup, MAX_DEPTH) {
                Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
                Err(error) => return Err(error),
            },
            Err(Errno::NODEV) => return Ok(()),
            Err(error) => return Err(error),
        }
        // Something may have been moved in after the kill: kill again from time to time.
        match wait_empty(
            cgroup,
            deadline.min(Instant::now() + Duration::from_millis(250)),
        ) {
            Ok(()) => return Ok(()),
            Err(Errno::TIMEDOUT) if Instant::now() < deadline => {}
            Err(error) => return Err(error),
        }
    }
}

fn kill_each(cgroup: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
    let procs = open_file(cgroup, c"cgroup.procs", OFlags::RDONLY)?;
    let mut number: i32 = 0;
    let mut buffer = [0; 1024];
    loop {
        let length = read(&procs, &mut buffer)?;
        if length == 0 {
            break;
        }
        for &byte in buffer.iter().take(length) {
            if byte.is_ascii_digit() {
                number = number
                    .saturating_mul(10)
                    .saturating_add(i32::from(byte - b'0'));
            } else {
                if let Some(pid) = Pid::from_raw(number) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                number = 0;
            }
        }
    }
    let depth = depth.checked_sub(1).ok_or(Errno::LOOP)?;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(cgroup, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if entry.file_type() == FileType::Directory && !is_dots(entry.file_name()) {
            match open_dir(cgroup, entry.file_name()) {
                Ok(child) => kill_each(child.as_fd(), depth)?,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Waits for `populated 0` in `cgroup.events`; a change wakes a poll for POLLPRI.
fn wait_empty(cgroup: BorrowedFd<'_>, deadline: Instant) -> Result<(), Errno> {
    let events = match open_file(cgroup, c"cgroup.events", OFlags::RDONLY) {
        Ok(events) => events,
        Err(Errno::NOENT | Errno::NODEV) => return Ok(()),
        Err(error) => return Err(error),
    };
    loop {
        if !populated(&events)? {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Errno::TIMEDOUT);
        }
        match poll(
            &mut [PollFd::new(&events, PollFlags::PRI)],
            Some(&timespec(left)),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn populated(events: &OwnedFd) -> Result<bool, Errno> {
    let mut buffer = [0; 256];
    match pread(events, &mut buffer, 0) {
        Ok(length) => Ok(!buffer
            .get(..length)
            .unwrap_or_default()
            .split(|&byte| byte == b'\n')
            .any(|line| line == b"populated 0")),
        Err(Errno::NODEV) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether anything runs in a cgroup or below; a cgroup that is gone is empty.
pub(super) fn is_populated(cgroup: BorrowedFd<'_>) -> Result<bool, Errno> {
    match open_file(cgroup, c"cgroup.events", OFlags::RDONLY) {
        Ok(events) => populated(&events),
        Err(Errno::NOENT | Errno::NODEV) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What `remove_tree` does with entries that are no directories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// The kernel's own files in a cgroup go with it.
    Keep,
    Remove,
}

/// Removes a directory and all below it, deepest first, and tries again where something is added or still dying meanwhile.
pub(super) fn remove_tree(
    parent: BorrowedFd<'_>,
    name: &CStr,
    files: Files,
    deadline: Instant,
    depth: u32,
) -> Result<(), Errno> {
    let below = depth.checked_sub(1).ok_or(Errno::LOOP)?;
    loop {
        let error = match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(error @ (Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY)) => error,
            Err(error) => return Err(error),
        };
        let dir = match open_dir(parent, name) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut found = false;
        let mut buffer = [MaybeUninit::uninit(); 2048];
        let mut entries = RawDir::new(&dir, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::NOENT) => break,
                Err(error) => return Err(error),
            };
            if is_dots(entry.file_name()) {
                continue;
            }
            let is_directory = match (entry.file_type(), files) {
                (FileType::Directory, _) => true,
                (_, Files::Keep) => false,
                // A file system without types in its entries says EISDIR for a directory.
                (_, Files::Remove) => {
                    found = true;
                    match unlinkat(&dir, entry.file_name(), AtFlags::empty()) {
                        Ok(()) | Err(Errno::NOENT) => false,
                        Err(Errno::ISDIR) => true,
                        Err(error) => return Err(error),
                    }
                }
            };
            if is_directory {
                found = true;
                remove_tree(dir.as_fd(), entry.file_name(), files, deadline, below)?;
            }
        }
        if Instant::now() >= deadline {
            return Err(error);
        }
        if !found {
            // Busy without children: a process is on its way out.
            pause(Duration::from_millis(2));
        }
    }
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

fn open_file(dir: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(
        dir,
        name,
        flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn write_file(dir: BorrowedFd<'_>, name: &CStr, data: &[u8]) -> Result<(), Errno> {
    let file = open_file(dir, name, OFlags::WRONLY)?;
    write(&file, data).map(drop)
}

/// Sleeps without the thread machinery of the standard library.
pub(super) fn pause(time: Duration) {
    let _ = poll(&mut [], Some(&timespec(time)));
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
