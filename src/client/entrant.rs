//! A process that is to be put inside a unit, with where it came from.

use crate::cgroup::{ProcCgroup, unit_path_of};
use crate::process::{Process, State, own_cgroup};
use crate::{Error, ErrorKind, Result};

use super::place::Seen;

/// A process on its way into a unit.
pub(super) struct Entrant {
    pub(super) process: Process,
    /// Its cgroups before the call: where an undo puts it back.
    pub(super) from: ProcCgroup,
    pub(super) from_id: Option<u64>,
}

impl Entrant {
    /// What there is to see of it now, besides what its path told.
    pub(super) fn seen(&self, inside: Option<bool>) -> Seen {
        Seen {
            state: self.process.state(),
            inside,
            // By number, which the kernel (6.15) keeps of a process that has been waited for.
            in_old_cgroup: inside.is_none()
                && self.from_id.is_some()
                && self.process.cgroup_id() == self.from_id,
        }
    }
}

/// Checks that every process may be moved, and notes where it is.
pub(super) fn admit(processes: &[Process], allow_move: bool) -> Result<Vec<Entrant>> {
    if processes.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "no process was given; systemd cannot make a scope without one",
        ));
    }
    let mut entrants: Vec<Entrant> = Vec::with_capacity(processes.len());
    for process in processes {
        if entrants.iter().any(|e| e.process.pid() == process.pid()) {
            continue;
        }
        let Some(from) = process.cgroup()? else {
            return Err(ended(process));
        };
        if let Some(unit) = from.unified().and_then(unit_path_of)
            && !allow_move
            && own_cgroup()?.unified().and_then(unit_path_of) != Some(unit)
            && !process.is_descendant_of_caller()?
        {
            return Err(Error::new(
                ErrorKind::ProcessElsewhere,
                format!(
                    "process {} is in {unit}, which is not the caller's own unit; allow the move if it shall leave it",
                    process.pid()
                ),
            ));
        }
        let from_id = process.cgroup_id();
        entrants.push(Entrant {
            process: process.clone(),
            from,
            from_id,
        });
    }
    Ok(entrants)
}

/// A process that ended while it waited is refused: systemd would take a zombie and leave an empty scope for ever.
pub(super) fn all_alive(entrants: &[Entrant]) -> Result<()> {
    for entrant in entrants {
        if entrant.process.state() != State::Alive {
            return Err(ended(&entrant.process));
        }
    }
    Ok(())
}

pub(super) fn all_ended(entrants: &[Entrant]) -> bool {
    entrants
        .iter()
        .all(|entrant| entrant.process.state() != State::Alive)
}

fn ended(process: &Process) -> Error {
    Error::new(
        ErrorKind::ProcessGone,
        format!("process {} has ended", process.pid()),
    )
}
