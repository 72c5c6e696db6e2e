//! `/proc/PID/stat`: one line, whose second field is the command's name, in parentheses, with any byte in it. Pure.
//!
//! Source: proc_pid_stat(5).

/// The fields of `/proc/PID/stat` that this crate uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// Field 3: `R`, `S`, `Z` and so on, of the thread-group leader.
    pub(super) state: char,
    /// Field 4; 0 where the parent is outside the pid namespace.
    pub(super) parent: u32,
    /// Field 9: the kernel's `PF_` flags.
    pub(super) flags: u32,
    /// Field 22, in clock ticks since boot.
    pub(super) start_time: u64,
}

const PF_EXITING: u32 = 0x0000_0004;
const PF_KTHREAD: u32 = 0x0020_0000;

impl Stat {
    /// `None` where the text is not such a line.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        // The name may hold spaces, parentheses and line feeds: the last `)` ends it, as only numbers follow.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        // `nth` consumes: each number counts from the field after the one before.
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let flags = fields.nth(4)?.parse().ok()?;
        let start_time = fields.nth(12)?.parse().ok()?;
        Some(Self {
            state,
            parent,
            flags,
            start_time,
        })
    }

    pub(super) fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Whether the leader is on its way out or gone, also where other threads of the process live on.
    pub(super) fn is_exiting(&self) -> bool {
        self.flags & PF_EXITING != 0 || matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAIL: &str =
        "S 41 42 43 0 -1 4194560 9 8 7 6 5 4 3 2 20 0 1 0 987654 1000 10 18446744073709551615";

    #[test]
    fn the_fields_are_counted_after_the_last_parenthesis_of_the_name() {
        for name in [
            "sleep",
            "a) R 1 (b",
            "x\n) Z 1 1",
            "",
            "((((",
            "tmux: server",
        ] {
            let stat = Stat::parse(format!("77 ({name}) {TAIL}\n").as_bytes()).expect("a line");
            assert_eq!(stat.state, 'S', "{name:?}");
            assert_eq!(stat.parent, 41);
            assert_eq!(stat.flags, 4_194_560);
            assert_eq!(stat.start_time, 987_654);
        }
    }

    #[test]
    fn a_kernel_thread_and_a_zombie_are_known_by_their_flags() {
        let line = |state: &str, flags: u32| {
            let text =
                format!("2 (kthreadd) {state} 0 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 3");
            Stat::parse(text.as_bytes()).expect("a line")
        };
        assert!(line("S", 0x0020_8040).is_kernel_thread());
        assert!(!line("S", 0x0040_0100).is_kernel_thread());
        assert!(line("Z", 0).is_exiting());
        assert!(line("R", 4).is_exiting());
        assert!(!line("R", 0).is_exiting());
    }

    #[test]
    fn our_own_line_is_read() {
        let text = std::fs::read("/proc/self/stat").unwrap();
        let stat = Stat::parse(&text).expect("our own line");
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(stat.start_time > 0);
    }

    #[test]
    fn a_cut_line_is_no_line() {
        for text in ["", "77", "77 (sleep", "77 (sleep)", "77 (sleep) S 1 2 3"] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Stat::parse(&text);
        }
    }
}
