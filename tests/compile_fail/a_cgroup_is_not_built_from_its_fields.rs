//! The field is private, so no literal makes a `Cgroup`.

fn main() {
    let _ = scopectl::Cgroup(std::sync::Arc::default()); //~ E0423
}
