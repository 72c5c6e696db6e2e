//! A view has none of the methods that change a cgroup.

async fn change(view: scopectl::CgroupView, process: scopectl::Process) {
    view.add_process(&process); //~ E0599
    view.kill(); //~ E0599
}

fn main() {}
