//! Where a process is after the job: the decision, apart from how it was seen. Pure.
//!
//! A job that ended in `done` does not mean that the process is inside. systemd writes a process that is ending into `cgroup.procs` without an error and
//! without any effect; the scope then stays active and empty for ever. What the kernel says of the process tells the cases apart.

use crate::process::State;

/// What was seen of one process after the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) state: State,
    /// Whether it is, or was when it ended, in the unit's cgroup or below; `None` if the kernel can no longer tell.
    pub(crate) inside: Option<bool>,
    /// It is, or was when it ended, in the cgroup that it was in before the call.
    pub(crate) in_old_cgroup: bool,
}

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It runs in the unit's cgroup or below.
    Inside,
    /// It ran inside and has ended.
    EndedInside,
    /// It runs somewhere else.
    Outside,
    /// It has ended and was never inside.
    NeverInside,
    /// It has ended, and nothing that is left of it tells where.
    Unknown,
}

impl Seen {
    pub(crate) fn place(self) -> Place {
        match (self.state, self.inside) {
            (State::Alive, Some(true)) => Place::Inside,
            (State::Alive, Some(false)) => Place::Outside,
            (State::Zombie | State::Gone, Some(true)) => Place::EndedInside,
            (State::Zombie | State::Gone, Some(false)) => Place::NeverInside,
            (State::Zombie | State::Gone, None) if self.in_old_cgroup => Place::NeverInside,
            (_, None) => Place::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_its_place() {
        for (state, inside, in_old_cgroup, place) in [
            (State::Alive, Some(true), false, Place::Inside),
            // Attached to the unit that it was in.
            (State::Alive, Some(true), true, Place::Inside),
            (State::Alive, Some(false), true, Place::Outside),
            (State::Alive, Some(false), false, Place::Outside),
            (State::Alive, None, false, Place::Unknown),
            (State::Zombie, Some(true), false, Place::EndedInside),
            (State::Zombie, Some(false), true, Place::NeverInside),
            (State::Zombie, Some(false), false, Place::NeverInside),
            (State::Gone, Some(true), false, Place::EndedInside),
            (State::Gone, None, true, Place::NeverInside),
            (State::Gone, None, false, Place::Unknown),
        ] {
            let seen = Seen {
                state,
                inside,
                in_old_cgroup,
            };
            assert_eq!(seen.place(), place, "{seen:?}");
        }
    }
}
