//! A connection against a peer that answers as the test wants it.

use std::os::fd::AsFd;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::fake::{Directory, Peer, SYSTEMD_UNIQUE, channel};
use super::{Bus, Endpoint, Event};
use crate::ErrorKind;
use crate::property::PropertyValue;

const MANAGER: (&str, &str, &str) = (
    "/org/freedesktop/systemd1",
    "org.freedesktop.systemd1.Manager",
    "JobRemoved",
);

/// Long enough for everything that happens.
pub(super) fn later() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// The deadline of what never happens.
pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

/// The next event; a test that waits in vain fails.
pub(super) async fn next(events: &mut UnboundedReceiver<Event>) -> Option<Event> {
    tokio::time::timeout_at(later(), events.recv())
        .await
        .expect("an event, or the end of the sink")
}

pub(super) async fn connected(endpoint: &Endpoint, directory: &Directory) -> (Bus, Peer) {
    let listener = directory.listen(endpoint);
    let (bus, peer) = tokio::join!(Bus::connect(endpoint, later()), Peer::accept(&listener));
    (bus.unwrap(), peer)
}

async fn each_transport() -> Vec<(Directory, Bus, Peer)> {
    let mut all = Vec::new();
    for private in [false, true] {
        let directory = Directory::new();
        let endpoint = if private {
            directory.private()
        } else {
            directory.bus()
        };
        let (bus, peer) = connected(&endpoint, &directory).await;
        assert_eq!(bus.is_bus(), !private);
        all.push((directory, bus, peer));
    }
    all
}

#[tokio::test]
async fn replies_and_properties_are_read_on_both_transports() {
    for (_directory, bus, _peer) in each_transport().await {
        let manager = bus.manager();
        let names = ["x.scope".to_owned()];
        let listed = manager.list_units_by_names(names, later()).await.unwrap();
        let [unit] = &listed[..] else {
            panic!("{listed:?}");
        };
        assert_eq!((&*unit.name, unit.job_id), ("x.scope", 7));
        assert_eq!(&*unit.path, "/org/freedesktop/systemd1/unit/x");
        assert_eq!(&*unit.job_path, "/org/freedesktop/systemd1/job/7");
        assert_eq!(manager.version(later()).await.unwrap(), "252.1-fake");
        let unit = bus.unit(unit.path.clone());
        assert_eq!(unit.invocation_id(later()).await.unwrap(), [1; 16]);
    }
}

#[tokio::test]
async fn an_error_reply_keeps_its_name_and_kind() {
    for (_directory, bus, _peer) in each_transport().await {
        let error = bus
            .manager()
            .reset_failed_unit("missing.scope", later())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchUnit);
        assert_eq!(
            error.dbus_name(),
            Some("org.freedesktop.systemd1.NoSuchUnit")
        );
        let error = bus.manager().control_group(later()).await.unwrap_err();
        assert!(error.to_string().contains("ControlGroup"), "{error}");
        assert_eq!(error.kind(), ErrorKind::UnknownProperty, "{error}");
    }
}

#[tokio::test]
async fn an_answer_of_another_type_is_an_error_that_names_the_member_and_both_types() {
    for (_directory, bus, _peer) in each_transport().await {
        let stop = bus
            .manager()
            .stop_unit("text.scope", "replace", later())
            .await
            .unwrap_err();
        let delegate = bus
            .scope("/org/freedesktop/systemd1/unit/x")
            .delegate(later())
            .await
            .unwrap_err();
        for (error, [member, theirs, ours]) in [
            (stop, ["StopUnit", "\"s\"", "\"o\""]),
            (delegate, ["Delegate", "\"v\"", "\"b\""]),
        ] {
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            for part in [member, theirs, ours] {
                assert!(error.to_string().contains(part), "{part}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn silence_ends_with_the_deadline_and_the_connection_lives_on() {
    for (_directory, bus, _peer) in each_transport().await {
        let error = bus
            .manager()
            .reset_failed_unit("silent.scope", soon())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CallTimeout);
        assert!(error.to_string().contains("ResetFailedUnit"), "{error}");
        bus.manager()
            .reset_failed_unit("x.scope", later())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_call_whose_caller_went_away_is_made_all_the_same() {
    for (_directory, bus, peer) in each_transport().await {
        {
            let manager = bus.manager();
            let mut call = std::pin::pin!(manager.stop_unit("x.scope", "replace", later()));
            std::future::poll_fn(|context| {
                assert!(call.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        peer.asked.stopped.notified().await;
    }
}

#[tokio::test]
async fn the_end_of_the_connection_fails_every_call_and_is_told_once() {
    for (_directory, bus, peer) in each_transport().await {
        let (sink, mut events) = channel();
        bus.on_event(later(), sink).await.unwrap();
        let manager = bus.manager();
        let (waiting, _) =
            tokio::join!(manager.reset_failed_unit("silent.scope", later()), async {
                tokio::task::yield_now().await;
                peer.connection.close().await.unwrap();
            });
        let later_on = bus.manager().reset_failed_unit("x.scope", later()).await;
        for error in [waiting.unwrap_err(), later_on.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}");
        }
        assert_eq!(next(&mut events).await, Some(Event::Lost));
        assert_eq!(next(&mut events).await, None, "nothing follows");
        assert!(bus.is_closed());
    }
}

fn removed(id: u32) -> (u32, zbus::ObjectPath<'static>, &'static str, &'static str) {
    let path = format!("/org/freedesktop/systemd1/job/{id}");
    (id, path.try_into().unwrap(), "x.scope", "done")
}

fn expected(id: u32) -> Event {
    Event::JobRemoved {
        id,
        job: format!("/org/freedesktop/systemd1/job/{id}"),
        unit: "x.scope".to_owned(),
        result: "done".to_owned(),
    }
}

#[tokio::test]
async fn a_removed_job_is_told_with_and_without_a_sender_and_a_malformed_signal_is_skipped() {
    for (_directory, bus, peer) in each_transport().await {
        let (sink, mut events) = channel();
        bus.on_event(later(), sink).await.unwrap();
        // systemd before 237 names no sender on its private socket; a bus names a unique one.
        let sender = if bus.is_bus() { ":1.2" } else { SYSTEMD_UNIQUE };
        peer.signal(Some(sender), None, MANAGER, &removed(1)).await;
        peer.signal(Some(sender), None, MANAGER, &("not", "a", "job"))
            .await;
        let (path, interface, _) = MANAGER;
        peer.signal(Some(sender), None, (path, interface, "JobNew"), &removed(2))
            .await;
        peer.signal(
            Some(sender),
            None,
            (path, "org.example.Other", "JobRemoved"),
            &removed(3),
        )
        .await;
        peer.signal(None, None, MANAGER, &removed(4)).await;
        assert_eq!(next(&mut events).await, Some(expected(1)));
        assert_eq!(next(&mut events).await, Some(expected(4)));
    }
}

#[tokio::test]
async fn on_a_bus_a_removed_job_that_is_addressed_to_us_is_not_systemds() {
    let directory = Directory::new();
    let (bus, peer) = connected(&directory.bus(), &directory).await;
    let (sink, mut events) = channel();
    bus.on_event(later(), sink).await.unwrap();
    peer.signal(Some(":1.666"), Some(":1.7"), MANAGER, &removed(1))
        .await;
    peer.signal(Some(":1.2"), None, MANAGER, &removed(2)).await;
    assert_eq!(next(&mut events).await, Some(expected(2)));
}

#[tokio::test]
async fn only_the_bus_itself_can_say_that_systemd_has_a_new_owner() {
    const CHANGED: (&str, &str, &str) = (
        "/org/freedesktop/DBus",
        "org.freedesktop.DBus",
        "NameOwnerChanged",
    );
    let systemd = ("org.freedesktop.systemd1", ":1.2", ":1.3");
    for (_directory, bus, peer) in each_transport().await {
        let (sink, mut events) = channel();
        bus.on_event(later(), sink).await.unwrap();
        peer.signal(Some(":1.666"), None, CHANGED, &systemd).await;
        peer.signal(
            Some("org.freedesktop.DBus"),
            None,
            CHANGED,
            &("org.example", ":1.2", ""),
        )
        .await;
        if bus.is_bus() {
            peer.signal(Some("org.freedesktop.DBus"), None, CHANGED, &systemd)
                .await;
            assert_eq!(next(&mut events).await, Some(Event::OwnerChanged));
        }
        peer.signal(None, None, MANAGER, &removed(1)).await;
        assert_eq!(next(&mut events).await, Some(expected(1)));
    }
}

#[tokio::test]
async fn the_match_rules_are_installed_when_the_listening_begins_and_only_on_a_bus() {
    for (_directory, bus, peer) in each_transport().await {
        let (sink, _events) = channel();
        bus.on_event(later(), sink).await.unwrap();
        let rules = peer.asked.rules.lock().unwrap().clone();
        if bus.is_bus() {
            assert_eq!(
                rules,
                [
                    "type='signal',sender='org.freedesktop.systemd1',path='/org/freedesktop/systemd1',interface='org.freedesktop.systemd1.Manager',member='JobRemoved'",
                    "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='org.freedesktop.systemd1'",
                ]
            );
        } else {
            assert!(rules.is_empty());
        }
    }
}

#[tokio::test]
async fn ten_thousand_signals_do_not_keep_a_reply_back() {
    for (_directory, bus, peer) in each_transport().await {
        let (sink, mut events) = channel();
        bus.on_event(later(), sink).await.unwrap();
        let flood = async {
            for id in 0..10_000 {
                peer.signal(None, None, MANAGER, &removed(id)).await;
            }
        };
        let manager = bus.manager();
        let calls = async {
            for _ in 0..100 {
                manager.reset_failed_unit("x.scope", later()).await.unwrap();
            }
        };
        tokio::join!(flood, calls);
        for id in 0..10_000 {
            assert_eq!(
                next(&mut events).await,
                Some(expected(id)),
                "in order, none missing"
            );
        }
    }
}

#[tokio::test]
async fn dropping_the_bus_closes_the_connection_and_ends_all_of_its_tasks() {
    for private in [false, true] {
        let directory = Directory::new();
        let endpoint = if private {
            directory.private()
        } else {
            directory.bus()
        };
        let (bus, peer) = connected(&endpoint, &directory).await;
        let (sink, mut events) = channel();
        bus.on_event(later(), sink).await.unwrap();
        {
            let manager = bus.manager();
            let mut waiting = std::pin::pin!(manager.reset_failed_unit("silent.scope", later()));
            std::future::poll_fn(|context| {
                assert!(waiting.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        drop(bus);
        assert_eq!(
            next(&mut events).await,
            None,
            "the sink is dropped, without an event"
        );
        tokio::time::timeout_at(later(), peer.connection.closed())
            .await
            .expect("the peer sees the end");
        // The peer's own tasks end as well, so that those left are ours.
        peer.asked.released.notify_one();
        drop(peer);
        let tasks = tokio::runtime::Handle::current().metrics();
        while tasks.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn pidfds_that_cannot_be_handed_over_are_an_error_and_the_connection_lives_on() {
    for (_directory, bus, _peer) in each_transport().await {
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let properties = [("Description", PropertyValue::Str("x".to_owned()))];
        // The peer takes no file descriptors at all; too many are refused before that matters.
        for (count, kind) in [
            (1, ErrorKind::Refused),
            (bus.most_pidfds() + 1, ErrorKind::InvalidInput),
        ] {
            let fds = vec![pipe.as_fd(); count];
            let error = bus
                .start_transient_unit("x.scope", "fail", &properties, &fds, later())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.unit(), Some("x.scope"));
        }
        bus.manager()
            .reset_failed_unit("x.scope", later())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_managers_process_is_known_on_both_transports() {
    for (_directory, bus, _peer) in each_transport().await {
        let expected = if bus.is_bus() {
            4711
        } else {
            std::process::id()
        };
        assert_eq!(bus.manager_pid(later()).await.unwrap(), Some(expected));
    }
}

#[tokio::test]
async fn a_bus_is_shared_between_threads_and_its_calls_are_small() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Bus>();
    let directory = Directory::new();
    let (bus, _peer) = connected(&directory.private(), &directory).await;
    let call = bus.start_transient_unit("x.scope", "fail", &[], &[], later());
    assert!(size_of_val(&call) < 1024, "{}", size_of_val(&call));
}
