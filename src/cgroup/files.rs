//! The shapes of cgroup files, each read by one function. Pure.
//!
//! Source: "Core Interface Files" and "Format" in the kernel's cgroup-v2 documentation.

/// The value of a key in a flat keyed file (`KEY VALUE` a line).
pub(super) fn flat_keyed<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(name, value)| (name == key).then_some(value))
}

/// A list of pids or thread ids, one a line. 0 stands for one that is outside the reader's pid namespace.
pub(super) fn ids(text: &str) -> Vec<u32> {
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_found_by_its_whole_name() {
        let text = "populated 1\nfrozen 0\n";
        assert_eq!(flat_keyed(text, "frozen"), Some("0"));
        assert_eq!(flat_keyed(text, "pop"), None);
        assert_eq!(flat_keyed("", "frozen"), None);
    }

    #[test]
    fn every_line_of_a_list_is_a_number() {
        assert_eq!(ids("12\n0\n7\n"), [12, 0, 7]);
        assert!(ids("").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[a-z0-9 \n-]{0,80}") {
            let _ = ids(&text);
            let _ = flat_keyed(&text, "a");
        }
    }
}
