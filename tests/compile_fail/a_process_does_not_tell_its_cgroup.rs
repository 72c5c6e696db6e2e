//! The cgroup that a process is in may be any, and is read for the verification only.

fn reach(process: scopectl::Process) {
    let _ = process.cgroup(); //~ E0624
}

fn main() {}
