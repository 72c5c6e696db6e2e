//! Starting a process that runs code of ours before (or instead of) an `exec`.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use nix::libc;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// `struct clone_args` up to `cgroup` (kernel 5.7, `CLONE_ARGS_SIZE_VER2`).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `clone3`: a copy of the calling process that runs `child`, ends with the status that it returns, and never comes back into the caller's code.
///
/// The child starts with every signal blocked, so no handler of the caller runs in it, and dies without a signal to the caller (until it execs). It is
/// born in `cgroup` where the kernel can do that (5.7); `child` is told whether it was. With `keep`, every descriptor but those is closed in it.
///
/// The caller may have other threads, whose locks (the allocator's too) are then locked for ever in the child: `child` may only make system calls and
/// touch memory that was there before. It must not allocate, free, panic, print or take a lock.
pub(crate) fn clone_process(
    cgroup: Option<BorrowedFd<'_>>,
    keep: Option<&mut [RawFd]>,
    child: impl FnOnce(bool) -> u8,
) -> io::Result<(Pid, OwnedFd)> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for writes, and `all` is initialised by sigfillset before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let cloned = clone_or_fork(cgroup);
    if let Ok(None) = cloned {
        run_child(cgroup.is_some(), keep, child);
    }
    let cloned = match cloned {
        // Without clone3 or CLONE_INTO_CGROUP: an old kernel, or a seccomp filter that hides clone3.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG)
            ) =>
        {
            // SAFETY: fork has no requirements; what the child may do is the same as after clone3.
            match unsafe { libc::fork() } {
                -1 => Err(io::Error::last_os_error()),
                0 => run_child(false, keep, child),
                pid => open_child(pid),
            }
        }
        Err(error) => Err(error),
        Ok(None) => unreachable_child(),
        Ok(Some(parent)) => Ok(parent),
    };
    // SAFETY: `before` was filled by the first call, which cannot fail with valid arguments.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    cloned
}

/// `None` in the child.
fn clone_or_fork(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<(Pid, OwnedFd)>> {
    let mut pidfd: RawFd = -1;
    let mut args = CloneArgs {
        flags: CLONE_PIDFD,
        pidfd: &raw mut pidfd as u64,
        ..CloneArgs::default()
    };
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: the arguments have the size that is passed, `pidfd` is valid for writes, and without CLONE_VM the child gets its own copy of the memory,
    // so a null stack is right. Nothing but what `clone_process` allows runs in the child.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<CloneArgs>() as libc::size_t,
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => {
            let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::Other)?;
            // SAFETY: the kernel has just made this descriptor (CLONE_PIDFD) and nobody else knows it.
            Ok(Some((pid, unsafe { OwnedFd::from_raw_fd(pidfd) })))
        }
    }
}

fn open_child(pid: i32) -> io::Result<(Pid, OwnedFd)> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::Other)?;
    // Our own child, not waited for: the number cannot belong to another process.
    Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
}

fn run_child(in_cgroup: bool, keep: Option<&mut [RawFd]>, child: impl FnOnce(bool) -> u8) -> ! {
    /// Ends the process even if `child` panics: the caller's code must never run twice.
    struct End(u8);
    impl Drop for End {
        fn drop(&mut self) {
            // SAFETY: `_exit` has no requirements; it runs no destructors and no exit handlers of the caller.
            unsafe { libc::_exit(self.0.into()) }
        }
    }
    let mut end = End(127);
    if let Some(keep) = keep {
        close_all_but(keep);
    }
    end.0 = child(in_cgroup);
    drop(end);
    unreachable_child()
}

fn unreachable_child() -> ! {
    // SAFETY: as above.
    unsafe { libc::_exit(127) }
}

/// `close_range` (kernel 5.9) around the kept ones.
fn close_all_but(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut first: u32 = 0;
    for &fd in keep.iter() {
        let fd = fd as u32;
        if fd > first {
            close_range(first, fd - 1);
        }
        first = fd.saturating_add(1);
    }
    close_range(first, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    // SAFETY: only called in a new process, which never uses or drops an owner of a descriptor in this range.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Every signal to its default action, and none blocked. (`exec` resets handlers, but not what is ignored or blocked.)
pub(crate) fn restore_default_signals() {
    for signal in 1..=64 {
        // SAFETY: a zeroed sigaction is SIG_DFL with an empty mask; for the numbers that may not be changed the call fails and changes nothing.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by sigemptyset before it is read.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// `unshare`: a new mount and a new cgroup namespace for the calling thread.
pub(crate) fn unshare_mount_and_cgroup() -> rustix::io::Result<()> {
    // SAFETY: the file table stays shared (no FILES flag), which is the only danger of this call.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWCGROUP) }
}

/// The arguments of an `execve`, laid out before the fork because nothing may be allocated after it.
pub(crate) struct Exec {
    path: CString,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    _strings: Vec<CString>,
}

impl Exec {
    pub(crate) fn new(path: CString, argv: Vec<CString>, env: Vec<CString>) -> Self {
        // The strings' buffers do not move when their owners do.
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain([ptr::null()])
                .collect()
        };
        let (argv_pointers, envp) = (pointers(&argv), pointers(&env));
        Self {
            path,
            argv: argv_pointers,
            envp,
            _strings: argv.into_iter().chain(env).collect(),
        }
    }

    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }

    /// `execve`: returns only when it failed.
    pub(crate) fn exec(&self) -> i32 {
        // SAFETY: the path is a C string, both arrays end with a null pointer, and what they point to lives as long as `self`.
        unsafe {
            libc::execve(self.path.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
        }
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }
}
