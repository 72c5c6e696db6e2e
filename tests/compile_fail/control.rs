//! The right way compiles; so what fails in the other files fails for its own reason.

use scopectl::{Instance, Manager, Process, Result, ScopeSpec, Stop};

async fn run() -> Result<()> {
    let manager = Manager::connect(Instance::Auto).await?;
    let spec = ScopeSpec::new("a.scope");
    let scope = manager.start_scope(&spec, [Process::current()?]).await?;
    let cgroup = scope.cgroup()?;
    cgroup.add_process(&Process::open(7)?).await?;
    let _: scopectl::Events = manager.view("c.scope").await?.events()?;
    manager.adopt("b.scope").await?.stop(Stop::Kill).await
}

fn main() {
    drop(run());
}
