//! The directory behind a handle is not reached, so that nothing is written through it but what the handle's own methods write.

fn reach(view: scopectl::CgroupView, cgroup: scopectl::Cgroup, scope: scopectl::Scope) {
    let _ = view.0; //~ E0616
    let _ = cgroup.0; //~ E0616
    let _ = scope.0; //~ E0616
}

fn descriptor<T: std::os::fd::AsFd>() {}

fn main() {
    descriptor::<scopectl::Cgroup>(); //~ E0277
    descriptor::<scopectl::CgroupView>(); //~ E0277
}
