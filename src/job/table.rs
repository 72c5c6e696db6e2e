//! The table of the jobs that somebody waits for.
//!
//! A job becomes known twice: by the reply to the call that queued it and by the JobRemoved signal that ends it. systemd sends the reply first, but a
//! client library may hand the two over in either order. So a call is announced with [`JobTable::begin`] before it is sent; from then on the result of
//! every job, known or not, is kept until no call is in flight any more. The number of kept results is bounded: when one had to be forgotten, the calls
//! that were in flight then learn it from [`Replied::Unknown`] and ask systemd.
//!
//! The table knows neither channels nor time: a waiter is a value `W` that is handed back with the result.

use std::collections::{HashMap, VecDeque};

use super::JobResult;

/// More results than this are not kept for calls without a reply. On the private socket every job of the manager is announced to everybody.
const EARLY_RESULTS: usize = 1024;

/// A call that was announced and has no reply yet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a call that never ends keeps early results alive"]
pub(crate) struct Ticket {
    begun: u64,
}

/// Names one waiter of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId {
    job: String,
    number: u64,
}

/// What the reply to a call met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Replied<W> {
    /// The job has not ended; the waiter is in the table.
    Waiting(WaiterId),
    /// The job had ended before the reply was handed over.
    Early(W, JobResult),
    /// The job's result may have been among those that were forgotten: ask systemd, and wait as well.
    Unknown(WaiterId),
}

/// The jobs that somebody waits for, by object path.
#[derive(Debug)]
pub(crate) struct JobTable<W> {
    waiting: HashMap<String, Vec<(u64, W)>>,
    in_flight: usize,
    early: VecDeque<(String, JobResult)>,
    /// Counts calls, so that it can be told which were in flight when a result was forgotten.
    clock: u64,
    forgotten_at: u64,
}

impl<W> Default for JobTable<W> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            in_flight: 0,
            early: VecDeque::new(),
            clock: 0,
            forgotten_at: 0,
        }
    }
}

impl<W> JobTable<W> {
    /// Announces a call that will queue a job. To be called before the call is sent.
    pub(crate) fn begin(&mut self) -> Ticket {
        self.in_flight += 1;
        self.clock += 1;
        Ticket { begun: self.clock }
    }

    /// The call ended without a job.
    pub(crate) fn failed(&mut self, _ticket: Ticket) {
        self.one_less_in_flight();
    }

    /// The reply named the job; `waiter` waits for its end.
    pub(crate) fn replied(&mut self, ticket: Ticket, job: &str, waiter: W) -> Replied<W> {
        let early = self
            .early
            .iter()
            .find(|(path, _)| path == job)
            .map(|(_, result)| result.clone());
        self.one_less_in_flight();
        if let Some(result) = early {
            return Replied::Early(waiter, result);
        }
        let id = self.wait(job, waiter);
        if ticket.begun <= self.forgotten_at {
            Replied::Unknown(id)
        } else {
            Replied::Waiting(id)
        }
    }

    /// A waiter for a job, beside those that there are.
    fn wait(&mut self, job: &str, waiter: W) -> WaiterId {
        self.clock += 1;
        let number = self.clock;
        self.waiting
            .entry(job.to_owned())
            .or_default()
            .push((number, waiter));
        WaiterId {
            job: job.to_owned(),
            number,
        }
    }

    /// JobRemoved arrived. Returns everybody who waited for this job.
    pub(crate) fn removed(&mut self, job: &str, result: JobResult) -> Vec<W> {
        let waiters = self.waiting.remove(job).unwrap_or_default();
        // Kept even if somebody waited: the reply of a second call may name the same job.
        if self.in_flight > 0 && !self.early.iter().any(|(path, _)| path == job) {
            if self.early.len() == EARLY_RESULTS {
                self.early.pop_front();
                self.forgotten_at = self.clock;
            }
            self.early.push_back((job.to_owned(), result));
        }
        waiters.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// A waiter went away.
    pub(crate) fn forget(&mut self, id: &WaiterId) -> Option<W> {
        let waiters = self.waiting.get_mut(&id.job)?;
        let at = waiters
            .iter()
            .position(|(number, _)| *number == id.number)?;
        let (_, waiter) = waiters.swap_remove(at);
        if waiters.is_empty() {
            self.waiting.remove(&id.job);
        }
        Some(waiter)
    }

    /// The connection is gone, and with it every signal that was still to come. Returns all waiters.
    pub(crate) fn lost(&mut self) -> Vec<W> {
        self.early.clear();
        self.waiting
            .drain()
            .flat_map(|(_, waiters)| waiters)
            .map(|(_, waiter)| waiter)
            .collect()
    }

    /// The number of waiters.
    pub(crate) fn waiters(&self) -> usize {
        self.waiting.values().map(Vec::len).sum()
    }

    /// Whether nothing is waited for, in flight or kept.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == 0 && self.early.is_empty()
    }

    fn one_less_in_flight(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            self.early.clear();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id<W: std::fmt::Debug>(replied: Replied<W>) -> WaiterId {
        match replied {
            Replied::Waiting(id) | Replied::Unknown(id) => id,
            Replied::Early(..) => panic!("an early result: {replied:?}"),
        }
    }

    #[test]
    fn a_signal_after_the_reply_ends_the_wait() {
        let mut table = JobTable::default();
        let ticket = table.begin();
        assert!(matches!(
            table.replied(ticket, "/job/1", 'a'),
            Replied::Waiting(_)
        ));
        assert_eq!(table.removed("/job/1", JobResult::Done), ['a']);
        assert!(table.is_idle());
    }

    #[test]
    fn a_signal_before_the_reply_is_not_lost() {
        let mut table = JobTable::default();
        let ticket = table.begin();
        assert!(table.removed("/job/1", JobResult::Failed).is_empty());
        assert_eq!(
            table.replied(ticket, "/job/1", 'a'),
            Replied::Early('a', JobResult::Failed)
        );
        assert!(table.is_idle());
    }

    #[test]
    fn a_signal_for_another_job_ends_nothing() {
        let mut table = JobTable::default();
        let ticket = table.begin();
        id(table.replied(ticket, "/job/1", 'a'));
        assert!(table.removed("/job/2", JobResult::Done).is_empty());
        assert_eq!(table.waiters(), 1);
    }

    #[test]
    fn a_duplicate_signal_finds_nobody() {
        let mut table = JobTable::default();
        let ticket = table.begin();
        id(table.replied(ticket, "/job/1", 'a'));
        assert_eq!(table.removed("/job/1", JobResult::Done).len(), 1);
        assert!(table.removed("/job/1", JobResult::Failed).is_empty());
    }

    #[test]
    fn every_waiter_of_one_job_is_told() {
        // Two StopUnit calls for one unit get the same job (kubernetes#135825).
        let mut table = JobTable::default();
        let first = table.begin();
        let second = table.begin();
        id(table.replied(first, "/job/1", 'a'));
        id(table.replied(second, "/job/1", 'b'));
        assert_eq!(table.removed("/job/1", JobResult::Done), ['a', 'b']);
    }

    #[test]
    fn a_second_reply_that_names_an_ended_job_gets_its_result() {
        let mut table = JobTable::default();
        let first = table.begin();
        let second = table.begin();
        id(table.replied(first, "/job/1", 'a'));
        assert_eq!(table.removed("/job/1", JobResult::Done), ['a']);
        assert_eq!(
            table.replied(second, "/job/1", 'b'),
            Replied::Early('b', JobResult::Done)
        );
        assert!(table.is_idle());
    }

    #[test]
    fn a_waiter_that_went_away_leaves_the_others() {
        let mut table = JobTable::default();
        let first = table.wait("/job/1", 'a');
        let second = table.wait("/job/1", 'b');
        assert_eq!(table.forget(&first), Some('a'));
        assert_eq!(table.forget(&first), None);
        assert_eq!(table.forget(&second), Some('b'));
        assert!(table.is_idle());
    }

    #[test]
    fn a_lost_connection_hands_back_every_waiter() {
        let mut table = JobTable::default();
        let ticket = table.begin();
        table.wait("/job/1", 'a');
        table.wait("/job/2", 'b');
        let mut lost = table.lost();
        lost.sort_unstable();
        assert_eq!(lost, ['a', 'b']);
        table.failed(ticket);
        assert!(table.is_idle());
    }

    #[test]
    fn a_call_during_which_a_result_was_forgotten_is_told_so() {
        let mut table = JobTable::default();
        let during = table.begin();
        for n in 0..=EARLY_RESULTS {
            table.removed(&format!("/job/{n}"), JobResult::Done);
        }
        let after = table.begin();
        assert!(matches!(
            table.replied(during, "/job/0", 'a'),
            Replied::Unknown(_)
        ));
        assert!(matches!(
            table.replied(after, "/job/9999", 'b'),
            Replied::Waiting(_)
        ));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Begin,
        Reply(usize, u8),
        Fail(usize),
        Signal(u8),
        Forget(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Begin),
            (any::<usize>(), 0..6u8).prop_map(|(n, job)| Step::Reply(n, job)),
            any::<usize>().prop_map(Step::Fail),
            (0..6u8).prop_map(Step::Signal),
            any::<usize>().prop_map(Step::Forget),
        ]
    }

    proptest! {
        /// Whatever the order: a waiter is told of its job's end once at most, and what ends leaves nothing in the table.
        #[test]
        fn any_order_of_replies_and_signals_ends_idle(steps in proptest::collection::vec(step(), 0..60)) {
            let mut table = JobTable::default();
            let (mut tickets, mut waiting, mut next) = (Vec::new(), Vec::new(), 0u32);
            for step in steps {
                match step {
                    Step::Begin => tickets.push(table.begin()),
                    Step::Reply(n, job) if !tickets.is_empty() => {
                        let ticket = tickets.swap_remove(n % tickets.len());
                        next += 1;
                        match table.replied(ticket, &format!("/job/{job}"), next) {
                            Replied::Waiting(id) | Replied::Unknown(id) => waiting.push((next, id)),
                            Replied::Early(waiter, _) => prop_assert_eq!(waiter, next),
                        }
                    }
                    Step::Fail(n) if !tickets.is_empty() => {
                        let ticket = tickets.swap_remove(n % tickets.len());
                        table.failed(ticket);
                    }
                    Step::Signal(job) => {
                        let job = format!("/job/{job}");
                        let told = table.removed(&job, JobResult::Done);
                        for waiter in told {
                            let at = waiting.iter().position(|(n, id)| *n == waiter && id.job == job);
                            prop_assert!(at.is_some());
                            waiting.swap_remove(at.unwrap());
                        }
                        prop_assert!(waiting.iter().all(|(_, id)| id.job != job));
                    }
                    Step::Forget(n) if !waiting.is_empty() => {
                        let (waiter, id) = waiting.swap_remove(n % waiting.len());
                        prop_assert_eq!(table.forget(&id), Some(waiter));
                    }
                    _ => {}
                }
                prop_assert_eq!(table.waiters(), waiting.len());
            }
            for ticket in tickets {
                table.failed(ticket);
            }
            for (waiter, id) in waiting {
                prop_assert_eq!(table.forget(&id), Some(waiter));
            }
            prop_assert!(table.is_idle());
        }
    }
}
