//! A unit of the wanted name exists already: what the policy makes of that.

use tokio::time::Instant;

use crate::cgroup::Cgroup;
use crate::spec::{IfExists, parse};
use crate::unit::UnitName;
use crate::{Error, ErrorKind, Phase, Result};

use super::ask::Pause;
use super::start::Start;
use super::stop::Identity;
use super::unit_state::UnitState;

/// How often a name that is free when one looks may turn out to be taken.
const TRIES: u32 = 5;

/// How a start goes on after UnitExists.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The name is free, or may be: send the call again.
    Retry,
    /// It is our own unit: an earlier call was taken whose reply was lost.
    Ours,
    /// The processes have been put into the existing unit.
    Joined,
}

impl Start {
    /// `count`: how often this start has met the answer.
    pub(super) async fn on_unit_exists(&mut self, error: Error, count: u32) -> Result<Next> {
        let unit = self.plan.unit.as_str();
        let state = self.client.unit_state(unit, self.deadline).await?;
        if state.is_ours(self.plan.nonce) {
            return Ok(Next::Ours);
        }
        // Gone since the answer: the name is free.
        if !state.is_loaded() && count < TRIES {
            return Ok(Next::Retry);
        }
        match self.plan.if_exists {
            IfExists::Fail => {
                Err(self.exists(error, &state, "choose another name or another policy"))
            }
            IfExists::ResetFailed if count > 1 => {
                Err(self.exists(error, &state, "it is still there after a reset"))
            }
            IfExists::ResetFailed if state.is_failed() => {
                self.client.reset_failed(unit, self.deadline).await?;
                Ok(Next::Retry)
            }
            // Gone since the answer, or about to be collected.
            IfExists::ResetFailed if !state.is_loaded() || state.active == "inactive" => {
                Ok(Next::Retry)
            }
            IfExists::ResetFailed => Err(self.exists(
                error,
                &state,
                "stop it, choose another name, or wait for it or join it by another policy",
            )),
            IfExists::WaitGone => self.wait_gone(error, state).await,
            IfExists::Attach => match self.join(error, state).await {
                // It ended while it was being joined.
                Err(error)
                    if error.kind() == ErrorKind::CgroupGone && Instant::now() < self.deadline =>
                {
                    self.created = true;
                    self.identity = Identity::Nonce(self.plan.nonce);
                    Pause::short().wait(self.deadline).await;
                    Ok(Next::Retry)
                }
                joined => joined,
            },
        }
    }

    fn exists(&self, error: Error, state: &UnitState, advice: &str) -> Error {
        let mut exists = Error::new(
            ErrorKind::UnitExists,
            format!("{} exists and is {state}: {advice}", self.plan.unit),
        )
        .at(Phase::Call);
        if let Some(name) = error.dbus_name() {
            exists = exists.with_dbus_name(name);
        }
        exists
    }

    /// Waits until the name of a dying unit is free.
    async fn wait_gone(&mut self, error: Error, mut state: UnitState) -> Result<Next> {
        let unit = self.plan.unit.as_str();
        let mut pause = Pause::short();
        loop {
            if !state.is_loaded() {
                return Ok(Next::Retry);
            }
            if Instant::now() >= self.deadline {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "{unit} is {state} without a process, and its name was not free within {:?}; stop it if nobody needs it",
                        self.plan.start_timeout
                    ),
                )
                .at(Phase::Call));
            }
            if state.is_failed() {
                self.client.reset_failed(unit, self.deadline).await?;
            } else if self.is_running(&state).await? {
                return Err(self.exists(
                    error,
                    &state,
                    "it has processes, so it will not go away by itself",
                ));
            }
            pause.wait(self.deadline).await;
            state = match self.client.unit_state(unit, self.deadline).await {
                Ok(state) => state,
                // Time ran out over the question: what was seen last is what is told.
                Err(_) if Instant::now() >= self.deadline => continue,
                Err(error) => return Err(error),
            };
            if state.is_ours(self.plan.nonce) {
                return Ok(Next::Ours);
            }
        }
    }

    /// Whether an existing unit has processes and no stop under way. A dying unit still reads `active`, so its cgroup decides.
    async fn is_running(&self, state: &UnitState) -> Result<bool> {
        if !state.is_active() && state.active != "activating" {
            return Ok(false);
        }
        if state.active == "activating" || state.job.is_some() {
            // A start or stop job is about to change it: neither dying nor for good.
            return Ok(false);
        }
        let Some(path) = self.existing_cgroup().await? else {
            return Ok(false);
        };
        let dir = match self.client.hierarchy().await?.open(&path) {
            Ok(dir) => dir,
            Err(error) if error.kind() == ErrorKind::CgroupGone => return Ok(false),
            Err(error) => return Err(error),
        };
        match Cgroup::new(dir, path).events() {
            Ok(events) => Ok(events.populated),
            Err(error) if error.kind() == ErrorKind::CgroupGone => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The cgroup of the existing unit, as the caller reads it; `None` if it has none (any more).
    async fn existing_cgroup(&self) -> Result<Option<String>> {
        self.client
            .control_group(&UnitName::from(self.plan.unit.clone()), self.deadline)
            .await
    }

    /// Puts the processes into the running unit, if it is one that may be joined.
    async fn join(&mut self, error: Error, mut state: UnitState) -> Result<Next> {
        let unit = self.plan.unit.as_str().to_owned();
        let mut pause = Pause::short();
        while state.job.is_some() && Instant::now() < self.deadline {
            pause.wait(self.deadline).await;
            state = match self.client.unit_state(&unit, self.deadline).await {
                Ok(state) => state,
                Err(_) if Instant::now() >= self.deadline => break,
                Err(error) => return Err(error),
            };
        }
        if !state.is_loaded() {
            return Ok(Next::Retry);
        }
        if !state.is_active() || state.job.is_some() {
            return Err(self.exists(
                error,
                &state,
                "it cannot be joined, since it is not running",
            ));
        }
        let link = self
            .client
            .connection(self.client.call_deadline_within(self.deadline))
            .await?;
        let deadline = self.client.call_deadline_within(self.deadline);
        let unit_name = UnitName::from(self.plan.unit.clone());
        if link.scope_is_delegated(&unit_name, deadline).await? {
            link.peer.check_same_pid_namespace()?;
            self.joining(&state).await?;
            link.attach_processes(&unit, self.pids(), deadline).await?;
            return Ok(Next::Joined);
        }
        if !state.is_marked() {
            return Err(self.exists(
                error,
                &state,
                "it cannot be joined, since it is neither delegated nor started by scopectl",
            ));
        }
        let Some(path) = self.existing_cgroup().await? else {
            return Ok(Next::Retry);
        };
        let dir = self.client.hierarchy().await?.open(&path)?;
        let cgroup = Cgroup::new(dir, path);
        self.joining(&state).await?;
        for entrant in &self.entrants {
            cgroup.add_process(&entrant.process).await?;
        }
        Ok(Next::Joined)
    }

    /// From here on the unit is somebody else's: it is not stopped by an undo, and known by its own mark.
    async fn joining(&mut self, state: &UnitState) -> Result<()> {
        self.identity = match parse(&state.description) {
            Some((_, nonce)) => Identity::Nonce(nonce),
            None => Identity::Invocation(
                self.client
                    .invocation_id(&self.plan.unit, self.deadline)
                    .await?,
            ),
        };
        self.created = false;
        Ok(())
    }
}
