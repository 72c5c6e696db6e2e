//! What an errno of the cgroup file system means for the file at hand: a sentence that names the path and says what to do.
//!
//! Source: the kernel's cgroup-v2 documentation and `kernel/cgroup/cgroup.c`.

use std::path::Path;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind};

/// What was tried.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action<'a> {
    OpenDir,
    ListDir,
    RemoveDir,
    Read(&'a str),
    Write(&'a str, &'a str),
}

/// `dir_is_gone`: a missing file and a missing directory have the same errno, so the caller looks for the directory.
pub(super) fn explain(action: Action<'_>, dir: &Path, errno: Errno, dir_is_gone: bool) -> Error {
    let dir_text = dir.display();
    let what = match action {
        Action::OpenDir => format!("cannot open the cgroup {dir_text}"),
        Action::ListDir => format!("cannot list the cgroup {dir_text}"),
        Action::RemoveDir => format!("cannot remove the cgroup {dir_text}"),
        Action::Read(file) => format!("cannot read {dir_text}/{file}"),
        Action::Write(file, value) => format!("cannot write {value:?} to {dir_text}/{file}"),
    };
    let (kind, why) = if dir_is_gone || errno == Errno::NODEV {
        (
            ErrorKind::CgroupGone,
            "the cgroup has been removed".to_owned(),
        )
    } else {
        reason(action, errno)
    };
    Error::new(kind, format!("{what}: {why}")).with_source(errno)
}

fn reason(action: Action<'_>, errno: Errno) -> (ErrorKind, String) {
    let file = match action {
        Action::Read(file) | Action::Write(file, _) => file,
        Action::OpenDir | Action::ListDir | Action::RemoveDir => "",
    };
    let writes = matches!(action, Action::Write(..));
    let takes_processes = matches!(file, "cgroup.procs" | "cgroup.threads") && writes;
    let (kind, why) = match errno {
        Errno::NOENT => match action {
            Action::OpenDir | Action::ListDir | Action::RemoveDir => {
                (ErrorKind::CgroupGone, "it does not exist (any more)")
            }
            // A write to subtree_control answers so for a controller, not for the file.
            Action::Write("cgroup.subtree_control", _) => (
                ErrorKind::Cgroup,
                "the parent does not offer such a controller; enable it in every cgroup.subtree_control above first",
            ),
            _ => return (ErrorKind::Cgroup, missing_file(file)),
        },
        Errno::BUSY => (
            ErrorKind::Cgroup,
            match action {
                Action::RemoveDir => {
                    "it still has processes or cgroups below it; end and remove those first"
                }
                Action::Write("cgroup.subtree_control", _) => {
                    "it has processes of its own, and controllers are only for cgroups without; move them into a cgroup below first"
                }
                _ if takes_processes => {
                    "controllers are enabled for the cgroups below it, so it takes no processes of its own; use a cgroup below"
                }
                _ => "the kernel is busy with it, or the value is below what is in use",
            },
        ),
        Errno::SRCH if takes_processes => (
            ErrorKind::ProcessGone,
            "no such process is there: it has ended (a zombie counts), or is in another pid namespace",
        ),
        Errno::SRCH => (ErrorKind::ProcessGone, "the process has ended"),
        Errno::ACCESS | Errno::PERM if takes_processes => (
            ErrorKind::PermissionDenied,
            "the caller may not write this file and that of the closest cgroup above both the old and the new place, or the process is in another cgroup namespace; ask the manager to move it, or be root",
        ),
        Errno::ACCESS | Errno::PERM => (
            ErrorKind::PermissionDenied,
            if writes {
                "the caller may not; be root, or have the cgroup delegated"
            } else {
                "the caller may not"
            },
        ),
        Errno::ROFS => (
            ErrorKind::PermissionDenied,
            "cgroup2 is mounted read-only here; mount it writable",
        ),
        Errno::INVAL => (
            ErrorKind::Cgroup,
            match file {
                "cgroup.kill" => "only 1 can be written",
                "cgroup.freeze" => "only 0 and 1 can be written",
                "cgroup.subtree_control" => {
                    "that is not a list of +controller and -controller, or there is no such controller in this hierarchy"
                }
                _ if takes_processes => {
                    "that is no pid, or the process cannot be moved (a kernel thread, or one bound to its cpu)"
                }
                _ => "the kernel does not accept this value",
            },
        ),
        Errno::RANGE => (ErrorKind::Cgroup, "the number is out of range"),
        Errno::NOSPC => (
            ErrorKind::Cgroup,
            "there is no room: a cpuset without cpus or memory nodes, or the cgroup limits (cgroup.max.descendants, cgroup.max.depth) above are reached",
        ),
        Errno::OPNOTSUPP => (
            ErrorKind::Cgroup,
            match file {
                "cgroup.procs" if !writes => {
                    "it is a threaded cgroup: read cgroup.threads, or the cgroup.procs of its threaded domain"
                }
                "cgroup.kill" => "it is a threaded cgroup: only its threaded domain can be killed",
                "cgroup.subtree_control" => "a threaded cgroup takes threaded controllers only",
                _ if takes_processes => {
                    "its cgroup.type does not allow that: a \"domain invalid\" cgroup takes nothing, and a threaded one only threads of its own domain"
                }
                _ => "the kernel does not support that for this cgroup",
            },
        ),
        Errno::AGAIN if takes_processes => (
            ErrorKind::Cgroup,
            "a controller refused the move for now (pids.max reached, or no real-time budget)",
        ),
        Errno::LOOP | Errno::XDEV | Errno::NOTDIR => (
            ErrorKind::Cgroup,
            "a symbolic link, another mount or a file is on the way; only plain directories of this one file system are followed",
        ),
        Errno::MFILE | Errno::NFILE => (
            ErrorKind::Io,
            "too many files are open; raise RLIMIT_NOFILE",
        ),
        _ => (ErrorKind::Cgroup, "the kernel refused it"),
    };
    (kind, why.to_owned())
}

fn missing_file(file: &str) -> String {
    let since = match file {
        "cgroup.kill" => "it needs Linux 5.14, and the root cgroup has none",
        "cgroup.freeze" => "it needs Linux 5.2, and the root cgroup has none",
        "cgroup.events" | "cgroup.type" => "the root cgroup has no such file",
        _ if file.starts_with("cgroup.") => "the kernel is too old for it",
        _ => match file.split_once('.') {
            Some((controller, _)) => {
                return format!(
                    "there is no such file: the {controller} controller is not enabled for this cgroup (cgroup.subtree_control of the one above), or the kernel is too old for it"
                );
            }
            None => "it is not a file of a cgroup",
        },
    };
    format!("there is no such file: {since}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const ALL: [Errno; 9] = [
        Errno::NOENT,
        Errno::NODEV,
        Errno::BUSY,
        Errno::INVAL,
        Errno::SRCH,
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOSPC,
        Errno::OPNOTSUPP,
    ];

    #[test]
    fn every_sentence_names_the_path_and_gives_a_reason() {
        let dir = Path::new("/sys/fs/cgroup/a.slice/b.scope");
        for file in [
            "cgroup.procs",
            "cgroup.subtree_control",
            "cgroup.kill",
            "cgroup.freeze",
            "memory.max",
        ] {
            for action in [Action::Read(file), Action::Write(file, "1")] {
                for errno in ALL {
                    let text = explain(action, dir, errno, false).to_string();
                    assert!(
                        text.contains(&format!("/sys/fs/cgroup/a.slice/b.scope/{file}")),
                        "{text}"
                    );
                    assert!(!text.ends_with("the kernel refused it"), "{errno}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_removed_cgroup_is_told_from_a_missing_file() {
        let dir = Path::new("/c");
        let kind = |action, errno, gone| explain(action, dir, errno, gone).kind();
        let write = Action::Write("cgroup.procs", "7");
        assert_eq!(kind(write, Errno::NOENT, true), ErrorKind::CgroupGone);
        assert_eq!(kind(write, Errno::NODEV, false), ErrorKind::CgroupGone);
        assert_eq!(
            kind(Action::OpenDir, Errno::NOENT, false),
            ErrorKind::CgroupGone
        );
        assert_eq!(
            kind(Action::Read("memory.max"), Errno::NOENT, false),
            ErrorKind::Cgroup
        );
        let text = explain(Action::Read("memory.max"), dir, Errno::NOENT, false).to_string();
        assert!(text.contains("memory controller is not enabled"), "{text}");
    }

    #[test]
    fn a_write_to_cgroup_procs_tells_the_process_from_the_place() {
        let kind = |errno| {
            explain(
                Action::Write("cgroup.procs", "7"),
                Path::new("/c"),
                errno,
                false,
            )
            .kind()
        };
        assert_eq!(kind(Errno::SRCH), ErrorKind::ProcessGone);
        assert_eq!(kind(Errno::ACCESS), ErrorKind::PermissionDenied);
        assert_eq!(kind(Errno::PERM), ErrorKind::PermissionDenied);
        assert_eq!(kind(Errno::BUSY), ErrorKind::Cgroup);
        assert_eq!(kind(Errno::OPNOTSUPP), ErrorKind::Cgroup);
    }
}
