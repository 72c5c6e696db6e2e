//! Until the start has ended there is no scope to ask.

fn start(manager: &scopectl::Manager, spec: &scopectl::ScopeSpec) {
    let scope = manager.start_scope(spec, []);
    let _ = scope.cgroup(); //~ E0599
    let scope = manager.adopt("a.scope");
    let _ = scope.cgroup(); //~ E0599
}

fn main() {}
