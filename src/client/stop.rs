//! Ending a unit: processes, job, failed state, directory. Idempotent; a unit that is not there is a success, every other failure is reported.

use std::time::Duration;

use tokio::time::Instant;

use crate::cgroup::{Cgroup, remove_tree};
use crate::job::JobResult;
use crate::spec::{Nonce, Stop};
use crate::unit::{ScopeName, UnitName};
use crate::{Error, ErrorKind, Phase, Result};

use super::ask::Pause;
use super::unit_state::UnitState;
use super::wait::JobEnd;
use super::{Client, deadline_after};

/// What a stop may take beyond the unit's own time limit.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a killed process may take to go: longer means that it hangs in the kernel.
const KILL_LIMIT: Duration = Duration::from_secs(30);
const LOST_REPLIES: u32 = 5;

/// Tells a unit from a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Started by us: the nonce in its description.
    Nonce(Nonce),
    /// Adopted: systemd's own number for one run of a unit.
    Invocation(Vec<u8>),
}

impl Client {
    /// Ends `unit` as long as it is the one of this identity.
    pub(crate) async fn stop(
        &self,
        unit: &ScopeName,
        identity: &Identity,
        cgroup: Option<&Cgroup>,
        how: Stop,
    ) -> Result<()> {
        self.stop_phases(unit, identity, cgroup, how)
            .await
            .map_err(|e| e.with_unit(unit.as_str()).at(Phase::Stop))
    }

    async fn stop_phases(
        &self,
        unit: &ScopeName,
        identity: &Identity,
        cgroup: Option<&Cgroup>,
        how: Stop,
    ) -> Result<()> {
        self.check_caller()?;
        let asking = self.call_deadline();
        if self.same_unit(unit, identity, asking).await?.is_none() {
            return self.end_orphans(unit, cgroup, how).await;
        }
        let job_limit = match how {
            Stop::Graceful {
                signal: None,
                timeout: None,
            } => self.stop_timeout(unit, asking).await?,
            Stop::Graceful { signal, timeout } => {
                self.signal_then_kill(unit, cgroup, signal, timeout).await?;
                self.options.call_timeout
            }
            Stop::Kill => {
                self.kill(unit, cgroup).await?;
                self.options.call_timeout
            }
        };
        let deadline = deadline_after(job_limit.saturating_add(MARGIN));
        if self.same_unit(unit, identity, deadline).await?.is_some() {
            self.stop_unit(unit, deadline).await?;
        }
        // A unit that ended in a failure keeps its name until it is reset.
        let cleaning = deadline_after(MARGIN);
        if self
            .same_unit(unit, identity, cleaning)
            .await?
            .is_some_and(|state| state.is_failed())
        {
            self.reset_failed(unit.as_str(), cleaning).await?;
        }
        match cgroup {
            Some(cgroup) => self.removed(cgroup).await,
            None => Ok(()),
        }
    }

    /// systemd does not know the unit (any more). Its processes may be there all the same: a manager that was killed leaves them.
    async fn end_orphans(
        &self,
        unit: &ScopeName,
        cgroup: Option<&Cgroup>,
        how: Stop,
    ) -> Result<()> {
        let Some(cgroup) = cgroup else {
            return Ok(());
        };
        match cgroup.events() {
            Ok(events) if events.populated => {}
            _ => return Ok(()),
        }
        if how == Stop::Kill {
            return self.kill(unit, Some(cgroup)).await;
        }
        Err(Error::new(
            ErrorKind::UnitNotReady,
            format!(
                "systemd no longer knows this {unit}, but there are processes in {}: kill them if they may be killed",
                cgroup.path().display()
            ),
        ))
    }

    /// The unit's state, if it is loaded and the one that is meant.
    pub(crate) async fn same_unit(
        &self,
        unit: &ScopeName,
        identity: &Identity,
        deadline: Instant,
    ) -> Result<Option<UnitState>> {
        let state = self.unit_state(unit.as_str(), deadline).await?;
        if !state.is_loaded() {
            return Ok(None);
        }
        let same = match identity {
            Identity::Nonce(nonce) => state.is_ours(*nonce),
            Identity::Invocation(id) => match self.invocation_id(unit, deadline).await {
                Ok(now) => now == *id,
                Err(error) if error.kind() == ErrorKind::NoSuchUnit => false,
                Err(error) => return Err(error),
            },
        };
        Ok(same.then_some(state))
    }

    pub(crate) async fn invocation_id(
        &self,
        unit: &ScopeName,
        deadline: Instant,
    ) -> Result<Vec<u8>> {
        let name = &UnitName::from(unit.clone());
        self.ask(deadline, |link, deadline| async move {
            link.invocation_id(name, deadline).await
        })
        .await
    }

    /// The unit's own `TimeoutStopUSec=`; `infinity` counts as a day, since every wait is bounded.
    async fn stop_timeout(&self, unit: &ScopeName, deadline: Instant) -> Result<Duration> {
        let name = &UnitName::from(unit.clone());
        let asked = self
            .ask(deadline, |link, deadline| async move {
                link.scope_timeout_stop_usec(name, deadline).await
            })
            .await;
        match asked {
            Ok(usec) => Ok(Duration::from_micros(usec)),
            Err(error) if error.kind() == ErrorKind::NoSuchUnit => Ok(Duration::ZERO),
            Err(error) => Err(error),
        }
    }

    async fn signal_then_kill(
        &self,
        unit: &ScopeName,
        cgroup: Option<&Cgroup>,
        signal: Option<i32>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let asking = self.call_deadline();
        let name = &UnitName::from(unit.clone());
        let timeout = match timeout {
            Some(timeout) => timeout,
            None => self.stop_timeout(unit, asking).await?,
        };
        let signal = match signal {
            Some(signal) => signal,
            None => {
                self.ask(asking, |link, deadline| async move {
                    link.scope_kill_signal(name, deadline).await
                })
                .await?
            }
        };
        let sent = self
            .ask(asking, |link, deadline| async move {
                link.kill_unit(unit.as_str(), signal, deadline).await
            })
            .await;
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NoSuchUnit => return Ok(()),
            Err(error) => return Err(error),
        }
        let Some(cgroup) = cgroup else {
            return Ok(());
        };
        if cgroup.wait_unpopulated(deadline_after(timeout)).await? {
            return Ok(());
        }
        self.kill(unit, Some(cgroup)).await
    }

    /// SIGKILL to everything inside, until nothing is left.
    async fn kill(&self, unit: &ScopeName, cgroup: Option<&Cgroup>) -> Result<()> {
        let Some(cgroup) = cgroup else {
            return Ok(());
        };
        let deadline = deadline_after(KILL_LIMIT);
        match cgroup.kill_all(deadline).await {
            Err(error) if error.kind() == ErrorKind::CgroupGone => Ok(()),
            // The caller may not write there: systemd does it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                const SIGKILL: i32 = 9;
                self.ask(self.call_deadline(), |link, deadline| async move {
                    link.kill_unit(unit.as_str(), SIGKILL, deadline).await
                })
                .await?;
                if cgroup.wait_unpopulated(deadline).await? {
                    return Ok(());
                }
                Err(error)
            }
            killed => killed,
        }
    }

    /// StopUnit and its job.
    pub(super) async fn stop_unit(&self, unit: &ScopeName, deadline: Instant) -> Result<()> {
        for _ in 0..LOST_REPLIES {
            let within = self.call_deadline_within(deadline);
            let queued = match self.connection(within).await {
                Ok(link) => link.queue_job(link.stop_unit(unit.as_str(), within)).await,
                Err(error) => Err(error),
            };
            let end = match queued {
                Ok(pending) => self.job_end(unit.as_str(), pending, deadline).await,
                Err(error) if error.kind() == ErrorKind::NoSuchUnit => return Ok(()),
                // Whether a call without an answer was taken is systemd's to say.
                Err(error)
                    if error.is_lost_connection() || error.kind() == ErrorKind::CallTimeout =>
                {
                    let asking = deadline.max(deadline_after(MARGIN));
                    let state = self.unit_state(unit.as_str(), asking).await?;
                    if !state.is_loaded() {
                        return Ok(());
                    }
                    if state.job.is_none() && state.is_active() && Instant::now() < deadline {
                        continue;
                    }
                    self.poll_job_end(unit.as_str(), None, None, deadline).await
                }
                Err(error) => return Err(error),
            };
            return match end {
                JobEnd::Result(JobResult::Done) => Ok(()),
                JobEnd::Gone(state) if !state.is_active() => Ok(()),
                // The lost reply was to a call that was not taken.
                JobEnd::Gone(_) => continue,
                JobEnd::Result(result) => Err(Error::new(
                    ErrorKind::JobFailed,
                    format!("systemd's stop job for {unit} ended in `{result}`"),
                )
                .with_job_result(result)),
                JobEnd::Expired(problem) => {
                    // The signal may have been lost: systemd's own word decides.
                    let asking = deadline_after(MARGIN);
                    if let Ok(state) = self.unit_state(unit.as_str(), asking).await
                        && state.job.is_none()
                        && !state.is_active()
                    {
                        return Ok(());
                    }
                    let error = Error::new(
                        ErrorKind::Timeout,
                        format!(
                            "{unit} was not stopped in time: its stop job had not ended; kill it if it may be killed"
                        ),
                    );
                    Err(match problem {
                        Some(problem) => error.with_source(problem),
                        None => error,
                    })
                }
            };
        }
        Err(Error::new(
            ErrorKind::ConnectionLost,
            format!(
                "{unit} could not be stopped: the connection to the manager was lost {LOST_REPLIES} times"
            ),
        ))
    }

    /// systemd removes the directory when the unit's last process is gone. What it leaves (subgroups, on some versions) is removed here.
    async fn removed(&self, cgroup: &Cgroup) -> Result<()> {
        let deadline = deadline_after(MARGIN);
        let mut pause = Pause::short();
        while cgroup.exists() {
            if Instant::now() >= deadline {
                let (parent, name) = cgroup
                    .proc_path()
                    .rsplit_once('/')
                    .unwrap_or(("", cgroup.proc_path()));
                // A scope in the root slice of a namespace's own manager.
                let parent = if parent.is_empty() { "/" } else { parent };
                return remove_tree(&self.hierarchy().await?.open(parent)?, name);
            }
            pause.wait(deadline).await;
        }
        Ok(())
    }
}
