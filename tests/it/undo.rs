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
