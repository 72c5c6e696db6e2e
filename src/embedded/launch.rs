//! From the checked options to a manager that answers.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::child::{Bind, Child, INSIDE, Step, decode};
use super::guardian::Guardian;
use super::instance::{Embedded, has_ended};
use super::options::Plan;
use super::places::places;
use super::remains::{Remains, open_dir, timespec};
use super::state::{self, Base};
use super::{sweep, units};
use crate::cgroup::Dir;
use crate::{Error, ErrorKind, Result, sys};

/// How often a start gives way to a sweep of another process that took its directory.
const ATTEMPTS: u32 = 10;
/// Between two attempts to connect.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(super) fn launch(plan: &Plan) -> Result<Embedded> {
    let deadline = Instant::now() + plan.start_timeout;
    let null = openat(
        CWD,
        c"/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| failed("open /dev/null", error.into()))?;
    for _ in 0..ATTEMPTS {
        let places = places()?;
        let base = Base::open(plan.state_dir.as_deref())?;
        sweep::sweep(&base, &places);
        let prepared = prepare(&base, &places, &null).inspect_err(|_| base.remove_if_unused())?;
        if let Some(mut embedded) = prepared {
            start_manager(plan, &mut embedded, &places, &null, deadline)?;
            return Ok(embedded);
        }
    }
    Err(Error::new(
        ErrorKind::Embedded,
        "the state directory of the embedded manager was removed again and again while it was made; name another one with `state_dir`",
    ))
}

/// The guardian first, then the things that it guards. `None`: try again.
fn prepare(base: &Base, places: &[Dir], null: &OwnedFd) -> Result<Option<Embedded>> {
    let name = state::new_name().map_err(|error| failed("get random bytes", error))?;
    let descriptors = || -> io::Result<_> {
        let cgroups = places
            .iter()
            .map(|place| place.fd().try_clone())
            .collect::<io::Result<Vec<_>>>()?;
        Ok((cgroups, base.dir.try_clone()?))
    };
    let (cgroups, dir) =
        descriptors().map_err(|error| failed("duplicate a file descriptor", error))?;
    let state = base.path.join(OsStr::from_bytes(name.to_bytes()));
    let remains = Remains {
        name,
        cgroups,
        base: dir,
        base_path: base.temporary.then(|| c_path(&base.path)).transpose()?,
    };
    let guardian = Guardian::start(&remains, null.as_fd())
        .map_err(|error| failed("start its guardian process", error))?;
    let mut embedded = Embedded {
        owner: std::process::id(),
        remains,
        guardian,
        manager: None,
        lock: None,
        private_address: format!("unix:path={}/run/systemd/private", state.display()),
        bus_address: None,
        cgroup: PathBuf::new(),
        state,
        ended: false,
    };
    embedded.lock = state::create(base, &embedded.remains.name)
        .map_err(|error| failed(&format!("make {}", embedded.state.display()), error))?;
    Ok(embedded.lock.is_some().then_some(embedded))
}

fn start_manager(
    plan: &Plan,
    embedded: &mut Embedded,
    places: &[Dir],
    null: &OwnedFd,
    deadline: Instant,
) -> Result<()> {
    let state = embedded.state.clone();
    let filled =
        state::record(&state, places).and_then(|()| units::write(&state, plan.dbus_daemon));
    filled.map_err(|error| failed(&format!("write to {}", state.display()), error))?;
    if plan.dbus_daemon.is_some() {
        embedded.bus_address = Some(format!("unix:path={}/run/bus", state.display()));
    }
    let born = born_in_one_of(plan, embedded, places, null)?;
    embedded.cgroup = born.path;
    let watched = embedded.guardian.watch(born.pidfd.as_fd());
    let pidfd = &embedded.manager.insert((born.pid, born.pidfd)).1;
    watched.map_err(|error| failed("reach its guardian process", error))?;
    wait_for_exec(born.reports, pidfd, &plan.systemd, deadline)?;
    wait_until_ready(&state, pidfd, plan, deadline)
}

/// A child on its way to become the manager.
struct Born {
    pid: Pid,
    pidfd: OwnedFd,
    reports: OwnedFd,
    path: PathBuf,
}

/// Makes the fresh cgroup in the first place that takes it, and the process in it.
fn born_in_one_of(
    plan: &Plan,
    embedded: &Embedded,
    places: &[Dir],
    null: &OwnedFd,
) -> Result<Born> {
    let name = &embedded.remains.name;
    let mut refused = Vec::new();
    for place in places {
        let error = match make_cgroup(place, name) {
            Ok(cgroup) => {
                let (reports, errors) = pipe_with(PipeFlags::CLOEXEC)
                    .map_err(|error| failed("make a pipe", error.into()))?;
                let child = lay_out(plan, &embedded.state, &cgroup, null, errors)?;
                // Refused too where the cgroup is out of the caller's namespace and the file system is mounted with nsdelegate.
                match sys::clone_process(Some(cgroup.as_fd()), None, |in_cgroup| {
                    child.run(in_cgroup)
                }) {
                    Ok((pid, pidfd)) => {
                        return Ok(Born {
                            pid,
                            pidfd,
                            reports,
                            path: place.path().join(OsStr::from_bytes(name.to_bytes())),
                        });
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error.into(),
        };
        refused.push((place.path(), error));
    }
    let tried: Vec<String> = refused
        .iter()
        .map(|(path, error)| format!("{} ({error})", path.display()))
        .collect();
    let hint = match refused.first() {
        Some((_, error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            "the cgroup file system is mounted read-only; give the container a writable one (for example --privileged, or a cgroup namespace with a writable mount)"
        }
        Some((_, error)) if error.kind() == io::ErrorKind::WouldBlock => {
            "a limit on cgroups or processes (cgroup.max.descendants, pids.max, ulimit -u) is reached"
        }
        Some((_, error))
            if matches!(
                Errno::from_io_error(error),
                Some(Errno::MFILE | Errno::NFILE)
            ) =>
        {
            "a limit on open files (ulimit -n, fs.file-max) is reached"
        }
        _ => "the caller must be allowed to make cgroups there",
    };
    Err(Error::new(
        ErrorKind::Embedded,
        format!(
            "no cgroup can be made for the embedded manager in {}; {hint}",
            tried.join(" or ")
        ),
    ))
}

/// The fresh cgroup and its `init.scope`.
fn make_cgroup(place: &Dir, name: &CStr) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(0o755);
    mkdirat(place.fd(), name, mode)?;
    let cgroup = open_dir(place.fd().as_fd(), name)?;
    mkdirat(&cgroup, c"init.scope", mode)?;
    Ok(cgroup)
}

/// Everything for [`Child`], allocated now.
fn lay_out(
    plan: &Plan,
    state: &Path,
    cgroup: &OwnedFd,
    null: &OwnedFd,
    errors: OwnedFd,
) -> Result<Child> {
    let write = OFlags::WRONLY | OFlags::CLOEXEC;
    let open = |dir: std::os::fd::BorrowedFd<'_>, path: &Path, flags| {
        openat(dir, path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed(&format!("open {}", path.display()), error.into()))
    };
    let root = plan.root.as_deref().unwrap_or(Path::new("/"));
    let mut binds = Vec::new();
    if plan.root.is_some() {
        for name in ["proc", "sys", "dev"] {
            binds.push(Bind {
                from: c_path(&Path::new("/").join(name))?,
                to: c_path(&root.join(name))?,
            });
        }
    }
    // The manager's log. Its target `console` would write to the machine's console, whatever standard error is.
    if Path::new("/dev/kmsg").exists() {
        binds.push(Bind {
            from: c_path(&state.join("log"))?,
            to: c_path(&root.join("dev/kmsg"))?,
        });
    }
    let directories = ["run/systemd", "run/systemd/system", "run/scopectl"]
        .iter()
        .map(|name| c_path(&root.join(name)))
        .collect::<Result<_>>()?;
    let environment = units::environment(plan.dbus_daemon.is_some())
        .into_iter()
        .map(c_string)
        .collect::<Result<_>>()?;
    let systemd = c_path(&plan.systemd)?;
    Ok(Child {
        null: null
            .try_clone()
            .map_err(|error| failed("duplicate a file descriptor", error))?,
        log: open(
            CWD,
            &state.join("log"),
            write | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW,
        )?,
        errors,
        procs: open(cgroup.as_fd(), Path::new("cgroup.procs"), write)?,
        init_procs: open(cgroup.as_fd(), Path::new("init.scope/cgroup.procs"), write)?,
        state: c_path(state)?,
        root: plan.root.as_deref().map(c_path).transpose()?,
        binds,
        cgroup_mount: c_path(&root.join("sys/fs/cgroup"))?,
        run: c_path(&root.join("run"))?,
        directories,
        inside: c_path(&root.join(INSIDE.trim_start_matches('/')))?,
        exec: sys::Exec::new(
            systemd.clone(),
            vec![systemd, c"--user".to_owned()],
            environment,
        ),
    })
}

/// Until the pipe closes: the `exec` succeeded, or the child said why not.
fn wait_for_exec(
    reports: OwnedFd,
    manager: &OwnedFd,
    systemd: &Path,
    deadline: Instant,
) -> Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    loop {
        // The manager's pidfd too: another thread's fork may hold a copy of the pipe for a while.
        match poll(
            &mut [
                PollFd::new(&reports, PollFlags::IN),
                PollFd::new(manager, PollFlags::IN),
            ],
            Some(&timespec(left)),
        ) {
            Ok(0) => {
                return Err(Error::new(
                    ErrorKind::Embedded,
                    "the embedded manager's process did not get to execute systemd in time; raise the start timeout",
                ));
            }
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed("wait for its process", error.into())),
        }
    }
    rustix::fs::fcntl_setfl(&reports, OFlags::NONBLOCK)
        .map_err(|error| failed("read from a pipe", error.into()))?;
    let mut report = Vec::new();
    let _ = fs::File::from(reports).take(16).read_to_end(&mut report);
    let Some((step, error)) = decode(&report) else {
        return Ok(());
    };
    let hint = match (step, error) {
        (Step::Exec, _) => format!(
            " ({}); check that it is an executable for this machine",
            systemd.display()
        ),
        (_, Errno::PERM | Errno::ACCESS) => {
            "; the embedded manager needs CAP_SYS_ADMIN, and no security profile (seccomp, AppArmor, SELinux) that forbids mounts and namespaces".into()
        }
        (_, Errno::NOSYS) => "; the embedded manager needs kernel 5.9 or later".into(),
        _ => String::new(),
    };
    Err(Error::new(
        ErrorKind::Embedded,
        format!("the embedded manager cannot {}: {error}{hint}", step.text()),
    )
    .with_source(error))
}

/// Until its sockets accept.
fn wait_until_ready(state: &Path, manager: &OwnedFd, plan: &Plan, deadline: Instant) -> Result<()> {
    let run = state.join("run");
    let mut sockets = vec![run.join("systemd/private")];
    if plan.dbus_daemon.is_some() {
        sockets.push(run.join("bus"));
    }
    for socket in sockets {
        while let Err(error) = UnixStream::connect(&socket) {
            if has_ended(manager, POLL_INTERVAL) {
                return Err(Error::new(
                    ErrorKind::Embedded,
                    format!(
                        "the embedded manager ended before it was ready; its last words: {}",
                        last_words(state)
                    ),
                ));
            }
            if Instant::now() >= deadline {
                return Err(Error::new(
                    ErrorKind::Embedded,
                    format!(
                        "the embedded manager did not accept connections on {} within {:?}; raise the start timeout; its last words: {}",
                        socket.display(),
                        plan.start_timeout,
                        last_words(state)
                    ),
                )
                .with_source(error));
            }
        }
    }
    Ok(())
}

/// The end of the manager's log.
fn last_words(state: &Path) -> String {
    fs::read(state.join("log"))
        .ok()
        .and_then(|log| {
            String::from_utf8_lossy(&log)
                .lines()
                .rfind(|line| !line.trim().is_empty())
                .map(str::to_owned)
        })
        .unwrap_or_else(|| "none".into())
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Embedded,
        format!("cannot {what} for the embedded manager: {error}"),
    )
    .with_source(error)
}

fn c_path(path: &Path) -> Result<CString> {
    c_string(path.as_os_str().as_bytes().to_vec())
}

fn c_string(bytes: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(bytes).map_err(|error| {
        Error::new(ErrorKind::InvalidInput, "a path contains a NUL byte").with_source(error)
    })
}
