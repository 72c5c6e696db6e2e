//! The functions that make handles are the crate's own.

fn main() {
    let _ = scopectl::Cgroup::new; //~ E0624
    let _ = scopectl::Scope::from_start; //~ E0624
    let _ = scopectl::Scope::from_active; //~ E0624
}
