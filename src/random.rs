//! Random numbers from the kernel: for marks that must not repeat, and for real jitter.

use crate::{Error, ErrorKind, Result};

/// 64 random bits.
pub(crate) fn number() -> Result<u64> {
    let mut bytes = [0; 8];
    // A request of up to 256 bytes is answered whole (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(|e| {
        Error::new(
            ErrorKind::Io,
            "the kernel gave no random number (getrandom)",
        )
        .with_source(e)
    })?;
    Ok(u64::from_ne_bytes(bytes))
}
