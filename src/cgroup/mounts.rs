//! `/proc/self/mountinfo`: where cgroup2 is mounted, and which part of it. Pure.
//!
//! Source: proc_pid_mountinfo(5). The kernel writes space, tab, line feed and backslash as octal escapes (`\040`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mount's id, unique while it lasts; what `statx(2)` calls `stx_mnt_id`.
    pub(super) id: u64,
    /// Device number of the file system.
    pub(super) major: u32,
    pub(super) minor: u32,
    /// Which directory of the file system is mounted. For a cgroup: as in `/proc/PID/cgroup`, relative to the reader's cgroup namespace.
    pub(super) root: String,
    pub(super) mount_point: PathBuf,
    pub(super) read_only: bool,
    pub(super) fs_type: String,
}

/// Every line that can be understood.
pub(super) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let _parent = fields.next()?;
    let device = std::str::from_utf8(fields.next()?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let root = unescape(fields.next()?);
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    let options = fields.next()?;
    // Optional fields (`shared:1 master:2`), any number of them, end at a single dash.
    fields.find(|field| *field == b"-")?;
    let fs_type = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    let _source = fields.next();
    let super_options = fields.next().unwrap_or_default();
    Some(Mount {
        id,
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root: String::from_utf8_lossy(&root).into_owned(),
        mount_point,
        read_only: has_ro(options) || has_ro(super_options),
        fs_type,
    })
}

fn has_ro(options: &[u8]) -> bool {
    options
        .split(|byte| *byte == b',')
        .any(|option| option == b"ro")
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `\` and three octal digits are one byte; any other backslash stands for itself.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'\\').then(|| octal(tail)).flatten();
        match escaped {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

fn octal(text: &[u8]) -> Option<u8> {
    let digits = text.get(..3)?;
    let mut value: u32 = 0;
    for digit in digits {
        value = value * 8 + char::from(*digit).to_digit(8)?;
    }
    u8::try_from(value).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn optional_fields_and_escapes_are_understood() {
        let text = b"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n\
            41 31 0:38 /../.. /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n\
            42 31 0:38 /a\\134b /ro ro,relatime - cgroup2 none rw\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].mount_point, PathBuf::from("/mnt 2"));
        assert_eq!(
            (mounts[0].major, mounts[0].minor, mounts[0].id),
            (98, 0, 36)
        );
        assert_eq!(mounts[1].root, "/../..");
        assert_eq!(mounts[1].fs_type, "cgroup2");
        assert!(!mounts[1].read_only);
        assert_eq!(mounts[2].root, "/a\\b");
        assert!(mounts[2].read_only);
    }

    #[test]
    fn a_line_that_is_cut_is_passed_over() {
        for text in [
            "",
            "36",
            "36 35 98:0 / /",
            "36 35 98:0 / / rw",
            "36 35 x / / rw - a b c",
        ] {
            assert!(parse(text.as_bytes()).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn our_own_mounts_are_all_understood() {
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(parse(&text).len(), lines);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&text);
        }

        #[test]
        fn escaping_and_unescaping_gives_the_same_bytes(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut escaped = Vec::new();
            for byte in &name {
                if matches!(byte, b' ' | b'\t' | b'\n' | b'\\') {
                    escaped.extend(format!("\\{byte:03o}").into_bytes());
                } else {
                    escaped.push(*byte);
                }
            }
            prop_assert_eq!(unescape(&escaped), name);
        }
    }
}
