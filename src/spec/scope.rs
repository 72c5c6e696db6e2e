//! What a scope is to be.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The default of [`ScopeSpec::start_timeout`] and [`ScopeSpec::queue_timeout`].
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// What a transient scope is to be, and how its start behaves.
///
/// Takes loose types; what cannot be used is reported by the start, before anything is sent.
///
/// As JSON or the like, times are whole microseconds in fields that end in `_usec`, and everything but `name` may be left out.
///
/// ```
/// use scopectl::{IfExists, ScopeSpec};
///
/// let spec = ScopeSpec::new("build-42.scope")
///     .slice("ci.slice")
///     .description("the nightly build")
///     .if_exists(IfExists::WaitGone);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct ScopeSpec {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slice: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) delegate: bool,
    #[serde(default)]
    pub(super) collect_mode: CollectMode,
    #[serde(
        rename = "timeout_stop_usec",
        with = "super::usec::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) timeout_stop: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kill_signal: Option<i32>,
    #[serde(default)]
    pub(super) if_exists: IfExists,
    #[serde(default)]
    pub(super) descendants: Descendants,
    #[serde(default)]
    pub(super) allow_move: bool,
    #[serde(default)]
    pub(super) keep_on_drop: bool,
    #[serde(
        rename = "start_timeout_usec",
        with = "super::usec",
        default = "default_timeout"
    )]
    pub(super) start_timeout: Duration,
    #[serde(
        rename = "queue_timeout_usec",
        with = "super::usec",
        default = "default_timeout"
    )]
    pub(super) queue_timeout: Duration,
}

fn default_timeout() -> Duration {
    DEFAULT_TIMEOUT
}

/// When systemd forgets a unit that has ended. See `CollectMode=` in systemd.unit(5); systemd 236 and later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CollectMode {
    /// When it is inactive; a failed unit stays until it is reset. systemd's default.
    #[default]
    Inactive,
    /// Also when it has failed.
    InactiveOrFailed,
}

/// What a start does when a unit of this name is loaded already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IfExists {
    /// Fails with [`UnitExists`](crate::ErrorKind::UnitExists).
    Fail,
    /// Resets a unit that has failed and tries once more; a unit that runs is an error. The default.
    #[default]
    ResetFailed,
    /// Waits for a unit that is ending (no process left in it, or deactivating) until its name is free, within the start's timeout; a unit that has
    /// processes is an error at once.
    WaitGone,
    /// Puts the processes into the running scope. It must be delegated or have been started by this crate.
    Attach,
}

/// What a start does about children that its processes had forked before they were inside: systemd moves the named processes only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Descendants {
    /// Fails with [`DescendantsOutside`](crate::ErrorKind::DescendantsOutside), names them and undoes the start. The default.
    #[default]
    Refuse,
    /// Moves them too, reading again until none is left outside.
    Move,
    /// Leaves them where they are.
    Leave,
}

impl ScopeSpec {
    /// A scope of this name, which must end in `.scope`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            slice: None,
            description: None,
            delegate: false,
            collect_mode: CollectMode::default(),
            timeout_stop: None,
            kill_signal: None,
            if_exists: IfExists::default(),
            descendants: Descendants::default(),
            allow_move: false,
            keep_on_drop: false,
            start_timeout: DEFAULT_TIMEOUT,
            queue_timeout: DEFAULT_TIMEOUT,
        }
    }

    /// The slice to start in (`Slice=`). Default: the manager's own (`system.slice`; for a user manager `app.slice`, before systemd 247 the root slice).
    pub fn slice(mut self, slice: impl Into<String>) -> Self {
        self.slice = Some(slice.into());
        self
    }

    /// What a person reads in a unit list (`Description=`). A mark is appended that tells this unit from another of the same name. Default: the name.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Whether the cgroup tree below the scope belongs to the caller (`Delegate=`). Default: no.
    pub fn delegate(mut self, delegate: bool) -> Self {
        self.delegate = delegate;
        self
    }

    /// When systemd forgets the scope (`CollectMode=`).
    pub fn collect_mode(mut self, mode: CollectMode) -> Self {
        self.collect_mode = mode;
        self
    }

    /// How long a stop waits before SIGKILL (`TimeoutStopUSec=`). Default: the manager's, 90 s where nothing else is configured.
    pub fn timeout_stop(mut self, timeout: Duration) -> Self {
        self.timeout_stop = Some(timeout);
        self
    }

    /// The signal that a stop sends first (`KillSignal=`). Default: SIGTERM.
    pub fn kill_signal(mut self, signal: i32) -> Self {
        self.kill_signal = Some(signal);
        self
    }

    /// What to do when a unit of this name is loaded already. Default: [`IfExists::ResetFailed`].
    pub fn if_exists(mut self, policy: IfExists) -> Self {
        self.if_exists = policy;
        self
    }

    /// What to do about children that were forked before. Default: [`Descendants::Refuse`].
    pub fn descendants(mut self, policy: Descendants) -> Self {
        self.descendants = policy;
        self
    }

    /// Whether processes may be taken out of a unit that is not the caller's own. Default: no.
    ///
    /// Descendants of the caller, processes in the caller's own unit and processes in no unit move freely.
    pub fn allow_move(mut self, allow: bool) -> Self {
        self.allow_move = allow;
        self
    }

    /// Whether the scope stays when the start's future is dropped before it is ready. Default: no, the start is then ended and undone in the background.
    pub fn keep_on_drop(mut self, keep: bool) -> Self {
        self.keep_on_drop = keep;
        self
    }

    /// How long the start may take, from the moment it is admitted. Default: 30 s; more than zero, at most a day.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How long the start may wait behind other starts of the same `Manager`. Default: 30 s; more than zero, at most a day.
    pub fn queue_timeout(mut self, timeout: Duration) -> Self {
        self.queue_timeout = timeout;
        self
    }
}
