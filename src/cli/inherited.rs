//! What the caller handed to scopectl, to be handed on to the command unchanged: signal actions, the signal mask, descriptors.

use nix::sys::signal::Signal;

use super::sys;

/// The descriptors of the caller, besides standard input, output and error.
#[derive(Default)]
pub(super) struct Inherited {
    descriptors: Vec<i32>,
}

impl Inherited {
    /// To be called before anything of ours has a descriptor open.
    pub(super) fn take() -> Self {
        // The listing has a descriptor of its own, which is closed again by the time that its number is tried.
        let listed: Vec<i32> = std::fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|fd| *fd > 2)
            .collect();
        let descriptors = listed
            .into_iter()
            .filter(|fd| std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok())
            .collect();
        Self { descriptors }
    }

    /// Puts back what Rust's start-up changed. The last act before `execve`; from here on a closed stderr is closed again.
    pub(super) fn restore() {
        if sys::sigpipe_was_default() {
            let _ = sys::set_default(Signal::SIGPIPE);
        }
        for fd in sys::closed_at_start() {
            let _ = nix::unistd::close(fd);
        }
    }

    /// Lets go of the caller's descriptors, in a process that stays beside the command: whoever waits for the command to close a pipe must not wait for us too.
    /// Standard error is kept, for messages.
    pub(super) fn release(&self) {
        for fd in &self.descriptors {
            let _ = nix::unistd::close(*fd);
        }
        if let Ok(null) = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
        {
            let _ = nix::unistd::dup2_stdin(&null);
            let _ = nix::unistd::dup2_stdout(&null);
        }
    }
}
