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
use crate::error::{Error, ErrorKind, Result};
use crate::process::own_cgroup;

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

    /// The directory of each mount, the best first.
    #[cfg(feature = "embedded")]
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Dir> {
        self.mounts.iter().map(|mount| &mount.dir)
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
    match Dir::open_path(&mount.mount_point) {
        Ok(dir) if is_mount(&dir, mount) => Ok(dir),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(error),
        _ => Err(Error::new(
            ErrorKind::CgroupUnreachable,
            format!(
                "the cgroup2 file system at {} is hidden by another mount on top of it; unmount that",
                mount.mount_point.display()
            ),
        )),
    }
}

fn is_mount(dir: &Dir, mount: &Mount) -> bool {
    if (major(dir.device()), minor(dir.device())) != (mount.major, mount.minor) {
        return false;
    }
    // The mount id needs Linux 5.8; before that the device has to do.
    match statx(dir.fd(), "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID) {
        Ok(stat) if stat.stx_mask & StatxFlags::MNT_ID.bits() != 0 => stat.stx_mnt_id == mount.id,
        _ => true,
    }
}

/// The names from `top`, which is `levels` above the caller's cgroup namespace root, down to that root: the one from which the caller's own path leads to a cgroup
/// that lists the caller.
fn find_namespace_root(top: &Dir, levels: usize) -> Option<Vec<String>> {
    let own = own_cgroup().ok()?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::ManagerRoot;
    use crate::cgroup::manager_root::Inside;
    use crate::cgroup::testing::TestCgroup;
    use crate::process::Process;
    use crate::skip::skip;
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;

    /// Set for the half of a test that runs inside a namespace: what was set up there, the test's cgroup, a pid in its child `b`.
    const INNER: &str = "SCOPECTL_TEST_NAMESPACE";

    /// Runs `inner_half` as a process of `a` in a cgroup namespace of its own, below a private mount namespace in which `mounts` was run.
    fn in_namespace(what: &str, mounts: &str) {
        let Some(cgroup) = TestCgroup::new(what) else {
            return;
        };
        cgroup.make("a");
        cgroup.make("b");
        let in_b = cgroup.sleep_in("b");
        let inode = |below: &str| std::fs::metadata(cgroup.path().join(below)).unwrap().ino();
        let script = format!(
            "echo $$ > \"$D\"/a/cgroup.procs && exec unshare --cgroup --mount sh -ec '{mounts}\nexec \"$@\"' sh \"$@\""
        );
        let output = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "cgroup::hierarchy::tests::inner_half",
                "--nocapture",
            ])
            .env("D", cgroup.path())
            .env("U", cgroup.path().parent().unwrap())
            .env(
                INNER,
                format!(
                    "{what} {} {} {} {}",
                    &cgroup.proc_path()[1..],
                    in_b.id(),
                    inode("a"),
                    inode("b")
                ),
            )
            .output()
            .unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        if text.contains("unshare failed") || text.contains("mount failed") {
            skip(format_args!("no namespaces can be made here: {text}"));
            return;
        }
        assert!(
            output.status.success() && text.contains("inner half done"),
            "{text}"
        );
    }

    #[test]
    fn in_a_cgroup_namespace_the_machines_mount_still_leads_to_every_cgroup() {
        in_namespace("shared", "");
    }

    #[test]
    fn a_mount_of_the_namespaces_own_and_the_machines_are_used_together() {
        in_namespace(
            "own",
            "mount -t tmpfs none /mnt; mount -t cgroup2 none /mnt",
        );
    }

    #[test]
    fn what_no_mount_shows_is_unreachable() {
        in_namespace("alone", "mount -t cgroup2 none /mnt; umount -l \"$U\"");
    }

    #[test]
    fn a_mount_that_another_one_hides_is_not_used() {
        in_namespace("hidden", "mount -t tmpfs none \"$U\"");
    }

    #[test]
    fn a_mount_that_a_part_of_itself_hides_is_not_used() {
        in_namespace("covered", "mount --bind \"$D/a\" \"$U\"");
    }

    #[test]
    fn inner_half() {
        let Ok(text) = std::env::var(INNER) else {
            return;
        };
        let parts: Vec<&str> = text.split(' ').collect();
        let &[what, name, pid, a, b] = &parts[..] else {
            panic!("{text}");
        };
        let (a, b): (u64, u64) = (a.parse().unwrap(), b.parse().unwrap());
        let process = Process::open(pid.parse().unwrap()).unwrap();
        let told = process.cgroup().unwrap().unwrap();
        assert_eq!(told.unified(), Some("/../b"));
        match what {
            "hidden" => {
                let error = Hierarchy::detect().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::CgroupUnreachable);
                assert!(error.to_string().contains("hidden"), "{error}");
            }
            "alone" | "covered" => {
                let hierarchy = Hierarchy::detect().unwrap();
                assert_eq!(hierarchy.mounts.len(), 1);
                assert_eq!(hierarchy.open("/").unwrap().id(), a);
                let error = hierarchy.open("/../b").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::CgroupUnreachable);
                assert!(error.to_string().contains("/../b"), "{error}");
                assert!(hierarchy.ancestors().is_empty());
            }
            _ => {
                let hierarchy = Hierarchy::detect().unwrap();
                let first = if what == "own" { "/" } else { "/../.." };
                assert_eq!(hierarchy.mounts[0].root, first);
                assert_eq!(hierarchy.open("/../b").unwrap().id(), b);
                assert_eq!(hierarchy.open("/").unwrap().id(), a);
                let mapped = format!("/../../{name}/b");
                assert_eq!(hierarchy.open(&mapped).unwrap().id(), b);
                assert_eq!(hierarchy.ancestors(), [name, "a"]);
                let gone = hierarchy.open("/../c").unwrap_err();
                assert_eq!(gone.kind(), ErrorKind::CgroupGone);
                // A manager at the top of the machine.
                let root = ManagerRoot::new("/../../init.scope", "").unwrap();
                let inside = |root: &ManagerRoot| root.is_inside("/../b", Some(name), "b");
                assert_eq!(inside(&root), Inside::Unknown);
                let root = root.with_ancestors(hierarchy.ancestors());
                assert_eq!(inside(&root), Inside::Exactly);
            }
        }
        println!("inner half done");
    }

    #[test]
    fn a_path_is_opened_below_the_mount_and_a_missing_one_is_gone() {
        let Some(cgroup) = TestCgroup::new("open") else {
            return;
        };
        cgroup.make("a/b");
        let hierarchy = Hierarchy::detect().unwrap();
        let path = format!("{}/a/b", cgroup.proc_path());
        let dir = hierarchy.open(&path).unwrap();
        assert_eq!(dir.path(), cgroup.path().join("a/b"));
        let error = hierarchy.open(&format!("{path}/c")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CgroupGone);
        assert!(error.to_string().contains("/a/b/c"), "{error}");
        for wrong in ["", "a", "/a/../b", "/a/./b"] {
            let error = hierarchy.open(wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong:?}");
        }
        let above = hierarchy.open("/../x").unwrap_err();
        assert_eq!(above.kind(), ErrorKind::CgroupUnreachable);
        assert!(hierarchy.open("/a\0b").is_err());
    }

    #[test]
    fn the_writable_mount_that_shows_the_namespaces_own_root_comes_first() {
        let text = b"1 0 0:9 / /ro ro - cgroup2 none rw\n\
            2 0 0:9 /../.. /host rw - cgroup2 none rw\n\
            3 0 0:9 /a/b /part rw - cgroup2 none rw\n\
            4 0 0:9 / /all rw - cgroup2 none rw\n";
        let mut mounts = mounts::parse(text);
        mounts.sort_by_key(rank);
        let order: Vec<u64> = mounts.iter().map(|mount| mount.id).collect();
        assert_eq!(order, [4, 3, 2, 1]);
    }
}
