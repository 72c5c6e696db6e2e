//! What an undo leaves alone.

use scopectl::ErrorKind;

use crate::cgroups::Sleeper;
use crate::lab::{Lab, check, error, patient};

/// It was taken back out of the unit that it had been put in meanwhile.
#[test]
fn a_process_that_somebody_else_moved_meanwhile_stays_where_it_is() {
    check(async {
        let lab = Lab::new().await;
        let sleeper = Sleeper::new();
        let elsewhere = lab.fake.cgroup().make("elsewhere.scope");
        let mut starts = lab.fake.hold("StartTransientUnit");
        let start = lab.start(patient("refused.scope"), [sleeper.process()]);
        let call = starts.next().await;
        std::fs::write(elsewhere.join("cgroup.procs"), sleeper.pid().to_string()).unwrap();
        call.refuse("org.freedesktop.DBus.Error.AccessDenied", "no")
            .await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(error.undo().unwrap().moved_back.is_empty(), "{error}");
        assert_eq!(
            sleeper.cgroup(),
            lab.fake.cgroup().proc_path("elsewhere.scope")
        );
        lab.assert_idle().await;
    });
}

/// The unit stayed for ever.
#[test]
fn a_start_that_is_dropped_outside_of_the_runtime_is_undone_too() {
    use std::future::Future as _;
    use std::task::{Context, Waker};

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let lab = runtime.block_on(Lab::new());
    let sleeper = Sleeper::new();
    let before = sleeper.cgroup();
    let spec = patient("dropped.scope");
    let mut start = Box::pin(lab.manager.start_scope(&spec, [sleeper.process()]));
    runtime.block_on(async {
        let mut context = Context::from_waker(Waker::noop());
        assert!(start.as_mut().poll(&mut context).is_pending());
        // It has handed over its result when it is no longer in flight.
        lab.fake
            .until(|table| table.units.values().any(|unit| unit.active == "active"))
            .await;
        lab.idle().await;
    });
    // Its result is ready and has not been taken.
    drop(start);
    runtime.block_on(async {
        let undone = lab.fake.until(|table| table.units.is_empty());
        let bound = std::time::Duration::from_secs(30);
        tokio::time::timeout(bound, undone).await.expect("it stays");
    });
    assert_eq!(sleeper.cgroup(), before);
    drop(lab);
}
