//! The contract against a manager that runs: what is used is there, with the same signatures, on its private socket and on its bus.
//!
//! Makes one service, since only a unit that is slow to start has a job to look at. `SCOPECTL_TEST_ROOT` names the root directory of another installation,
//! whose systemd is asked then.

use std::collections::BTreeSet;

use zbus::{Type, Variant};

use super::contract::{Row, rows, used};
use super::fake::channel;
use super::members::{BUS, Kind, MEMBERS, Member, SYSTEMD};
use super::tests::{later, next};
use super::{Bus, Event, address};
use crate::ErrorKind;
use crate::embedded::Embedded;
use crate::skip::skip;

const MANAGER: &str = "/org/freedesktop/systemd1";
const SERVICE: &str = "/org/freedesktop/systemd1/unit/contract_2eservice";

/// `None` where none can run.
fn embedded() -> Option<Embedded> {
    let mut builder = Embedded::builder();
    if let Some(root) = std::env::var_os("SCOPECTL_TEST_ROOT") {
        builder = builder.root(root);
    }
    match builder.start() {
        Ok(embedded) => Some(embedded),
        Err(error) if error.kind() == ErrorKind::InvalidInput => panic!("{error}"),
        Err(error) => {
            skip(error);
            None
        }
    }
}

/// Connects, and waits until systemd has its name on a bus.
async fn connect(address: &str) -> Bus {
    let endpoint = address::parse(address).unwrap();
    let bus = Bus::connect(&endpoint, later()).await.unwrap();
    let (sink, mut events) = channel();
    bus.on_event(later(), sink).await.unwrap();
    while let Err(error) = bus.manager().version(later()).await {
        assert_eq!(error.kind(), ErrorKind::NoManager, "{error}");
        assert_eq!(next(&mut events).await, Some(Event::OwnerChanged));
    }
    bus
}

/// Starts a service that stays in its start, and with it its job: the job's path.
async fn start_slowly(bus: &Bus) -> String {
    type Commands = Vec<(String, Vec<String>, bool)>;
    type Properties = Vec<(String, Variant<'static>)>;
    type Arguments = (String, String, Properties, Vec<(String, Properties)>);
    const START: &Member = &Member {
        interface: "org.freedesktop.systemd1.Manager",
        name: "StartTransientUnit",
        output: zbus::ObjectPath::SIGNATURE,
        contract: (Kind::Method, Arguments::SIGNATURE),
    };
    let sleep = ["sleep".to_owned(), "1000".to_owned()].to_vec();
    let command: Commands = vec![("/bin/sleep".to_owned(), sleep, false)];
    let properties: Properties = vec![
        ("Type".to_owned(), "oneshot".into()),
        ("ExecStart".to_owned(), command.into()),
    ];
    let arguments: Arguments = (
        "contract.service".to_owned(),
        "fail".to_owned(),
        properties,
        Vec::new(),
    );
    let reply = bus
        .call(START, START.name, SYSTEMD, MANAGER, arguments, later())
        .await
        .unwrap();
    let path: zbus::OwnedObjectPath = reply.body().deserialize().unwrap();
    path.to_string()
}

/// What these objects, and the bus if there is one, say of themselves.
async fn introspect(bus: &Bus, objects: &[&str]) -> BTreeSet<Row> {
    const INTROSPECT: &Member = &Member {
        interface: "org.freedesktop.DBus.Introspectable",
        name: "Introspect",
        output: String::SIGNATURE,
        contract: (Kind::Method, <()>::SIGNATURE),
    };
    let mut places: Vec<_> = objects.iter().map(|path| (SYSTEMD, *path)).collect();
    if bus.is_bus() {
        places.push((BUS, "/org/freedesktop/DBus"));
    }
    let mut all = BTreeSet::new();
    for (destination, path) in places {
        let reply = bus
            .call(INTROSPECT, INTROSPECT.name, destination, path, (), later())
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        all.extend(rows(&reply.body().deserialize::<String>().unwrap()));
    }
    all
}

/// Asserts that every member in use is among `live`; those of the bus only if `bus` is one.
fn compare(bus: &Bus, live: &BTreeSet<Row>, what: &str) {
    let used: Vec<Row> = MEMBERS
        .iter()
        .filter(|member| bus.is_bus() || member.interface != BUS)
        .map(used)
        .collect();
    let interfaces = |rows: &mut dyn Iterator<Item = &Row>| -> BTreeSet<String> {
        rows.map(|row| row.0.clone()).collect()
    };
    let wanted = interfaces(&mut used.iter());
    assert_eq!(wanted.len(), if bus.is_bus() { 7 } else { 6 });
    let unseen: Vec<_> = wanted
        .difference(&interfaces(&mut live.iter()))
        .cloned()
        .collect();
    assert!(unseen.is_empty(), "{what}: no object has {unseen:?}");
    let differences: Vec<String> = used
        .iter()
        .filter(|row| !live.contains(row))
        .map(|row| {
            let there = live
                .iter()
                .find(|live| (&live.0, live.1, &live.2) == (&row.0, row.1, &row.2));
            format!("used: {row:?}, live: {there:?}")
        })
        .collect();
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

#[tokio::test]
async fn a_live_manager_has_every_member_in_use_with_its_signature() {
    let Some(embedded) = embedded() else { return };
    let private = connect(embedded.private_address()).await;
    let job = start_slowly(&private).await;
    let version = private.manager().version(later()).await.unwrap();
    let objects = [
        MANAGER,
        "/org/freedesktop/systemd1/unit/init_2escope",
        "/org/freedesktop/systemd1/unit/_2d_2eslice",
        SERVICE,
        &job,
    ];
    let live = introspect(&private, &objects).await;
    compare(&private, &live, &format!("systemd {version}, private"));
    let Some(address) = embedded.bus_address() else {
        skip("the comparison over a bus needs dbus-daemon");
        return;
    };
    let bus = connect(address).await;
    let live = introspect(&bus, &objects).await;
    compare(&bus, &live, &format!("systemd {version}, bus"));
    eprintln!("compared with systemd {version}");
}
