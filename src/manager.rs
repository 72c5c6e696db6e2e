//! A connection to one systemd instance.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cgroup::CgroupView;
use crate::client::{Client, Options, StartHandle, Surroundings, check_runtime, endpoints};
use crate::process::Process;
use crate::scope::Scope;
use crate::spec::{Nonce, ScopeSpec, not_the_managers};
use crate::unit::{ScopeName, UnitName};
use crate::{Error, ErrorKind, Result};

/// Which systemd instance is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instance {
    /// The system manager for uid 0 on a machine that was booted with systemd (`/run/systemd/system` exists), else the user manager that answers in
    /// `$XDG_RUNTIME_DIR`.
    Auto,
    /// The system manager, PID 1.
    System,
    /// The caller's user manager, found through `$XDG_RUNTIME_DIR`.
    User,
    /// The manager at a D-Bus address: a bus (`unix:path=/run/user/1000/bus`), or systemd's private socket (a path that ends in `systemd/private`).
    Address(String),
}

/// The way to a manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// The bus, else the private socket where the caller may use it.
    #[default]
    Auto,
    /// A message bus (dbus-daemon, dbus-broker). Survives a re-execution of the manager; policy rules let other users in.
    Bus,
    /// systemd's own socket, for root or the manager's own user. Needs no bus daemon, and hands every signal of every unit to every client, so it is for
    /// short work.
    Private,
}

/// A connection to one systemd instance.
///
/// `Send`, `Sync` and cheap to clone; all clones share one connection, which is made again when it is lost. Dropping the last one closes it and ends
/// nothing that was started. It lives on the tokio runtime that made it, and must not be used in a child made by `fork`.
#[derive(Clone)]
pub struct Manager {
    client: Arc<Client>,
    instance: Instance,
}

/// A connection to be made. See [`Manager::connect`].
#[must_use = "nothing happens until it is awaited"]
#[derive(Clone, Debug)]
pub struct Connect {
    instance: Instance,
    transport: Transport,
    options: Options,
}

/// How busy a [`Manager`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Starts that wait for their admission.
    pub starts_queued: usize,
    /// Starts that were admitted and have not ended.
    pub starts_in_flight: usize,
    /// Jobs of systemd that are waited for.
    pub jobs_waited_for: usize,
}

impl Manager {
    /// Connects to a manager. Await the result, or set options first.
    ///
    /// ```no_run
    /// # async fn example() -> scopectl::Result<()> {
    /// use scopectl::{Instance, Manager, Transport};
    ///
    /// let manager = Manager::connect(Instance::System).transport(Transport::Bus).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoManager`](ErrorKind::NoManager) with what was tried and what is missing, [`InvalidInput`](ErrorKind::InvalidInput) for an address that cannot be
    /// used, [`PermissionDenied`](ErrorKind::PermissionDenied).
    pub fn connect(instance: Instance) -> Connect {
        Connect {
            instance,
            transport: Transport::Auto,
            options: Options::default(),
        }
    }

    /// Starts a transient scope and puts `processes` inside.
    ///
    /// Returns when systemd's job has ended in `done` and every process was found inside the scope's cgroup, or ran there and has ended
    /// (see [`Scope::ended`]).
    ///
    /// # Errors and undo
    ///
    /// Before anything is sent: [`InvalidName`](ErrorKind::InvalidName), [`InvalidInput`](ErrorKind::InvalidInput) (also for no process at all),
    /// [`ProcessGone`](ErrorKind::ProcessGone), [`ProcessElsewhere`](ErrorKind::ProcessElsewhere), [`QueueTimeout`](ErrorKind::QueueTimeout). After that
    /// [`UnitExists`](ErrorKind::UnitExists), [`JobFailed`](ErrorKind::JobFailed), [`Timeout`](ErrorKind::Timeout),
    /// [`CallTimeout`](ErrorKind::CallTimeout), [`ConnectionLost`](ErrorKind::ConnectionLost), [`ProcessGone`](ErrorKind::ProcessGone) for one that ended
    /// before it was inside, [`DescendantsOutside`](ErrorKind::DescendantsOutside), those of a refused call and those of the cgroup.
    ///
    /// On an error no process is killed: each one is put back into the cgroup that it came from, and the unit is stopped once it is empty. Where a process
    /// cannot go back it stays inside; [`Error::undo`] says which. Ends within the spec's queue timeout plus its start timeout, plus 10 s for the undo.
    ///
    /// # Cancellation
    ///
    /// A dropped future detaches the start, which then ends and is undone in the background, unless the spec says to
    /// [keep](ScopeSpec::keep_on_drop) it. A runtime that is shut down takes that background with it: what was begun then stays as it is.
    pub fn start_scope(
        &self,
        spec: &ScopeSpec,
        processes: impl IntoIterator<Item = Process>,
    ) -> impl Future<Output = Result<Scope>> + Send {
        // Taken now, so that the iterator is no part of the future, which is then `Send` whatever the iterator is.
        let processes: Vec<Process> = processes.into_iter().collect();
        async move {
            self.client.check_caller()?;
            let plan = spec.plan(Nonce::new(crate::random::number()?))?;
            let started = StartHandle::spawn(Arc::clone(&self.client), plan, processes).await?;
            Ok(Scope::from_start(started))
        }
    }

    /// Opens a scope that is active with no job pending, whoever started it. `name` ends in `.scope`.
    ///
    /// Changes nothing, so the future may be dropped at any time. Each of its few calls has the call timeout.
    ///
    /// # Errors
    ///
    /// [`NoSuchUnit`](ErrorKind::NoSuchUnit), [`UnitNotReady`](ErrorKind::UnitNotReady), [`InvalidName`](ErrorKind::InvalidName).
    pub async fn adopt(&self, name: &str) -> Result<Scope> {
        self.client.check_caller()?;
        let name = ScopeName::new(name)?;
        not_the_managers(&name)?;
        self.client
            .adopt(&name)
            .await
            .map_err(|error| error.with_unit(name.as_str()))
    }

    /// Looks at the cgroup of a scope, slice or service of this manager, whatever state it is in. The view can read and nothing else.
    ///
    /// # Errors
    ///
    /// [`NoSuchUnit`](ErrorKind::NoSuchUnit), [`CgroupGone`](ErrorKind::CgroupGone) for a unit without a cgroup, [`InvalidName`](ErrorKind::InvalidName),
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a unit of another type.
    pub async fn view(&self, unit: &str) -> Result<CgroupView> {
        self.client.check_caller()?;
        let unit = UnitName::new(unit)?;
        self.client
            .view(&unit)
            .await
            .map_err(|error| error.with_unit(unit.as_str()))
    }

    /// The manager's systemd version, such as 252.
    ///
    /// # Errors
    ///
    /// [`Refused`](ErrorKind::Refused) if its version string has no number.
    pub async fn version(&self) -> Result<u32> {
        self.client.version().await?.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                "the manager's version string has no number in it",
            )
        })
    }

    /// Which instance this is; never [`Instance::Auto`].
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// How busy this connection is.
    pub fn load(&self) -> Load {
        Load {
            starts_queued: self.client.starts_queued(),
            starts_in_flight: self.client.starts_in_flight(),
            jobs_waited_for: self.client.jobs_waited_for(),
        }
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Connect {
    /// The way to the manager. Default: [`Transport::Auto`].
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// The deadline of one method call. Default: 25 s, at most a day.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// The bound on starts in flight; further ones queue. Default: 8, at least 1. More gain nothing, since systemd runs one job at a time.
    pub fn max_in_flight(mut self, bound: usize) -> Self {
        self.options.max_in_flight = bound;
        self
    }

    async fn make(self) -> Result<Manager> {
        check_runtime()?;
        let around = Surroundings::of_process();
        let (instance, endpoints) = endpoints(&self.instance, self.transport, &around)?;
        let client = Client::connect(endpoints, self.options).await?;
        Ok(Manager { client, instance })
    }
}

impl IntoFuture for Connect {
    type Output = Result<Manager>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}
