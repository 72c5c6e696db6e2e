//! Taking processes out of other units, and what happens to their children.

use scopectl::{Descendants, ErrorKind, Stop};

use crate::support::{Lab, Orphan, Payload, cgroup_of, is_inside, spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_another_unit_is_moved_only_when_that_is_allowed() {
    let lab = Lab::new().await;
    let orphan = Orphan::spawn();
    // It is in no unit: free to move.
    lab.manager
        .start_scope(&spec("first.scope"), [orphan.process()])
        .await
        .unwrap();
    let error = lab
        .manager
        .start_scope(&spec("second.scope"), [orphan.process()])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProcessElsewhere);
    assert!(error.to_string().contains("first.scope"), "{error}");
    assert!(is_inside(&cgroup_of(orphan.pid()).unwrap(), "first.scope"));

    let scope = lab
        .manager
        .start_scope(&spec("second.scope").allow_move(true), [orphan.process()])
        .await
        .unwrap();
    assert!(is_inside(&cgroup_of(orphan.pid()).unwrap(), "second.scope"));
    scope.stop(Stop::Kill).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_of_the_caller_moves_freely_from_scope_to_scope() {
    let lab = Lab::new().await;
    let mut payload = Payload::spawn();
    for name in ["one.scope", "two.scope"] {
        lab.manager
            .start_scope(&spec(name), [payload.process()])
            .await
            .unwrap();
    }
    assert!(is_inside(&payload.release(), "two.scope"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_that_were_forked_before_are_refused_moved_or_left_as_the_policy_says() {
    let lab = Lab::new().await;
    for (policy, name) in [
        (Descendants::Refuse, "refuse.scope"),
        (Descendants::Move, "move.scope"),
        (Descendants::Leave, "leave.scope"),
    ] {
        let family = Orphan::with_child();
        let home = cgroup_of(family.child_pid()).unwrap();
        let started = lab
            .manager
            .start_scope(&spec(name).descendants(policy), [family.process()])
            .await;
        let (parent, child) = (
            cgroup_of(family.pid()).unwrap(),
            cgroup_of(family.child_pid()).unwrap(),
        );
        match policy {
            Descendants::Refuse => {
                let error = started.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DescendantsOutside);
                assert!(error.to_string().contains(&family.child_pid().to_string()));
                assert_eq!((&parent, &child), (&home, &home));
            }
            Descendants::Move => {
                started.unwrap();
                assert!(is_inside(&parent, name) && is_inside(&child, name));
            }
            _ => {
                started.unwrap();
                assert!(is_inside(&parent, name));
                assert_eq!(child, home);
            }
        }
    }
}
