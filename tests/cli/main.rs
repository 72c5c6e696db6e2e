//! The built `scopectl`, driven as a caller drives it.
//!
//! * `usage`: what is refused, before anything starts
//! * `passing`: what the caller made arrives at the command unchanged
//! * `options`: what the options do to the command
//! * `parent`: `run` with an embedded manager stays beside the command
//! * `starting`: signals and the time limit while that manager starts
//!
//! All but `usage` need root, a cgroup2 mount and systemd, and say so where they are skipped (`SCOPECTL_TEST_NO_SKIP`: fail there).
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod options;
mod parent;
mod passing;
#[path = "../../src/skip.rs"]
mod skip;
mod starting;
mod support;
mod usage;
