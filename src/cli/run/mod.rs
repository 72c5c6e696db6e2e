//! `scopectl run`: a command in a new scope.
//!
//! Without the embedded manager there is one process from start to end: it checks, asks systemd for the scope, waits until it is inside, and becomes the command.
//! With the embedded manager a parent stays beside it, because somebody has to take the manager down.

mod args;
mod become_command;
mod choose;
mod message;
mod parent;
mod plan;
mod start;

pub(super) use args::RunArgs;

use self::choose::Choice;
use super::exit::Result;
use super::inherited::Inherited;

/// Gives the exit code, unless this process became the command.
pub(super) fn run(args: &RunArgs) -> Result<u8> {
    super::log::start(args.verbose);
    let plan = plan::Plan::new(args)?;
    // Only a parent lets go of the caller's descriptors, so only then is it worth the look.
    let inherited = plan.may_need_a_parent().then(Inherited::take);
    match choose::choose(&plan)? {
        Choice::Existing(manager) => Err(become_command::become_command(&plan, &manager, || ())),
        Choice::Embedded => parent::run(&plan, &inherited.unwrap_or_default()),
    }
}
