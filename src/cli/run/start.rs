//! The library's part of `run`: this process into a new scope.
//!
//! One thread: the runtime is a current-thread one and is gone again before the command begins.

use std::time::Duration;

use scopectl::unit::SliceName;
use scopectl::{CollectMode, Descendants, Instance, Manager, Process, ScopeSpec};

use super::choose::Selected;
use super::plan::{ManagerOption, Plan};
use crate::cli::cgroup_path;
use crate::cli::exit::{Failure, Result};

/// The longest wait for one answer of the manager.
const CALL: Duration = Duration::from_secs(25);
/// The same where `auto` may still take another manager.
const PROBE: Duration = Duration::from_secs(3);

/// Whether a manager answers.
pub(super) fn probe(plan: &Plan, instance: Instance) -> scopectl::Result<(), String> {
    let runtime = runtime().map_err(|error| error.to_string())?;
    let limit = within(plan, PROBE);
    match runtime.block_on(async { Manager::connect(instance).call_timeout(limit).await }) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Puts this process into the scope of the plan and gives the unit's name.
pub(super) fn start(plan: &Plan, selected: &Selected) -> Result<String> {
    let spec = spec(plan, selected)?;
    let runtime =
        runtime().map_err(|error| Failure::run(format!("cannot set up an event loop: {error}")))?;
    runtime.block_on(async {
        let manager = Manager::connect(selected.instance.clone())
            .call_timeout(within(plan, CALL))
            .await
            .map_err(|error| match plan.manager {
                ManagerOption::Address(_) => Failure::option("--manager", error),
                _ => error.into(),
            })?;
        let scope = manager.start_scope(&spec, [Process::current()?]).await?;
        Ok(scope.name().to_string())
    })
}

/// `--start-timeout` bounds every wait, not only the one for the job.
fn within(plan: &Plan, longest: Duration) -> Duration {
    plan.start_timeout
        .map_or(longest, |timeout| timeout.min(longest))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
}

fn spec(plan: &Plan, selected: &Selected) -> Result<ScopeSpec> {
    let name = match &plan.unit {
        Some(name) => name.to_string(),
        None => unique_name()?,
    };
    let mut spec = ScopeSpec::new(name)
        .description(plan.description.as_str())
        .delegate(plan.delegate)
        // Children that this process has before it becomes the command (a shell's process substitution, say) are the caller's, not the command's.
        .descendants(Descendants::Leave);
    if let Some(slice) = slice(plan, selected)? {
        spec = spec.slice(slice.as_str());
    }
    if plan.collect {
        spec = spec.collect_mode(CollectMode::InactiveOrFailed);
    }
    if let Some(policy) = plan.if_exists {
        spec = spec.if_exists(policy);
    }
    if let Some(timeout) = plan.start_timeout {
        spec = spec.start_timeout(timeout);
    }
    Ok(spec)
}

/// The number of a process tells two callers on one machine apart, the random part two containers that share a manager.
fn unique_name() -> Result<String> {
    let mut bytes = [0_u8; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::run(format!("cannot get random bytes for a name: {error}")))?;
    Ok(format!(
        "run-p{}-i{}.scope",
        std::process::id(),
        u64::from_ne_bytes(bytes)
    ))
}

fn slice(plan: &Plan, selected: &Selected) -> Result<Option<SliceName>> {
    if !plan.slice_inherit {
        return Ok(plan.slice.clone());
    }
    let path = cgroup_path::own_for_units().ok_or_else(|| {
        Failure::option(
            "--slice-inherit",
            "the caller's slice cannot be read from /proc/self/cgroup",
        )
    })?;
    let callers = selected.perspective().map_or_else(
        || "-.slice".to_owned(),
        |from| cgroup_path::slice(&path, from),
    );
    let name = inherited_slice(&callers, plan.slice.as_ref().map(SliceName::as_str));
    SliceName::new(name)
        .map(Some)
        .map_err(|error| Failure::option("--slice-inherit", error))
}

/// `a.slice` and `x-y.slice` make `a-x-y.slice`; the root slice adds nothing on either side.
fn inherited_slice(callers: &str, below: Option<&str>) -> String {
    match (callers, below) {
        (callers, None | Some("-.slice")) => callers.to_owned(),
        ("-.slice", Some(below)) => below.to_owned(),
        (callers, Some(below)) => {
            format!(
                "{}-{below}",
                callers.strip_suffix(".slice").unwrap_or(callers)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_slice_is_the_callers_or_a_child_of_it() {
        for (callers, below, expected) in [
            ("a.slice", None, "a.slice"),
            ("a-b.slice", Some("x.slice"), "a-b-x.slice"),
            ("a.slice", Some("x-y.slice"), "a-x-y.slice"),
            ("-.slice", Some("x.slice"), "x.slice"),
            ("-.slice", None, "-.slice"),
            ("a.slice", Some("-.slice"), "a.slice"),
        ] {
            assert_eq!(inherited_slice(callers, below), expected);
        }
    }
}
