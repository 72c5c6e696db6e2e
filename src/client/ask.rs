//! Questions about a unit, and small requests, that are made again on a new connection when the old one is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::unit::UnitName;
use crate::{ErrorKind, Result};

use super::Client;
use super::link::Link;
use super::unit_state::UnitState;

/// How long a manager may be away before it counts as ended: one that executes itself again, or whose bus is started again, is back sooner.
const PATIENCE: Duration = Duration::from_secs(3);

impl Client {
    /// The unit's state. A lost connection or a restarting manager is waited out until `deadline`.
    pub(crate) async fn unit_state(&self, unit: &str, deadline: Instant) -> Result<UnitState> {
        self.ask(deadline, |link, deadline| async move {
            link.unit_state(unit, deadline).await
        })
        .await
    }

    /// The unit's cgroup as the caller reads it in `/proc/PID/cgroup`; `None` if it has none or is not loaded.
    pub(crate) async fn control_group(
        &self,
        unit: &UnitName,
        deadline: Instant,
    ) -> Result<Option<String>> {
        let asked = self
            .ask(deadline, |link, deadline| async move {
                match link.control_group(unit, deadline).await? {
                    path if path.is_empty() => Ok(None),
                    path => link.map(&path, deadline).await.map(Some),
                }
            })
            .await;
        match asked {
            Err(error) if error.kind() == ErrorKind::NoSuchUnit => Ok(None),
            answer => answer,
        }
    }

    /// Takes a failed unit out of systemd's memory. One that is not loaded is no error.
    pub(crate) async fn reset_failed(&self, unit: &str, deadline: Instant) -> Result<()> {
        let asked = self
            .ask(deadline, |link, deadline| async move {
                link.reset_failed_unit(unit, deadline).await
            })
            .await;
        match asked {
            Err(error) if error.kind() == ErrorKind::NoSuchUnit => Ok(()),
            answer => answer,
        }
    }

    /// Cancels a job. One that has ended is no error.
    pub(crate) async fn cancel_job(&self, id: u32, deadline: Instant) -> Result<()> {
        self.ask(deadline, |link, deadline| async move {
            link.cancel_job(id, deadline).await
        })
        .await
    }

    /// Makes a call that may be made twice, until it is answered.
    pub(super) async fn ask<T, Answer>(
        &self,
        deadline: Instant,
        call: impl Fn(Arc<Link>, Instant) -> Answer,
    ) -> Result<T>
    where
        Answer: Future<Output = Result<T>>,
    {
        let mut pause = Pause::new();
        let patient_until = deadline.min(Instant::now() + PATIENCE);
        loop {
            let within = self.call_deadline_within(deadline);
            let answer = match self.connection(within).await {
                Ok(link) => call(link, within).await,
                Err(error) => Err(error),
            };
            match answer {
                Err(error)
                    if error.kind() == ErrorKind::NoManager && Instant::now() >= patient_until =>
                {
                    return Err(error);
                }
                Err(error) if error.is_lost_connection() && Instant::now() < deadline => {
                    pause.wait(deadline).await;
                }
                answer => return answer,
            }
        }
    }
}

/// Growing pauses between two questions: 50 to 500 ms, doubled each time.
pub(crate) struct Pause(Duration);

impl Pause {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_millis(500);

    pub(crate) fn new() -> Self {
        Self(Self::FIRST)
    }

    /// For what is expected to end in milliseconds: from 1 ms.
    pub(crate) fn short() -> Self {
        Self(Duration::from_millis(1))
    }

    /// Waits, not beyond `deadline`.
    pub(crate) async fn wait(&mut self, deadline: Instant) {
        tokio::time::sleep_until((Instant::now() + self.0).min(deadline)).await;
        self.0 = (self.0 * 2).min(Self::LONGEST);
    }
}
