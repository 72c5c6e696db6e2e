//! The result has to be looked at first.

async fn start(manager: &scopectl::Manager, spec: &scopectl::ScopeSpec) {
    let scope = manager.start_scope(spec, []).await;
    let _ = scope.cgroup(); //~ E0599
}

fn main() {}
