//! Starting and stopping for a long time, some starts given up half way: nothing may grow.
//!
//! In a process of its own, because what is counted (descriptors) belongs to the whole process, other tests included.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use scopectl::Stop;
use tokio::sync::Semaphore;

use crate::support::{Lab, Payload, cgroup_of, is_inside, open_fds, rss_kib, scale, spec};

const IN_FLIGHT: usize = 8;
/// systemd's own figures move a little with every unit; what leaks grows with the number of cycles.
const RSS_SLACK_KIB: u64 = 1024;

#[derive(Debug, PartialEq, Eq)]
struct Counts {
    fds: usize,
    tasks: usize,
    match_rules: u32,
    units: usize,
    directories: usize,
}

const ALONE: &str = "SCOPECTL_TEST_CYCLES_ALONE";

#[test]
fn start_and_stop_cycles_with_cancelled_starts_leave_nothing_behind() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cycles::in_a_process_of_its_own", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = text.lines().find(|line| line.starts_with("figure:"));
    assert!(
        output.status.success() && figure.is_some(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{}", figure.unwrap_or_default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_process_of_its_own() {
    if std::env::var_os(ALONE).is_none() {
        // Counted by the test above.
        return;
    }
    let lab = Arc::new(Lab::new().await);
    let witness = lab.witness().await;
    let cycles = scale(1000, 10_000);
    let warm_up = cycles / 5;

    round(&lab, 0, warm_up).await;
    let before = settled(&lab, &witness).await;
    let rss_before = rss_kib(lab.embedded.manager_pid());
    let cancelled = round(&lab, warm_up, cycles).await;
    let after = settled(&lab, &witness).await;
    let rss_after = rss_kib(lab.embedded.manager_pid());

    assert_eq!(before, after);
    assert!(
        rss_after <= rss_before + RSS_SLACK_KIB,
        "systemd grew from {rss_before} to {rss_after} KiB"
    );
    println!(
        "figure: {cycles} cycles, {IN_FLIGHT} in flight, {cancelled} cancelled: {after:?} before and after, systemd {rss_before} -> {rss_after} KiB"
    );
}

async fn round(lab: &Arc<Lab>, from: usize, to: usize) -> usize {
    let places = Arc::new(Semaphore::new(IN_FLIGHT));
    let cancelled = Arc::new(AtomicUsize::new(0));
    let mut cycles = tokio::task::JoinSet::new();
    for n in from..to {
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let (lab, cancelled) = (Arc::clone(lab), Arc::clone(&cancelled));
        cycles.spawn(async move {
            let _place = place;
            cycle(&lab, n, &cancelled).await;
        });
        while let Some(ended) = cycles.try_join_next() {
            ended.expect("a cycle");
        }
    }
    while let Some(ended) = cycles.join_next().await {
        ended.expect("a cycle");
    }
    cancelled.load(Ordering::Relaxed)
}

async fn cycle(lab: &Lab, n: usize, cancelled: &AtomicUsize) {
    let name = format!("cycle-{n}.scope");
    let mut payload = Payload::spawn();
    let home = cgroup_of(payload.pid()).unwrap();
    let spec = spec(&name);
    let start = lab.manager.start_scope(&spec, [payload.process()]);
    if n.is_multiple_of(10) {
        // Given up after 0 to 3 ms: queued, in the call, in the job, or ready.
        let patience = Duration::from_micros((n as u64 * 7919) % 3000);
        match tokio::time::timeout(patience, start).await {
            Err(_) => cancelled.fetch_add(1, Ordering::Relaxed),
            Ok(started) => {
                let scope = started.unwrap_or_else(|e| panic!("{name}: {e:?}"));
                return scope
                    .stop(Stop::Kill)
                    .await
                    .unwrap_or_else(|e| panic!("{name}: {e:?}"));
            }
        };
        // The payload was there before: it lives on, and comes back to where it was.
        let back = tokio::time::timeout(Duration::from_secs(10), async {
            while lab.manager.load().starts_in_flight > 0
                && cgroup_of(payload.pid()).is_some_and(|now| now != home)
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        back.await.expect("the undo ends");
        assert!(payload.is_running(), "{name}: an undo killed the payload");
        return;
    }
    let scope = start.await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let path = payload.release();
    assert!(is_inside(&path, &name), "{name}: the payload is in {path}");
    scope
        .stop(Stop::Kill)
        .await
        .unwrap_or_else(|e| panic!("{name}: {e:?}"));
}

/// The counts once everything that was started has ended; bounded.
async fn settled(lab: &Lab, witness: &zbus::Connection) -> Counts {
    let mut last = counts(lab, witness).await;
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = counts(lab, witness).await;
        if now == last && now.directories == 0 && now.units == 0 {
            return now;
        }
        last = now;
    }
    last
}

async fn counts(lab: &Lab, witness: &zbus::Connection) -> Counts {
    Counts {
        fds: open_fds(),
        tasks: tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        match_rules: match_rules(witness).await,
        units: lab.loaded_scopes(witness).await.len(),
        directories: lab.scope_directories().len(),
    }
}

/// All match rules on the bus, as dbus-daemon counts them.
async fn match_rules(witness: &zbus::Connection) -> u32 {
    let reply = witness
        .call_method(
            Some("org.freedesktop.DBus"),
            "/org/freedesktop/DBus",
            Some("org.freedesktop.DBus.Debug.Stats"),
            "GetStats",
            &(),
        )
        .await
        .expect("dbus-daemon has statistics");
    let body = reply.body();
    let stats: std::collections::HashMap<String, zbus::OwnedVariant> =
        body.deserialize().expect("a dictionary");
    u32::try_from(&stats["MatchRules"]).expect("a number")
}
