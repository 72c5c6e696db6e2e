//! The caller's place in the cgroup tree, as `/proc/self/cgroup` tells it, and the slice in it. Pure but for `own`.

use std::fs;

/// The path of this process in the cgroup2 hierarchy: the `0::` line of `/proc/self/cgroup`.
pub(super) fn own() -> Option<String> {
    of_process("self")
}

/// The same of another process, or `None` where it cannot be read.
pub(super) fn of_process(pid: impl std::fmt::Display) -> Option<String> {
    unified(&fs::read(format!("/proc/{pid}/cgroup")).ok()?)
}

/// The path that tells systemd's units apart: the `0::` line, and on a machine without cgroup2 systemd's own v1 hierarchy.
pub(super) fn own_for_units() -> Option<String> {
    let content = fs::read("/proc/self/cgroup").ok()?;
    let unified = unified(&content);
    match unified.as_deref() {
        None | Some("/") => line(&content, b":name=systemd:").or(unified),
        Some(_) => unified,
    }
}

fn unified(content: &[u8]) -> Option<String> {
    content
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"))
        .map(|path| String::from_utf8_lossy(path).into_owned())
}

fn line(content: &[u8], controllers: &[u8]) -> Option<String> {
    content.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let path = line.get(colon..)?.strip_prefix(controllers)?;
        Some(String::from_utf8_lossy(path).into_owned())
    })
}

/// Whose slice is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Perspective {
    /// The system manager's.
    System,
    /// That of a user's manager, which itself runs inside a unit of the system manager.
    User,
    /// That of a manager at an address, of which it is not known where in the tree it is: the innermost on the path.
    Nearest,
}

/// The innermost slice of that manager on the path; `-.slice` when there is none.
///
/// With `/user.slice/user-7.slice/user@7.service/app.slice/x.scope` that is `user-7.slice` for the system manager and `app.slice` for the user's.
pub(super) fn slice(path: &str, perspective: Perspective) -> String {
    let is_slice = |component: &&str| component.ends_with(".slice");
    let is_user_manager = |name: &str| name.starts_with("user@") && name.ends_with(".service");
    let mut components = path
        .split('/')
        .filter(|component| !component.is_empty())
        .map(unescaped);
    let slice = match perspective {
        Perspective::System => components.take_while(is_slice).last(),
        Perspective::User if components.any(is_user_manager) => {
            components.take_while(is_slice).last()
        }
        Perspective::User => None,
        Perspective::Nearest => components.rfind(is_slice),
    };
    slice.unwrap_or("-.slice").to_owned()
}

/// systemd puts `_` before a directory name that could be taken for a kernel file.
fn unescaped(component: &str) -> &str {
    component.strip_prefix('_').unwrap_or(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_slice_is_the_innermost_one_of_the_manager_that_is_asked() {
        use Perspective::{Nearest, System, User};
        for (path, perspective, expected) in [
            ("/", System, "-.slice"),
            ("/system.slice/cron.service", System, "system.slice"),
            ("/a.slice/a-b.slice/x.scope", System, "a-b.slice"),
            ("/a.slice/a-b.slice", System, "a-b.slice"),
            (
                "/user.slice/user-7.slice/user@7.service/app.slice/x.scope",
                System,
                "user-7.slice",
            ),
            (
                "/user.slice/user-7.slice/user@7.service/app.slice/x.scope",
                User,
                "app.slice",
            ),
            (
                "/user.slice/user-7.slice/user@7.service/app.slice/app-a.slice/x.scope/sub",
                User,
                "app-a.slice",
            ),
            ("/user.slice/user-7.slice/session-2.scope", User, "-.slice"),
            (
                "/user.slice/user-7.slice/session-2.scope",
                System,
                "user-7.slice",
            ),
            ("/x.scope/inner.slice", System, "-.slice"),
            ("/_cpu.slice/x.scope", System, "cpu.slice"),
            ("/lab/a.slice/a-b.slice/x.scope", Nearest, "a-b.slice"),
            (
                "/user.slice/user@7.service/app.slice/x",
                Nearest,
                "app.slice",
            ),
            ("/lab/x.scope", Nearest, "-.slice"),
        ] {
            assert_eq!(slice(path, perspective), expected, "{path} {perspective:?}");
        }
    }

    #[test]
    fn the_unified_line_is_found_among_v1_lines() {
        let content = b"4:memory:/m\n1:name=systemd:/s/x.scope\n0::/u/x.scope\n";
        assert_eq!(unified(content).as_deref(), Some("/u/x.scope"));
        assert_eq!(
            line(content, b":name=systemd:").as_deref(),
            Some("/s/x.scope")
        );
        assert_eq!(unified(b"4:memory:/m\n"), None);
    }
}
