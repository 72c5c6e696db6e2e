//! The types of units, each with the suffix that its names end in.

use std::fmt;

/// The type of a unit, which is the suffix of its name (systemd.unit(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UnitType {
    /// `.service`
    Service,
    /// `.socket`
    Socket,
    /// `.device`
    Device,
    /// `.mount`
    Mount,
    /// `.automount`
    Automount,
    /// `.swap`
    Swap,
    /// `.target`
    Target,
    /// `.path`
    Path,
    /// `.timer`
    Timer,
    /// `.slice`
    Slice,
    /// `.scope`
    Scope,
}

impl UnitType {
    /// Every type that systemd has.
    pub const ALL: [Self; 11] = [
        Self::Service,
        Self::Socket,
        Self::Device,
        Self::Mount,
        Self::Automount,
        Self::Swap,
        Self::Target,
        Self::Path,
        Self::Timer,
        Self::Slice,
        Self::Scope,
    ];

    /// The type as systemd spells it, without the dot: `scope`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Mount => "mount",
            Self::Automount => "automount",
            Self::Swap => "swap",
            Self::Target => "target",
            Self::Path => "path",
            Self::Timer => "timer",
            Self::Slice => "slice",
            Self::Scope => "scope",
        }
    }

    /// The type that the text after the last dot of `name` stands for, if it is one. Lower case only, as in systemd.
    pub(super) fn of(name: &str) -> Option<Self> {
        let (_, suffix) = name.rsplit_once('.')?;
        Self::ALL.into_iter().find(|kind| kind.as_str() == suffix)
    }
}

impl fmt::Display for UnitType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dot_decides_and_case_counts() {
        assert_eq!(UnitType::of("a.service.scope"), Some(UnitType::Scope));
        assert_eq!(UnitType::of("a.scope.service"), Some(UnitType::Service));
        for name in ["a", "a.", "a.Scope", "scope", "a.scope ", "a.snapshot", ""] {
            assert_eq!(UnitType::of(name), None, "{name}");
        }
        for kind in UnitType::ALL {
            assert_eq!(UnitType::of(&format!("a.{kind}")), Some(kind));
        }
    }
}
