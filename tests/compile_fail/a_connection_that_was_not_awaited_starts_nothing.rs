//! `Connect` is not yet a `Manager`.

async fn start(spec: &scopectl::ScopeSpec) {
    let _ = scopectl::Manager::connect(scopectl::Instance::Auto).start_scope(spec, []); //~ E0599
}

fn main() {}
