//! Where the fresh cgroup can be: the root of the caller's cgroup2 mount, or the caller's own cgroup.

use std::fs;

use crate::cgroup::{Dir, Hierarchy, ProcCgroup};
use crate::{Error, ErrorKind, Result};

/// The cgroups that may become the parent of the fresh one, the best first: at the root of the mount it is nobody's child.
pub(super) fn places() -> Result<Vec<Dir>> {
    let hierarchy = Hierarchy::detect().map_err(|error| {
        Error::new(
            ErrorKind::Embedded,
            format!("the embedded manager needs a cgroup2 file system: {error}"),
        )
        .with_source(error)
    })?;
    let root = hierarchy.mounts().next();
    let own = own_cgroup().and_then(|own| hierarchy.open(&own).ok());
    let mut places = Vec::new();
    for place in [root.map(|root| root.open_below::<&str>(&[])), own.map(Ok)] {
        let place = place.transpose()?;
        places.extend(place.filter(|place| {
            // Often the same.
            !places.iter().any(|other: &Dir| other.id() == place.id())
        }));
    }
    Ok(places)
}

/// The caller's cgroup2 path, as it reads it itself.
pub(super) fn own_cgroup() -> Option<String> {
    let text = fs::read("/proc/self/cgroup").ok()?;
    ProcCgroup::parse(&String::from_utf8_lossy(&text), false)
        .unified()
        .map(str::to_owned)
}
