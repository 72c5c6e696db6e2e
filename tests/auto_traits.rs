//! What the documentation promises of every public type: threads, copies, size; and that a future of ours can be spawned.
//!
//! Nearly all of this is decided by the compiler: a type that loses a trait makes this file an error.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fmt::Debug;
use std::hash::Hash;

use scopectl::unit::{CgroupsPath, CgroupsUnit, ScopeName, SliceName, UnitName, UnitType};
use scopectl::{
    Cgroup, CgroupView, CollectMode, Connect, Descendants, Error, ErrorKind, Events, IfExists,
    Instance, JobResult, Load, Manager, Phase, Process, Scope, ScopeSpec, Stop, Timings, Transport,
    Undo,
};

fn shared<T: Send + Sync + Unpin + Debug + 'static>() {}
fn cloned<T: Clone>() {}
fn copied<T: Copy>() {}
fn compared<T: Eq>() {}
fn keys<T: Hash + Eq + Ord>() {}
fn stored<T: serde::Serialize + serde::de::DeserializeOwned>() {}

macro_rules! each {
    ($claim:ident: $($name:ty),+ $(,)?) => { $($claim::<$name>();)+ };
}

#[test]
fn every_public_type_crosses_threads_and_can_be_printed() {
    each!(shared: Manager, Connect, Instance, Transport, Load, Scope, ScopeSpec, Stop, Timings, CollectMode, IfExists, Descendants);
    each!(shared: Cgroup, CgroupView, Events, Process, Error, ErrorKind, Phase, Undo, JobResult);
    each!(shared: UnitName, ScopeName, SliceName, UnitType, CgroupsPath, CgroupsUnit);
    #[cfg(feature = "embedded")]
    each!(shared: scopectl::embedded::Embedded, scopectl::embedded::Builder);
}

#[test]
fn handles_and_values_are_cloned_and_plain_ones_copied() {
    each!(cloned: Manager, Connect, Instance, Scope, ScopeSpec, Cgroup, CgroupView, Process, Error, Undo, JobResult);
    each!(cloned: UnitName, ScopeName, SliceName, CgroupsPath, CgroupsUnit);
    each!(copied: Transport, Load, Stop, Timings, CollectMode, IfExists, Descendants, Events, ErrorKind, Phase, UnitType);
    #[cfg(feature = "embedded")]
    each!(cloned: scopectl::embedded::Builder);
}

#[test]
fn values_are_compared_names_are_keys_and_a_spec_is_stored() {
    each!(compared: Instance, Transport, Load, ScopeSpec, Stop, Timings, Events, ErrorKind, Phase, Undo, JobResult, CgroupsPath);
    each!(keys: UnitName, ScopeName, SliceName, UnitType);
    each!(stored: ScopeSpec, CollectMode, IfExists, Descendants, UnitName, ScopeName, SliceName);
}

/// A clone of a handle shares what it stands for.
#[test]
fn a_handle_is_one_pointer_and_so_is_an_error() {
    fn one_pointer<T>() {
        assert_eq!(
            size_of::<T>(),
            size_of::<usize>(),
            "{}",
            std::any::type_name::<T>()
        );
        assert_eq!(size_of::<Option<T>>(), size_of::<T>());
    }
    each!(one_pointer: Scope, Cgroup, CgroupView, Process, Error);
    assert_eq!(size_of::<scopectl::Result<()>>(), size_of::<usize>());
}

/// Every async function, without running one: that the future is `Send` is checked by the compiler, its size here.
#[test]
fn every_future_is_send_and_of_moderate_size() {
    fn spawned<A, F: Future<Output: Send> + Send>(_: impl FnOnce(A) -> F) {
        // clippy's large_futures calls 16 KiB large.
        let size = size_of::<F>();
        assert!(
            size <= 8 << 10,
            "{} has {size} bytes",
            std::any::type_name::<F>()
        );
    }
    spawned(|connect: Connect| connect.into_future());
    spawned(
        |(manager, spec, processes): (&'static Manager, &'static ScopeSpec, Vec<Process>)| {
            manager.start_scope(spec, processes)
        },
    );
    spawned(|(manager, name): (&'static Manager, &'static str)| manager.adopt(name));
    spawned(|(manager, unit): (&'static Manager, &'static str)| manager.view(unit));
    spawned(|manager: &'static Manager| manager.version());
    spawned(|(scope, how): (&'static Scope, Stop)| scope.stop(how));
    spawned(|(cgroup, process): (&'static Cgroup, &'static Process)| cgroup.add_process(process));
    spawned(|cgroup: &'static Cgroup| cgroup.kill());
}
