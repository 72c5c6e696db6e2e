//! Many starts at once over one connection.

use std::time::Instant;

use scopectl::Stop;

use crate::support::{Lab, Payload, is_inside, scale, spec};

const AT_ONCE: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_scopes_at_once_hold_their_payloads_and_leave_nothing() {
    let lab = Lab::new().await;
    let rounds = scale(1, 20);
    let begun = Instant::now();
    for round in 0..rounds {
        let payloads: Vec<Payload> = (0..AT_ONCE).map(|_| Payload::spawn()).collect();
        let starts: Vec<_> = payloads
            .into_iter()
            .enumerate()
            .map(|(n, mut payload)| {
                let manager = lab.manager.clone();
                tokio::spawn(async move {
                    let name = format!("at-once-{round}-{n}.scope");
                    let scope = manager
                        .start_scope(&spec(&name), [payload.process()])
                        .await
                        .unwrap_or_else(|e| panic!("{name}: {e:?}"));
                    let path = payload.release();
                    assert!(is_inside(&path, &name), "{name}: the payload is in {path}");
                    (scope, payload)
                })
            })
            .collect();
        let mut running = Vec::new();
        for start in starts {
            running.push(start.await.expect("a start"));
        }
        assert_eq!(lab.scope_directories().len(), AT_ONCE);
        let stops: Vec<_> = running
            .into_iter()
            .map(|(scope, payload)| {
                tokio::spawn(async move {
                    scope
                        .stop(Stop::Kill)
                        .await
                        .unwrap_or_else(|e| panic!("{e:?}"));
                    drop(payload);
                })
            })
            .collect();
        for stop in stops {
            stop.await.expect("a stop");
        }
        assert_eq!(lab.scope_directories(), Vec::<std::path::PathBuf>::new());
        assert_eq!(
            lab.loaded_scopes(&lab.witness().await).await,
            Vec::<String>::new()
        );
        assert_eq!(lab.manager.load(), scopectl::Load::default());
    }
    println!(
        "figure: {AT_ONCE} scopes at once, {rounds} rounds: 0 errors, 0 outside, 0 left, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
