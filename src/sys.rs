//! The system calls that neither nix nor rustix offers: the only `unsafe` of the library.
#![allow(unsafe_code)]

#[cfg(feature = "embedded")]
mod fork;
mod pidfd;
mod watch;

#[cfg(feature = "embedded")]
pub(crate) use fork::{Exec, clone_process, restore_default_signals, unshare_mount_and_cgroup};
pub(crate) use pidfd::{
    PIDFD_INFO_CGROUPID, PIDFD_INFO_EXIT, PidfdInfo, pidfd_get_info, pidfd_send_signal,
};
pub(crate) use watch::watch_priority;
