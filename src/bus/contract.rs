//! The tests of the contract: every member that is used is in `dbus-interfaces/`, every one there is used, and a live manager has them all with the same signatures.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::connection::Bus;
use super::members::{BUS, Kind, MEMBERS, Member, SYSTEMD};
use crate::Result;

/// One member: interface, kind, name, and the signatures of what goes in and comes out.
type Row = (String, Kind, String, String, String);

/// The rows of all interfaces in an introspection document.
pub(super) fn rows(xml: &str) -> BTreeSet<Row> {
    // What sd-bus and dbus-daemon send has a document type.
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let document = roxmltree::Document::parse_with_options(xml, options).expect("valid XML");
    let interfaces = document
        .descendants()
        .filter(|node| node.has_tag_name("interface"));
    interfaces
        .flat_map(|interface| {
            let name = interface.attribute("name").expect("a name").to_owned();
            interface
                .children()
                .filter_map(move |node| row(&name, node))
        })
        .collect()
}

fn row(interface: &str, node: roxmltree::Node<'_, '_>) -> Option<Row> {
    let arguments = |direction: &str, default: &str| -> String {
        node.children()
            .filter(|child| child.has_tag_name("arg"))
            .filter(|child| child.attribute("direction").unwrap_or(default) == direction)
            .map(|child| child.attribute("type").expect("a type"))
            .collect()
    };
    let (kind, input, output) = match node.tag_name().name() {
        "method" => (Kind::Method, arguments("in", "in"), arguments("out", "in")),
        "signal" => (Kind::Signal, String::new(), arguments("out", "out")),
        "property" => (
            Kind::Property,
            String::new(),
            node.attribute("type").expect("a type").to_owned(),
        ),
        _ => return None,
    };
    let name = node.attribute("name").expect("a name").to_owned();
    Some((interface.to_owned(), kind, name, input, output))
}

fn used(member: &Member) -> Row {
    // Arguments are listed one after the other; a property's value is one type, its parentheses included.
    let output = match member.contract.0 {
        Kind::Property => member.output.to_string(),
        Kind::Method | Kind::Signal => member.output.to_string_no_parens(),
    };
    (
        member.interface.to_owned(),
        member.contract.0,
        member.name.to_owned(),
        member.contract.1.to_string_no_parens(),
        output,
    )
}

/// The members that are used and that a live manager (or its bus) does not have as they are used. Makes nothing and changes nothing.
///
/// A service and a job have an object only while there is one; their interfaces are compared only if `objects` names one of each.
pub(crate) async fn differences_from_live(
    bus: &Bus,
    objects: &[&str],
    deadline: Instant,
) -> Result<Vec<String>> {
    const INTROSPECT: &Member = &Member {
        interface: "org.freedesktop.DBus.Introspectable",
        name: "Introspect",
        output: <String as zbus::Type>::SIGNATURE,
        contract: (Kind::Method, <() as zbus::Type>::SIGNATURE),
    };
    let mut places = vec![(SYSTEMD, "/org/freedesktop/systemd1")];
    places.extend(objects.iter().map(|path| (SYSTEMD, *path)));
    if bus.is_bus() {
        places.push((BUS, "/org/freedesktop/DBus"));
    }
    let mut live = BTreeMap::new();
    for (destination, path) in places {
        let reply = bus
            .call(INTROSPECT, INTROSPECT.name, destination, path, (), deadline)
            .await?;
        let xml: String = reply.body().deserialize().expect("a string");
        for row in rows(&xml) {
            live.insert((row.0.clone(), row.1, row.2.clone()), row);
        }
    }
    let interfaces: BTreeSet<String> = live.keys().map(|(name, ..)| name.clone()).collect();
    Ok(MEMBERS
        .iter()
        .map(used)
        .filter(|row| interfaces.contains(&row.0))
        .filter_map(|row| {
            let there = live.get(&(row.0.clone(), row.1, row.2.clone()));
            (there != Some(&row)).then(|| format!("used: {row:?}, live: {there:?}"))
        })
        .collect())
}

#[test]
fn every_member_in_use_is_in_the_interface_files_and_every_one_there_is_in_use() {
    let files = [
        include_str!("../../dbus-interfaces/org.freedesktop.systemd1.Manager.xml"),
        include_str!("../../dbus-interfaces/org.freedesktop.systemd1.Unit.xml"),
        include_str!("../../dbus-interfaces/org.freedesktop.systemd1.Scope.xml"),
        include_str!("../../dbus-interfaces/org.freedesktop.systemd1.Slice.xml"),
        include_str!("../../dbus-interfaces/org.freedesktop.systemd1.Service.xml"),
        include_str!("../../dbus-interfaces/org.freedesktop.systemd1.Job.xml"),
        include_str!("../../dbus-interfaces/org.freedesktop.DBus.xml"),
    ];
    let written: BTreeSet<Row> = files.iter().flat_map(|xml| rows(xml)).collect();
    let used: BTreeSet<Row> = MEMBERS.iter().map(used).collect();
    assert_eq!(
        used.len(),
        MEMBERS.len(),
        "a member is written down more than once"
    );
    let missing: Vec<_> = used.difference(&written).collect();
    assert!(missing.is_empty(), "not in dbus-interfaces: {missing:#?}");
    let unused: Vec<_> = written.difference(&used).collect();
    assert!(unused.is_empty(), "in dbus-interfaces only: {unused:#?}");
}
