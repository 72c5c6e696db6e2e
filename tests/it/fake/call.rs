//! One method call, and what can become of it.

use std::os::fd::AsFd;
use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, DynamicType, Message, OwnedVariant, Variant};

use super::table::{Member, Seen, Unit};
use super::{Job, SYSTEMD, Shared};

/// The arguments of StartTransientUnit.
type StartBody = (
    String,
    String,
    Vec<(String, OwnedVariant)>,
    Vec<(String, Vec<(String, OwnedVariant)>)>,
);

/// A call that has arrived.
pub(crate) struct Call {
    pub(super) shared: Arc<Shared>,
    connection: Connection,
    message: Message,
    pub(crate) member: String,
}

impl Call {
    /// `None` for anything but a method call.
    pub(super) fn new(
        shared: &Arc<Shared>,
        connection: &Connection,
        message: Message,
    ) -> Option<Self> {
        if message.message_type() != zbus::message::Type::MethodCall {
            return None;
        }
        let member = message.header().member()?.to_string();
        Some(Self {
            shared: Arc::clone(shared),
            connection: connection.clone(),
            message,
            member,
        })
    }

    pub(super) fn body<T: serde::de::DeserializeOwned + zbus::Type>(&self) -> T {
        self.message.body().deserialize().expect(&self.member)
    }

    pub(super) fn header(&self) -> Header<'_> {
        self.message.header()
    }

    /// The unit's name, for the members that start with it.
    pub(crate) fn unit(&self) -> Option<String> {
        match self.member.as_str() {
            "StartTransientUnit" => Some(self.body::<StartBody>().0),
            "StopUnit" => Some(self.body::<(String, String)>().0),
            "ResetFailedUnit" => Some(self.body::<String>()),
            "KillUnit" => Some(self.body::<(String, String, i32)>().0),
            "AttachProcessesToUnit" => Some(self.body::<(String, String, Vec<u32>)>().0),
            "ListUnitsByNames" => self.body::<Vec<String>>().into_iter().next(),
            _ => None,
        }
    }

    pub(super) fn record(&self) {
        let unit = self.unit();
        self.shared.with(|table| {
            let known = unit.as_ref().and_then(|unit| table.units.get(unit));
            let populated = known.is_some_and(Unit::is_populated);
            table.calls.push(Seen {
                member: self.member.clone(),
                unit,
                populated,
            });
            if self.member == "StartTransientUnit" {
                table.in_flight += 1;
                table.most_in_flight = table.most_in_flight.max(table.in_flight);
            }
        });
    }

    /// systemd takes the call in: the unit is loaded if it was not, and has a job. Nothing has been done yet, and no reply sent.
    pub(crate) fn take(&self) -> Job {
        let name = self.unit().expect("a call for a unit");
        if self.member == "StartTransientUnit" {
            let (_, _, properties, _) = self.body::<StartBody>();
            let unit = transient(properties);
            self.shared
                .with(|table| table.units.insert(name.clone(), unit));
        }
        Job::new(&self.shared, &name)
    }

    pub(super) fn has_property(&self, name: &str) -> bool {
        let (_, _, properties, _) = self.body::<StartBody>();
        properties.iter().any(|(property, _)| property == name)
    }

    /// The reply that names the job.
    pub(crate) async fn reply_job(&self, job: &Job) {
        self.reply(&(job.path(),)).await;
    }

    pub(crate) async fn reply(&self, body: &(impl serde::Serialize + DynamicType)) {
        // The client may have hung up.
        let _ = self.connection.reply(&self.header(), body).await;
    }

    /// An error reply.
    pub(crate) async fn refuse(self, name: &str, text: &str) {
        if self.member == "StartTransientUnit" {
            self.shared
                .with(|table| table.in_flight = table.in_flight.saturating_sub(1));
        }
        let _ = self
            .connection
            .reply_error(&self.header(), name, &text)
            .await;
    }

    /// A refusal in systemd's own name.
    pub(crate) async fn refuse_as_systemd(self, name: &str) {
        let text = format!("{name} for this call.");
        self.refuse(&format!("{SYSTEMD}.{name}"), &text).await;
    }

    /// The connection that it came on ends, for both sides.
    pub(crate) async fn hang_up(self) {
        self.shared
            .connections
            .lock()
            .unwrap()
            .retain(|other| other.server_guid() != self.connection.server_guid());
        let _ = self.connection.close().await;
    }
}

fn transient(properties: Vec<(String, OwnedVariant)>) -> Unit {
    let mut unit = Unit::default();
    for (name, value) in properties {
        match name.as_str() {
            "Description" => unit.description = String::try_from(value).unwrap(),
            "Delegate" => unit.delegated = bool::try_from(value).unwrap(),
            "PIDs" => {
                let pids = Vec::<u32>::try_from(value).unwrap();
                unit.processes = pids.into_iter().map(Member::Pid).collect();
            }
            "PIDFDs" => {
                let Variant::Array(pidfds) = &*value else {
                    panic!("PIDFDs is no array");
                };
                unit.processes = pidfds.iter().map(pidfd).collect();
            }
            _ => {}
        }
    }
    unit
}

fn pidfd(value: &Variant<'_>) -> Member {
    let Variant::Fd(fd) = value else {
        panic!("{value:?} is no file descriptor");
    };
    let fd = fd.as_fd().try_clone_to_owned().unwrap();
    Member::Pidfd(Arc::new(fd))
}
