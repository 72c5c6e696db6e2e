//! The only place that names zbus: how a manager is reached, called and listened to.
//!
//! [`address`] says where, [`connection`] connects and calls, [`members`] has every D-Bus member that is used, [`start`] the one call with properties, [`dispatch`] the signals,
//! [`faults`] the errors, and [`socket`] is the transport underneath.

pub(crate) mod address;
mod backoff;
mod connection;
mod dispatch;
pub(crate) mod faults;
mod identity;
mod members;
mod paths;
mod socket;
mod start;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod connect_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod contract;
#[cfg(all(test, feature = "embedded"))]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod contract_live;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod fake;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub(crate) use address::Endpoint;
pub(crate) use connection::Bus;
pub(crate) use dispatch::Event;
pub(crate) use identity::is_in_another_pid_namespace;
pub(crate) use members::{ListedUnit, Scope, Unit};
