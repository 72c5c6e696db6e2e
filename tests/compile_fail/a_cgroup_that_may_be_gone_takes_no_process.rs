//! A scope whose processes have all ended has no cgroup any more.

async fn add(scope: scopectl::Scope, process: scopectl::Process) {
    let _ = scope.cgroup().add_process(&process).await; //~ E0599
}

fn main() {}
