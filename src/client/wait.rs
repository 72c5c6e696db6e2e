//! Waiting for a job's end: the signal, or where signals may have been missed, systemd's own word.

use tokio::time::Instant;

use crate::job::JobResult;
use crate::{Error, ErrorKind};

use super::Client;
use super::ask::Pause;
use super::link::{Heard, PendingJob};
use super::unit_state::UnitState;

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum JobEnd {
    /// JobRemoved said so.
    Result(JobResult),
    /// No signal came, but the job is gone; this is the unit's state since.
    Gone(UnitState),
    /// The deadline passed. The last failure to ask, if the manager could not be asked.
    Expired(Option<Error>),
}

impl Client {
    /// Waits until the job of `unit` has ended.
    pub(crate) async fn job_end(
        &self,
        unit: &str,
        mut pending: PendingJob,
        deadline: Instant,
    ) -> JobEnd {
        let heard = tokio::select! {
            biased;
            heard = pending.heard() => match heard {
                Heard::Ended(result) => return JobEnd::Result(result),
                heard => heard,
            },
            () = tokio::time::sleep_until(deadline) => return JobEnd::Expired(None),
        };
        tracing::debug!(
            unit,
            job = pending.path,
            "signals may have been missed: asking"
        );
        let path = pending.path.clone();
        // A lost one has nothing more to tell, and must not be asked again.
        let pending = (heard == Heard::Disturbed).then_some(pending);
        self.poll_job_end(unit, Some(&path), pending, deadline)
            .await
    }

    /// Asks until the job `path` of `unit` (`None`: every job of it) is no longer pending. A signal, where one can still come, ends it sooner.
    pub(crate) async fn poll_job_end(
        &self,
        unit: &str,
        path: Option<&str>,
        mut pending: Option<PendingJob>,
        deadline: Instant,
    ) -> JobEnd {
        let mut pause = Pause::new();
        loop {
            let problem = match self.unit_state(unit, deadline).await {
                Ok(state) if !state.has_job(path) => return JobEnd::Gone(state),
                Ok(_) => None,
                Err(error) => Some(error),
            };
            let ended = problem
                .as_ref()
                .is_some_and(|problem| problem.kind() == ErrorKind::NoManager);
            if ended || Instant::now() >= deadline {
                return JobEnd::Expired(problem);
            }
            let Some(job) = &mut pending else {
                pause.wait(deadline).await;
                continue;
            };
            let heard = tokio::select! {
                biased;
                heard = job.heard() => heard,
                () = pause.wait(deadline) => continue,
            };
            match heard {
                Heard::Ended(result) => return JobEnd::Result(result),
                Heard::Lost => pending = None,
                Heard::Disturbed => {}
            }
        }
    }
}
