//! A cgroup's path as the kernel shows it to a reader: relative to the root of the reader's cgroup namespace, one `/..` for each level above that. Pure.
//!
//! `/proc/PID/cgroup` and the root field of `/proc/PID/mountinfo` are both written so. The way up has no names, which is why two such paths can be compared
//! only where they go up equally far, or where the names of the namespace root's own ancestors are known.

/// `/..` * `up` + `down`; the first of `down` is never on the way up (the kernel goes up no further than it must).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NsPath<'a> {
    pub(super) up: usize,
    pub(super) down: Vec<&'a str>,
}

/// What is left of a path below another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Below<'a> {
    /// The components from there down; none = the same cgroup.
    Yes(Vec<&'a str>),
    No,
    /// Between the two lie ancestors of the reader's namespace root, whose names the paths do not tell.
    Unknown,
}

impl<'a> NsPath<'a> {
    /// `None` for what the kernel does not write: a path that is not absolute, or goes up again after a name.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix('/')?;
        let mut up = 0;
        let mut down = Vec::new();
        for part in rest.split('/').filter(|part| !part.is_empty()) {
            match part {
                ".." if down.is_empty() => up += 1,
                "." | ".." => return None,
                name => down.push(name),
            }
        }
        Some(Self { up, down })
    }

    /// Where this path, which is one that the kernel wrote, lies below `base`, which may go up further than it must. `ancestors` are the names of the
    /// namespace root and of what is above it, as far as they are known, outermost first and the root's own name last.
    pub(super) fn below(&self, base: &NsPath<'a>, ancestors: &[&'a str]) -> Below<'a> {
        if self.up == base.up {
            return within(&self.down, &base.down);
        }
        let top = self.up.max(base.up);
        match (self.from(top, ancestors), base.from(top, ancestors)) {
            (Some(path), Some(base)) => within(&path, &base),
            _ if self.up > base.up => Below::No,
            _ => Below::Unknown,
        }
    }

    /// The names from `top` levels above the namespace root down to this cgroup.
    fn from(&self, top: usize, ancestors: &[&'a str]) -> Option<Vec<&'a str>> {
        let line = ancestors.get(ancestors.len().checked_sub(top)?..)?;
        let mut names = line.get(..top.checked_sub(self.up)?)?.to_vec();
        names.extend(&self.down);
        Some(names)
    }
}

fn within<'a>(path: &[&'a str], base: &[&str]) -> Below<'a> {
    match path.get(..base.len()) {
        Some(head) if head == base => {
            Below::Yes(path.get(base.len()..).unwrap_or_default().to_vec())
        }
        _ => Below::No,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> NsPath<'_> {
        NsPath::parse(text).expect(text)
    }

    #[test]
    fn the_way_up_and_the_way_down_are_told_apart() {
        assert_eq!((path("/").up, path("/").down.len()), (0, 0));
        assert_eq!(path("/../../a/b").up, 2);
        assert_eq!(path("/../../a/b").down, ["a", "b"]);
        assert_eq!(path("//a//b/").down, ["a", "b"]);
        for wrong in ["", "a", "/a/../b", "/a/.", "/../a/.."] {
            assert_eq!(NsPath::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_path_is_below_another_where_that_one_is_its_beginning() {
        let cases: &[(&str, &str, Option<&[&str]>)] = &[
            ("/", "/", Some(&[])),
            ("/a/b", "/", Some(&["a", "b"])),
            ("/a/b", "/a", Some(&["b"])),
            ("/ab", "/a", None),
            ("/", "/a", None),
            ("/../x", "/", None),
            ("/../x/y", "/..", Some(&["x", "y"])),
            ("/../x/y", "/../x", Some(&["y"])),
            ("/../x", "/../y", None),
            ("/../..", "/..", None),
        ];
        for (inner, outer, expected) in cases {
            let expected = match expected {
                Some(parts) => Below::Yes(parts.to_vec()),
                None => Below::No,
            };
            assert_eq!(
                path(inner).below(&path(outer), &[]),
                expected,
                "{inner} below {outer}"
            );
        }
    }

    #[test]
    fn the_names_on_the_way_up_are_unknown_unless_told() {
        assert_eq!(path("/a").below(&path("/../.."), &[]), Below::Unknown);
        assert_eq!(path("/a").below(&path("/../y"), &[]), Below::Unknown);
        assert_eq!(
            path("/../a").below(&path("/../.."), &["n2"]),
            Below::Unknown
        );
        let names = ["n0", "n1", "n2"];
        assert_eq!(
            path("/a").below(&path("/../.."), &names),
            Below::Yes(vec!["n1", "n2", "a"])
        );
        assert_eq!(
            path("/../a").below(&path("/../.."), &names),
            Below::Yes(vec!["n1", "a"])
        );
        assert_eq!(
            path("/../a").below(&path("/../../n1"), &names),
            Below::Yes(vec!["a"])
        );
        assert_eq!(
            path("/../../n1/b").below(&path("/.."), &names),
            Below::Yes(vec!["b"])
        );
        assert_eq!(path("/../../b").below(&path("/.."), &names), Below::No);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_and_compared_without_a_panic(a in "[/.a-c]{0,12}", b in "[/.a-c]{0,12}", n in 0_usize..4) {
            let names = &["x", "y", "z", "w"][..n];
            if let (Some(a), Some(b)) = (NsPath::parse(&a), NsPath::parse(&b)) {
                let _ = a.below(&b, names);
            }
        }
    }
}
