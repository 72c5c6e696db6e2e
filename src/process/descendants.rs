//! Children, and children's children: what stays outside when only their parent is moved.
//!
//! `/proc/PID/task/TID/children` names them where the kernel was built with CONFIG_PROC_CHILDREN; elsewhere all of `/proc` is looked through for its parents.
//! Each child found is opened and asked for its parent, so that a pid which changed hands in between is not taken for a child.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use super::handle::{Process, State, read_file};
use super::stat::Stat;
use crate::error::{Error, ErrorKind, Result};

/// More processes than this below one are not a tree that somebody meant to move.
const MOST: usize = 100_000;
/// A chain of parents is never longer; only a read that raced could go round in a circle.
const LONGEST_CHAIN: usize = 10_000;

pub(super) fn of(root: &Process) -> Result<Vec<Process>> {
    if has_children_files() {
        collect(root, &children_by_file)
    } else {
        of_by_scan(root)
    }
}

fn of_by_scan(root: &Process) -> Result<Vec<Process>> {
    let table = children_by_scan()?;
    collect(root, &|pid| {
        Ok(table.get(&pid).cloned().unwrap_or_default())
    })
}

pub(super) fn is_below(process: &Process, ancestor: u32) -> Result<bool> {
    let mut parent = process.parent()?.unwrap_or(0);
    for _ in 0..LONGEST_CHAIN {
        if parent == ancestor {
            return Ok(true);
        }
        if parent <= 1 {
            return Ok(false);
        }
        parent = match read_stat(parent) {
            Some(stat) => stat.parent,
            None => return Ok(false),
        };
    }
    Ok(false)
}

fn collect(root: &Process, children: &dyn Fn(u32) -> Result<Vec<u32>>) -> Result<Vec<Process>> {
    let mut found: Vec<Process> = Vec::new();
    let mut seen = HashSet::from([root.pid()]);
    let mut next = 0;
    let mut parent = root.clone();
    loop {
        for pid in children(parent.pid())? {
            let child = match Process::open(pid) {
                Ok(child) => child,
                Err(error) if is_nothing_to_move(&error) => continue,
                Err(error) => return Err(error),
            };
            let is_child = child.parent()? == Some(parent.pid()) && parent.state() != State::Gone;
            if is_child && seen.insert(pid) {
                found.push(child);
            }
            if found.len() > MOST {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!(
                        "process {} has more than {MOST} descendants: too many to look after one by one",
                        root.pid()
                    ),
                ));
            }
        }
        match found.get(next) {
            Some(process) => parent = process.clone(),
            None => return Ok(found),
        }
        next += 1;
    }
}

/// It ended meanwhile, or is of a kind that no unit takes.
fn is_nothing_to_move(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ProcessGone | ErrorKind::ProcessRefused
    )
}

/// Of the kernel, so asked once.
fn has_children_files() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        fs::exists(format!("/proc/self/task/{0}/children", std::process::id())).unwrap_or(false)
    })
}

fn children_by_file(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    let directory = format!("/proc/{pid}/task");
    // A directory below for each thread: most processes have but one, which need not be listed.
    let listed = fs::metadata(&directory).and_then(|directory_of_threads| {
        if directory_of_threads.nlink() == 3 {
            return Ok(vec![pid.to_string().into()]);
        }
        fs::read_dir(&directory)?
            .map(|thread| Ok(thread?.file_name()))
            .collect::<io::Result<Vec<_>>>()
    });
    let threads = match listed {
        Ok(threads) => threads,
        Err(error) => return ended_or(error, pid).map(|()| children),
    };
    for thread in threads {
        match read_file(&format!(
            "{directory}/{}/children",
            thread.to_string_lossy()
        )) {
            Ok(text) => children.extend(
                text.split(u8::is_ascii_whitespace)
                    .filter_map(|number| std::str::from_utf8(number).ok()?.parse::<u32>().ok()),
            ),
            Err(error) => ended_or(error, pid)?,
        }
    }
    Ok(children)
}

/// A thread or process that ended while it was looked at has no children any more: they were given to another parent.
fn ended_or(error: io::Error, pid: u32) -> Result<()> {
    if matches!(error.raw_os_error(), Some(code) if code == nix::libc::ENOENT || code == nix::libc::ESRCH)
    {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Io,
        format!("cannot list the children of process {pid} below /proc/{pid}/task"),
    )
    .with_source(error))
}

fn children_by_scan() -> Result<HashMap<u32, Vec<u32>>> {
    let unreadable =
        |error| Error::new(ErrorKind::Io, "cannot list the processes in /proc").with_source(error);
    let mut table: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(stat) = read_stat(pid) {
            table.entry(stat.parent).or_default().push(pid);
        }
    }
    Ok(table)
}

fn read_stat(pid: u32) -> Option<Stat> {
    Stat::parse(&read_file(&format!("/proc/{pid}/stat")).ok()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A shell with a shell with a sleep below it; each says its pid.
    fn family() -> (Child, Vec<u32>) {
        let mut child = Command::new("sh")
            .args([
                "-c",
                "echo $$; sh -c 'echo $$; sleep 1000 & echo $!; wait'; :",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let pids = lines
            .take(3)
            .map(|line| line.unwrap().parse().unwrap())
            .collect();
        (child, pids)
    }

    fn end(mut child: Child, pids: &[u32]) {
        for pid in pids.iter().rev() {
            if let Ok(process) = Process::open(*pid) {
                let _ = process.send_signal(9);
            }
        }
        let _ = child.wait();
    }

    fn pids(processes: &[Process]) -> Vec<u32> {
        let mut pids: Vec<u32> = processes.iter().map(Process::pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn children_of_children_are_found_with_and_without_the_kernels_list() {
        let (child, all) = family();
        let root = Process::open(all[0]).unwrap();
        let mut expected = all[1..].to_vec();
        expected.sort_unstable();
        let listed = root.descendants();
        let scanned = of_by_scan(&root);
        end(child, &all);
        assert_eq!(pids(&listed.unwrap()), expected);
        assert_eq!(pids(&scanned.unwrap()), expected);
    }

    #[test]
    fn a_child_descends_from_the_caller_and_the_callers_parent_does_not() {
        let (child, all) = family();
        let deepest = Process::open(all[2]).unwrap();
        let answer = deepest.is_descendant_of_caller();
        end(child, &all);
        assert!(answer.unwrap());
        assert!(
            !Process::current()
                .unwrap()
                .is_descendant_of_caller()
                .unwrap()
        );
        if let Ok(parent) = Process::open(std::os::unix::process::parent_id()) {
            assert!(!parent.is_descendant_of_caller().unwrap());
        }
    }

    #[test]
    fn a_process_without_children_has_no_descendants() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        let found = process.descendants();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.unwrap().is_empty());
        assert!(process.descendants().unwrap().is_empty());
    }

    #[test]
    fn a_pid_that_is_listed_but_has_another_parent_by_now_is_no_descendant() {
        let (child, all) = family();
        let root = Process::open(all[1]).unwrap();
        let found = collect(&root, &|_| Ok(all.clone()));
        end(child, &all);
        assert_eq!(pids(&found.unwrap()), [all[2]]);
    }
}
