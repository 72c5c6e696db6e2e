//! A name is no proof: `Manager::adopt` asks systemd.

fn main() {
    let _ = scopectl::Scope::open("a.scope"); //~ E0599
    let _ = scopectl::Scope::new("a.scope"); //~ E0599
}
