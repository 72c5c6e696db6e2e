//! What was opened by path stays read-only.

fn into<U: Into<T>, T>() {}
fn borrow<U: AsRef<T>, T>() {}

fn reach(view: scopectl::CgroupView) {
    into::<scopectl::CgroupView, scopectl::Cgroup>(); //~ E0277
    into::<&scopectl::CgroupView, scopectl::Cgroup>(); //~ E0277
    borrow::<scopectl::CgroupView, scopectl::Cgroup>(); //~ E0277
    let _: &scopectl::Cgroup = &view; //~ E0308
}

fn main() {}
