//! Calls that wait for the test.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Call, Shared};

/// The calls of one member, each in the test's hand. Dropping it gives the member back to the fake; a call that is dropped unanswered is never answered.
pub(crate) struct Held {
    shared: Arc<Shared>,
    member: &'static str,
    calls: mpsc::UnboundedReceiver<Call>,
}

impl Held {
    pub(super) fn new(shared: Arc<Shared>, member: &'static str) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        shared.holds.lock().unwrap().insert(member, sender);
        Self {
            shared,
            member,
            calls,
        }
    }

    /// The next call.
    pub(crate) async fn next(&mut self) -> Call {
        self.calls.recv().await.expect("the fake lives")
    }

    /// The next call, if it is there already.
    pub(crate) fn try_next(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.holds.lock().unwrap().remove(self.member);
    }
}
