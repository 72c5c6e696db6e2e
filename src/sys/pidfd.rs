//! What is asked and done through a pidfd.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// What the kernel tells about the process of a pidfd: `struct pidfd_info`, in the size of its first version (64 bytes, Linux 6.13).
///
/// Source: `include/uapi/linux/pidfd.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PidfdInfo {
    pub(crate) mask: u64,
    pub(crate) cgroup_id: u64,
    pub(crate) pid: u32,
    pub(crate) tgid: u32,
    pub(crate) ppid: u32,
    pub(crate) ruid: u32,
    pub(crate) rgid: u32,
    pub(crate) euid: u32,
    pub(crate) egid: u32,
    pub(crate) suid: u32,
    pub(crate) sgid: u32,
    pub(crate) fsuid: u32,
    pub(crate) fsgid: u32,
    pub(crate) exit_code: i32,
}

/// Ask for, or got, the id of the cgroup in the cgroup2 hierarchy (Linux 6.13).
pub(crate) const PIDFD_INFO_CGROUPID: u64 = 1 << 2;
/// Ask for, or got, what was kept of a process that has been reaped: its wait status and cgroup id (Linux 6.15).
pub(crate) const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// `_IOWR(0xFF, 11, struct pidfd_info)` of the first version; later kernels accept every size from that on.
const PIDFD_GET_INFO: libc::Ioctl = {
    const READ_WRITE: u32 = 3;
    const SIZE: u32 = size_of::<PidfdInfo>() as u32;
    ((READ_WRITE << 30) | (SIZE << 16) | (0xFF << 8) | 11) as libc::Ioctl
};

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// `ioctl(pidfd, PIDFD_GET_INFO)`: fills in what `mask` asks for; the answer's `mask` says what is there.
pub(crate) fn pidfd_get_info(pidfd: BorrowedFd<'_>, mask: u64) -> io::Result<PidfdInfo> {
    let mut info = PidfdInfo {
        mask,
        ..PidfdInfo::default()
    };
    // SAFETY: the request carries the size of the structure, and the kernel writes at most that much into it; the descriptor is open for the whole call.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(info)
}

/// `pidfd_send_signal(pidfd, signal, NULL, 0)` with any number: 0 (a mere test) and the real-time signals included.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: the call reads no memory of ours (the siginfo pointer is null), and the descriptor is open for the whole call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0_u32,
        )
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
