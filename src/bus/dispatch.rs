//! The one task that takes the signals off a connection.
//!
//! zbus hands messages on through a bounded queue, and while that is full nothing is read any more, replies included. So this task does nothing but drain it: it never waits for anything
//! else, and the sink that it feeds must not block.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::PoisonError;

use tokio::time::Instant;
use zbus::export::futures_core::Stream;
use zbus::message::Type;
use zbus::{Message, MessageStream};

use super::connection::Bus;
use super::members::{BUS, JobRemoved, NameOwnerChanged, SYSTEMD, Signal};
use crate::Result;

/// What a connection tells without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A job has ended.
    JobRemoved {
        /// The job's ID.
        id: u32,
        /// The job's object path.
        job: String,
        /// The unit's name.
        unit: String,
        /// How it ended, in systemd's words.
        result: String,
    },
    /// systemd left the bus or came (back) to it: it executed itself again, ended, or lost its connection. Signals may have been lost.
    OwnerChanged,
    /// The connection has ended; nothing follows.
    Lost,
}

impl Bus {
    /// Feeds `sink` with the events of this connection from now on, in their order; a `sink` given before is not fed any more.
    ///
    /// Returns when nothing can be missed: a job that is made after that is reported. `sink` is called from a task and must not block. It is dropped with the `Bus`.
    ///
    /// # Errors
    ///
    /// Those of any call, for the match rules.
    pub(crate) async fn on_event(
        &self,
        deadline: Instant,
        sink: impl FnMut(Event) + Send + 'static,
    ) -> Result<()> {
        // The stream first: what the rules let through must find it there.
        let stream = MessageStream::from(&self.connection);
        let task = self.runtime.spawn(drain(stream, self.is_bus(), sink));
        let before = self
            .drain
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(task.abort_handle());
        if let Some(before) = before {
            before.abort();
        }
        if self.is_bus() {
            let [first, second] = rules();
            let driver = self.driver();
            tokio::try_join!(
                driver.add_match(first, deadline),
                driver.add_match(second, deadline),
            )?;
        }
        Ok(())
    }
}

/// The match rules for a bus. By the well-known name: the unique one changes when systemd executes itself again.
fn rules() -> [String; 2] {
    let job_removed = JobRemoved::MEMBER;
    let owner_changed = NameOwnerChanged::MEMBER;
    [
        format!(
            "type='signal',sender='{SYSTEMD}',path='/org/freedesktop/systemd1',interface='{}',member='{}'",
            job_removed.interface, job_removed.name
        ),
        format!(
            "type='signal',sender='{BUS}',path='/org/freedesktop/DBus',interface='{}',member='{}',arg0='{SYSTEMD}'",
            owner_changed.interface, owner_changed.name
        ),
    ]
}

async fn drain(mut stream: MessageStream, bus: bool, mut sink: impl FnMut(Event)) {
    loop {
        match poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
            Some(Ok(message)) => {
                if let Some(event) = event(&message, bus) {
                    sink(event);
                }
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "the connection to the manager ended");
                break;
            }
            None => break,
        }
    }
    sink(Event::Lost);
}

fn event(message: &Message, bus: bool) -> Option<Event> {
    if message.message_type() != Type::Signal {
        return None;
    }
    if let Some(body) = JobRemoved::read(message) {
        // systemd's own is a broadcast, which the bus lets through only from the owner of systemd's name. One that is addressed to this connection can come from anybody.
        if bus && message.header().destination().is_some() {
            tracing::warn!("ignored a JobRemoved that was not sent by systemd");
            return None;
        }
        return readable(body).map(|(id, job, unit, result)| Event::JobRemoved {
            id,
            job: job.into(),
            unit,
            result,
        });
    }
    let from_bus = message
        .header()
        .sender()
        .is_some_and(|sender| sender.as_str() == BUS);
    if bus
        && from_bus
        && let Some(body) = NameOwnerChanged::read(message)
    {
        return readable(body)
            .filter(|(name, ..)| name == SYSTEMD)
            .map(|_| Event::OwnerChanged);
    }
    None
}

fn readable<T>(body: zbus::Result<T>) -> Option<T> {
    body.inspect_err(|error| tracing::warn!(%error, "ignored a malformed signal"))
        .ok()
}
