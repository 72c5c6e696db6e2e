//! Ending a scope.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scopectl::{ErrorKind, Process, Scope, Stop};

use crate::support::{Lab, Payload, spec};

/// A shell with its own idea of signals, inside a scope.
async fn start(lab: &Lab, name: &str, script: &str) -> (Scope, Child) {
    use std::io::Read;
    let mut child = Command::new("/bin/sh")
        .args([
            "-c",
            &format!("{script}\necho ready\nwhile :; do read -r _; done"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its traps are set once it has spoken.
    let mut ready = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    let scope = lab
        .manager
        .start_scope(&spec(name), [Process::open(child.id()).unwrap()])
        .await
        .unwrap();
    (scope, child)
}

async fn assert_gone(lab: &Lab) {
    assert_eq!(lab.scope_directories(), Vec::<std::path::PathBuf>::new());
    let witness = lab.witness().await;
    assert_eq!(lab.loaded_scopes(&witness).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_lets_the_process_end_by_itself() {
    let lab = Lab::new().await;
    let (scope, mut child) = start(&lab, "graceful.scope", "trap 'exit 7' TERM").await;
    scope.stop(Stop::GRACEFUL).await.unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_gone(&lab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_with_a_signal_of_its_own_sends_that_one() {
    let lab = Lab::new().await;
    let (scope, mut child) = start(&lab, "signal.scope", "trap 'exit 8' USR1; trap '' TERM").await;
    const SIGUSR1: i32 = 10;
    scope
        .stop(Stop::Graceful {
            signal: Some(SIGUSR1),
            timeout: None,
        })
        .await
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(8));
    assert_gone(&lab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ignores_the_signal_is_killed_after_the_timeout() {
    let lab = Lab::new().await;
    let (scope, mut child) = start(&lab, "deaf.scope", "trap '' TERM").await;
    let timeout = Duration::from_millis(200);
    let begun = Instant::now();
    scope
        .stop(Stop::Graceful {
            signal: None,
            timeout: Some(timeout),
        })
        .await
        .unwrap();
    assert!(begun.elapsed() >= timeout, "it was killed too early");
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_gone(&lab).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_idempotent_also_when_it_is_done_twice_at_once() {
    let lab = Lab::new().await;
    let mut payload = Payload::spawn();
    let scope = lab
        .manager
        .start_scope(&spec("twice.scope"), [payload.process()])
        .await
        .unwrap();
    let (first, second) = tokio::join!(scope.stop(Stop::Kill), scope.stop(Stop::GRACEFUL));
    first.unwrap();
    second.unwrap();
    scope.stop(Stop::Kill).await.unwrap();
    assert!(!payload.is_running());
    assert_gone(&lab).await;
    let gone = scope.cgroup().unwrap().events().unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::CgroupGone, "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_by_an_old_handle_leaves_a_later_unit_of_the_same_name_alone() {
    let lab = Lab::new().await;
    let name = "reused.scope";
    let mut first = Payload::spawn();
    let old = lab
        .manager
        .start_scope(&spec(name), [first.process()])
        .await
        .unwrap();
    first.kill();
    let mut second = Payload::spawn();
    let new = lab
        .manager
        .start_scope(
            &spec(name).if_exists(scopectl::IfExists::WaitGone),
            [second.process()],
        )
        .await
        .unwrap();
    old.stop(Stop::Kill).await.unwrap();
    old.stop(Stop::GRACEFUL).await.unwrap();
    assert!(second.is_running());
    assert!(new.cgroup().unwrap().events().unwrap().populated);
    new.stop(Stop::Kill).await.unwrap();
    assert!(!second.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_gets_a_family_that_forks_meanwhile() {
    let lab = Lab::new().await;
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read -r _; while :; do (sleep 1000 &) ; done"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let scope = lab
        .manager
        .start_scope(&spec("forker.scope"), [Process::open(child.id()).unwrap()])
        .await
        .unwrap();
    drop(child.stdin.take());
    // End of file releases the shell; some children later it is killed.
    while scope.cgroup().unwrap().processes().unwrap().len() < 20 {
        tokio::task::yield_now().await;
    }
    scope.stop(Stop::Kill).await.unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_gone(&lab).await;
}
