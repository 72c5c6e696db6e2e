//! `cgroup.procs`: who is in a cgroup, and in those below it.

use std::collections::BTreeSet;
use std::fs;

use rustix::io::Errno;

use super::dir::Dir;
use super::explain::Action;
use super::files::ids;
use crate::error::{Error, ErrorKind, Result};

/// Deeper trees than this are not walked; each level holds one descriptor open.
const DEEPEST: usize = 256;

/// The processes right in this cgroup, in no order. 0 stands for one outside the caller's pid namespace.
///
/// In a threaded cgroup only threads are listed; their processes are given.
pub(super) fn of(dir: &Dir) -> Result<Vec<u32>> {
    match dir.try_read("cgroup.procs") {
        Ok(text) => Ok(ids(&text)),
        Err(Errno::OPNOTSUPP) => {
            let threads = ids(&dir.read_to_string("cgroup.threads")?);
            let processes: BTreeSet<u32> = threads.into_iter().filter_map(process_of).collect();
            Ok(processes.into_iter().collect())
        }
        Err(errno) => Err(dir.explain(Action::Read("cgroup.procs"), errno)),
    }
}

/// The processes of this cgroup and of all below it, sorted, each once, without those outside the caller's pid namespace.
pub(super) fn of_tree(dir: &Dir) -> Result<Vec<u32>> {
    let mut all = BTreeSet::new();
    walk(dir, &mut |dir| {
        all.extend(of(dir)?);
        Ok(())
    })?;
    all.remove(&0);
    Ok(all.into_iter().collect())
}

/// Visits a cgroup and all below it, each before those below. One that is removed meanwhile is passed over, but not the first.
pub(super) fn walk(top: &Dir, visit: &mut dyn FnMut(&Dir) -> Result<()>) -> Result<()> {
    visit(top)?;
    walk_below(top, 1, visit)
}

fn walk_below(dir: &Dir, depth: usize, visit: &mut dyn FnMut(&Dir) -> Result<()>) -> Result<()> {
    let children = match dir.children() {
        Err(error) if error.kind() == ErrorKind::CgroupGone => return Ok(()),
        other => other?,
    };
    for name in children {
        if depth > DEEPEST {
            return Err(too_deep(dir));
        }
        let step = dir.open_below(&[&name]).and_then(|child| {
            visit(&child)?;
            walk_below(&child, depth + 1, visit)
        });
        match step {
            Err(error) if error.kind() == ErrorKind::CgroupGone => {}
            other => other?,
        }
    }
    Ok(())
}

pub(super) fn too_deep(dir: &Dir) -> Error {
    Error::new(
        ErrorKind::Cgroup,
        format!(
            "the cgroups below {} are nested more than {DEEPEST} levels deep",
            dir.path().display()
        ),
    )
}

pub(super) fn deepest() -> usize {
    DEEPEST
}

/// The process of a thread; `None` where it has ended.
fn process_of(thread: u32) -> Option<u32> {
    if thread == 0 {
        return Some(0);
    }
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    String::from_utf8_lossy(&status)
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::cgroup::testing::TestCgroup;

    #[test]
    fn the_processes_of_a_whole_tree_are_listed_once_each() {
        let Some(cgroup) = TestCgroup::new("tree") else {
            return;
        };
        cgroup.make("a/b");
        cgroup.make("c");
        let children = [
            cgroup.sleep_in(""),
            cgroup.sleep_in("a/b"),
            cgroup.sleep_in("c"),
        ];
        let mut expected: Vec<u32> = children.iter().map(|child| child.id()).collect();
        expected.sort_unstable();
        let dir = cgroup.dir();
        assert_eq!(of_tree(&dir).unwrap(), expected);
        assert_eq!(of(&dir).unwrap(), [children[0].id()]);
    }

    #[test]
    fn in_a_threaded_cgroup_the_processes_of_its_threads_are_listed() {
        let Some(cgroup) = TestCgroup::new("threaded") else {
            return;
        };
        cgroup.make("t");
        let child = cgroup.sleep_in("");
        std::fs::write(cgroup.path().join("t/cgroup.type"), "threaded").unwrap();
        let thread = child.id().to_string();
        std::fs::write(cgroup.path().join("t/cgroup.threads"), thread).unwrap();
        let dir = cgroup.dir().open_below(&["t"]).unwrap();
        assert_eq!(dir.try_read("cgroup.procs"), Err(Errno::OPNOTSUPP));
        assert_eq!(of(&dir).unwrap(), [child.id()]);
        assert_eq!(of_tree(&cgroup.dir()).unwrap(), [child.id()]);
    }
}
