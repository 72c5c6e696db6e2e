//! What systemd says of a unit, in one call: a row of ListUnitsByNames.

use crate::spec::{Nonce, is_marked};

/// A unit as systemd sees it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitState {
    pub(crate) description: String,
    pub(crate) load: String,
    pub(crate) active: String,
    pub(crate) sub: String,
    /// Number and object path of the pending job.
    pub(crate) job: Option<(u32, String)>,
}

impl UnitState {
    /// No unit of this name is loaded.
    pub(crate) fn absent() -> Self {
        Self {
            description: String::new(),
            load: "not-found".to_owned(),
            active: "inactive".to_owned(),
            sub: "dead".to_owned(),
            job: None,
        }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.load != "not-found"
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active == "active"
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.active == "failed"
    }

    /// Whether the job of this object path is pending; `None`: any job.
    pub(crate) fn has_job(&self, path: Option<&str>) -> bool {
        self.job
            .as_ref()
            .is_some_and(|(_, job)| path.is_none_or(|path| path == job))
    }

    /// Started by us, in this very start.
    pub(crate) fn is_ours(&self, nonce: Nonce) -> bool {
        nonce.marks(&self.description)
    }

    /// Started by this crate at some time.
    pub(crate) fn is_marked(&self) -> bool {
        is_marked(&self.description)
    }
}

impl std::fmt::Display for UnitState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.is_loaded() {
            return f.write_str("not loaded");
        }
        write!(f, "{} ({})", self.active, self.sub)?;
        if let Some((id, _)) = &self.job {
            write!(f, " with job {id} pending")?;
        }
        Ok(())
    }
}
