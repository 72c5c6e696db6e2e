//! Tests against a real systemd: a private instance for each test.
//!
//! Counts are those of the quick round; `SCOPECTL_TEST_SCALE=full` takes the large ones (see `tests/full`). A line that starts with `figure:` is a result for
//! people.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod children;
mod concurrent;
mod cycles;
mod exists;
mod moves;
mod restarts;
mod stop;
mod support;
mod undo;
