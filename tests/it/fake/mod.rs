//! A systemd on a socket, as far as the library calls it.
//!
//! Left alone it answers every call as systemd does ([`answer`]), out of a table of units and jobs ([`table`]). What a test wants in its own hand it
//! [holds](Fake::hold): calls of that member then wait for the test, which takes, answers, refuses or loses them ([`held`]).

mod answer;
mod call;
mod held;
mod jobs;
mod serve;
mod table;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use zbus::Connection;

use crate::cgroups::TestCgroup;

pub(crate) use call::Call;
pub(crate) use held::Held;
pub(crate) use jobs::Job;
pub(crate) use table::{Seen, Table, Unit};

pub(crate) const SYSTEMD: &str = "org.freedesktop.systemd1";

/// The fake. Dropping it ends it.
pub(crate) struct Fake {
    shared: Arc<Shared>,
    address: String,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Where the private socket is; removed with the fake.
    directory: Option<PathBuf>,
}

struct Shared {
    table: Mutex<Table>,
    /// Ticks with every change of the table, the calls it has seen included.
    changed: watch::Sender<()>,
    connections: Mutex<Vec<Connection>>,
    holds: Mutex<HashMap<&'static str, mpsc::UnboundedSender<Call>>>,
    cgroup: TestCgroup,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            changed: watch::Sender::new(()),
            connections: Mutex::default(),
            holds: Mutex::default(),
            cgroup: TestCgroup::new(),
        })
    }

    /// Changes or reads the table; whoever waits for a change looks again.
    fn with<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap()
    }
}

impl Fake {
    /// The address to connect to.
    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    pub(crate) fn cgroup(&self) -> &TestCgroup {
        &self.shared.cgroup
    }

    /// Changes or reads the table.
    pub(crate) fn table<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        self.shared.with(change)
    }

    /// From now on calls of this member wait for the test, as long as the result lives.
    pub(crate) fn hold(&self, member: &'static str) -> Held {
        Held::new(Arc::clone(&self.shared), member)
    }

    /// Waits until the table is as wanted.
    pub(crate) async fn until(&self, wanted: impl Fn(&Table) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !wanted(&self.shared.lock()) {
            changed.changed().await.unwrap();
        }
    }

    /// The calls of one member so far.
    pub(crate) fn calls(&self, member: &str) -> Vec<Seen> {
        let table = self.shared.lock();
        let calls = table.calls.iter();
        calls
            .filter(|call| call.member == member)
            .cloned()
            .collect()
    }

    /// How a unit of this name is, if it is loaded.
    pub(crate) fn unit(&self, name: &str) -> Option<Unit> {
        self.shared.lock().units.get(name).cloned()
    }

    /// A unit that was there before, active, with a directory of its own.
    pub(crate) fn add_unit(&self, name: &str, description: &str) -> PathBuf {
        let path = self.shared.cgroup.make(name);
        self.table(|table| {
            let unit = Unit {
                description: description.to_owned(),
                active: "active",
                sub: "running",
                directory: Some(path.clone()),
                ..Unit::default()
            };
            table.units.insert(name.to_owned(), unit);
        });
        path
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
