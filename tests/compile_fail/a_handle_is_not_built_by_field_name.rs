//! A tuple's fields have names too, and these are private.

fn rebuild(cgroup: scopectl::Cgroup, scope: scopectl::Scope) {
    let _ = scopectl::Cgroup { ..cgroup }; //~ E0451
    let _ = scopectl::Scope { ..scope }; //~ E0451
}

fn main() {}
