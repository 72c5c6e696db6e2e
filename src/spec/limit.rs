//! The range of a time limit.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Every wait is bounded, and none is so short that it could not be met.
pub(crate) fn check_limit(what: &str, limit: Duration) -> Result<()> {
    if limit.is_zero() || limit > LONGEST {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{what} of {limit:?} cannot be used; give more than zero and at most a day"),
        ));
    }
    Ok(())
}
