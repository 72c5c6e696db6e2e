//! [`Hierarchy`]: where the caller has cgroup2 mounted, and opening there what `/proc/PID/cgroup` names.
//!
//! A mount shows a part of the hierarchy: its root, in mountinfo written like any cgroup path, relative to the reader's cgroup namespace. In a namespace made without
//! a new mount, or in a container that was given the host's mount, the root is above the namespace's and reads `/../..`; then the names in between are in no
//! file, and are found by looking for the cgroup below the mount that lists the caller.

use std::fs;
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, StatxFlags, major, minor, statx};

use super::dir::Dir;
use super::files::ids;
use super::mounts::{self, Mount};
use super::ns_path::{Below, NsPath};
use super::proc_cgroup::ProcCgroup;
use crate::error::{Error, ErrorKind, Result};

/// So many cgroups are looked at when the namespace root is searched.
const MOST: usize = 50_000;

/// The cgroup2 file systems that the caller can reach.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    /// The best first.
    mounts: Vec<Mounted>,
    ancestors: OnceLock<Vec<String>>,
}

#[derive(Debug)]
struct Mounted {
    root: String,
    read_only: bool,
    dir: Dir,
}

impl Hierarchy {
    /// Looks through `/proc/self/mountinfo` for cgroup2: at `/sys/fs/cgroup`, on hybrid systems at `/sys/fs/cgroup/unified`, or wherever it is.
    pub(crate) fn detect() -> Result<Arc<Self>> {
        let text = fs::read("/proc/self/mountinfo").map_err(|error| {
            Error::new(
                ErrorKind::Io,
                "cannot read /proc/self/mountinfo: is /proc mounted?",
            )
            .with_source(error)
        })?;
        let found = mounts::parse(&text);
        let mut candidates: Vec<&Mount> = found
            .iter()
            .filter(|mount| mount.fs_type == "cgroup2")
            .collect();
        candidates.sort_by_key(|mount| rank(mount));
        let mut usable = Vec::new();
        let mut why_not = None;
        for mount in &candidates {
            match open_visible(mount) {
                Ok(dir) => usable.push(Mounted {
                    root: mount.root.clone(),
                    read_only: mount.read_only,
                    dir,
                }),
                Err(error) => why_not = Some(error),
            }
        }
        match (usable.is_empty(), why_not) {
            (false, _) => Ok(Arc::new(Self {
                mounts: usable,
                ancestors: OnceLock::new(),
            })),
            (true, Some(error)) => Err(error),
            (true, None) => Err(Error::new(
                ErrorKind::CgroupUnreachable,
                "no cgroup2 file system is mounted: mount one (mount -t cgroup2 none /sys/fs/cgroup), or boot without a systemd that is set to legacy cgroups",
            )),
        }
    }

    /// Opens the cgroup of a path as the caller reads it in `/proc/PID/cgroup`, or as [`ManagerRoot::map`](super::ManagerRoot::map) gives it.
    pub(crate) fn open(&self, proc_path: &str) -> Result<Dir> {
        let Some(path) = NsPath::parse(proc_path) else {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("{proc_path:?} is not the path of a cgroup"),
            ));
        };
        if let Some(answer) = self.open_from(&path, &[]) {
            return answer;
        }
        let names: Vec<&str> = self.ancestors().iter().map(String::as_str).collect();
        if let Some(answer) = self.open_from(&path, &names) {
            return answer;
        }
        let mounted: Vec<String> = self
            .mounts
            .iter()
            .map(|mount| format!("{} shows {}", mount.dir.path().display(), mount.root))
            .collect();
        Err(Error::new(
            ErrorKind::CgroupUnreachable,
            format!(
                "the cgroup {proc_path} is outside of what is mounted here ({}): run outside this container, or mount a cgroup2 that shows it",
                mounted.join(", ")
            ),
        ))
    }

    fn open_from(&self, path: &NsPath<'_>, ancestors: &[&str]) -> Option<Result<Dir>> {
        self.mounts.iter().find_map(|mount| {
            let root = NsPath::parse(&mount.root)?;
            match path.below(&root, ancestors) {
                Below::Yes(names) => Some(mount.dir.open_below(&names)),
                Below::No | Below::Unknown => None,
            }
        })
    }

    /// The names of the caller's cgroup namespace root and of what is above it, outermost first, as far as a mount shows them. Empty where the namespace is
    /// the machine's own, or no mount goes above it. Looked for once.
    pub(crate) fn ancestors(&self) -> &[String] {
        self.ancestors.get_or_init(|| {
            let highest = self
                .mounts
                .iter()
                .filter_map(|mount| Some((NsPath::parse(&mount.root)?, mount)))
                .filter(|(root, _)| root.up > 0 && root.down.is_empty())
                .max_by_key(|(root, _)| root.up);
            highest
                .and_then(|(root, mount)| find_namespace_root(&mount.dir, root.up))
                .unwrap_or_default()
        })
    }

    /// Whether the mount that is used first can be written to.
    pub(crate) fn is_writable(&self) -> bool {
        self.mounts.first().is_some_and(|mount| !mount.read_only)
    }
}

/// Writable before read-only, then whose root is the namespace's own, then the one that shows the most.
fn rank(mount: &Mount) -> (bool, usize, usize) {
    let (up, down) = match NsPath::parse(&mount.root) {
        Some(root) => (root.up, root.down.len()),
        None => (usize::MAX, 0),
    };
    (mount.read_only, up, down)
}

/// Opens a mount point and makes sure that this very mount is seen there, not another on top of it.
fn open_visible(mount: &Mount) -> Result<Dir> {
    let dir = Dir::open_path(&mount.mount_point)?;
    let same_device = (major(dir.device()), minor(dir.device())) == (mount.major, mount.minor);
    // The mount id needs Linux 5.8; before that the device has to do.
    let same_mount = match statx(dir.fd(), "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
        Ok(stat) if stat.stx_mask & StatxFlags::MNT_ID.bits() != 0 => stat.stx_mnt_id == mount.id,
        _ => true,
    };
    if same_device && same_mount {
        return Ok(dir);
    }
    Err(Error::new(
        ErrorKind::CgroupUnreachable,
        format!(
            "the cgroup2 file system at {} is hidden by another mount on top of it; unmount that",
            mount.mount_point.display()
        ),
    ))
}

/// The names from `top`, which is `levels` above the caller's cgroup namespace root, down to that root: the one from which the caller's own path leads to a cgroup
/// that lists the caller.
fn find_namespace_root(top: &Dir, levels: usize) -> Option<Vec<String>> {
    let text = fs::read("/proc/self/cgroup").ok()?;
    let own = ProcCgroup::parse(&String::from_utf8_lossy(&text), false);
    let own = NsPath::parse(own.unified()?)?;
    if own.up > 0 {
        return None;
    }
    let mut left = MOST;
    search(top, levels, &own.down, &mut left).map(|mut names| {
        names.reverse();
        names
    })
}

/// The names are innermost first.
fn search(dir: &Dir, levels: usize, own: &[&str], left: &mut usize) -> Option<Vec<String>> {
    *left = left.checked_sub(1)?;
    if levels == 0 {
        let place = dir.open_below(own).ok()?;
        let listed = ids(&place.try_read("cgroup.procs").ok()?);
        return listed.contains(&std::process::id()).then(Vec::new);
    }
    for name in dir.children().ok()? {
        let Some(text) = name.to_str() else {
            continue;
        };
        let Ok(child) = dir.open_below(&[text]) else {
            continue;
        };
        if let Some(mut names) = search(&child, levels - 1, own, left) {
            names.push(text.to_owned());
            return Some(names);
        }
    }
    None
}
