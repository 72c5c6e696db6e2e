//! Taking a failed or unwanted start back, without harm to a process that was there before.
//!
//! StopUnit would send SIGTERM to every process inside, to the innocent ones and to the caller itself. So each process goes back to the cgroup that it came
//! from, and only an empty unit is stopped. Where a process cannot go back, the unit is left to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use crate::cgroup::{Cgroup, Hierarchy, UnitPath};
use crate::process::Process;
use crate::spec::StartPlan;
use crate::unit::{ScopeName, UnitName};
use crate::{Error, ErrorKind, Result, Undo};

use super::ask::Pause;
use super::entrant::Entrant;
use super::start::{GRACE, Started};
use super::wait::JobEnd;
use super::{Client, deadline_after};

/// How often the unit's processes are read again: a process that is moved back may have forked in between.
const ROUNDS: u32 = 20;

/// How long an undo that systemd did not answer is tried again in the background.
const LATEST: Duration = Duration::from_secs(5 * 60);

impl Started {
    /// Takes a start back that nobody wants any more.
    pub(super) async fn undo(self) {
        let Self {
            client,
            plan,
            entrants,
            created,
            ..
        } = self;
        let undo = client.undo(plan, entrants, created).await;
        tracing::debug!(?undo, "nobody waited for the start any more: undone");
    }
}

impl Client {
    /// Bounded by a deadline of its own. `created`: the unit is this start's own, not a joined one.
    ///
    /// If systemd does not answer, it may still carry the start out: then this goes on in the background for some minutes.
    pub(super) async fn undo(
        self: Arc<Self>,
        plan: StartPlan,
        entrants: Vec<Entrant>,
        created: bool,
    ) -> Undo {
        let mut undo = Undo::default();
        let deadline = deadline_after(GRACE);
        let Err(error) = self
            .take_back(&plan, &entrants, created, deadline, &mut undo)
            .await
        else {
            return undo;
        };
        tracing::warn!(unit = %plan.unit, %error, "the start could not be undone yet, trying again in the background");
        tokio::spawn(
            async move {
                let latest = deadline_after(LATEST);
                let mut pause = Pause::new();
                while Instant::now() < latest {
                    pause.wait(latest).await;
                    let mut undo = Undo::default();
                    let taken_back = self.take_back(&plan, &entrants, created, latest, &mut undo);
                    match taken_back.await {
                        Ok(()) => return,
                        Err(error) => tracing::debug!(%error, "still not undone"),
                    }
                }
                tracing::warn!(unit = %plan.unit, "the start could not be undone: look for the unit and stop it if it is empty");
            }
            .in_current_span(),
        );
        undo
    }

    async fn take_back(
        &self,
        plan: &StartPlan,
        entrants: &[Entrant],
        created: bool,
        deadline: Instant,
        undo: &mut Undo,
    ) -> Result<()> {
        self.move_back(&plan.unit, entrants, undo).await?;
        if !created {
            return Ok(());
        }
        let unit = &plan.unit;
        let state = self.unit_state(unit.as_str(), deadline).await?;
        if !state.is_loaded() || !state.is_ours(plan.nonce) {
            return Ok(());
        }
        if let Some((id, path)) = state.job {
            // While a job is pending it may still put the processes inside, and a stop would then signal them.
            self.end_job(unit, id, &path, deadline).await?;
            self.move_back(unit, entrants, undo).await?;
        }
        if let Some(cgroup) = self.unit_cgroup(unit, deadline).await?
            && !self.empty(&cgroup, entrants, undo).await?
        {
            return Ok(());
        }
        if !undo.left_inside.is_empty() {
            return Ok(());
        }
        self.stop_empty(unit, deadline).await?;
        undo.unit_stopped = true;
        Ok(())
    }

    /// Cancels a job and waits until it is gone.
    async fn end_job(
        &self,
        unit: &ScopeName,
        id: u32,
        path: &str,
        deadline: Instant,
    ) -> Result<()> {
        self.cancel_job(id, deadline).await?;
        match self
            .poll_job_end(unit.as_str(), Some(path), None, deadline)
            .await
        {
            JobEnd::Gone(_) | JobEnd::Result(_) => Ok(()),
            JobEnd::Expired(problem) => Err(problem.unwrap_or_else(|| {
                Error::new(
                    ErrorKind::Timeout,
                    format!("job {id} of {unit} was cancelled and does not end"),
                )
            })),
        }
    }

    /// The given processes themselves, as far as they are in the unit: one that somebody else has moved since is no longer this start's to move.
    async fn move_back(
        &self,
        unit: &ScopeName,
        entrants: &[Entrant],
        undo: &mut Undo,
    ) -> Result<()> {
        let hierarchy = self.hierarchy().await?;
        let root = self.current().and_then(|link| link.peer.root());
        let unit = UnitPath::new(root.as_ref(), unit.as_str());
        for entrant in entrants {
            let Some(old) = entrant.from.unified() else {
                continue;
            };
            let now = entrant.process.cgroup()?;
            match now.as_ref().and_then(|cgroup| cgroup.unified()) {
                Some(path) if path != old && unit.root_of(path).is_some() => {}
                _ => continue,
            }
            let moved = put_back(hierarchy, entrant, old, &entrant.process).await;
            note(moved, &entrant.process, undo);
        }
        Ok(())
    }

    /// What is (still) in the unit: the processes, and descendants of theirs, which go where their ancestor came from. Anybody else keeps the unit. Whether nothing is left.
    async fn empty(&self, unit: &Cgroup, entrants: &[Entrant], undo: &mut Undo) -> Result<bool> {
        let hierarchy = self.hierarchy().await?;
        for _ in 0..ROUNDS {
            let pids = match unit.processes() {
                Ok(pids) => pids,
                Err(error) if error.kind() == ErrorKind::CgroupGone => return Ok(true),
                Err(error) => return Err(error),
            };
            if pids.is_empty() {
                return Ok(true);
            }
            for pid in pids {
                let Ok(process) = Process::open(pid) else {
                    continue;
                };
                // The number may have become another process's since it was listed, and that one is none of ours.
                if unit.contains(&process)? != Some(true) {
                    continue;
                }
                let mut origin = None;
                for entrant in entrants {
                    let own = entrant.process.pid();
                    if pid == own || process.is_descendant_of(own)? {
                        origin = entrant.from.unified().map(|old| (entrant, old));
                    }
                }
                let Some((entrant, old)) = origin else {
                    if !undo.left_inside.contains(&pid) {
                        undo.left_inside.push(pid);
                    }
                    continue;
                };
                let moved = put_back(hierarchy, entrant, old, &process).await;
                note(moved, &process, undo);
            }
            if !undo.left_inside.is_empty() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    async fn unit_cgroup(&self, unit: &ScopeName, deadline: Instant) -> Result<Option<Cgroup>> {
        let Some(path) = self
            .control_group(&UnitName::from(unit.clone()), deadline)
            .await?
        else {
            return Ok(None);
        };
        match self.hierarchy().await?.open(&path) {
            Ok(dir) => Ok(Some(Cgroup::new(dir, path))),
            Err(error) if error.kind() == ErrorKind::CgroupGone => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops a unit without a process and frees its name.
    async fn stop_empty(&self, unit: &ScopeName, deadline: Instant) -> Result<()> {
        self.stop_unit(unit, deadline).await?;
        self.reset_failed(unit.as_str(), deadline).await?;
        let mut pause = Pause::short();
        while self.unit_state(unit.as_str(), deadline).await?.is_loaded()
            && Instant::now() < deadline
        {
            pause.wait(deadline).await;
        }
        Ok(())
    }
}

/// Into the cgroup that `entrant` came from; one of the same name that has been made since is another.
async fn put_back(
    hierarchy: &Hierarchy,
    entrant: &Entrant,
    old: &str,
    process: &Process,
) -> Result<()> {
    let dir = hierarchy.open(old)?;
    if entrant.from_id.is_some_and(|id| id != dir.id()) {
        return Err(Error::new(
            ErrorKind::CgroupGone,
            format!("{old} is not the cgroup any more that it was"),
        ));
    }
    Cgroup::new(dir, old.to_owned()).add_process(process).await
}

fn note(moved: Result<()>, process: &Process, undo: &mut Undo) {
    let pid = process.pid();
    if undo.left_inside.contains(&pid) || undo.moved_back.contains(&pid) {
        return;
    }
    match moved {
        Ok(()) => undo.moved_back.push(pid),
        Err(error) if error.kind() == ErrorKind::ProcessGone => {}
        Err(error) => {
            tracing::debug!(pid, %error, "cannot be put back");
            undo.left_inside.push(pid);
        }
    }
}
