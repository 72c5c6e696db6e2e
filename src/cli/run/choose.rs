//! Which manager: `--manager`, and what `auto` means.

use scopectl::Instance;

use super::message;
use super::plan::{ManagerOption, Plan};
use super::start;
use crate::cli::cgroup_path::Perspective;
use crate::cli::exit::{Failure, Result};

pub(super) enum Choice {
    /// A manager that runs already.
    Existing(Selected),
    /// One of our own.
    Embedded,
}

/// A manager, as the library and as the report name it.
pub(super) struct Selected {
    pub(super) instance: Instance,
    pub(super) label: String,
}

impl Selected {
    fn system() -> Self {
        Self {
            instance: Instance::System,
            label: "system".to_owned(),
        }
    }

    fn user() -> Self {
        Self {
            instance: Instance::User,
            label: "user".to_owned(),
        }
    }

    fn address(address: &str) -> Self {
        Self {
            instance: Instance::Address(address.to_owned()),
            label: address.to_owned(),
        }
    }

    /// The one that this process has started.
    pub(super) fn embedded(address: String) -> Self {
        Self {
            instance: Instance::Address(address),
            label: "embedded".to_owned(),
        }
    }

    /// Which of the slices on the caller's path is this manager's; the caller is in none of an embedded manager's.
    pub(super) fn perspective(&self) -> Option<Perspective> {
        match &self.instance {
            Instance::System => Some(Perspective::System),
            Instance::User => Some(Perspective::User),
            _ if self.label == "embedded" => None,
            _ => Some(Perspective::Nearest),
        }
    }
}

pub(super) fn choose(plan: &Plan) -> Result<Choice> {
    match &plan.manager {
        ManagerOption::System => Ok(Choice::Existing(Selected::system())),
        ManagerOption::User => Ok(Choice::Existing(Selected::user())),
        ManagerOption::Address(address) => Ok(Choice::Existing(Selected::address(address))),
        ManagerOption::Embedded => Ok(Choice::Embedded),
        ManagerOption::Auto => auto(plan),
    }
}

fn auto(plan: &Plan) -> Result<Choice> {
    let is_root = rustix::process::geteuid().is_root();
    let booted = std::path::Path::new("/run/systemd/system").is_dir();
    if is_root && booted {
        return Ok(Choice::Existing(Selected::system()));
    }
    let why_not_user = match std::env::var_os("XDG_RUNTIME_DIR") {
        None => "XDG_RUNTIME_DIR is not set".to_owned(),
        Some(directory) => match start::probe(plan, Instance::User) {
            Ok(()) => return Ok(Choice::Existing(Selected::user())),
            Err(error) => format!("in XDG_RUNTIME_DIR {directory:?}: {error}"),
        },
    };
    if is_root {
        message::embedded(plan.report);
        return Ok(Choice::Embedded);
    }
    let why_not_system = if booted {
        "it needs root; try --manager system"
    } else {
        "this machine does not run systemd"
    };
    Err(Failure::run(format!(
        "no systemd manager: system ({why_not_system}), user ({why_not_user}), embedded (it needs root)"
    )))
}
