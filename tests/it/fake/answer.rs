//! How the fake answers what the test does not hold: as systemd does.

use zbus::{ObjectPath, OwnedObjectPath, Variant};

use super::jobs::{self, Job};
use super::table::{Table, Unit};
use super::{Call, SYSTEMD};
use crate::cgroups::cgroup_of;

/// A row of ListUnitsByNames.
type Row = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

impl Call {
    /// Carries the call out and answers it.
    pub(crate) async fn answer(self) {
        match self.member.as_str() {
            "StartTransientUnit" => self.start().await,
            "StopUnit" => self.stop().await,
            "ResetFailedUnit" => self.reset().await,
            "CancelJob" => self.cancel().await,
            "KillUnit" => self.kill().await,
            "AttachProcessesToUnit" => self.attach().await,
            "ListUnitsByNames" => self.list().await,
            "Get" => self.get().await,
            other => panic!("the fake does not know {other}"),
        }
    }

    /// StartTransientUnit in three steps: the reply, the job, the signal.
    async fn start(self) {
        let name = self.unit().unwrap();
        let (exists, without_pidfds) = self.shared.with(|table| {
            table.notice(&name, false);
            (table.units.contains_key(&name), table.without_pidfds)
        });
        if exists {
            return self.refuse_as_systemd("UnitExists").await;
        }
        if without_pidfds && self.has_property("PIDFDs") {
            return self.refuse_pidfds().await;
        }
        let job = self.take();
        self.reply_job(&job).await;
        job.run();
        job.end("done").await;
    }

    /// What systemd before 255 says.
    pub(crate) async fn refuse_pidfds(self) {
        self.refuse(
            "org.freedesktop.DBus.Error.PropertyReadOnly",
            "Cannot set property PIDFDs, or unknown property.",
        )
        .await;
    }

    async fn stop(self) {
        let name = self.unit().unwrap();
        let exists = self.shared.with(|table| {
            table.notice(&name, false);
            table.units.contains_key(&name)
        });
        if !exists {
            return self.refuse_as_systemd("NoSuchUnit").await;
        }
        let job = self.take();
        self.reply_job(&job).await;
        // The next calls are not kept waiting by the processes that end.
        tokio::spawn(async move {
            job.stop().await;
            job.end("done").await;
        });
    }

    async fn reset(self) {
        let name = self.unit().unwrap();
        let exists = self.shared.with(|table| {
            let exists = table.units.contains_key(&name);
            if table.units.get(&name).is_some_and(|u| u.active == "failed") {
                table.forget(&name);
            }
            exists
        });
        if !exists {
            return self.refuse_as_systemd("NoSuchUnit").await;
        }
        self.reply(&()).await;
    }

    async fn cancel(self) {
        let id: u32 = self.body();
        let Some(unit) = self.shared.with(|table| table.jobs.get(&id).cloned()) else {
            return self.refuse_as_systemd("NoSuchJob").await;
        };
        self.reply(&()).await;
        let job = Job::of(&self.shared, id, unit);
        job.end("canceled").await;
        // What has not become active is forgotten.
        self.shared.with(|table| {
            if table
                .units
                .get(&job.unit)
                .is_some_and(|u| u.active == "inactive")
            {
                table.forget(&job.unit);
            }
        });
    }

    async fn kill(self) {
        let (name, _, signal) = self.body::<(String, String, i32)>();
        let known = self.shared.with(|table| table.units.get(&name).cloned());
        let Some(unit) = known else {
            return self.refuse_as_systemd("NoSuchUnit").await;
        };
        if let Some(directory) = unit.directory {
            jobs::signal_all(&directory, signal);
        }
        self.reply(&()).await;
    }

    async fn attach(self) {
        let (name, _, pids) = self.body::<(String, String, Vec<u32>)>();
        let known = self.shared.with(|table| table.units.get(&name).cloned());
        let Some(directory) = known.and_then(|unit| unit.directory) else {
            return self.refuse_as_systemd("NoSuchUnit").await;
        };
        for pid in pids {
            std::fs::write(directory.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        self.reply(&()).await;
    }

    async fn list(self) {
        let names: Vec<String> = self.body();
        let rows: Vec<Row> = self.shared.with(|table| {
            names
                .into_iter()
                .map(|name| {
                    table.notice(&name, true);
                    row(table, name)
                })
                .collect()
        });
        self.reply(&(rows,)).await;
    }

    async fn get(self) {
        let (interface, property) = self.body::<(String, String)>();
        let path = self.header().path().unwrap().to_string();
        if interface == format!("{SYSTEMD}.Job") {
            return self.get_of_job(&path, &property).await;
        }
        let value = if interface == format!("{SYSTEMD}.Manager") {
            manager_property(&property)
        } else {
            let cgroup = &self.shared.cgroup;
            self.shared.with(|table| {
                let mut units = table.units.iter();
                // systemd makes up an empty unit for a name that is not loaded.
                let found = units.find(|(name, _)| object_path(name) == path);
                let empty = Unit::default();
                let (name, unit) = found.map_or(("", &empty), |(name, unit)| (name, unit));
                unit_property(unit, &cgroup.proc_path(name), &property)
            })
        };
        self.reply(&(value,)).await;
    }
}

impl Call {
    async fn get_of_job(self, path: &str, property: &str) {
        assert_eq!(property, "State", "the fake's jobs do not have it");
        let pending = self
            .shared
            .with(|table| table.jobs.keys().any(|job| *jobs::path(*job) == *path));
        if pending {
            self.reply(&(Variant::from("waiting"),)).await;
        } else {
            self.refuse("org.freedesktop.DBus.Error.UnknownObject", "No such job.")
                .await;
        }
    }
}

fn row(table: &Table, name: String) -> Row {
    let path = OwnedObjectPath::try_from(object_path(&name)).unwrap();
    let no_job = OwnedObjectPath::from(ObjectPath::try_from("/").unwrap());
    let absent = Unit::default();
    let unit = table.units.get(&name);
    let load = if unit.is_some() {
        "loaded"
    } else {
        "not-found"
    };
    let unit = unit.unwrap_or(&absent);
    (
        name,
        unit.description.clone(),
        load.to_owned(),
        unit.active.to_owned(),
        unit.sub.to_owned(),
        String::new(),
        path,
        unit.job.unwrap_or(0),
        if unit.job.is_some() { "start" } else { "" }.to_owned(),
        unit.job
            .map_or(no_job, |job| OwnedObjectPath::from(jobs::path(job))),
    )
}

fn manager_property(name: &str) -> Variant<'static> {
    match name {
        "Version" => Variant::from("257.1-fake"),
        // The test itself stands for the manager's process, so the manager's root is where the test is.
        "ControlGroup" => {
            let own = cgroup_of(std::process::id()).unwrap();
            Variant::from(own.trim_end_matches('/').to_owned())
        }
        other => panic!("the fake's manager does not have {other}"),
    }
}

fn unit_property(unit: &Unit, proc_path: &str, name: &str) -> Variant<'static> {
    match name {
        "ControlGroup" if unit.directory.is_none() => Variant::from(""),
        "ControlGroup" => Variant::from(proc_path.to_owned()),
        "Delegate" => Variant::from(unit.delegated),
        "TimeoutStopUSec" => Variant::from(90_000_000_u64),
        "KillSignal" => Variant::from(15_i32),
        "InvocationID" => Variant::from(unit.invocation.clone()),
        other => panic!("the fake's units do not have {other}"),
    }
}

/// As sd_bus_path_encode(3) does it.
fn object_path(unit: &str) -> String {
    let mut path = String::from("/org/freedesktop/systemd1/unit/");
    for (at, byte) in unit.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => path.push(char::from(byte)),
            b'0'..=b'9' if at > 0 => path.push(char::from(byte)),
            _ => path.push_str(&format!("_{byte:02x}")),
        }
    }
    path
}
