//! Children that end while their scope is being started.

use std::process::{Command, Stdio};

use scopectl::{ErrorKind, Process};

use crate::support::{Lab, scale, spec};

/// systemd takes a process that is ending without an error, and its scope would then be active and empty for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lived_children_that_race_with_the_start_leave_no_empty_scope() {
    let lab = Lab::new().await;
    let rounds = scale(500, 5000);
    let (mut inside, mut ended, mut gone) = (0, 0, 0);
    for round in 0..rounds {
        // Ends by itself within the time that a start takes: 0 to 2 ms.
        let mut child = Command::new("sleep")
            .arg(format!("0.00{}", round % 3))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        // Reaped at random moments, as a caller with a reaper of its own does it.
        let reaper = (round % 2 == 0).then(|| {
            let pid = child.id();
            std::thread::spawn(move || {
                let _ = rustix::process::waitpid(
                    rustix::process::Pid::from_raw(pid as i32),
                    rustix::process::WaitOptions::empty(),
                );
            })
        });
        let name = format!("short-{round}.scope");
        if let Ok(process) = Process::open(child.id()) {
            match lab.manager.start_scope(&spec(&name), [process]).await {
                Ok(scope) if scope.ended().is_empty() => inside += 1,
                Ok(_) => ended += 1,
                Err(error)
                    if matches!(error.kind(), ErrorKind::ProcessGone)
                        || error.kind() == ErrorKind::JobFailed =>
                {
                    gone += 1;
                }
                Err(error) => panic!("round {round}: {error:?}"),
            }
        } else {
            gone += 1;
        }
        match reaper {
            Some(reaper) => reaper.join().unwrap(),
            None => drop(child.wait()),
        }
    }
    // systemd collects a scope that emptied by itself a moment later: bounded wait for the last ones.
    let witness = lab.witness().await;
    let left = tokio::time::timeout(std::time::Duration::from_secs(10), async {
        loop {
            let left = lab.loaded_scopes(&witness).await;
            if left.is_empty() && lab.scope_directories().is_empty() {
                return left;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let left = match left {
        Ok(_) => Vec::new(),
        Err(_) => lab.loaded_scopes(&witness).await,
    };
    assert_eq!(left, Vec::<String>::new(), "scopes without a process");
    println!(
        "figure: {rounds} short-lived children: {inside} inside, {ended} ran inside and ended, {gone} ended before, 0 empty scopes left"
    );
}
