//! The options of `run`, checked: after this nothing that was typed can be wrong in form, and nothing has been started.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use scopectl::IfExists;
use scopectl::unit::{ScopeName, SliceName};

use super::args::RunArgs;
use super::message::Report;
use crate::cli::environment::{Assignment, Environment};
use crate::cli::exec::Program;
use crate::cli::exit::{Failure, Result};
use crate::cli::identity::{self, Identity};
use crate::cli::{duration, sys};

/// The longest `--start-timeout`.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

const CAP_SYS_NICE: u32 = 23;

pub(super) struct Plan {
    pub(super) manager: ManagerOption,
    pub(super) unit: Option<ScopeName>,
    pub(super) slice: Option<SliceName>,
    pub(super) slice_inherit: bool,
    pub(super) description: String,
    pub(super) delegate: bool,
    pub(super) collect: bool,
    pub(super) if_exists: Option<IfExists>,
    pub(super) start_timeout: Option<Duration>,
    pub(super) report: Report,
    pub(super) nice: Option<i32>,
    pub(super) identity: Option<Identity>,
    pub(super) directory: Option<PathBuf>,
    pub(super) program: Program,
}

/// `--manager`
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ManagerOption {
    Auto,
    System,
    User,
    Embedded,
    Address(String),
}

impl Plan {
    pub(super) fn new(args: &RunArgs) -> Result<Self> {
        let unit = option("--unit", &args.unit, |text| {
            ScopeName::from_argument(text).map_err(|error| error.to_string())
        })?;
        let slice = option("--slice", &args.slice, |text| {
            SliceName::from_argument(text).map_err(|error| error.to_string())
        })?;
        let description = option("--description", &args.description, |text| {
            if text.is_empty() || text.contains(char::is_control) {
                return Err(format!(
                    "{text:?} is empty or has a line break or another control character"
                ));
            }
            Ok(text.to_owned())
        })?;
        let nice = option("--nice", &args.nice, nice)?;
        let if_exists = option("--if-exists", &args.if_exists, if_exists)?;
        let start_timeout = option("--start-timeout", &args.start_timeout, start_timeout)?;
        let manager = option("--manager", &Some(args.manager.clone()), manager)?
            .unwrap_or(ManagerOption::Auto);
        let identity = Identity::resolve(args.uid.as_deref(), args.gid.as_deref())?;
        let directory = directory(args.working_directory.as_deref())?;
        let environment = environment(&args.setenv, identity.as_ref())?;
        let arguments = args.command.iter().cloned().map(c_string).collect();
        let program = Program::new(arguments, environment);
        program.check(directory.as_deref(), identity.is_none())?;
        Ok(Self {
            manager,
            unit,
            slice,
            slice_inherit: args.slice_inherit,
            // Not the whole command line: arguments may be secret, and every user can read a description.
            description: description
                .unwrap_or_else(|| program.base_name().replace(char::is_control, "?")),
            delegate: args.delegate,
            collect: args.collect,
            if_exists,
            start_timeout,
            report: match (args.quiet, args.json) {
                (true, _) => Report::Quiet,
                (false, true) => Report::Json,
                (false, false) => Report::Text,
            },
            nice,
            identity,
            directory,
            program,
        })
    }
}

impl Plan {
    /// Whether an embedded manager may come of it.
    pub(super) fn may_need_a_parent(&self) -> bool {
        matches!(self.manager, ManagerOption::Auto | ManagerOption::Embedded)
    }
}

/// Reads one option, if it was given, and puts its name before what is wrong with it.
fn option<T>(
    name: &str,
    value: &Option<OsString>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let read = match value.to_str() {
        Some(text) => read(text),
        None => Err(format!("{value:?} is not UTF-8")),
    };
    read.map(Some).map_err(|why| Failure::option(name, why))
}

fn nice(text: &str) -> Result<i32, String> {
    let wanted = match text.parse::<i32>() {
        Ok(number @ -20..=19) => number,
        _ => return Err(format!("{text:?} is not a number from -20 to 19")),
    };
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    if wanted < now && !identity::has_capability(CAP_SYS_NICE) {
        // RLIMIT_NICE counts from 1 (nice 19) to 40 (nice -20).
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nice).current;
        let lowest = 20 - i64::try_from(limit.unwrap_or(40)).unwrap_or(40).min(40);
        if i64::from(wanted) < lowest {
            return Err(format!(
                "{wanted} is below the present {now}, which needs root"
            ));
        }
    }
    Ok(wanted)
}

fn if_exists(text: &str) -> Result<IfExists, String> {
    Ok(match text {
        "fail" => IfExists::Fail,
        "reset-failed" => IfExists::ResetFailed,
        "wait" => IfExists::WaitGone,
        "attach" => IfExists::Attach,
        _ => {
            return Err(format!(
                "{text:?} is none of fail, reset-failed, wait, attach"
            ));
        }
    })
}

fn start_timeout(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    if duration.is_zero() || duration > LONGEST {
        return Err(format!("{text:?} is not more than 0 and at most 24h"));
    }
    Ok(duration)
}

fn manager(text: &str) -> Result<ManagerOption, String> {
    Ok(match text {
        "auto" => ManagerOption::Auto,
        "system" => ManagerOption::System,
        "user" => ManagerOption::User,
        "embedded" => ManagerOption::Embedded,
        address if is_address(address) => ManagerOption::Address(address.to_owned()),
        _ => {
            return Err(format!(
                "{text:?} is none of auto, system, user, embedded, and no D-Bus address such as unix:path=/run/user/1000/bus"
            ));
        }
    })
}

/// The form of a D-Bus address, `transport:key=value,...`; what it means is the library's to say.
fn is_address(text: &str) -> bool {
    let Some((transport, pairs)) = text.split_once(':') else {
        return false;
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    is_name(transport)
        && pairs.split(',').all(|pair| {
            pair.split_once('=')
                .is_some_and(|(key, value)| is_name(key) && !value.is_empty())
        })
}

fn directory(value: Option<&OsStr>) -> Result<Option<PathBuf>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let path = PathBuf::from(value);
    let refuse = |why: &str| {
        Err(Failure::option(
            "--working-directory",
            format!("{value:?} {why}"),
        ))
    };
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(Some(path)),
        Ok(_) => refuse("is not a directory"),
        // The user that the command runs as may see more than we do.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(Some(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => refuse("does not exist"),
        Err(error) => refuse(&format!("cannot be used: {error}")),
    }
}

fn environment(setenv: &[OsString], identity: Option<&Identity>) -> Result<Environment> {
    let assignments = setenv
        .iter()
        .map(|text| Assignment::parse(text).map_err(|why| Failure::option("--setenv", why)))
        .collect::<Result<Vec<_>>>()?;
    let mut environment = Environment::new(sys::environment());
    for (name, value) in identity.map_or(&[][..], Identity::variables) {
        let is_given = |given: &Assignment| given.name() == name.as_bytes();
        if !assignments.iter().any(is_given) {
            environment.set(name.as_bytes(), value);
        }
    }
    for assignment in &assignments {
        if let Assignment::Set(name, value) = assignment {
            environment.set(name, value);
        }
    }
    Ok(environment)
}

/// An argument of this process has no NUL inside.
fn c_string(argument: OsString) -> CString {
    CString::new(argument.into_vec()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_by_its_form() {
        for text in [
            "unix:path=/run/x",
            "unix:abstract=x,guid=00",
            "unixexec:path=x",
        ] {
            assert_eq!(
                manager(text),
                Ok(ManagerOption::Address(text.to_owned())),
                "{text}"
            );
        }
        for text in [
            "",
            ":",
            "unix",
            "unix:",
            "unix:path",
            "unix:path=",
            "/run/x",
            "System",
            "a b:c=d",
        ] {
            assert!(manager(text).unwrap_err().contains(&format!("{text:?}")));
        }
    }

    #[test]
    fn a_wait_without_end_or_of_nothing_is_refused() {
        for text in ["0", "0s", "infinity", "25h", "1w", "x"] {
            assert!(start_timeout(text).is_err(), "{text}");
        }
        assert_eq!(start_timeout("24h"), Ok(LONGEST));
    }

    #[test]
    fn nice_values_are_those_of_the_kernel() {
        for text in ["-21", "20", "", "1.5", "low", "99999999999"] {
            assert!(nice(text).is_err(), "{text}");
        }
        assert_eq!(nice("19"), Ok(19));
    }
}
