//! What every test starts from: a runtime with a bound, a fake and a connection to it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scopectl::{Connect, Error, Instance, Load, Manager, Process, Result, Scope, ScopeSpec};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::fake::Fake;

/// Longer than any test takes.
const BOUND: Duration = Duration::from_secs(120);
/// The same in steps of the clock of [`check_fast`], each of which takes a little more than a millisecond.
const STEPS: u32 = 60_000;

/// For what must not be waited for: a test that does runs into its bound.
pub(crate) const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs a test.
pub(crate) fn check(body: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let ended = tokio::time::timeout(BOUND, body).await;
        ended.expect("the test hangs");
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
}

/// Runs a test in which something is to expire: `step` passes about each millisecond, and never while there is anything to do.
///
/// Tokio's own paused clock jumps to the next timer whenever no task can run, also while bytes are on their way through a socket, so that calls would time out
/// before they are answered. So the clock is held by a thread that blocks, and moved by hand.
pub(crate) fn check_fast(step: Duration, body: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let clock = tokio::spawn(run_clock(step, Arc::clone(&ended)));
        let result = tokio::time::timeout(step * STEPS, body).await;
        ended.store(true, Ordering::Relaxed);
        clock.await.unwrap();
        result.expect("the test hangs");
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
}

/// For what expires in seconds and minutes.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// For what takes hours.
pub(crate) const LONG_STEP: Duration = Duration::from_secs(1);

async fn run_clock(step: Duration, ended: Arc<AtomicBool>) {
    while !ended.load(Ordering::Relaxed) {
        // The runtime does not move a paused clock by itself while a blocking task runs.
        let pause = || std::thread::sleep(Duration::from_millis(1));
        tokio::task::spawn_blocking(pause).await.unwrap();
        // On a busy machine a millisecond may be over before anybody has run. The runtime looks at its sockets after each 61 tasks.
        for _ in 0..300 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(step).await;
    }
}

/// A fake systemd with a client.
pub(crate) struct Lab {
    pub(crate) manager: Manager,
    pub(crate) fake: Fake,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        Self::with(|connect| connect).await
    }

    pub(crate) async fn with(options: impl FnOnce(Connect) -> Connect) -> Self {
        let fake = Fake::on_private_socket();
        let connect = Manager::connect(Instance::Address(fake.address()));
        let manager = options(connect).await.expect("the fake answers");
        Self { manager, fake }
    }

    /// Starts in the background.
    pub(crate) fn start<const N: usize>(
        &self,
        spec: ScopeSpec,
        processes: [Process; N],
    ) -> JoinHandle<Result<Scope>> {
        let manager = self.manager.clone();
        tokio::spawn(async move { manager.start_scope(&spec, processes).await })
    }

    /// Waits until a job's signal is waited for.
    pub(crate) async fn waiting(&self) {
        while self.manager.load().jobs_waited_for == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Nothing is queued, in flight or waited for, now.
    pub(crate) async fn assert_idle(&self) {
        assert_eq!(self.manager.load(), Load::default());
    }

    /// Waits until nothing is queued, in flight or waited for.
    pub(crate) async fn idle(&self) {
        while self.manager.load() != Load::default() {
            tokio::task::yield_now().await;
        }
    }
}

/// A spec whose start never expires within the test.
pub(crate) fn patient(name: &str) -> ScopeSpec {
    ScopeSpec::new(name).start_timeout(FOREVER)
}

/// What a start that was run in the background ended in.
pub(crate) async fn ended(start: JoinHandle<Result<Scope>>) -> Result<Scope> {
    start.await.expect("the start does not panic")
}

pub(crate) async fn scope(start: JoinHandle<Result<Scope>>) -> Scope {
    ended(start).await.expect("the start succeeds")
}

pub(crate) async fn error(start: JoinHandle<Result<Scope>>) -> Error {
    ended(start).await.expect_err("the start fails")
}
