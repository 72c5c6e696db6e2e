//! Every D-Bus member that is used, each written down once.
//!
//! The macro makes from one line both the call and a row of the table that the tests hold against `dbus-interfaces/` and against a live manager. The signatures in the table are those of
//! the Rust types in the call, so that the two cannot differ.
//!
//! Source: org.freedesktop.systemd1(5); the D-Bus specification for the bus itself.

use serde::de::DeserializeOwned;
use tokio::time::Instant;
use zbus::message::Message;
use zbus::{OwnedVariant, Signature, Type, Variant, as_variant};

use super::connection::Bus;
use super::paths::ObjectPath;
use crate::{Error, ErrorKind, Result};

/// systemd's name on a bus.
pub(super) const SYSTEMD: &str = "org.freedesktop.systemd1";
/// The bus itself.
pub(super) const BUS: &str = "org.freedesktop.DBus";

/// One member of an interface.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) interface: &'static str,
    pub(super) name: &'static str,
    /// What comes out: a method's result, a signal's arguments (as one struct), a property's value.
    pub(super) output: &'static Signature,
    /// For the tests of the contract: what it is, and what goes in (a method's arguments, as one struct).
    #[cfg(test)]
    pub(super) contract: (Kind, &'static Signature),
}

/// What a member is.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Method,
    Property,
    Signal,
}

/// A signal that is listened to.
pub(super) trait Signal {
    /// Its arguments.
    type Body: DeserializeOwned + Type;
    /// Its row.
    const MEMBER: &'static Member;

    /// The arguments, if `message` is this signal.
    fn read(message: &Message) -> Option<zbus::Result<Self::Body>> {
        let header = message.header();
        let is_this = message.message_type() == zbus::message::Type::Signal
            && header
                .interface()
                .is_some_and(|name| name.as_str() == Self::MEMBER.interface)
            && header
                .member()
                .is_some_and(|name| name.as_str() == Self::MEMBER.name);
        is_this.then(|| message.body().deserialize())
    }
}

type PropertyList = Vec<(String, Variant<'static>)>;
type AuxiliaryList = Vec<(String, PropertyList)>;

/// A row of ListUnitsByNames.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, zbus::Type)]
pub(crate) struct ListedUnit {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) load_state: String,
    pub(crate) active_state: String,
    pub(crate) sub_state: String,
    pub(crate) following: String,
    pub(crate) path: ObjectPath,
    /// 0 if there is none.
    pub(crate) job_id: u32,
    pub(crate) job_type: String,
    pub(crate) job_path: ObjectPath,
}

macro_rules! members {
    ($(
        $(#[$about:meta])*
        $handle:ident = $interface:literal of $destination:ident {
            methods { $(
                $(#[$method_about:meta])*
                $method:ident = $method_name:literal ($($argument:ident : $argument_type:ty),*) -> $result:ty;
            )* }
            properties { $(
                $(#[$property_about:meta])*
                $property:ident = $property_name:literal : $value:ty;
            )* }
            signals { $(
                $(#[$signal_about:meta])*
                $signal:ident = $signal_name:literal ($($part:ty),*);
            )* }
        }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug)]
            pub(crate) struct $handle<'b> {
                bus: &'b Bus,
                path: String,
            }

            impl<'b> $handle<'b> {
                pub(super) fn at(bus: &'b Bus, path: impl Into<String>) -> Self {
                    Self { bus, path: path.into() }
                }

                $(
                    $(#[$method_about])*
                    pub(crate) async fn $method(
                        &self,
                        $($argument: impl Into<$argument_type>,)*
                        deadline: Instant,
                    ) -> Result<$result> {
                        const ROW: &Member = &method::<($($argument_type,)*), $result>($interface, $method_name);
                        let body = ($($argument.into(),)*);
                        let reply = self.bus.call(ROW, ROW.name, $destination, &self.path, body, deadline).await?;
                        read_reply(ROW, &reply)
                    }
                )*

                $(
                    $(#[$property_about])*
                    pub(crate) async fn $property(&self, deadline: Instant) -> Result<$value> {
                        const ROW: &Member = &property::<$value>($interface, $property_name);
                        read_property(self.bus, ROW, $destination, &self.path, deadline).await
                    }
                )*
            }

            $(
                $(#[$signal_about])*
                #[derive(Debug)]
                pub(super) struct $signal;

                impl Signal for $signal {
                    type Body = ($($part,)*);
                    const MEMBER: &'static Member = &signal::<Self::Body>($interface, $signal_name);
                }
            )*
        )*

        /// The table.
        #[cfg(test)]
        pub(super) static MEMBERS: &[Member] = &[$(
            $(method::<($($argument_type,)*), $result>($interface, $method_name),)*
            $(property::<$value>($interface, $property_name),)*
            $(signal::<($($part,)*)>($interface, $signal_name),)*
        )*];
    };
}

#[cfg_attr(not(test), allow(clippy::extra_unused_type_parameters))]
const fn method<I: Type, O: Type>(interface: &'static str, name: &'static str) -> Member {
    Member {
        interface,
        name,
        output: O::SIGNATURE,
        #[cfg(test)]
        contract: (Kind::Method, I::SIGNATURE),
    }
}

const fn property<T: Type>(interface: &'static str, name: &'static str) -> Member {
    Member {
        interface,
        name,
        output: T::SIGNATURE,
        #[cfg(test)]
        contract: (Kind::Property, <()>::SIGNATURE),
    }
}

const fn signal<T: Type>(interface: &'static str, name: &'static str) -> Member {
    Member {
        interface,
        name,
        output: T::SIGNATURE,
        #[cfg(test)]
        contract: (Kind::Signal, <()>::SIGNATURE),
    }
}

members! {
    /// The manager itself.
    Manager = "org.freedesktop.systemd1.Manager" of SYSTEMD {
        methods {
            /// Queues the start of a transient unit; the job's path. Called through [`Bus::start_transient_unit`].
            start_transient_unit = "StartTransientUnit" (name: String, mode: String, properties: PropertyList, auxiliary: AuxiliaryList) -> ObjectPath;
            /// Queues the stop of a unit; the job's path.
            stop_unit = "StopUnit" (name: String, mode: String) -> ObjectPath;
            /// Forgets that a unit failed, which frees its name.
            reset_failed_unit = "ResetFailedUnit" (name: String) -> ();
            /// Cancels a queued job.
            cancel_job = "CancelJob" (id: u32) -> ();
            /// Sends a signal to the processes of a unit; `whom` is `all` for scopes.
            kill_unit = "KillUnit" (name: String, whom: String, signal: i32) -> ();
            /// The state of each of these units; one that does not exist is listed as not loaded (systemd 230 and later).
            list_units_by_names = "ListUnitsByNames" (names: Vec<String>) -> Vec<ListedUnit>;
            /// Moves processes into a delegated, active unit, below its cgroup at `subgroup` (systemd 238 and later).
            attach_processes_to_unit = "AttachProcessesToUnit" (name: String, subgroup: String, pids: Vec<u32>) -> ();
        }
        properties {
            /// The version, such as `252.39-1~deb12u2`.
            version = "Version": String;
            /// The cgroup below which the manager puts its units, as the manager sees it.
            control_group = "ControlGroup": String;
        }
        signals {
            /// A job has ended: its ID, its object, its unit, its result.
            JobRemoved = "JobRemoved" (u32, ObjectPath, String, String);
        }
    }

    /// A unit of any type.
    Unit = "org.freedesktop.systemd1.Unit" of SYSTEMD {
        methods {}
        properties {
            /// The ID of this run of the unit: 16 bytes, or none (systemd 232 and later).
            invocation_id = "InvocationID": Vec<u8>;
        }
        signals {}
    }

    /// A scope.
    Scope = "org.freedesktop.systemd1.Scope" of SYSTEMD {
        methods {}
        properties {
            /// Its cgroup, as the manager sees it; empty if there is none.
            control_group = "ControlGroup": String;
            /// How long a stop waits before it kills, in microseconds.
            timeout_stop_usec = "TimeoutStopUSec": u64;
            /// The signal that a stop sends first.
            kill_signal = "KillSignal": i32;
            /// Whether its cgroup is the caller's to divide.
            delegate = "Delegate": bool;
        }
        signals {}
    }

    /// A slice.
    Slice = "org.freedesktop.systemd1.Slice" of SYSTEMD {
        methods {}
        properties {
            /// Its cgroup, as the manager sees it; empty if there is none.
            control_group = "ControlGroup": String;
        }
        signals {}
    }

    /// A service.
    Service = "org.freedesktop.systemd1.Service" of SYSTEMD {
        methods {}
        properties {
            /// Its cgroup, as the manager sees it; empty if there is none.
            control_group = "ControlGroup": String;
        }
        signals {}
    }

    /// A job.
    Job = "org.freedesktop.systemd1.Job" of SYSTEMD {
        methods {}
        properties {
            /// `waiting` or `running`; `finished` from systemd 261 on.
            state = "State": String;
        }
        signals {}
    }

    /// The bus itself.
    Driver = "org.freedesktop.DBus" of BUS {
        methods {
            /// The process of the connection that owns a name.
            get_connection_unix_process_id = "GetConnectionUnixProcessID" (name: String) -> u32;
            /// Asks for the signals that a rule matches.
            add_match = "AddMatch" (rule: String) -> ();
        }
        properties {}
        signals {
            /// A name has a new owner: the name, the owner before, the owner now.
            NameOwnerChanged = "NameOwnerChanged" (String, String, String);
        }
    }
}

impl Bus {
    /// The manager itself.
    pub(crate) fn manager(&self) -> Manager<'_> {
        Manager::at(self, "/org/freedesktop/systemd1")
    }

    /// The unit at an object path.
    pub(crate) fn unit(&self, path: impl Into<String>) -> Unit<'_> {
        Unit::at(self, path)
    }

    /// The scope at an object path.
    pub(crate) fn scope(&self, path: impl Into<String>) -> Scope<'_> {
        Scope::at(self, path)
    }

    /// The slice at an object path.
    pub(crate) fn slice(&self, path: impl Into<String>) -> Slice<'_> {
        Slice::at(self, path)
    }

    /// The service at an object path.
    pub(crate) fn service(&self, path: impl Into<String>) -> Service<'_> {
        Service::at(self, path)
    }

    /// The job at an object path.
    pub(crate) fn job(&self, path: impl Into<String>) -> Job<'_> {
        Job::at(self, path)
    }

    /// The bus itself.
    pub(super) fn driver(&self) -> Driver<'_> {
        Driver::at(self, "/org/freedesktop/DBus")
    }
}

fn read_reply<T: DeserializeOwned + Type>(member: &Member, reply: &Message) -> Result<T> {
    reply
        .body()
        .deserialize()
        .map_err(|error| unreadable(member, reply, error))
}

async fn read_property<T: DeserializeOwned + Type>(
    bus: &Bus,
    member: &'static Member,
    destination: &'static str,
    path: &str,
    deadline: Instant,
) -> Result<T> {
    const GET: &Member =
        &method::<(String, String), OwnedVariant>("org.freedesktop.DBus.Properties", "Get");
    let wanted = (member.interface.to_owned(), member.name.to_owned());
    let reply = bus
        .call(GET, member.name, destination, path, wanted, deadline)
        .await?;
    let body = reply.body();
    body.deserialize::<as_variant::Deserialize<'_, T>>()
        .map(|value| value.0)
        .map_err(|error| unreadable(member, &reply, error))
}

fn unreadable(member: &Member, reply: &Message, error: zbus::Error) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "systemd's answer to {} has the type {:?} and not {:?}: this version of it is not supported",
            member.name,
            reply.header().signature().to_string(),
            member.output.to_string(),
        ),
    )
    .with_source(error)
}
