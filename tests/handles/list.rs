//! The reviewed list: `ITEM | REASON`, one a line; `#` begins a comment.

use std::collections::BTreeMap;

use super::surface::Surface;

pub(crate) struct List {
    file: &'static str,
    /// Item and reason.
    lines: BTreeMap<String, String>,
}

impl List {
    pub(crate) fn parse(file: &'static str, text: &str) -> Self {
        let mut lines = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (item, reason) = line
                .split_once(" | ")
                .map(|(item, reason)| (item.trim(), reason.trim()))
                .filter(|(_, reason)| !reason.is_empty())
                .unwrap_or_else(|| {
                    panic!("{file}:{number}: say why, after a bar: `ITEM | REASON`")
                });
            let twice = lines.insert(item.to_owned(), reason.to_owned());
            assert!(twice.is_none(), "{file}:{number}: `{item}` is there twice");
        }
        Self { file, lines }
    }

    /// The types that count as handles.
    pub(crate) fn handles(&self) -> Vec<&str> {
        self.lines
            .keys()
            .filter_map(|item| item.strip_prefix("handle "))
            .collect()
    }

    /// `Err`: what differs, and what to do about it.
    pub(crate) fn compare(&self, surface: &Surface) -> Result<(), String> {
        let mut report = String::new();
        for item in &surface.ways {
            if !self.lines.contains_key(item) {
                report.push_str(&format!(
                    "`{item}` is a new public way to a cgroup handle. One may come only from a job that ended in `done` and was verified, or from a unit \
                     that was read as active with no job pending. If it does, add `{item} | REASON` to {}; if not, make it private.\n",
                    self.file
                ));
            }
        }
        for path in &surface.opaque {
            let sorted = ["opaque", "handle"]
                .iter()
                .any(|kind| self.lines.contains_key(&format!("{kind} {path}")));
            if !sorted {
                report.push_str(&format!(
                    "`{path}` keeps its fields to itself. If a cgroup is written through it, or it hands out what does, add `handle {path} | REASON` to {}, so that \
                     the ways to it are reviewed; if not, `opaque {path} | REASON`.\n",
                    self.file
                ));
            }
        }
        for item in self.lines.keys() {
            let there = match item.split_once(' ') {
                Some(("handle", _)) => true, // Looked up before the walk.
                Some(("opaque", path)) => surface.opaque.contains(path),
                _ => surface.ways.contains(item),
            };
            if !there {
                report.push_str(&format!(
                    "`{item}` is not in the public API any more: take the line out of {}.\n",
                    self.file
                ));
            }
        }
        if report.is_empty() {
            Ok(())
        } else {
            Err(report)
        }
    }
}
