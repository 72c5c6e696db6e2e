//! The body of one start call, made from a checked [`ScopeSpec`].

use std::time::Duration;

use super::limit::check_limit;
use super::{CollectMode, Descendants, IfExists, Nonce, ScopeSpec};
use crate::property::PropertyValue;
use crate::unit::{ScopeName, SliceName};
use crate::{Error, ErrorKind, Phase, Result};

/// The kernel's highest signal number (SIGRTMAX).
const LAST_SIGNAL: i32 = 64;

/// A start whose arguments are all checked.
#[derive(Clone, Debug)]
pub(crate) struct StartPlan {
    pub(crate) unit: ScopeName,
    /// `None`: the manager's default slice.
    pub(crate) slice: Option<SliceName>,
    pub(crate) nonce: Nonce,
    /// All but the processes, in the order of the call.
    pub(crate) properties: Vec<(&'static str, PropertyValue)>,
    pub(crate) if_exists: IfExists,
    pub(crate) descendants: Descendants,
    pub(crate) allow_move: bool,
    pub(crate) keep_on_drop: bool,
    pub(crate) start_timeout: Duration,
    pub(crate) queue_timeout: Duration,
}

impl ScopeSpec {
    /// Checks every argument. The first that cannot be used is the error.
    pub(crate) fn plan(&self, nonce: Nonce) -> Result<StartPlan> {
        let unit = ScopeName::new(self.name.as_str())
            .and_then(|unit| not_the_managers(&unit).map(|()| unit))
            .map_err(|e| e.at(Phase::Validate))?;
        self.plan_as(unit, nonce)
            .map_err(|e| e.with_unit(&self.name).at(Phase::Validate))
    }

    fn plan_as(&self, unit: ScopeName, nonce: Nonce) -> Result<StartPlan> {
        let slice = self.slice.as_deref().map(SliceName::new).transpose()?;
        let description = self.description.as_deref().unwrap_or(&self.name);
        check_description(description)?;
        check_limit("the start timeout", self.start_timeout)?;
        check_limit("the queue timeout", self.queue_timeout)?;

        let mut properties = vec![("Description", PropertyValue::Str(nonce.mark(description)))];
        if let Some(slice) = &slice {
            properties.push(("Slice", PropertyValue::Str(slice.as_str().to_owned())));
        }
        if self.delegate {
            properties.push(("Delegate", PropertyValue::Bool(true)));
        }
        if self.collect_mode == CollectMode::InactiveOrFailed {
            properties.push((
                "CollectMode",
                PropertyValue::Str("inactive-or-failed".to_owned()),
            ));
        }
        if let Some(timeout) = self.timeout_stop {
            properties.push((
                "TimeoutStopUSec",
                PropertyValue::U64(microseconds(timeout)?),
            ));
        }
        if let Some(signal) = self.kill_signal {
            if !(1..=LAST_SIGNAL).contains(&signal) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!(
                        "the kill signal {signal} is not a signal number; give one from 1 to {LAST_SIGNAL}"
                    ),
                ));
            }
            properties.push(("KillSignal", PropertyValue::I32(signal)));
        }
        Ok(StartPlan {
            unit,
            slice,
            nonce,
            properties,
            if_exists: self.if_exists,
            descendants: self.descendants,
            allow_move: self.allow_move,
            keep_on_drop: self.keep_on_drop,
            start_timeout: self.start_timeout,
            queue_timeout: self.queue_timeout,
        })
    }
}

/// The manager itself is in there.
pub(crate) fn not_the_managers(unit: &ScopeName) -> Result<()> {
    if unit == "init.scope" {
        return Err(Error::new(
            ErrorKind::InvalidName,
            "init.scope is the manager's own scope; choose another name",
        ));
    }
    Ok(())
}

fn check_description(text: &str) -> Result<()> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "the description {text:?} has the control character {c:?}; give one line of text"
            ),
        )),
    }
}

fn microseconds(timeout: Duration) -> Result<u64> {
    // u64::MAX is systemd's "infinity", and zero means the same for a stop.
    match u64::try_from(timeout.as_micros()) {
        Ok(n) if n > 0 && n < u64::MAX => Ok(n),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("the stop timeout of {timeout:?} cannot be used; give at least a microsecond"),
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn plan(spec: &ScopeSpec) -> Result<StartPlan> {
        spec.plan(Nonce::new(1))
    }

    #[test]
    fn a_plain_scope_sends_only_its_marked_description() {
        let plan = plan(&ScopeSpec::new("a.scope")).unwrap();
        assert_eq!(
            plan.properties,
            [(
                "Description",
                PropertyValue::Str("a.scope [scopectl:0000000000000001]".into())
            )]
        );
    }

    #[test]
    fn every_setting_becomes_its_property() {
        let spec = ScopeSpec::new("a.scope")
            .slice("b-c.slice")
            .description("d")
            .delegate(true)
            .collect_mode(CollectMode::InactiveOrFailed)
            .timeout_stop(Duration::from_millis(1500))
            .kill_signal(2);
        let names: Vec<_> = plan(&spec)
            .unwrap()
            .properties
            .into_iter()
            .skip(1)
            .collect();
        assert_eq!(
            names,
            [
                ("Slice", PropertyValue::Str("b-c.slice".into())),
                ("Delegate", PropertyValue::Bool(true)),
                (
                    "CollectMode",
                    PropertyValue::Str("inactive-or-failed".into())
                ),
                ("TimeoutStopUSec", PropertyValue::U64(1_500_000)),
                ("KillSignal", PropertyValue::I32(2)),
            ]
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        let base = || ScopeSpec::new("a.scope");
        for (spec, part) in [
            (ScopeSpec::new("a.service"), "a.service"),
            (ScopeSpec::new("init.scope"), "init.scope"),
            (base().slice("b.scope"), "b.scope"),
            (base().description("a\nb"), "\\n"),
            (base().start_timeout(Duration::ZERO), "start timeout"),
            (base().start_timeout(Duration::MAX), "start timeout"),
            (base().queue_timeout(Duration::MAX), "queue timeout"),
            (base().timeout_stop(Duration::MAX), "stop timeout"),
            (base().timeout_stop(Duration::ZERO), "stop timeout"),
            (base().kill_signal(0), "signal 0"),
            (base().kill_signal(65), "signal 65"),
        ] {
            let error = plan(&spec).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(error.phase(), Some(Phase::Validate));
        }
    }

    #[test]
    fn a_spec_survives_json() {
        let spec = ScopeSpec::new("a.scope")
            .slice("b.slice")
            .if_exists(IfExists::WaitGone)
            .timeout_stop(Duration::from_millis(1500))
            .descendants(Descendants::Move);
        let text = serde_json::to_string(&spec).unwrap();
        assert!(text.contains(r#""timeout_stop_usec":1500000"#), "{text}");
        assert_eq!(serde_json::from_str::<ScopeSpec>(&text).unwrap(), spec);
        assert_eq!(
            serde_json::from_str::<ScopeSpec>(r#"{"name":"a.scope"}"#).unwrap(),
            ScopeSpec::new("a.scope")
        );
    }
}
