//! Becoming the command: the search of execvp(3) and `execve`, with nothing else touched.
//!
//! `std::process::Command::exec` is not used: it empties the signal mask and resets SIGPIPE.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::execve;
use rustix::fs::{Access, AtFlags, CWD};

use super::environment::Environment;
use super::exit::{self, Failure};

/// Where execvp(3) looks when `PATH` is not set.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// What is to be executed.
pub(super) struct Program {
    arguments: Vec<CString>,
    environment: Environment,
}

impl Program {
    pub(super) fn new(arguments: Vec<CString>, environment: Environment) -> Self {
        Self {
            arguments,
            environment,
        }
    }

    fn name(&self) -> &[u8] {
        self.arguments.first().map_or(b"", |name| name.as_bytes())
    }

    /// The last component of the name that was typed.
    pub(super) fn base_name(&self) -> String {
        let name = Path::new(OsStr::from_bytes(self.name()));
        name.file_name()
            .unwrap_or(name.as_os_str())
            .to_string_lossy()
            .into_owned()
    }

    /// The files that may be meant, in the order of the search. The `PATH` is that of the command's own environment.
    fn candidates(&self) -> Vec<CString> {
        let name = self.name();
        if name.is_empty() {
            return Vec::new();
        }
        if name.contains(&b'/') {
            return CString::new(name).into_iter().collect();
        }
        let path = self
            .environment
            .get(b"PATH")
            .map_or(DEFAULT_PATH, OsStr::as_bytes);
        path.split(|byte| *byte == b':')
            .map(|directory| match directory {
                b"" => &b"."[..],
                directory => directory,
            })
            .filter_map(|directory| CString::new([directory, b"/", name].concat()).ok())
            .collect()
    }

    /// Refuses a command that is nowhere or cannot be executed, before anything is started for it. `directory` is where it will run; `same_user`: nobody but
    /// the caller will execute it. What only `execve` finds (a missing interpreter, say) is left to `execute`.
    pub(super) fn check(&self, directory: Option<&Path>, same_user: bool) -> Result<(), Failure> {
        let base = directory.map_or_else(PathBuf::new, Path::to_path_buf);
        let mut refused = None;
        for candidate in self.candidates() {
            let path = base.join(OsStr::from_bytes(candidate.as_bytes()));
            match obstacle(&path, same_user) {
                None => return Ok(()),
                Some(Errno::ENOENT | Errno::ENOTDIR) => {}
                // As `execute` does: the search goes on, and the first of these is reported.
                Some(Errno::EACCES) => {
                    refused.get_or_insert(candidate);
                }
                Some(error) => return Err(cannot_execute(&candidate, error)),
            }
        }
        Err(match refused {
            Some(candidate) => cannot_execute(&candidate, Errno::EACCES),
            None => self.not_found(),
        })
    }

    /// Becomes the command; returns only when that failed.
    pub(super) fn execute(&self) -> Failure {
        let mut found_but: Option<(CString, Errno)> = None;
        for candidate in self.candidates() {
            let error = self.try_one(&candidate);
            match error {
                // Not here, or its file system is not there: look further.
                Errno::ENOENT
                | Errno::ENOTDIR
                | Errno::ESTALE
                | Errno::ENODEV
                | Errno::ETIMEDOUT => {
                    // A file that is there and gives ENOENT is a script or program whose interpreter is missing.
                    if error == Errno::ENOENT && exists(&candidate) {
                        found_but.get_or_insert((candidate, error));
                    }
                }
                // execvp looks further, and reports this if there is nothing better.
                Errno::EACCES => {
                    if !matches!(found_but, Some((_, Errno::EACCES))) {
                        found_but = Some((candidate, error));
                    }
                }
                _ => return cannot_execute(&candidate, error),
            }
        }
        match found_but {
            Some((candidate, error)) => cannot_execute(&candidate, error),
            None => self.not_found(),
        }
    }

    fn try_one(&self, file: &CStr) -> Errno {
        let Err(error) = execve(file, &self.arguments, self.environment.entries());
        if error != Errno::ENOEXEC {
            return error;
        }
        // A script without `#!` is the shell's, as with execvp.
        let script = match file.to_bytes() {
            bytes @ [b'-', ..] => CString::new([b"./", bytes].concat()).unwrap_or_default(),
            _ => file.to_owned(),
        };
        let mut arguments = vec![c"/bin/sh".to_owned(), script];
        arguments.extend(self.arguments.iter().skip(1).cloned());
        let Err(error) = execve(c"/bin/sh", &arguments, self.environment.entries());
        error
    }

    fn not_found(&self) -> Failure {
        let name = String::from_utf8_lossy(self.name());
        let sentence = if self.name().contains(&b'/') {
            format!("{name:?}: no such file")
        } else {
            format!("{name:?}: no such command in PATH")
        };
        Failure::with_code(exit::NOT_FOUND, sentence)
    }
}

/// Why `execve` will surely fail; another user may see more than the caller, or less.
fn obstacle(path: &Path, same_user: bool) -> Option<Errno> {
    match path.metadata() {
        Ok(found) if !found.is_file() => Some(Errno::EACCES),
        // Also what is mounted noexec.
        Ok(_) if same_user => {
            match rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
                Err(rustix::io::Errno::ACCESS) => Some(Errno::EACCES),
                _ => None,
            }
        }
        Ok(_) => None,
        Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            Errno::EACCES if !same_user => None,
            error @ (Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ENAMETOOLONG) => {
                Some(error)
            }
            _ => None,
        },
    }
}

fn exists(file: &CStr) -> bool {
    Path::new(OsStr::from_bytes(file.to_bytes()))
        .symlink_metadata()
        .is_ok()
}

fn cannot_execute(file: &CStr, error: Errno) -> Failure {
    let name = file.to_string_lossy();
    let why = match error {
        Errno::ENOENT => "its interpreter or loader does not exist",
        Errno::EACCES => {
            "it is not executable for this user (permissions, a directory, or a noexec mount)"
        }
        Errno::E2BIG => "the arguments and the environment are too long",
        other => other.desc(),
    };
    Failure::with_code(
        exit::CANNOT_EXECUTE,
        format!("cannot execute {name:?}: {why}"),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn program(name: &str, path: Option<&str>) -> Program {
        let mut environment = Environment::default();
        if let Some(path) = path {
            environment.set(b"PATH", path.as_bytes());
        }
        Program::new(vec![CString::new(name).unwrap()], environment)
    }

    fn candidates(name: &str, path: Option<&str>) -> Vec<String> {
        program(name, path)
            .candidates()
            .into_iter()
            .map(|file| file.into_string().unwrap())
            .collect()
    }

    #[test]
    fn the_search_is_that_of_execvp() {
        assert_eq!(candidates("x", None), ["/bin/x", "/usr/bin/x"]);
        assert_eq!(candidates("x", Some("")), ["./x"]);
        assert_eq!(candidates("x", Some("/a::b")), ["/a/x", "./x", "b/x"]);
        assert_eq!(candidates("./x", Some("/a")), ["./x"]);
        assert_eq!(candidates("", Some("/a")), [""; 0]);
    }

    #[test]
    fn what_is_nowhere_is_refused_before_anything_starts() {
        let nowhere = program("no-such-command", Some("/bin:/nonexistent"));
        let failure = nowhere.check(None, true).unwrap_err();
        assert_eq!(failure.code(), exit::NOT_FOUND);
        assert!(failure.sentence().contains("no-such-command"));
        assert!(
            program("sh", Some("/nonexistent:/bin"))
                .check(None, true)
                .is_ok()
        );
        assert!(
            program("./sh", None)
                .check(Some(Path::new("/bin")), true)
                .is_ok()
        );
        assert!(program("", None).check(None, true).is_err());
    }

    #[test]
    fn a_description_can_be_made_of_any_name() {
        assert_eq!(program("/usr/bin/env", None).base_name(), "env");
        assert_eq!(program("..", None).base_name(), "..");
        assert_eq!(program("/", None).base_name(), "/");
    }
}
