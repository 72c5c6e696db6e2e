//! The bound on starts in flight.

use std::collections::VecDeque;

use scopectl::{Connect, ErrorKind, Phase};

use crate::cgroups::Sleeper;
use crate::lab::{FOREVER, Lab, STEP, check, check_fast, error, patient, scope};

#[test]
fn twenty_starts_at_once_keep_to_the_bound() {
    check(async {
        let lab = Lab::with(|connect| connect.max_in_flight(2)).await;
        let sleepers: Vec<Sleeper> = (0..20).map(|_| Sleeper::new()).collect();
        let mut calls = lab.fake.hold("StartTransientUnit");
        let starts: Vec<_> = sleepers
            .iter()
            .enumerate()
            .map(|(n, sleeper)| lab.start(patient(&format!("{n}.scope")), [sleeper.process()]))
            .collect();
        let mut waiting = VecDeque::from([calls.next().await, calls.next().await]);
        while lab.manager.load().starts_queued < 18 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lab.manager.load().starts_in_flight, 2);
        for left in (0..20).rev() {
            assert!(calls.try_next().is_none());
            waiting.pop_front().unwrap().answer().await;
            if left >= 2 {
                waiting.push_back(calls.next().await);
            }
        }
        for (n, start) in starts.into_iter().enumerate() {
            assert_eq!(scope(start).await.name().as_str(), format!("{n}.scope"));
        }
        assert_eq!(lab.fake.table(|table| table.most_in_flight), 2);
        lab.assert_idle().await;
    });
}

#[test]
fn a_start_that_is_not_admitted_in_time_is_an_error_of_its_own_and_sends_nothing() {
    check_fast(STEP, async {
        let options = |connect: Connect| connect.max_in_flight(1).call_timeout(FOREVER);
        let lab = Lab::with(options).await;
        let (first, mut second) = (Sleeper::new(), Sleeper::new());
        let mut calls = lab.fake.hold("StartTransientUnit");
        let busy = lab.start(patient("busy.scope"), [first.process()]);
        let call = calls.next().await;
        let queued = patient("queued.scope");
        let error = error(lab.start(queued, [second.process()])).await;
        assert_eq!(error.kind(), ErrorKind::QueueTimeout);
        assert_eq!(error.phase(), Some(Phase::Queue));
        assert_eq!(error.unit(), Some("queued.scope"));
        assert!(calls.try_next().is_none());
        assert!(second.is_running());
        call.answer().await;
        scope(busy).await;
        lab.assert_idle().await;
    });
}

#[test]
fn a_process_that_ends_in_the_queue_is_never_handed_over() {
    check(async {
        let lab = Lab::with(|connect| connect.max_in_flight(1)).await;
        let (first, mut second) = (Sleeper::new(), Sleeper::new());
        let mut calls = lab.fake.hold("StartTransientUnit");
        let busy = lab.start(patient("busy.scope"), [first.process()]);
        let call = calls.next().await;
        let start = lab.start(patient("queued.scope"), [second.process()]);
        while lab.manager.load().starts_queued == 0 {
            tokio::task::yield_now().await;
        }
        second.end();
        call.answer().await;
        scope(busy).await;
        let error = error(start).await;
        assert_eq!(error.kind(), ErrorKind::ProcessGone, "{error}");
        assert!(calls.try_next().is_none());
        lab.assert_idle().await;
    });
}
