//! One systemd instance: connections to it, jobs, deadlines, and what it can do. Everything public that talks to systemd stands on this.

mod admission;
mod adopt;
mod ask;
mod calls;
mod endpoints;
mod entrant;
mod exists;
mod link;
mod peer;
mod place;
mod start;
mod stop;
mod undo;
mod unit_state;
mod verify;
mod wait;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::bus::Endpoint;
use crate::cgroup::Hierarchy;
use crate::spec::check_limit;
use crate::{Error, ErrorKind, Result};

use admission::Admission;
use link::Link;

pub(crate) use endpoints::{Surroundings, endpoints};
pub(crate) use start::{StartHandle, Started};
pub(crate) use stop::Identity;

/// How a client behaves.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The deadline of one method call.
    pub(crate) call_timeout: Duration,
    /// The bound on starts in flight.
    pub(crate) max_in_flight: usize,
}

/// More starts in flight than this are a mistake: systemd runs one job at a time.
const MOST_IN_FLIGHT: usize = 1024;

impl Options {
    fn check(&self) -> Result<()> {
        check_limit("the call timeout", self.call_timeout)?;
        if !(1..=MOST_IN_FLIGHT).contains(&self.max_in_flight) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "{} starts in flight cannot be the bound; give 1 to {MOST_IN_FLIGHT}",
                    self.max_in_flight
                ),
            ));
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(25),
            max_in_flight: 8,
        }
    }
}

/// One systemd instance.
pub(crate) struct Client {
    /// The process that made it: a forked copy of that has neither the runtime nor a right to the connection.
    owner: u32,
    /// Tried in this order.
    endpoints: Vec<Endpoint>,
    options: Options,
    link: Mutex<Option<Arc<Link>>>,
    /// Held while a connection is made.
    connecting: tokio::sync::Mutex<()>,
    admission: Admission,
    hierarchy: OnceCell<Arc<Hierarchy>>,
    /// This manager answered that it does not know `PIDFDs` (systemd before 255), or the transport cannot carry them.
    pidfds_refused: AtomicBool,
}

impl Client {
    /// Connects at once, so that a manager that is not there is known now.
    pub(crate) async fn connect(endpoints: Vec<Endpoint>, options: Options) -> Result<Arc<Self>> {
        options.check()?;
        let client = Self {
            owner: std::process::id(),
            endpoints,
            admission: Admission::new(options.max_in_flight),
            link: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            hierarchy: OnceCell::new(),
            pidfds_refused: AtomicBool::new(false),
            options,
        };
        client.connection(client.call_deadline()).await?;
        Ok(Arc::new(client))
    }

    /// The connection, made anew if the last one was lost.
    pub(crate) async fn connection(&self, deadline: Instant) -> Result<Arc<Link>> {
        self.check_caller()?;
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let Ok(_one_at_a_time) = tokio::time::timeout_at(deadline, self.connecting.lock()).await
        else {
            return Err(Error::new(
                ErrorKind::ConnectionLost,
                "no connection to the manager could be made in time",
            ));
        };
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let hierarchy = self.hierarchy().await.ok();
        let mut first_error: Option<Error> = None;
        for (tried, endpoint) in self.endpoints.iter().enumerate() {
            // One that stays silent must leave the others their share.
            let left = u32::try_from(self.endpoints.len() - tried).unwrap_or(1);
            let now = Instant::now();
            let share = now + deadline.saturating_duration_since(now) / left;
            match Link::connect(endpoint, hierarchy.map(Arc::as_ref), share).await {
                Ok(link) => {
                    let link = Arc::new(link);
                    *self.link() = Some(Arc::clone(&link));
                    return Ok(link);
                }
                Err(error) => {
                    tracing::debug!(%endpoint, %error, "cannot connect");
                    first_error = Some(match first_error {
                        None => error,
                        Some(first) => first.and_then_tried(&error),
                    });
                }
            }
        }
        Err(first_error.unwrap_or_else(|| {
            Error::new(ErrorKind::NoManager, "no address of a manager is known")
        }))
    }

    /// The connection, if there is one that lives.
    fn current(&self) -> Option<Arc<Link>> {
        self.link()
            .as_ref()
            .filter(|link| !link.bus.is_closed())
            .cloned()
    }

    fn link(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        // Only ever replaced as a whole.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be asked before anything that needs the runtime, which would panic without one.
    pub(crate) fn check_caller(&self) -> Result<()> {
        if self.owner != std::process::id() {
            return Err(Error::new(
                ErrorKind::Forked,
                "this connection belongs to the process that made it; connect again after a fork",
            ));
        }
        check_runtime()
    }

    pub(crate) fn call_deadline(&self) -> Instant {
        deadline_after(self.options.call_timeout)
    }

    /// The deadline of one call inside an operation that ends at `overall`.
    pub(crate) fn call_deadline_within(&self, overall: Instant) -> Instant {
        self.call_deadline().min(overall)
    }

    /// The caller's own cgroup2 mount.
    pub(crate) async fn hierarchy(&self) -> Result<&Arc<Hierarchy>> {
        self.hierarchy
            .get_or_try_init(async || Hierarchy::detect())
            .await
    }

    pub(crate) fn sends_pidfds(&self) -> bool {
        !self.pidfds_refused.load(Ordering::Relaxed)
    }

    pub(crate) fn pidfds_were_refused(&self) {
        self.pidfds_refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn starts_in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    pub(crate) fn starts_queued(&self) -> usize {
        self.admission.queued()
    }

    pub(crate) fn jobs_waited_for(&self) -> usize {
        self.link().as_ref().map_or(0, |link| link.waiters())
    }
}

/// An operation outside of a tokio runtime is a typed error and not a panic.
pub(crate) fn check_runtime() -> Result<()> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidInput,
            "there is no tokio runtime here; call this from a task of one with I/O and time",
        )),
    }
}

/// `limit` from now. Limits are checked where they enter; one that is absurd is cut to a day.
pub(crate) fn deadline_after(limit: Duration) -> Instant {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    Instant::now() + limit.min(DAY)
}
