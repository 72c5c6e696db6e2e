//! Where a process is after the job: the decision, apart from how it was seen. Pure.
//!
//! A job that ended in `done` does not mean that the process is inside. systemd writes a process that is ending into `cgroup.procs` without an error and
//! without any effect; the scope then stays active and empty for ever. What the kernel says of the process tells the cases apart.

use crate::process::State;

/// What was seen of one process after the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) state: State,
    /// Whether its `/proc/PID/cgroup` names the unit's cgroup or one below it; `None` if it could not be read any more.
    pub(crate) path_inside: Option<bool>,
    /// The number of the cgroup that it is in, or was in when it ended (kernel 6.13, 6.15 for one that was waited for).
    pub(crate) cgroup_id: Option<u64>,
    /// The number of the cgroup that it was in before the call.
    pub(crate) old_cgroup_id: Option<u64>,
    /// The number of the unit's cgroup, if that was found.
    pub(crate) unit_cgroup_id: Option<u64>,
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
    pub(crate) fn place(&self) -> Place {
        match self.state {
            State::Alive => match self.path_inside {
                Some(true) => Place::Inside,
                Some(false) => Place::Outside,
                None => Place::Unknown,
            },
            State::Zombie | State::Gone => self.place_of_ended(),
        }
    }

    fn place_of_ended(&self) -> Place {
        match self.path_inside {
            Some(true) => return Place::EndedInside,
            Some(false) => return Place::NeverInside,
            None => {}
        }
        let Some(id) = self.cgroup_id else {
            return Place::Unknown;
        };
        if self.unit_cgroup_id == Some(id) {
            Place::EndedInside
        } else if self.old_cgroup_id == Some(id) {
            Place::NeverInside
        } else {
            Place::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_its_place() {
        let (unit, old) = (Some(7), Some(3));
        let inside = Some(true);
        let elsewhere = Some(false);
        for (state, path_inside, cgroup_id, place) in [
            (State::Alive, inside, Some(7), Place::Inside),
            (State::Alive, inside, None, Place::Inside),
            (State::Alive, elsewhere, Some(3), Place::Outside),
            (State::Alive, None, None, Place::Unknown),
            (State::Zombie, inside, Some(7), Place::EndedInside),
            (State::Zombie, elsewhere, Some(3), Place::NeverInside),
            (State::Zombie, None, Some(7), Place::EndedInside),
            (State::Gone, None, Some(7), Place::EndedInside),
            (State::Gone, None, Some(3), Place::NeverInside),
            (State::Gone, None, Some(9), Place::Unknown),
            (State::Gone, None, None, Place::Unknown),
        ] {
            let seen = Seen {
                state,
                path_inside,
                cgroup_id,
                old_cgroup_id: old,
                unit_cgroup_id: unit,
            };
            assert_eq!(seen.place(), place, "{seen:?}");
        }
    }
}
