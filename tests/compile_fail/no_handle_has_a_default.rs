//! There is no cgroup that one could have for nothing.

fn default<T: Default>() {}

fn main() {
    default::<scopectl::Cgroup>(); //~ E0277
    default::<scopectl::Scope>(); //~ E0277
}
