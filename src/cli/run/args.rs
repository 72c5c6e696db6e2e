//! The options of `run`, as typed.

use std::ffi::OsString;

use clap::Args;

/// Run a command in a new scope
///
/// The process puts itself into a new transient scope, waits until systemd has finished and it is really inside, and then becomes the command: same
/// process, terminal, signals, environment and open files. The scope ends with its last process.
#[derive(Args)]
#[command(display_name = "scopectl", override_usage = USAGE, after_long_help = EXAMPLES)]
pub(in crate::cli) struct RunArgs {
    /// Name of the scope; `.scope` is added to a name without a unit suffix [default: a unique run-p<PID>-i<NUMBER>.scope]
    #[arg(short, long, value_name = "NAME")]
    pub(in crate::cli) unit: Option<OsString>,

    /// Slice to put the scope in; `.slice` is added to a name without a unit suffix [default: the manager's, system.slice or app.slice]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(in crate::cli) slice: Option<OsString>,

    /// Put the scope in the caller's slice, or with --slice NAME in the child NAME of that slice
    #[arg(long)]
    pub(in crate::cli) slice_inherit: bool,

    /// Description of the scope, visible to all users [default: the base name of the command]
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) description: Option<OsString>,

    /// Set a variable for the command, or with NAME alone keep the caller's; may be given several times, nothing is expanded
    #[arg(short = 'E', long, value_name = "NAME[=VALUE]")]
    pub(in crate::cli) setenv: Vec<OsString>,

    /// Directory to run the command in [default: the current one]
    #[arg(short = 'd', long, value_name = "DIRECTORY")]
    pub(in crate::cli) working_directory: Option<OsString>,

    /// Nice value of the command, from -20 (most favourable) to 19 [default: unchanged]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(in crate::cli) nice: Option<OsString>,

    /// User to run the command as, name or number, with all groups of that user and HOME, USER, LOGNAME and SHELL set
    #[arg(long, value_name = "USER", allow_negative_numbers = true)]
    pub(in crate::cli) uid: Option<OsString>,

    /// Group to run the command as, name or number; without --uid the caller's other groups are given up
    #[arg(long, value_name = "GROUP", allow_negative_numbers = true)]
    pub(in crate::cli) gid: Option<OsString>,

    /// Let the command manage cgroups below the scope's (Delegate=yes)
    #[arg(long)]
    pub(in crate::cli) delegate: bool,

    /// Unload the scope after it ended even if it failed (CollectMode=inactive-or-failed)
    #[arg(long)]
    pub(in crate::cli) collect: bool,

    /// What to do if a scope of that name exists: fail, reset-failed (replace one that has failed), wait (until a dying one is gone), attach [default:
    /// reset-failed]
    #[arg(long, value_name = "POLICY")]
    pub(in crate::cli) if_exists: Option<OsString>,

    /// How long to wait for systemd, in seconds or with a unit (us, ms, s, min, h, d), as in "1min 30s" [default: 30s]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    pub(in crate::cli) start_timeout: Option<OsString>,

    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(in crate::cli) quiet: bool,

    /// Log what is done on stderr; twice: everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(in crate::cli) verbose: u8,

    /// Report on stderr as one line of JSON: {"unit","cgroup","pid","manager"}
    #[arg(long)]
    pub(in crate::cli) json: bool,

    /// systemd manager to use: auto, system, user, embedded (a private one for this command; needs root), or a D-Bus address
    ///
    /// auto takes, in this order: the system's, for root on a machine that runs systemd; the user's, if one answers in $XDG_RUNTIME_DIR; for root, an
    /// embedded one. That one is taken down when the command ends, and with it everything that the command left running. Signals sent to scopectl are then
    /// forwarded to the command.
    #[arg(long, value_name = "MANAGER", default_value = "auto")]
    pub(in crate::cli) manager: OsString,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(in crate::cli) command: Vec<OsString>,
}

const USAGE: &str = "scopectl run [OPTIONS] [--] COMMAND [ARGUMENT]...";

const EXAMPLES: &str = "\
Exit status:
  the command's own
  125    scopectl failed
  126    the command cannot be executed
  127    the command was not found
  128+N  signal N ended the command (embedded manager only)

Examples:
  scopectl run make -j4
  scopectl run --unit=build --slice=ci.slice --collect -- make -j4
  scopectl run --uid=www-data -d /srv/www --start-timeout=1min ./server";
