//! A path is no proof; only a view is opened by one.

fn main() {
    let _ = scopectl::CgroupView::open("/sys/fs/cgroup/system.slice");
    let _ = scopectl::Cgroup::open("/sys/fs/cgroup/system.slice"); //~ E0599
}
