//! The bound on starts in flight.
//!
//! PID 1 runs one job at a time: more than a few starts in flight gain nothing, and make the first one wait longest. So starts queue here, first come
//! first served, and their own deadline runs only from their admission.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, ErrorKind, Phase, Result};

/// A place among the starts in flight; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(crate) struct Admission {
    places: Arc<Semaphore>,
    bound: usize,
    queued: AtomicUsize,
}

impl Admission {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(bound)),
            bound,
            queued: AtomicUsize::new(0),
        }
    }

    /// Waits for a place; also tells how long that took.
    pub(crate) async fn enter(&self, limit: Duration) -> Result<(Place, Duration)> {
        let begun = Instant::now();
        let _counted = Counted::new(&self.queued);
        match tokio::time::timeout(limit, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok((Place { _permit: place }, begun.elapsed())),
            Ok(Err(_)) | Err(_) => Err(Error::new(
                ErrorKind::QueueTimeout,
                format!(
                    "the start was not admitted within {limit:?}: {} others are in flight (the bound) and more wait before it; raise the queue timeout or the bound",
                    self.in_flight()
                ),
            )
            .at(Phase::Queue)),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.bound.saturating_sub(self.places.available_permits())
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_queue_is_bounded_in_time_and_counted() {
        let admission = Admission::new(1);
        let (place, _) = admission.enter(Duration::from_secs(1)).await.unwrap();
        assert_eq!((admission.in_flight(), admission.queued()), (1, 0));
        let refused = admission.enter(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::QueueTimeout);
        assert_eq!(admission.queued(), 0);
        drop(place);
        drop(admission.enter(Duration::from_secs(1)).await.unwrap());
    }
}
