//! The only `unsafe` of the binary: what must be seen before Rust's own start-up changes it, and calls that nix offers only as unsafe.
//!
//! Before `main`, Rust's runtime sets SIGPIPE to ignored and opens `/dev/null` on each closed descriptor of 0, 1 and 2. A constructor in `.init_array` runs
//! before that and notes how the caller had them.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{ForkResult, fork};

static SIGPIPE_WAS_DEFAULT: AtomicBool = AtomicBool::new(false);
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

// SAFETY: the C runtime calls each entry once, before `main`, on the only thread. Entries may get arguments (glibc passes argc, argv, envp); a function of the C
// calling convention that takes none may be called so on every platform that has `.init_array`.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    // SAFETY: both calls only read the state of this process; `old` is a plain C struct for which all zeroes is a valid value, and it outlives the call.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut old) == 0 {
            SIGPIPE_WAS_DEFAULT.store(old.sa_sigaction == libc::SIG_DFL, Ordering::Relaxed);
        }
        for (fd, was_closed) in (0..).zip(&WAS_CLOSED) {
            was_closed.store(libc::fcntl(fd, libc::F_GETFD) == -1, Ordering::Relaxed);
        }
    }
}

/// Whether SIGPIPE had its default action when the process began.
pub(super) fn sigpipe_was_default() -> bool {
    SIGPIPE_WAS_DEFAULT.load(Ordering::Relaxed)
}

/// Which of the descriptors 0, 1 and 2 were closed when the process began.
pub(super) fn closed_at_start() -> impl Iterator<Item = i32> {
    (0..)
        .zip(&WAS_CLOSED)
        .filter(|(_, was_closed)| was_closed.load(Ordering::Relaxed))
        .map(|(fd, _)| fd)
}

/// Gives a signal its default action.
pub(super) fn set_default(signal: Signal) -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler of ours is installed or replaced, so nothing can run in signal context.
    unsafe { sigaction(signal, &default) }.map(drop)
}

/// Sends any signal, also a real-time one, to a child of ours that has not been waited for (so its number cannot be anybody else's).
pub(super) fn kill_child(child: rustix::process::Pid, signal: i32) {
    // SAFETY: kill(2) takes two numbers and touches no memory of ours. A child that has just ended makes it fail with ESRCH or succeed without effect.
    unsafe { libc::kill(child.as_raw_nonzero().get(), signal) };
}

/// fork(2), refused when there is more than one thread. `None` in the child.
pub(super) fn fork_single_threaded() -> std::io::Result<Option<rustix::process::Pid>> {
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|error| {
            std::io::Error::other(format!(
                "the threads in /proc/self/task cannot be counted ({error}); mount /proc"
            ))
        })?
        .count();
    if threads != 1 {
        return Err(std::io::Error::other(format!(
            "{threads} threads where there should be one"
        )));
    }
    // SAFETY: there is one thread, so no lock can be held by a thread that the child lacks, and the child may do whatever the parent may.
    match unsafe { fork() }? {
        ForkResult::Child => Ok(None),
        ForkResult::Parent { child } => rustix::process::Pid::from_raw(child.as_raw())
            .map(Some)
            .ok_or_else(|| std::io::Error::other("fork gave no process number")),
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The environment exactly as it was handed over: order, duplicates, and entries without `=` (which `std::env` skips) included.
pub(super) fn environment() -> Vec<CString> {
    let mut entries = Vec::new();
    // SAFETY: `environ` is null or points to an array of C strings that ends with a null pointer. Nothing in this program changes the environment, so neither
    // the array nor the strings move while they are read.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(CStr::from_ptr(*next).to_owned());
            next = next.add(1);
        }
    }
    entries
}
