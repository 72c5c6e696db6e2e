//! Every public way to a cgroup handle, read from rustdoc's JSON and held against a reviewed list.
//!
//! A handle (`Cgroup`, and `Scope`, which hands one out) stands for a unit whose job is done and that was verified. The compiler keeps outsiders from making
//! one; this test keeps *us* from letting one out by a new method, field, conversion or alias that nobody thought about. `reviewed.txt` has one line for each
//! public item whose type names a handle, with the reason why that is right. What is not on the list fails, and so does a line that has become stale.
//!
//! rustdoc writes JSON on a nightly compiler only, so it is run with `RUSTC_BOOTSTRAP=1`, in a target directory of its own. Where it cannot be run the test
//! fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod json;
mod list;
mod mentions;
mod surface;
mod text;

use std::collections::BTreeSet;

use json::{of_crate, of_fixture};
use list::List;
use surface::Surface;

#[test]
fn every_public_way_to_a_cgroup_handle_is_reviewed() {
    let list = List::parse("tests/handles/reviewed.txt", include_str!("reviewed.txt"));
    let surface = Surface::of(of_crate(), &list.handles()).unwrap();
    list.compare(&surface)
        .unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn no_type_of_another_crate_but_serdes_is_in_the_public_api() {
    let surface = Surface::of(of_crate(), &[]).unwrap();
    let leaks: Vec<_> = surface
        .foreign
        .iter()
        .filter(|(krate, _)| {
            !["std", "core", "alloc", "serde", "serde_core"].contains(&krate.as_str())
        })
        .collect();
    assert!(
        leaks.is_empty(),
        "zbus, nix, rustix and tokio may change without us: keep them out of public signatures: {leaks:#?}"
    );
    // Names are checked when they are read, so serde must be seen where it is.
    assert!(
        surface
            .foreign
            .iter()
            .any(|(krate, _)| krate.starts_with("serde"))
    );
    assert!(
        surface.functions > 100,
        "only {} functions",
        surface.functions
    );
}

#[test]
fn what_is_promised_of_types_and_futures_is_tested_for_every_one() {
    let surface = Surface::of(of_crate(), &[]).unwrap();
    let tested = include_str!("../auto_traits.rs");
    let words: BTreeSet<&str> = tested
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let all = surface.types.union(&surface.futures);
    let missing: Vec<_> = all.filter(|name| !words.contains(name.as_str())).collect();
    assert!(
        missing.is_empty(),
        "not in tests/auto_traits.rs: {missing:?}"
    );
    assert!(surface.futures.contains("start_scope") && surface.types.contains("CgroupsUnit"));
}

#[test]
fn the_walk_finds_a_handle_in_every_shape() {
    let list = List::parse(
        "tests/handles/fixture/expected.txt",
        include_str!("fixture/expected.txt"),
    );
    let surface = Surface::of(of_fixture(), &list.handles()).unwrap();
    list.compare(&surface)
        .unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn a_new_way_a_stale_line_and_an_unsorted_type_are_told_apart() {
    let surface = Surface::of(of_fixture(), &["fixture::Handle"]).unwrap();
    let list = List::parse(
        "x.txt",
        "handle fixture::Handle | why\nfn fixture::gone gives Handle | why\n",
    );
    let report = list.compare(&surface).unwrap_err();
    for part in [
        "`fn fixture::by_value gives Handle` is a new public way",
        "`fn fixture::gone gives Handle` is not in the public API any more",
        "`fixture::Maker` keeps its fields to itself",
    ] {
        assert!(report.contains(part), "{part}:\n{report}");
    }
}

#[test]
fn a_format_that_is_not_known_is_an_error() {
    let mut json = of_fixture().clone();
    json["format_version"] = 9999.into();
    let error = Surface::of(&json, &["fixture::Handle"]).unwrap_err();
    assert!(error.contains("format version 9999"), "{error}");
}

#[test]
fn a_handle_that_does_not_exist_is_an_error() {
    let error = Surface::of(of_fixture(), &["fixture::Handel"]).unwrap_err();
    assert!(error.contains("fixture::Handel"), "{error}");
}
