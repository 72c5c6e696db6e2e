//! The last steps, in the process that becomes the command: into the scope, then nice, groups, user, directory, `execve`.

use super::choose::Selected;
use super::message::{self, Report, Started};
use super::plan::Plan;
use super::start;
use crate::cli::cgroup_path;
use crate::cli::exit::{Failure, Result};
use crate::cli::inherited::Inherited;

/// Returns only when something failed. `at_last` is done right before the `execve`.
pub(super) fn become_command(plan: &Plan, selected: &Selected, at_last: impl FnOnce()) -> Failure {
    match prepare(plan, selected) {
        Ok(()) => {
            Inherited::restore();
            at_last();
            plan.program.execute()
        }
        Err(failure) => failure,
    }
}

fn prepare(plan: &Plan, selected: &Selected) -> Result<()> {
    let unit = start::start(plan, selected)?;
    // Only the report in JSON tells it.
    let cgroup = (plan.report == Report::Json)
        .then(cgroup_path::own)
        .flatten();
    // First, as the caller: the user of --uid may not have the right to it.
    if let Some(nice) = plan.nice {
        rustix::process::setpriority_process(None, nice)
            .map_err(|error| Failure::option("--nice", format!("cannot set {nice}: {error}")))?;
    }
    if let Some(identity) = &plan.identity {
        identity.assume()?;
    }
    if let Some(directory) = &plan.directory {
        nix::unistd::chdir(directory.as_path()).map_err(|error| {
            Failure::option(
                "--working-directory",
                format!("cannot change to {directory:?}: {}", error.desc()),
            )
        })?;
    }
    message::started(
        plan.report,
        &Started {
            unit: &unit,
            cgroup: cgroup.as_deref(),
            pid: std::process::id(),
            manager: &selected.label,
        },
    );
    Ok(())
}
