//! StartTransientUnit: the one call that takes properties and file descriptors.

use std::os::fd::BorrowedFd;

use tokio::time::Instant;
use zbus::{Fd, Variant};

use super::connection::Bus;
use super::paths::ObjectPath;
use super::socket::FDS_PER_WRITE;
use crate::property::PropertyValue;
use crate::{Error, ErrorKind, Result};

/// The most file descriptors that dbus-daemon passes on in one message unless it is configured otherwise (dbus-daemon(1), `max_message_unix_fds`). It drops the connection of who sends more.
const FDS_OVER_A_BUS: usize = 16;

impl Bus {
    /// How many pidfds one start can hand over: 16 on a bus, 253 on a private socket.
    pub(crate) fn most_pidfds(&self) -> usize {
        if self.is_bus() {
            FDS_OVER_A_BUS
        } else {
            FDS_PER_WRITE
        }
    }

    /// Queues the start of a transient unit; the job's path.
    ///
    /// `pidfds` become the property `PIDFDs` (systemd 255 and later; older ones answer [`UnknownProperty`](ErrorKind::UnknownProperty)), none are no property.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](ErrorKind::InvalidInput) for more pidfds than [`most_pidfds`](Self::most_pidfds), before anything is sent.
    pub(crate) async fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[(&str, PropertyValue)],
        pidfds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<ObjectPath> {
        if pidfds.len() > self.most_pidfds() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "{} processes in one start of {name}: at most {} can be handed over as file descriptors",
                    pidfds.len(),
                    self.most_pidfds(),
                ),
            )
            .with_unit(name));
        }
        let mut wire = wire_properties(properties);
        if !pidfds.is_empty() {
            let fds = pidfds
                .iter()
                .map(|fd| Ok(Variant::Fd(Fd::Owned(fd.try_clone_to_owned()?))))
                .collect::<std::io::Result<Vec<Variant<'static>>>>()
                .map_err(|error| {
                    Error::new(
                        ErrorKind::Io,
                        format!("could not duplicate the pidfds for {name}: {error}"),
                    )
                    .with_source(error)
                })?;
            let mut array = zbus::Array::new(&zbus::Signature::Fd);
            for fd in fds {
                array.append(fd).map_err(|error| {
                    Error::new(ErrorKind::Io, format!("could not write PIDFDs: {error}"))
                })?;
            }
            wire.push(("PIDFDs".to_owned(), Variant::Array(array)));
        }
        self.manager()
            .start_transient_unit(name, mode, wire, Vec::new(), deadline)
            .await
            .map_err(|error| error.with_unit(name))
    }
}

fn wire_properties(properties: &[(&str, PropertyValue)]) -> Vec<(String, Variant<'static>)> {
    properties
        .iter()
        .map(|(name, value)| ((*name).to_owned(), variant(value.clone())))
        .collect()
}

fn variant(value: PropertyValue) -> Variant<'static> {
    match value {
        PropertyValue::Bool(value) => value.into(),
        PropertyValue::I32(value) => value.into(),
        PropertyValue::U64(value) => value.into(),
        PropertyValue::Str(value) => value.into(),
        PropertyValue::U32List(value) => value.into(),
    }
}
