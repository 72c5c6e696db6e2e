//! The `scopectl` command.

fn main() {}
