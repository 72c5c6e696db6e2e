//! A real manager for a test, processes to put into scopes, and what is left behind.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use scopectl::embedded::Embedded;
use scopectl::{Instance, Manager, Process, ScopeSpec, Transport};

/// A private systemd and a connection to it.
pub(crate) struct Lab {
    pub(crate) embedded: Embedded,
    pub(crate) manager: Manager,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        Self::with(Transport::Bus).await
    }

    pub(crate) async fn with(transport: Transport) -> Self {
        let mut builder = Embedded::builder().bus(true);
        // Another root directory has another systemd: see `tests/roots/make`.
        if let Some(root) = std::env::var_os("SCOPECTL_TEST_ROOT") {
            builder = builder.root(root);
        }
        let embedded = builder.start().expect(
            "the embedded manager starts (root, cgroup2, systemd and dbus-daemon are needed)",
        );
        let manager = connect(&embedded, transport).await;
        Self { embedded, manager }
    }

    /// The directory of every unit's cgroup below the manager's root.
    pub(crate) fn directories(&self) -> BTreeSet<PathBuf> {
        fn walk(dir: &Path, found: &mut BTreeSet<PathBuf>) {
            let Ok(entries) = std::fs::read_dir(dir) else {
                return;
            };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|t| t.is_dir()) {
                    found.insert(entry.path());
                    walk(&entry.path(), found);
                }
            }
        }
        let mut found = BTreeSet::new();
        walk(self.embedded.cgroup_path(), &mut found);
        found
    }

    /// The directories of scopes other than the manager's own.
    pub(crate) fn scope_directories(&self) -> Vec<PathBuf> {
        self.directories()
            .into_iter()
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                name.ends_with(".scope") && name != "init.scope"
            })
            .collect()
    }

    /// A connection of the test's own, which shares no code with the product.
    pub(crate) async fn witness(&self) -> zbus::Connection {
        let address = self
            .embedded
            .bus_address()
            .expect("dbus-daemon is installed");
        zbus::connection::Builder::address(address)
            .build()
            .await
            .expect("the bus answers")
    }

    /// A scope that somebody else starts, awaited by what the kernel says.
    pub(crate) async fn start_foreign(
        &self,
        witness: &zbus::Connection,
        name: &str,
        pid: u32,
        mut properties: Vec<(&str, zbus::Variant<'_>)>,
    ) {
        properties.push(("PIDs", zbus::Variant::from(vec![pid])));
        let none: Vec<(&str, Vec<(&str, zbus::Variant<'_>)>)> = Vec::new();
        witness
            .call_method(
                Some("org.freedesktop.systemd1"),
                "/org/freedesktop/systemd1",
                Some("org.freedesktop.systemd1.Manager"),
                "StartTransientUnit",
                &(name, "fail", properties, none),
            )
            .await
            .expect("StartTransientUnit");
        while cgroup_of(pid).is_some_and(|path| !is_inside(&path, name)) {
            tokio::task::yield_now().await;
        }
        if cgroup_of(pid).is_some() {
            self.until_active_state(witness, name, "active").await;
        }
    }

    pub(crate) async fn until_active_state(
        &self,
        witness: &zbus::Connection,
        unit: &str,
        state: &str,
    ) {
        loop {
            let path: zbus::OwnedObjectPath = witness
                .call_method(
                    Some("org.freedesktop.systemd1"),
                    "/org/freedesktop/systemd1",
                    Some("org.freedesktop.systemd1.Manager"),
                    "LoadUnit",
                    &(unit),
                )
                .await
                .expect("LoadUnit")
                .body()
                .deserialize()
                .expect("a path");
            let reply = witness
                .call_method(
                    Some("org.freedesktop.systemd1"),
                    &path,
                    Some("org.freedesktop.DBus.Properties"),
                    "Get",
                    &("org.freedesktop.systemd1.Unit", "ActiveState"),
                )
                .await
                .expect("Get");
            let body = reply.body();
            let value: zbus::OwnedVariant = body.deserialize().expect("a value");
            let now = String::try_from(value).expect("a string");
            if now == state || (state == "active" && now == "failed") {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Names of the loaded scopes, as systemd lists them.
    pub(crate) async fn loaded_scopes(&self, witness: &zbus::Connection) -> Vec<String> {
        type Row = (
            String,
            String,
            String,
            String,
            String,
            String,
            zbus::OwnedObjectPath,
            u32,
            String,
            zbus::OwnedObjectPath,
        );
        let reply = witness
            .call_method(
                Some("org.freedesktop.systemd1"),
                "/org/freedesktop/systemd1",
                Some("org.freedesktop.systemd1.Manager"),
                "ListUnits",
                &(),
            )
            .await
            .expect("ListUnits");
        let rows: Vec<Row> = reply.body().deserialize().expect("rows");
        rows.into_iter()
            .filter(|row| row.2 != "not-found")
            .map(|row| row.0)
            .filter(|name| name.ends_with(".scope") && name != "init.scope")
            .collect()
    }
}

pub(crate) async fn connect(embedded: &Embedded, transport: Transport) -> Manager {
    let address = match transport {
        Transport::Private => embedded.private_address(),
        _ => embedded.bus_address().expect("dbus-daemon is installed"),
    };
    Manager::connect(Instance::Address(address.to_owned()))
        .await
        .expect("the embedded manager answers")
}

/// A shell that waits for a line on its standard input and then tells where it is.
pub(crate) struct Payload {
    child: Child,
}

impl Payload {
    pub(crate) fn spawn() -> Self {
        // The first act after the release is the shell's own read of its own file: no fork before it.
        let child = Command::new("/bin/sh")
            .args([
                "-c",
                "read -r _; while read -r line; do echo \"$line\"; done </proc/self/cgroup; read -r _",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/bin/sh");
        Self { child }
    }

    pub(crate) fn process(&self) -> Process {
        Process::open(self.child.id()).expect("the payload runs")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Releases the payload; gives the `0::` path that it read of itself.
    pub(crate) fn release(&mut self) -> String {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(b"go\n").expect("the payload reads");
        let mut lines = BufReader::new(self.child.stdout.as_mut().unwrap());
        loop {
            let mut line = String::new();
            assert!(
                lines.read_line(&mut line).expect("the payload answers") > 0,
                "the payload ended without an answer"
            );
            if let Some(path) = line.trim_end().strip_prefix("0::") {
                return path.to_owned();
            }
        }
    }

    /// SIGKILL, and the exit is awaited.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGKILL, and a zombie is left.
    pub(crate) fn kill_without_reaping(&mut self) {
        self.child.kill().expect("a child");
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::waitid(
            rustix::process::WaitId::Pid(pid),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .expect("a child");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) {
        self.child.wait().expect("a child");
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A process that does not descend from the test: its parent has ended.
pub(crate) struct Orphan {
    pids: Vec<u32>,
    /// Keeps the family's standard input open.
    _input: std::process::ChildStdin,
}

impl Orphan {
    pub(crate) fn spawn() -> Self {
        Self::run("(echo $(exec sh -c 'echo $PPID'); exec cat <&3) & ", 1)
    }

    /// With a child of its own, forked before anything else happens.
    pub(crate) fn with_child() -> Self {
        Self::run(
            "(cat <&3 & echo $(exec sh -c 'echo $PPID'); echo $!; exec cat <&3) & ",
            2,
        )
    }

    /// The script tells as many process numbers, a line each.
    fn run(script: &str, pids: usize) -> Self {
        let mut shell = Command::new("/bin/sh")
            // A background command of a shell without job control has no input of its own.
            .args(["-c", &format!("exec 3<&0; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/bin/sh");
        let input = shell.stdin.take().unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let pids = lines
            .take(pids)
            .map(|line| line.unwrap().trim().parse().unwrap())
            .collect();
        shell.wait().unwrap();
        Self {
            pids,
            _input: input,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pids[0]
    }

    pub(crate) fn child_pid(&self) -> u32 {
        self.pids[1]
    }

    pub(crate) fn process(&self) -> Process {
        Process::open(self.pid()).expect("the orphan runs")
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        for pid in &self.pids {
            // Still the same process: it reads from the pipe that this value holds.
            if let Some(pid) = rustix::process::Pid::from_raw(*pid as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// A manager that is stopped with SIGSTOP until this is dropped. For managers that are not PID 1.
pub(crate) struct Frozen(rustix::process::Pid);

impl Frozen {
    pub(crate) fn new(pid: u32) -> Self {
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::STOP)
            .expect("the manager runs");
        let frozen = Self(pid);
        // Stopped for certain, not just told to.
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

/// The `0::` path of a process, read by the test itself.
pub(crate) fn cgroup_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned)
}

/// Whether `path` is the unit's cgroup or below it.
pub(crate) fn is_inside(path: &str, unit: &str) -> bool {
    path.split('/').any(|part| part == unit)
}

pub(crate) fn full() -> bool {
    std::env::var("SCOPECTL_TEST_SCALE").is_ok_and(|scale| scale == "full")
}

/// The quick count, or the large one.
pub(crate) fn scale(quick: usize, large: usize) -> usize {
    if full() { large } else { quick }
}

pub(crate) fn spec(name: &str) -> ScopeSpec {
    ScopeSpec::new(name)
}

pub(crate) fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident pages of a process, in KiB.
pub(crate) fn rss_kib(pid: u32) -> u64 {
    let mut text = String::new();
    std::fs::File::open(format!("/proc/{pid}/status"))
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let line = text.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
