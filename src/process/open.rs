//! Opening a process and refusing, before anything else is done with it, what can never be put in a unit: systemd takes some of these without a word.
//!
//! * 0 means "the sender" in `PIDs` and "myself" in `cgroup.procs`, 1 is the manager itself;
//! * a kernel thread cannot be moved, and systemd says so only in the failed job;
//! * a zombie "attaches" and leaves an empty scope that stays active for ever;
//! * a number from another pid namespace names somebody else.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::handle::{Process, State, info_of, state_of};
use crate::error::{Error, ErrorKind, Result};
use crate::sys;

pub(super) fn by_pid(pid: u32) -> Result<Process> {
    refuse_number(pid)?;
    let pidfd = open_pidfd(pid)?;
    refuse_foreign_proc()?;
    inspect(pid, pidfd)
}

pub(super) fn by_pidfd(pidfd: OwnedFd) -> Result<Process> {
    let info = FdInfo::read(pidfd.as_fd())?;
    let pid = match info.pid {
        None => return Err(no_pidfd()),
        Some(0) => {
            return Err(refused(
                "the process of this pidfd is not in the caller's pid namespace; open it from inside its own",
            ));
        }
        Some(pid) => match u32::try_from(pid) {
            Ok(pid) => pid,
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::ProcessGone,
                    "the process of this pidfd has ended and been reaped",
                ));
            }
        },
    };
    refuse_number(pid)?;
    refuse_foreign_proc()?;
    if !info.of_thread {
        return inspect(pid, pidfd);
    }
    // Made with PIDFD_THREAD (Linux 6.9): it tells of one thread only, so a pidfd of the whole process takes its place, if that is the same one.
    let whole = open_pidfd(pid)?;
    if state_of(pidfd.as_fd()) == State::Gone {
        return Err(gone(pid));
    }
    inspect(pid, whole)
}

fn refuse_number(pid: u32) -> Result<()> {
    match pid {
        0 => Err(refused(
            "process 0 cannot be put in a unit: 0 would mean the caller; name the process by its own pid",
        )),
        1 => Err(refused(
            "process 1 cannot be put in a unit: it is the manager of this pid namespace",
        )),
        _ if i32::try_from(pid).is_err() => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{pid} is not a pid: the highest is {}", i32::MAX),
        )),
        _ => Ok(()),
    }
}

/// Numbers read in a `/proc` of another pid namespace are not the caller's.
fn refuse_foreign_proc() -> Result<()> {
    let own = fs::read_link("/proc/self").ok();
    let number = own.as_ref().and_then(|link| link.to_str()?.parse().ok());
    if number == Some(std::process::id()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Io,
        "cannot look at a process: /proc is missing or belongs to another pid namespace; mount a /proc of this one",
    ))
}

fn open_pidfd(pid: u32) -> Result<OwnedFd> {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Err(gone(pid));
    };
    pidfd_open(raw, PidfdFlags::empty()).map_err(|errno| match errno {
        // EINVAL is the answer for a thread up to Linux 6.14, ENOENT since.
        Errno::SRCH | Errno::INVAL | Errno::NOENT => match leader_of(pid) {
            Some(leader) if leader != pid => refused(format!(
                "{pid} is a thread of process {leader}, not a process; name {leader}"
            )),
            _ => gone(pid),
        },
        Errno::NOSYS => Error::new(
            ErrorKind::Io,
            "cannot hold a process by pidfd: pidfd_open needs Linux 5.3",
        )
        .with_source(errno),
        Errno::MFILE | Errno::NFILE => Error::new(
            ErrorKind::Io,
            format!("cannot open process {pid}: too many files are open; raise RLIMIT_NOFILE"),
        )
        .with_source(errno),
        _ => Error::new(ErrorKind::Io, format!("cannot open process {pid}")).with_source(errno),
    })
}

/// The checks that need to look at the process, each before the next.
fn inspect(pid: u32, pidfd: OwnedFd) -> Result<Process> {
    match state_of(pidfd.as_fd()) {
        State::Alive => {}
        State::Zombie => {
            return Err(Error::new(
                ErrorKind::ProcessGone,
                format!(
                    "process {pid} has ended and waits to be reaped by its parent (a zombie); it cannot be put in a unit"
                ),
            ));
        }
        State::Gone => return Err(gone(pid)),
    }
    let process = Process::assemble(pid, pidfd);
    if may_be_kernel_thread(&process) {
        match process.stat()? {
            Some(stat) if stat.is_kernel_thread() => {
                return Err(refused(format!(
                    "process {pid} is a kernel thread and cannot be put in a unit"
                )));
            }
            Some(_) => {}
            None => return Err(gone(pid)),
        }
    }
    Ok(process)
}

/// All kernel threads are children of kthreadd, which is process 2 of the machine's own pid namespace. Where the parent is quickly known, that spares most
/// processes the closer look.
fn may_be_kernel_thread(process: &Process) -> bool {
    const KTHREADD: u32 = 2;
    match info_of(process.pidfd(), sys::PIDFD_INFO_CGROUPID) {
        Some(info) => process.pid() == KTHREADD || matches!(info.ppid, 0 | KTHREADD),
        None => true,
    }
}

/// The process that a thread belongs to.
fn leader_of(tid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    field(&status, b"Tgid:")?.parse().ok()
}

/// What `/proc/self/fdinfo/FD` tells of a pidfd.
struct FdInfo {
    /// `Pid:`, in the namespace of the mounted `/proc`: 0 = not in it, -1 = reaped; `None` = not a pidfd.
    pid: Option<i64>,
    of_thread: bool,
}

impl FdInfo {
    fn read(pidfd: BorrowedFd<'_>) -> Result<Self> {
        let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
        let text = fs::read(&path).map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("cannot read {path}: is /proc mounted?"),
            )
            .with_source(error)
        })?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Self {
        // PIDFD_THREAD is O_EXCL; the flags are octal.
        const O_EXCL: u64 = 0o200;
        Self {
            pid: field(text, b"Pid:").and_then(|value| value.parse().ok()),
            of_thread: field(text, b"flags:")
                .and_then(|value| u64::from_str_radix(value, 8).ok())
                .is_some_and(|flags| flags & O_EXCL != 0),
        }
    }
}

/// The value of a line `KEY\tVALUE`.
fn field<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a str> {
    text.split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(key))
        .and_then(|value| std::str::from_utf8(value).ok())
        .map(str::trim)
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ProcessRefused, message)
}

fn gone(pid: u32) -> Error {
    Error::new(
        ErrorKind::ProcessGone,
        format!("process {pid} does not exist (any more)"),
    )
}

fn no_pidfd() -> Error {
    Error::new(ErrorKind::InvalidInput, "the descriptor is not a pidfd")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::sleep;
    use crate::skip::skip;
    use proptest::prelude::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    fn refusal(pid: u32) -> (ErrorKind, String) {
        let error = Process::open(pid).expect_err("it was opened");
        (error.kind(), error.to_string())
    }

    fn pidfd(pid: u32, flags: PidfdFlags) -> OwnedFd {
        pidfd_open(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), flags).unwrap()
    }

    #[test]
    fn a_living_process_is_known_by_pid_and_start_time() {
        let child = sleep();
        let process = Process::open(child.id()).unwrap();
        let again = Process::from_pidfd(pidfd(child.id(), PidfdFlags::empty())).unwrap();
        assert_eq!(process.pid(), child.id());
        assert_eq!(again.pid(), child.id());
        assert!(process.start_time().unwrap() > 0);
        assert_eq!(process.start_time().unwrap(), again.start_time().unwrap());
        let own = Process::current().unwrap();
        assert_eq!(own.pid(), std::process::id());
        assert!(own.start_time().unwrap() <= process.start_time().unwrap());
    }

    #[test]
    fn zero_one_and_impossible_numbers_are_refused_each_in_its_own_words() {
        let mut seen = Vec::new();
        for (pid, expected) in [
            (0, ErrorKind::ProcessRefused),
            (1, ErrorKind::ProcessRefused),
            (i32::MAX as u32 + 1, ErrorKind::InvalidInput),
            (u32::MAX, ErrorKind::InvalidInput),
            (i32::MAX as u32, ErrorKind::ProcessGone),
        ] {
            let (kind, text) = refusal(pid);
            assert_eq!(kind, expected, "{text}");
            assert!(text.contains(&pid.to_string()), "{text}");
            assert!(!seen.contains(&text));
            seen.push(text);
        }
    }

    #[test]
    fn a_zombie_is_refused_and_so_is_a_dead_process() {
        let mut child = sleep();
        let held = pidfd(child.id(), PidfdFlags::empty());
        let same = held.try_clone().unwrap();
        child.make_zombie().unwrap();
        let (kind, text) = refusal(child.id());
        assert_eq!(kind, ErrorKind::ProcessGone);
        assert!(text.contains("zombie"), "{text}");
        let error = Process::from_pidfd(same).unwrap_err();
        assert!(error.to_string().contains("zombie"), "{error}");
        child.wait().unwrap();
        let (kind, text) = refusal(child.id());
        assert_eq!(kind, ErrorKind::ProcessGone);
        assert!(!text.contains("zombie"), "{text}");
        let error = Process::from_pidfd(held).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProcessGone);
        assert!(error.to_string().contains("reaped"), "{error}");
    }

    #[test]
    fn a_kernel_thread_is_refused() {
        if !fs::read("/proc/2/stat").is_ok_and(|text| text.starts_with(b"2 (kthreadd)")) {
            eprintln!("skipped: no kernel thread is visible in this pid namespace");
            return;
        }
        let (kind, text) = refusal(2);
        assert_eq!(kind, ErrorKind::ProcessRefused);
        assert!(text.contains("kernel thread"), "{text}");
    }

    #[test]
    fn a_thread_is_refused_and_its_process_named() {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // "PID/task/TID" of the thread that looks.
            let link = fs::read_link("/proc/thread-self").unwrap();
            let tid: u32 = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
            tell.send(tid).unwrap();
            let _ = stopped.recv();
        });
        let tid = told.recv().unwrap();
        let (kind, text) = refusal(tid);
        drop(stop);
        thread.join().unwrap();
        assert_eq!(kind, ErrorKind::ProcessRefused);
        assert!(text.contains(&std::process::id().to_string()), "{text}");
    }

    #[test]
    fn a_pidfd_of_the_leading_thread_stands_for_its_process() {
        // PIDFD_THREAD, Linux 6.9.
        let flags = PidfdFlags::from_bits_retain(0o200);
        let child = sleep();
        let raw = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let Ok(fd) = pidfd_open(raw, flags) else {
            eprintln!("skipped: the kernel has no PIDFD_THREAD (6.9)");
            return;
        };
        assert_eq!(Process::from_pidfd(fd).unwrap().pid(), child.id());
    }

    #[test]
    fn another_descriptor_is_not_a_pidfd() {
        let file = fs::File::open("/proc/self/stat").unwrap();
        let error = Process::from_pidfd(file.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_process_in_a_pid_namespace_below_is_fine() {
        let spawned = Command::new("unshare")
            .args([
                "--pid",
                "--fork",
                "sh",
                "-c",
                "readlink /proc/self/ns/pid >/dev/null; echo ready; read x",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = spawned;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        if line.is_empty() {
            skip("no pid namespace can be made");
            let _ = child.wait();
            return;
        }
        let parent = Process::open(child.id()).unwrap();
        let inner = parent.descendants().unwrap();
        let status = fs::read(format!("/proc/{}/status", inner[0].pid())).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(inner.len(), 1);
        let levels = field(&status, b"NSpid:")
            .unwrap()
            .split_whitespace()
            .count();
        let own = fs::read("/proc/self/status").unwrap();
        let own = field(&own, b"NSpid:").unwrap().split_whitespace().count();
        assert_eq!(levels, own + 1);
    }

    /// Set for the half of a test that runs as process 1 of a pid namespace.
    const INNER: &str = "SCOPECTL_TEST_PID_NAMESPACE";

    fn in_pid_namespace(unshare: &[&str]) {
        let outside = sleep();
        let output = Command::new("unshare")
            .args(unshare)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "process::open::tests::inner_half", "--nocapture"])
            .env(INNER, unshare.join(" "))
            .stdin(pidfd(outside.id(), PidfdFlags::empty()))
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        if text.contains("unshare failed") {
            skip(format_args!("no pid namespace can be made: {text}"));
            return;
        }
        assert!(
            output.status.success() && text.contains("inner half done"),
            "{text}"
        );
    }

    #[test]
    fn a_process_of_another_pid_namespace_is_refused_and_so_is_the_first_of_ones_own() {
        in_pid_namespace(&["--pid", "--fork", "--mount-proc"]);
    }

    #[test]
    fn where_proc_is_of_another_pid_namespace_a_pid_is_not_looked_up_there() {
        in_pid_namespace(&["--pid", "--fork"]);
    }

    #[test]
    fn inner_half() {
        let Ok(how) = std::env::var(INNER) else {
            return;
        };
        let error = Process::current().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProcessRefused);
        let child = sleep();
        let opened = Process::open(child.id());
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        if how.contains("mount-proc") {
            assert_eq!(opened.unwrap().pid(), child.id());
            let error = Process::from_pidfd(stdin).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ProcessRefused);
            assert!(error.to_string().contains("pid namespace"), "{error}");
        } else {
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(
                error
                    .to_string()
                    .contains("belongs to another pid namespace"),
                "{error}"
            );
        }
        println!("inner half done");
    }

    #[test]
    fn what_fdinfo_tells_is_read() {
        let info =
            FdInfo::parse(b"pos:\t0\nflags:\t02000202\nmnt_id:\t3\nPid:\t77\nNSpid:\t77\t1\n");
        assert_eq!((info.pid, info.of_thread), (Some(77), true));
        let info = FdInfo::parse(b"flags:\t02000002\nPid:\t-1\n");
        assert_eq!((info.pid, info.of_thread), (Some(-1), false));
        assert_eq!(FdInfo::parse(b"pos:\t0\n").pid, None);
    }

    proptest! {
        #[test]
        fn any_fdinfo_is_read_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = FdInfo::parse(&text);
        }
    }
}
