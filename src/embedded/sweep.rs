//! What a crash of both parent and guardian left: removed at the next start.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Dir, FlockOperation, flock, fstat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::remains::{Files, Remains, is_populated, open_dir, remove_tree};
use super::state::{Base, creator, recorded};
use crate::cgroup;

/// For one instance. What cannot be removed in this time is left to the next sweep.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long the lock of a creator that is gone is waited for.
const LINGERING_LOCK: Duration = Duration::from_millis(300);
/// An empty cgroup without a state directory may belong to a start in another pid namespace that is under way.
const ORPHAN_AGE: Duration = Duration::from_secs(60);

/// Removes every instance whose lock is free.
pub(super) fn sweep(base: &Base, places: &[cgroup::Dir]) {
    for name in names(&base.dir) {
        sweep_one(base, places, &name);
    }
    for place in places {
        for name in names(place.fd()) {
            sweep_orphan(base, place, &name);
        }
    }
}

/// The directories in one that have a name of ours.
fn names(dir: impl AsFd) -> Vec<CString> {
    let Ok(entries) = Dir::read_from(dir) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().to_owned();
            creator(&name).map(|_| name)
        })
        .collect()
}

fn sweep_one(base: &Base, places: &[cgroup::Dir], name: &CStr) {
    // Held until the end: the lock keeps other sweeps away.
    let Ok(state) = open_dir(base.dir.as_fd(), name) else {
        return;
    };
    let ours = fstat(&state).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
    if !ours || !lock(&state, name) {
        return;
    }
    let recorded = recorded(&base.path.join(OsStr::from_bytes(name.to_bytes())));
    // A crash may have come before the record was written.
    let cgroups = recorded
        .iter()
        .chain(places)
        .filter_map(|place| place.fd().try_clone().ok())
        .collect();
    let Ok(dir) = base.dir.try_clone() else {
        return;
    };
    let remains = Remains {
        name: name.to_owned(),
        cgroups,
        base: dir,
        base_path: None,
    };
    match remains.clear(TIMEOUT) {
        Ok(()) => tracing::debug!(?name, "removed what a crashed embedded manager left"),
        Err(left) => tracing::warn!(
            ?name,
            ?left,
            "cannot remove what a crashed embedded manager left"
        ),
    }
}

/// Takes the lock of an instance, if it is free. Of one whose creator has just been killed it may not be free yet: the kernel closes files of its own accord,
/// a moment after the process is gone.
fn lock(state: impl AsFd, name: &CStr) -> bool {
    let deadline = Instant::now() + LINGERING_LOCK;
    loop {
        if flock(&state, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if creator_lives(name) || Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// In this pid namespace; the creator may be in another.
fn creator_lives(name: &CStr) -> bool {
    creator(name)
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
        .is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// A cgroup with a name of ours and no state directory: removed only if it is empty, old, and its creator is not there.
fn sweep_orphan(base: &Base, place: &cgroup::Dir, name: &CStr) {
    let has_state = open_dir(base.dir.as_fd(), name).is_ok();
    if has_state || creator_lives(name) {
        return;
    }
    let Ok(cgroup) = open_dir(place.fd().as_fd(), name) else {
        return;
    };
    let old = fstat(&cgroup).is_ok_and(|stat| {
        let changed = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(u64::MAX));
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .is_ok_and(|now| now.saturating_sub(changed) >= ORPHAN_AGE)
    });
    if old && is_populated(cgroup.as_fd()) == Ok(false) {
        let _ = remove_tree(place.fd().as_fd(), name, Files::Keep, Instant::now(), 64);
    }
}
