//! After the job: are the processes inside? The kernel is asked, systemd only where the kernel no longer knows.

use std::time::Duration;

use tokio::time::Instant;

use crate::cgroup::{Cgroup, ProcCgroup, UnitPath};
use crate::process::{Process, State};
use crate::spec::Descendants;
use crate::unit::UnitName;
use crate::{Error, ErrorKind, Result};

use super::ask::Pause;
use super::deadline_after;
use super::entrant::Entrant;
use super::place::{Place, Seen};
use super::start::Start;

/// How often a process that is still outside is written into `cgroup.procs`.
const WRITES: u32 = 3;
/// How often the descendants are read again while they are moved. A process that forks faster than this reads is named in the error.
const DESCENDANT_ROUNDS: u32 = 100;
/// How long systemd may take to notice that a scope is empty.
const EMPTY_NOTICE: Duration = Duration::from_secs(2);

/// A start whose processes are inside, or ran there.
pub(super) struct Verified {
    pub(super) cgroup: Option<Cgroup>,
    pub(super) ended: Vec<u32>,
}

impl Start {
    pub(super) async fn verify(&mut self) -> Result<Verified> {
        let begun = Instant::now();
        tracing::Span::current().record("phase", "verify");
        let verified = self.place_all().await;
        self.timings.verify += begun.elapsed();
        verified
    }

    async fn place_all(&mut self) -> Result<Verified> {
        let link = self
            .client
            .connection(self.client.call_deadline_within(self.deadline))
            .await?;
        let root = link.peer.root();
        let name = self.plan.unit.clone();
        let unit_path = UnitPath::new(root.as_ref(), name.as_str());
        let likely = self
            .plan
            .slice
            .as_ref()
            .zip(root.as_ref())
            .map(|(slice, root)| {
                let below = format!("{}/{}", slice.path(), self.plan.unit.cgroup_dir_name());
                root.map(&below)
            });
        let mut unit = Unit {
            path: unit_path,
            likely,
            cgroup: None,
        };
        let mut ended = Vec::new();
        for at in 0..self.entrants.len() {
            match self.place(at, &mut unit).await? {
                Place::Inside => {}
                Place::EndedInside => ended.push(self.entrants[at].process.pid()),
                Place::NeverInside => return Err(never_inside(&self.entrants[at].process)),
                Place::Outside => {
                    return Err(Error::new(
                        ErrorKind::Cgroup,
                        format!(
                            "process {} stayed outside {}: it is in {}",
                            self.entrants[at].process.pid(),
                            self.plan.unit,
                            whereabouts(&self.entrants[at].process)
                        ),
                    ));
                }
                Place::Unknown => {
                    if !self.has_been_inside(&mut unit).await? {
                        return Err(never_inside(&self.entrants[at].process));
                    }
                    ended.push(self.entrants[at].process.pid());
                }
            }
        }
        if let Some(cgroup) = &unit.cgroup {
            self.descendants(cgroup).await?;
        }
        Ok(Verified {
            cgroup: unit.cgroup,
            ended,
        })
    }

    /// Where one process is; one that is still outside is written into the unit's cgroup.
    async fn place(&self, at: usize, unit: &mut Unit<'_>) -> Result<Place> {
        let entrant = &self.entrants[at];
        for _ in 0..WRITES {
            let place = self.look(entrant, unit).await?.place();
            if place != Place::Outside {
                return Ok(place);
            }
            let Some(cgroup) = self.unit_cgroup(unit).await? else {
                return Ok(place);
            };
            tracing::debug!(
                pid = entrant.process.pid(),
                "still outside after the job: writing cgroup.procs"
            );
            match cgroup.add_process(&entrant.process).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::ProcessGone => {
                    // One that is on its way out counts as alive a moment longer, and stays where it is.
                    return Ok(match self.look(entrant, unit).await?.place() {
                        Place::Outside => Place::NeverInside,
                        place => place,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.look(entrant, unit).await?.place())
    }

    /// Reads what the kernel says of one process, and opens the unit's cgroup when a process is first seen there.
    async fn look(&self, entrant: &Entrant, unit: &mut Unit<'_>) -> Result<Seen> {
        let process = &entrant.process;
        if let Some(likely) = unit.likely.take()
            && let Some(cgroup) = self.open(&likely).await.ok().flatten()
            && process.cgroup_id() == Some(cgroup.id())
        {
            unit.cgroup = Some(cgroup);
            return Ok(entrant.seen(Some(true)));
        }
        if unit.cgroup.is_none() {
            // Where it is comes first: a process that ends in between is then judged by where it was while it ran.
            let now = process.cgroup()?;
            let path = now.as_ref().and_then(ProcCgroup::unified);
            let root = path.and_then(|path| unit.path.root_of(path));
            if let Some(root) = root {
                unit.cgroup = self.open(root).await?;
            }
            if unit.cgroup.is_none() {
                return Ok(entrant.seen(path.map(|_| root.is_some())));
            }
        }
        let inside = match &unit.cgroup {
            Some(cgroup) => cgroup.contains(process)?,
            None => None,
        };
        Ok(entrant.seen(inside))
    }

    /// The unit's cgroup, through systemd's own word where no process is inside yet.
    async fn unit_cgroup<'a>(&self, unit: &'a mut Unit<'_>) -> Result<Option<&'a Cgroup>> {
        if unit.cgroup.is_none()
            && let Some(path) = self
                .client
                .control_group(&UnitName::from(self.plan.unit.clone()), self.deadline)
                .await?
        {
            unit.cgroup = self.open(&path).await?;
        }
        Ok(unit.cgroup.as_ref())
    }

    /// `None`: it is gone.
    async fn open(&self, proc_path: &str) -> Result<Option<Cgroup>> {
        match self.client.hierarchy().await?.open(proc_path) {
            Ok(dir) => Ok(Some(Cgroup::new(dir, proc_path.to_owned()))),
            Err(error) if error.kind() == ErrorKind::CgroupGone => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A process ended, and nothing that is left of it tells where.
    async fn has_been_inside(&self, unit: &mut Unit<'_>) -> Result<bool> {
        if !self.created {
            // It was put into a running unit, which was answered without an error.
            return Ok(true);
        }
        // Alone in a unit of its own, and somebody is in there: its children.
        if self.entrants.len() == 1
            && let Some(cgroup) = self.unit_cgroup(unit).await?
            && cgroup.events().is_ok_and(|events| events.populated)
        {
            return Ok(true);
        }
        self.unit_ended().await
    }

    /// A process ended and nothing tells where. A unit that ends by itself had a process inside; one that stays active never had.
    async fn unit_ended(&self) -> Result<bool> {
        let deadline = deadline_after(EMPTY_NOTICE).min(self.deadline);
        let mut pause = Pause::short();
        loop {
            let state = self
                .client
                .unit_state(self.plan.unit.as_str(), self.deadline)
                .await?;
            if !state.is_active() || !state.is_ours(self.plan.nonce) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            pause.wait(deadline).await;
        }
    }

    /// Children that were forked before their parent was inside.
    async fn descendants(&self, cgroup: &Cgroup) -> Result<()> {
        if self.plan.descendants == Descendants::Leave {
            return Ok(());
        }
        for _ in 0..DESCENDANT_ROUNDS {
            let outside = outside(&self.entrants, cgroup)?;
            if outside.is_empty() {
                return Ok(());
            }
            if self.plan.descendants == Descendants::Refuse {
                return Err(left_behind(&self.plan.unit, &outside));
            }
            for process in &outside {
                match cgroup.add_process(process).await {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::ProcessGone => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let outside = outside(&self.entrants, cgroup)?;
        if outside.is_empty() {
            return Ok(());
        }
        Err(left_behind(&self.plan.unit, &outside))
    }
}

/// The unit as far as it has been seen.
struct Unit<'a> {
    path: UnitPath<'a>,
    /// Where its cgroup may well be. Only the kernel's number of the process's cgroup makes it more than that.
    likely: Option<String>,
    cgroup: Option<Cgroup>,
}

/// The descendants of the processes that run outside the unit.
fn outside(entrants: &[Entrant], unit: &Cgroup) -> Result<Vec<Process>> {
    let mut outside = Vec::new();
    for entrant in entrants {
        for process in entrant.process.descendants()? {
            if unit.contains(&process)? == Some(false) && process.state() == State::Alive {
                outside.push(process);
            }
        }
    }
    Ok(outside)
}

fn left_behind(unit: &crate::unit::ScopeName, outside: &[Process]) -> Error {
    let pids: Vec<String> = outside.iter().map(|p| p.pid().to_string()).collect();
    Error::new(
        ErrorKind::DescendantsOutside,
        format!(
            "{unit} does not hold process {}: forked before the parent was moved; have the descendants moved too, or left",
            pids.join(", ")
        ),
    )
}

fn never_inside(process: &Process) -> Error {
    Error::new(
        ErrorKind::ProcessGone,
        format!("process {} ended before it was inside", process.pid()),
    )
}

fn whereabouts(process: &Process) -> String {
    match process.cgroup() {
        Ok(Some(cgroup)) => cgroup.unified().unwrap_or("no cgroup2").to_owned(),
        Ok(None) | Err(_) => "an unknown cgroup".to_owned(),
    }
}
