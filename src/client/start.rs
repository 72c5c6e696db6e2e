//! Starting a scope: match, call, job, verify; and what to do when one of them does not go as wished.
//!
//! The whole start runs in a task of its own. A caller that stops waiting only detaches: the task brings the start to an end and then undoes it, so that
//! no unit is left half made.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use crate::cgroup::Cgroup;
use crate::job::JobResult;
use crate::process::Process;
use crate::property::PropertyValue;
use crate::spec::{StartPlan, Timings};
use crate::{Error, ErrorKind, Phase, Result};

use super::admission::Place;
use super::entrant::{self, Entrant};
use super::exists::Next;
use super::link::{Link, PendingJob};
use super::stop::Identity;
use super::wait::JobEnd;
use super::{Client, deadline_after};

/// What is still done after the deadline, to leave nothing behind: asking, cancelling, moving back, stopping.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How long nobody may own systemd's name on the bus before that counts as an answer. A manager that executes itself again is back after about 0.1 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long what was read of the processes counts as true.
const FRESH: Duration = Duration::from_millis(1);
/// How long a question takes at most that is asked for the sake of an error's sentence.
const ASK: Duration = Duration::from_secs(1);
/// How many lost replies one start bears, and how many answers that nobody owns the manager's name.
const LOST_REPLIES: u32 = 3;

/// A start that ended well.
pub(crate) struct Started {
    pub(crate) client: Arc<Client>,
    pub(crate) plan: StartPlan,
    /// `None`: every process has ended and the cgroup is gone.
    pub(crate) cgroup: Option<Cgroup>,
    /// The processes that ran inside and have ended.
    pub(crate) ended: Vec<u32>,
    pub(crate) timings: Timings,
    pub(super) entrants: Vec<Entrant>,
    pub(crate) identity: Identity,
    /// The unit is this start's own, not one that was joined.
    pub(super) created: bool,
}

/// The caller's end of a start. Dropping it undoes the start, now or when it is ready.
pub(crate) struct StartHandle {
    receiver: oneshot::Receiver<Result<Started>>,
    keep: bool,
    /// The future may be dropped outside of any runtime.
    runtime: tokio::runtime::Handle,
}

impl StartHandle {
    /// Must be called within a tokio runtime.
    pub(crate) fn spawn(client: Arc<Client>, plan: StartPlan, processes: Vec<Process>) -> Self {
        let (sender, receiver) = oneshot::channel();
        let keep = plan.keep_on_drop;
        let span = tracing::info_span!(
            "scope.start",
            unit = plan.unit.as_str(),
            job = tracing::field::Empty,
            phase = tracing::field::Empty
        );
        let task = async move {
            let mut sender = sender;
            let admitted = tokio::select! {
                biased;
                // Nobody waits any more, and nothing has been done.
                () = sender.closed(), if !keep => return,
                admitted = Start::admit(client, plan, processes) => admitted,
            };
            let started = match admitted {
                Ok((start, _place)) => Box::pin(start.perform()).await,
                Err(error) => Err(error),
            };
            if let Err(Ok(unwanted)) = sender.send(started)
                && !keep
            {
                unwanted.undo().await;
            }
        };
        tokio::spawn(task.instrument(span));
        let runtime = tokio::runtime::Handle::current();
        Self {
            receiver,
            keep,
            runtime,
        }
    }
}

impl Future for StartHandle {
    type Output = Result<Started>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|received| match received {
                Ok(started) => started,
                Err(_) => Err(Error::new(
                    ErrorKind::Io,
                    "the start was given up because its runtime is shutting down",
                )),
            })
    }
}

impl Drop for StartHandle {
    fn drop(&mut self) {
        // The task may have handed over the result just before nobody wanted it any more.
        self.receiver.close();
        if let Ok(Ok(unwanted)) = self.receiver.try_recv()
            && !self.keep
        {
            self.runtime.spawn(async move { unwanted.undo().await });
        }
    }
}

/// Whether it is known that systemd took the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queued {
    Yes,
    Unknown,
}

/// A start under way.
pub(super) struct Start {
    pub(super) client: Arc<Client>,
    pub(super) plan: StartPlan,
    pub(super) entrants: Vec<Entrant>,
    pub(super) deadline: Instant,
    pub(super) timings: Timings,
    /// Which unit the processes are put in.
    pub(super) identity: Identity,
    /// Whether it is this start's own.
    pub(super) created: bool,
    /// Whether a call went out that may have had, or may yet have, an effect.
    sent: bool,
}

impl Start {
    /// Checks the processes and waits for a place among the starts in flight.
    async fn admit(
        client: Arc<Client>,
        plan: StartPlan,
        processes: Vec<Process>,
    ) -> Result<(Self, Place)> {
        let check = || {
            entrant::admit(&processes, plan.allow_move)
                .map_err(|e| e.at(Phase::Validate).with_unit(plan.unit.as_str()))
        };
        let mut entrants = check()?;
        let (place, queued) = client
            .admission
            .enter(plan.queue_timeout)
            .await
            .map_err(|e| e.with_unit(plan.unit.as_str()))?;
        if queued > FRESH {
            // Where they were then is not where they are now.
            entrants = check()?;
        }
        let start = Self {
            deadline: deadline_after(plan.start_timeout),
            client,
            identity: Identity::Nonce(plan.nonce),
            plan,
            entrants,
            timings: Timings {
                queued,
                ..Timings::default()
            },
            created: true,
            sent: false,
        };
        Ok((start, place))
    }

    async fn perform(mut self) -> Result<Started> {
        let ready = match self.bring_up().await {
            Ok(()) => self.verify().await.map_err(|e| e.at(Phase::Verify)),
            Err(error) => Err(error),
        };
        match ready {
            Ok(verified) => {
                tracing::debug!(timings = ?self.timings, "ready");
                Ok(Started {
                    client: self.client,
                    plan: self.plan,
                    cgroup: verified.cgroup,
                    ended: verified.ended,
                    timings: self.timings,
                    entrants: self.entrants,
                    identity: self.identity,
                    created: self.created,
                })
            }
            Err(error) => {
                tracing::debug!(%error, "failed");
                let error = error
                    .with_unit(self.plan.unit.as_str())
                    .with_timings(self.timings);
                if !self.sent {
                    return Err(error);
                }
                let undo = self
                    .client
                    .undo(self.plan, self.entrants, self.created)
                    .await;
                Err(error.with_undo(undo))
            }
        }
    }

    /// Until the unit is active, as far as systemd says.
    async fn bring_up(&mut self) -> Result<()> {
        let mut lost_replies = 0;
        let mut existed = 0;
        let mut absences = 0;
        loop {
            entrant::all_alive(&self.entrants).map_err(|e| e.at(Phase::Validate))?;
            let begun = Instant::now();
            let link = self
                .client
                .connection(self.client.call_deadline_within(self.deadline))
                .await
                .map_err(|e| e.at(Phase::Connect))?;
            self.timings.connect += begun.elapsed();

            let begun = Instant::now();
            let called = self.call(&link).await;
            self.timings.call += begun.elapsed();
            let error = match called {
                Ok(pending) => return self.job_ends(pending).await,
                Err(error) => error.at(Phase::Call),
            };
            match error.kind() {
                ErrorKind::UnitExists => {
                    existed += 1;
                    match self.on_unit_exists(error, existed).await? {
                        Next::Retry => {}
                        Next::Ours => return self.poll_job_ends().await,
                        Next::Joined => return Ok(()),
                    }
                }
                // The reply was lost. Whether the call was taken is systemd's to say.
                ErrorKind::ConnectionLost | ErrorKind::CallTimeout => {
                    lost_replies += 1;
                    let state = match self
                        .client
                        .unit_state(self.plan.unit.as_str(), self.deadline)
                        .await
                    {
                        Ok(state) => state,
                        Err(_) => return self.settle(error, Queued::Unknown).await,
                    };
                    if state.is_ours(self.plan.nonce) {
                        return self.poll_job_ends().await;
                    }
                    if lost_replies >= LOST_REPLIES || Instant::now() >= self.deadline {
                        return self.settle(error, Queued::Unknown).await;
                    }
                }
                // Nobody has systemd's name: it is not there, or executes itself again right now. The call was not taken.
                ErrorKind::NoManager => {
                    self.sent = lost_replies > 0;
                    let patient_until = deadline_after(PATIENCE).min(self.deadline);
                    let unit = self.plan.unit.as_str();
                    let is_back = self.client.unit_state(unit, patient_until).await.is_ok();
                    absences += 1;
                    if !is_back || absences >= LOST_REPLIES {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            }
        }
    }

    /// Sends StartTransientUnit: with `PIDFDs` where this manager takes them, else with `PIDs`.
    async fn call(&mut self, link: &Link) -> Result<PendingJob> {
        let deadline = self.client.call_deadline_within(self.deadline);
        self.sent = true;
        if self.client.sends_pidfds()
            && !(self.is_caller_alone() && link.peer.shares_pids())
            && self.entrants.len() <= link.bus.most_pidfds()
        {
            let pidfds: Vec<_> = self.entrants.iter().map(|e| e.process.pidfd()).collect();
            let call = link.start_transient_scope(
                self.plan.unit.as_str(),
                &self.plan.properties,
                &pidfds,
                deadline,
            );
            match link.queue_job(call).await {
                Err(error) if error.kind() == ErrorKind::UnknownProperty => {
                    tracing::debug!(%error, "PIDFDs refused, sending PIDs");
                    self.client.pidfds_were_refused();
                }
                answer => return answer,
            }
        }
        // A number means somebody else in another pid namespace.
        link.peer.check_same_pid_namespace()?;
        let mut properties = self.plan.properties.clone();
        properties.push(("PIDs", PropertyValue::U32List(self.pids())));
        let call = link.start_transient_scope(self.plan.unit.as_str(), &properties, &[], deadline);
        link.queue_job(call).await
    }

    /// The caller waits here until the job is done, so that its number cannot become another's meanwhile: it needs no pidfd, and an older systemd is spared
    /// the question whether it takes one.
    fn is_caller_alone(&self) -> bool {
        matches!(self.entrants.as_slice(), [only] if only.process.pid() == std::process::id())
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.entrants.iter().map(|e| e.process.pid()).collect()
    }

    async fn job_ends(&mut self, pending: PendingJob) -> Result<()> {
        let span = tracing::Span::current();
        span.record("job", pending.path.as_str());
        span.record("phase", "job");
        let path = pending.path.clone();
        let begun = Instant::now();
        let end = self
            .client
            .job_end(self.plan.unit.as_str(), pending, self.deadline)
            .await;
        self.timings.job += begun.elapsed();
        self.judge(end, Some(path)).await
    }

    /// The unit is ours, but its job's path is not known or not tracked for us.
    async fn poll_job_ends(&mut self) -> Result<()> {
        let begun = Instant::now();
        let end = self
            .client
            .poll_job_end(self.plan.unit.as_str(), None, None, self.deadline)
            .await;
        self.timings.job += begun.elapsed();
        self.judge(end, None).await
    }

    /// What the job's end means. `Ok`: the processes themselves tell the rest.
    async fn judge(&mut self, end: JobEnd, job: Option<String>) -> Result<()> {
        match end {
            JobEnd::Result(JobResult::Done) => Ok(()),
            JobEnd::Result(result) => Err(self.job_failed(result)),
            JobEnd::Gone(state) if state.is_failed() && state.is_ours(self.plan.nonce) => {
                Err(self.job_failed(JobResult::Failed))
            }
            // Active, or ended and collected since, or another's by now.
            JobEnd::Gone(_) => Ok(()),
            // Not late, but gone: nobody is left to carry anything out.
            JobEnd::Expired(Some(problem)) if problem.kind() == ErrorKind::NoManager => {
                Err(problem.at(Phase::Job))
            }
            JobEnd::Expired(problem) => {
                let mut error = Error::new(
                    ErrorKind::Timeout,
                    format!(
                        "{} was not started within {:?}: {}",
                        self.plan.unit,
                        self.plan.start_timeout,
                        self.what_the_job_does(job.as_deref()).await
                    ),
                )
                .at(Phase::Job);
                if let Some(problem) = problem {
                    error = error.with_source(problem);
                }
                self.settle(error, Queued::Yes).await
            }
        }
    }

    /// For the sentence of an error: a job that waits has others before it, one that runs is slow itself.
    async fn what_the_job_does(&self, job: Option<&str>) -> String {
        let Some(job) = job else {
            return "its job had not ended".to_owned();
        };
        let asked = self
            .client
            .ask(deadline_after(ASK), |link, deadline| async move {
                link.job_state(job, deadline).await
            })
            .await;
        match asked {
            Ok(Some(state)) => format!("its job is still {state}"),
            Ok(None) => "the end of its job came too late".to_owned(),
            Err(_) => "its job had not ended, and systemd does not answer".to_owned(),
        }
    }

    fn job_failed(&self, result: JobResult) -> Error {
        Error::new(
            ErrorKind::JobFailed,
            format!(
                "systemd's job for {} ended in `{result}`{}",
                self.plan.unit,
                hint(&result)
            ),
        )
        .with_job_result(result)
        .at(Phase::Job)
    }

    /// The start went wrong in a way that leaves open what systemd did: asks, and ends what is still under way. `Ok`: it is there after all.
    async fn settle(&mut self, error: Error, queued: Queued) -> Result<()> {
        let unit = self.plan.unit.as_str();
        let grace = deadline_after(GRACE);
        let Ok(mut state) = self.client.unit_state(unit, grace).await else {
            return Err(error);
        };
        if queued == Queued::Yes && !state.is_loaded() && entrant::all_ended(&self.entrants) {
            // The unit has come and gone. Whether the processes ran inside is the kernel's to say.
            self.deadline = self.deadline.max(grace);
            return Ok(());
        }
        if !state.is_ours(self.plan.nonce) {
            return Err(error);
        }
        if let Some((id, path)) = state.job.clone() {
            // An error here is the job's end in the meantime, or a manager that does not answer; the state tells which.
            if let Err(error) = self.client.cancel_job(id, grace).await {
                tracing::debug!(%error, id, "cannot cancel the job");
            }
            match self
                .client
                .poll_job_end(unit, Some(&path), None, grace)
                .await
            {
                JobEnd::Gone(now) => state = now,
                JobEnd::Result(_) | JobEnd::Expired(_) => return Err(error),
            }
        }
        if state.is_active() && state.is_ours(self.plan.nonce) {
            // The look at the processes needs answers too, and the start's own time is up.
            self.deadline = self.deadline.max(grace);
            return Ok(());
        }
        if state.is_failed() && state.is_ours(self.plan.nonce) {
            return Err(self.job_failed(JobResult::Failed));
        }
        Err(error)
    }
}

fn hint(result: &JobResult) -> &'static str {
    match result {
        JobResult::Failed => {
            ": no process could be put inside (it may have ended), see the journal"
        }
        JobResult::Canceled => ": it was cancelled, or the manager is shutting down",
        JobResult::Dependency => ": its slice or a unit that it requires failed",
        JobResult::Frozen => ": the unit or its slice is frozen, thaw it first",
        JobResult::Concurrency => ": the slice's limit on active units is reached",
        _ => "",
    }
}
