//! The tests of the contract: every member that is used is in `dbus-interfaces/`, and every one there is used. `contract_live` asks a live manager.

use std::collections::BTreeSet;

use super::members::{Kind, MEMBERS, Member};

/// One member: interface, kind, name, and the signatures of what goes in and comes out.
pub(super) type Row = (String, Kind, String, String, String);

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

/// A row of the table in the same form.
pub(super) fn used(member: &Member) -> Row {
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
