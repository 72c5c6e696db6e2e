//! Text that names a unit is no proof that the unit is there.

fn read<'a, T: serde::Deserialize<'a>>() {}

fn main() {
    read::<scopectl::ScopeSpec>();
    read::<scopectl::Cgroup>(); //~ E0277
    read::<scopectl::Scope>(); //~ E0277
}
