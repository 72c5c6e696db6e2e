//! `run` with an embedded manager: the process that stays beside the command.
//!
//! It forks first, while it is still a plain process with one thread, so that the command's process is a copy of what the caller made: mask, actions, descriptors.
//! The child waits on a pipe for the manager's address; the end of the pipe without one tells it that there is nothing to wait for. If this process is killed, the
//! guardian of the embedded manager ends everything in the manager's cgroup. Until the child is in there and has become the command, the kernel ends it together
//! with this process: it would otherwise wait for a manager that is gone.
//!
//! Signals. While the manager starts there is no command to hand a signal to, and the caller's own mask holds: a signal ends this process, as it would end the
//! command. Before the command is let go all are blocked, and from there on none is lost. Parent and command are in one process group, so what a terminal sends reaches both: such signals (sent by the kernel) are not forwarded. What a person or a
//! program sends to the parent is. A stop of the command by the terminal stops the parent as well, or the shell would not notice.

use std::io::{self, Read as _, Write as _};

use nix::fcntl::OFlag;
use nix::libc::{self, c_int};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};
use scopectl::embedded::Embedded;

use super::become_command::become_command;
use super::choose::Selected;
use super::plan::Plan;
use crate::cli::exit::{FAILED, Failure, Result, say};
use crate::cli::inherited::Inherited;
use crate::cli::{cgroup_path, sys};

pub(super) fn run(plan: &Plan, inherited: &Inherited) -> Result<u8> {
    let failed = |what: &'static str| {
        move |error: io::Error| Failure::run(format!("cannot {what}: {error}"))
    };
    let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)
        .map_err(|error| failed("make a pipe")(error.into()))?;
    // A signal between the fork and the child's first steps waits in the queue.
    let callers_mask = SigSet::all()
        .thread_swap_mask(SigmaskHow::SIG_SETMASK)
        .map_err(|error| failed("block signals")(error.into()))?;
    let parent = nix::unistd::getpid();
    let Some(child) = sys::fork_single_threaded().map_err(failed("fork"))? else {
        drop(writer);
        die_with(parent).map_err(failed("tie a process to its parent"))?;
        let _ = callers_mask.thread_set_mask();
        return match read_address(reader.into()) {
            // The command itself is the guardian's.
            Some(address) => Err(become_command(
                plan,
                &Selected::embedded(address),
                outlive_the_parent,
            )),
            // The parent has said why, or is gone.
            None => Ok(FAILED),
        };
    };
    drop(reader);
    inherited.release();
    // A caller that ignores SIGCHLD would make the command's status vanish.
    let _ = sys::set_default(Signal::SIGCHLD);
    let mut command = Command {
        pid: child,
        stopped: false,
    };
    let signals = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_CLOEXEC)
        .map_err(|error| failed("make a signalfd")(error.into()))?;
    match start_manager(plan, callers_mask) {
        Ok(embedded) => {
            let address = embedded.private_address();
            // A child that has already been ended by a signal reads no more.
            let _ = std::fs::File::from(writer).write_all(format!("{address}\n").as_bytes());
            let code = command.supervise(&signals);
            if let Err(error) = embedded.stop() {
                say(&format!("scopectl: {error}"));
            }
            Ok(code)
        }
        Err(failure) => {
            drop(writer);
            sys::kill_child(command.pid, libc::SIGKILL);
            let _ = waitpid(Some(command.pid), WaitOptions::empty());
            Err(failure)
        }
    }
}

/// In the child: ends it as soon as the parent does. Strictly, as soon as the thread that forked does, but that is the parent's main and only one.
fn die_with(parent: nix::unistd::Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // One that ended before gives no signal.
    if nix::unistd::getppid() != parent {
        return Err(io::Error::other("it has ended"));
    }
    Ok(())
}

/// The setting would go on into the command.
fn outlive_the_parent() {
    let _ = rustix::process::set_parent_process_death_signal(None);
}

/// Starts it with the caller's signal mask, and blocks all signals again.
///
/// Without a message bus: the one client is the child, and a private socket answers sooner.
fn start_manager(plan: &Plan, callers_mask: SigSet) -> Result<Embedded> {
    let mut builder = Embedded::builder().bus(false);
    if let Some(timeout) = plan.start_timeout {
        builder = builder.start_timeout(timeout);
    }
    let mut mask = callers_mask;
    // The end of the child must still be known when somebody waits for it.
    mask.add(Signal::SIGCHLD);
    let _ = mask.thread_set_mask();
    let started = builder.start();
    let _ = SigSet::all().thread_set_mask();
    Ok(started?)
}

/// Reads a whole line; half of one is from a parent that died.
fn read_address(mut pipe: std::fs::File) -> Option<String> {
    let mut text = String::new();
    pipe.read_to_string(&mut text).ok()?;
    text.strip_suffix('\n').map(str::to_owned)
}

/// The command's process, our child, and what we know of it.
struct Command {
    pid: Pid,
    stopped: bool,
}

impl Command {
    /// Waits until the command has ended and gives its exit code.
    fn supervise(&mut self, signals: &SignalFd) -> u8 {
        loop {
            match signals.read_signal() {
                Ok(Some(info)) => {
                    if let Some(code) = self.on_signal(&info) {
                        return code;
                    }
                }
                Ok(None) | Err(nix::errno::Errno::EINTR) => {}
                // Cannot happen with a signalfd of ours; waiting is then all that is left.
                Err(_) => {
                    if let Some(code) = self.reap(WaitOptions::empty()) {
                        return code;
                    }
                }
            }
        }
    }

    fn on_signal(&mut self, info: &libc::signalfd_siginfo) -> Option<u8> {
        let signal = c_int::try_from(info.ssi_signo).unwrap_or(0);
        match signal {
            libc::SIGCHLD => {
                return self
                    .reap(WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED);
            }
            // Whoever continues the process group has continued the command too.
            libc::SIGCONT if !self.stopped => {}
            _ if self.is_for_the_command(signal, info) => sys::kill_child(self.pid, signal),
            _ => {}
        }
        None
    }

    fn is_for_the_command(&self, signal: c_int, info: &libc::signalfd_siginfo) -> bool {
        match info.ssi_code {
            // A timer that the caller had set would have gone on into the command.
            libc::SI_KERNEL => signal == libc::SIGALRM,
            // Our own write to a closed stderr (SIGPIPE), or the command signals its own process group and has had its share.
            libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL => {
                info.ssi_pid != std::process::id() && !self.is_inside(info.ssi_pid)
            }
            _ => false,
        }
    }

    /// Whether a process is in the command's cgroup or below. Before the command is in its scope, nobody is.
    fn is_inside(&self, pid: u32) -> bool {
        if pid == self.pid.as_raw_nonzero().get().unsigned_abs() {
            return true;
        }
        let scope = cgroup_path::of_process(self.pid);
        let (Some(scope), Some(sender), Some(own)) =
            (scope, cgroup_path::of_process(pid), cgroup_path::own())
        else {
            return false;
        };
        scope != own
            && sender
                .strip_prefix(&scope)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Takes all changes of the command's state; the exit code when it has ended.
    fn reap(&mut self, options: WaitOptions) -> Option<u8> {
        loop {
            match waitpid(Some(self.pid), options) {
                Ok(Some((_, status))) => {
                    if let Some(code) = exit_code(status) {
                        return Some(code);
                    }
                    self.stopped = status.stopped();
                    if let Some(signal) = status.stopping_signal() {
                        stop_like_the_command(signal);
                    }
                }
                Ok(None) => return None,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Some(FAILED),
            }
        }
    }
}

fn exit_code(status: WaitStatus) -> Option<u8> {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => return None,
    };
    Some(u8::try_from(code).unwrap_or(FAILED))
}

/// Stops this process with the signal by which the terminal stopped the command, until it is continued.
///
/// A command that somebody stopped with SIGSTOP is not followed: whoever continues it will not know of us.
fn stop_like_the_command(signal: i32) {
    let signal = match signal {
        libc::SIGTSTP => Signal::SIGTSTP,
        libc::SIGTTIN => Signal::SIGTTIN,
        libc::SIGTTOU => Signal::SIGTTOU,
        _ => return,
    };
    let alone: SigSet = std::iter::once(signal).collect();
    if raise(signal).is_ok() {
        // Let in, it stops this process here.
        let _ = alone.thread_unblock();
        let _ = alone.thread_block();
    }
}
