//! Any text or path as part of a unit name, and back, as `systemd-escape` does it (systemd.unit(5), "String escaping for inclusion in unit names").
//!
//! `/` becomes `-`. Of the rest, what may be in a name stays, except `-` and `\`, which the escaped form needs for itself, and a dot at the start, which would
//! make a hidden file; these and all other bytes become `\x` and two hexadecimal digits. A path first loses what does not change where it leads, so that one
//! place has one name.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::check::{MAX_BYTES, invalid, is_name_byte};
use super::quote::quoted;
use crate::Result;

/// Escapes text, or any bytes, for use in a unit name, as `systemd-escape TEXT` does.
///
/// The result is made of characters that a unit name may have, but may be longer than one may be: a byte can become four.
///
/// ```
/// use scopectl::unit::{escape, unescape};
///
/// assert_eq!(escape("nightly build/x-86"), r"nightly\x20build-x\x2d86");
/// assert_eq!(unescape(r"nightly\x20build-x\x2d86")?, b"nightly build/x-86");
/// # Ok::<(), scopectl::Error>(())
/// ```
pub fn escape(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    let mut out = String::with_capacity(text.len() + 16);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'/' => out.push('-'),
            b'-' | b'\\' => push_hex(&mut out, byte),
            b'.' if at == 0 => push_hex(&mut out, byte),
            _ if is_name_byte(byte) => out.push(char::from(byte)),
            _ => push_hex(&mut out, byte),
        }
    }
    out
}

fn push_hex(out: &mut String, byte: u8) {
    out.push_str(&format!("\\x{byte:02x}"));
}

/// Escapes the path of a file for use in a unit name, as `systemd-escape --path PATH` does.
///
/// Slashes at both ends, repeated slashes and `.` elements are dropped, so a relative path has the same name as the absolute one. The root and the empty path
/// are `-`.
///
/// ```
/// use scopectl::unit::{escape_path, unescape_path};
///
/// assert_eq!(escape_path("/var//lib/my-app/")?, r"var-lib-my\x2dapp");
/// assert_eq!(unescape_path(r"var-lib-my\x2dapp")?.to_str(), Some("/var/lib/my-app"));
/// # Ok::<(), scopectl::Error>(())
/// ```
///
/// # Errors
///
/// [`InvalidName`](crate::ErrorKind::InvalidName) if the path has a `..` element, a NUL byte, or an element of more than 255 bytes, which no file can have.
pub fn escape_path(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let mut elements = Vec::new();
    for element in path.as_os_str().as_bytes().split(|&byte| byte == b'/') {
        match element {
            b"" | b"." => {}
            element => {
                check_element(element)
                    .map_err(|reason| path_error(&path.to_string_lossy(), reason))?;
                elements.push(element);
            }
        }
    }
    // "." and "./" name whatever directory the caller is in; systemd-escape refuses them too.
    if elements.is_empty() && path.is_relative() && path != Path::new("") {
        return Err(path_error(
            &path.to_string_lossy(),
            "names no place of its own",
        ));
    }
    if elements.is_empty() {
        return Ok("-".to_owned());
    }
    Ok(escape(elements.join(&b'/')))
}

fn path_error(path: &str, reason: &str) -> crate::Error {
    invalid(format!(
        "path {} {reason}, so it cannot be escaped for a unit name",
        quoted(path)
    ))
}

fn check_element(element: &[u8]) -> Result<(), &'static str> {
    if element == b".." {
        Err("has a \"..\" element")
    } else if element.contains(&0) {
        Err("contains a NUL byte")
    } else if element.len() > MAX_BYTES {
        Err("has an element of more than 255 bytes")
    } else {
        Ok(())
    }
}

/// Undoes [`escape`], as `systemd-escape --unescape` does. The result need not be UTF-8.
///
/// Like there, characters that [`escape`] would have escaped stay as they are, and the hexadecimal digits may be in upper case.
///
/// # Errors
///
/// [`InvalidName`](crate::ErrorKind::InvalidName) if a backslash is not followed by `x` and two hexadecimal digits.
pub fn unescape(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'-' => out.push(b'/'),
            b'\\' => {
                let (value, after) = hex(after).ok_or_else(|| {
                    invalid(format!(
                        "escaped text {} has a \"\\\" that is not followed by \"x\" and two hexadecimal digits",
                        quoted(text)
                    ))
                })?;
                out.push(value);
                rest = after;
            }
            byte => out.push(byte),
        }
    }
    Ok(out)
}

/// The value of `xNN` at the start of `text`, and what follows it.
fn hex(text: &[u8]) -> Option<(u8, &[u8])> {
    let ([b'x', high, low], rest) = text.split_first_chunk()? else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(*high)? * 16 + digit(*low)?;
    Some((u8::try_from(value).ok()?, rest))
}

/// Undoes [`escape_path`], as `systemd-escape --unescape --path` does. The path is absolute.
///
/// # Errors
///
/// [`InvalidName`](crate::ErrorKind::InvalidName) if the text is empty or has a bad escape (see [`unescape`]), or if the path would have an empty element, a `.`
/// or `..` one, a NUL byte, or an element of more than 255 bytes.
pub fn unescape_path(text: &str) -> Result<PathBuf> {
    if text == "-" {
        return Ok(PathBuf::from("/"));
    }
    let relative = unescape(text)?;
    for element in relative.split(|&byte| byte == b'/') {
        let checked = match element {
            b"" => Err("has an empty element"),
            b"." => Err("has a \".\" element"),
            element => check_element(element),
        };
        checked.map_err(|reason| {
            invalid(format!(
                "escaped path {} {reason}, which no normal path has",
                quoted(text)
            ))
        })?;
    }
    let mut path = vec![b'/'];
    path.extend(relative);
    Ok(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;
    use crate::unit::ScopeName;

    #[test]
    fn text_is_escaped_byte_by_byte() {
        for (text, escaped) in [
            ("", ""),
            ("a", "a"),
            ("aZ09:_.", "aZ09:_."),
            ("/", "-"),
            ("-", r"\x2d"),
            (r"\", r"\x5c"),
            (".a.b", r"\x2ea.b"),
            ("a/.b", "a-.b"),
            ("..", r"\x2e."),
            ("a@b", r"a\x40b"),
            ("ä", r"\xc3\xa4"),
            ("x\ny\t", r"x\x0ay\x09"),
            ("//a//b/", "--a--b-"),
            (" ", r"\x20"),
        ] {
            assert_eq!(escape(text), escaped, "{text:?}");
            assert_eq!(unescape(escaped).unwrap(), text.as_bytes());
        }
        assert_eq!(escape([0xff, 0]), r"\xff\x00");
    }

    #[test]
    fn unescaping_takes_what_systemd_takes_and_no_more() {
        assert_eq!(unescape(r"\xC3\xA4").unwrap(), "ä".as_bytes());
        assert_eq!(unescape(r"\xff").unwrap(), b"\xff");
        assert_eq!(unescape("a b.ä").unwrap(), "a b.ä".as_bytes());
        for text in [
            r"\", r"a\x", r"a\x2", r"a\xzz", r"a\n", r"\X2d", r"\x+1", r"\xä",
        ] {
            let error = unescape(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            let quoted = format!("escaped text \"{text}\" has a");
            assert!(error.to_string().starts_with(&quoted), "{error}");
            unescape_path(text).unwrap_err();
        }
    }

    #[test]
    fn a_path_loses_what_does_not_change_where_it_leads() {
        for (path, escaped) in [
            ("", "-"),
            ("/", "-"),
            ("//", "-"),
            ("/.", "-"),
            ("/./", "-"),
            ("/a", "a"),
            ("a", "a"),
            ("./a", "a"),
            ("//a//b/", "a-b"),
            ("/a/./b", "a-b"),
            ("/.a/.b", r"\x2ea-.b"),
            ("/a/...", "a-..."),
            ("/a-b", r"a\x2db"),
        ] {
            assert_eq!(escape_path(path).unwrap(), escaped, "{path:?}");
        }
        let bytes = OsStr::from_bytes(b"/\xff/a");
        assert_eq!(escape_path(bytes).unwrap(), r"\xff-a");
        assert_eq!(unescape_path(r"\xff-a").unwrap(), bytes);
    }

    #[test]
    fn a_path_that_leads_up_or_cannot_exist_is_an_error() {
        let long = format!("/{}", "a".repeat(256));
        for (path, reason) in [
            ("..", r#"has a ".." element"#),
            ("../a", r#"has a ".." element"#),
            ("/..", r#"has a ".." element"#),
            ("a/../b", r#"has a ".." element"#),
            ("/a\0b", "NUL byte"),
            (".", "names no place of its own"),
            (".//./", "names no place of its own"),
            (&long, "more than 255 bytes"),
        ] {
            let error = escape_path(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn only_the_escaped_form_of_a_normal_path_is_unescaped_to_one() {
        for (text, path) in [
            ("-", "/"),
            ("a", "/a"),
            ("a-b", "/a/b"),
            (r"a\x2fb", "/a/b"),
            (".a", "/.a"),
            ("a b", "/a b"),
        ] {
            assert_eq!(unescape_path(text).unwrap(), Path::new(path));
        }
        let long = "a".repeat(256);
        for (text, reason) in [
            ("", "empty element"),
            ("-a", "empty element"),
            ("a-", "empty element"),
            ("a--b", "empty element"),
            ("--", "empty element"),
            (r"a\x2f", "empty element"),
            (".", r#"has a "." element"#),
            ("a-.", r#"has a "." element"#),
            ("..", r#"has a ".." element"#),
            (r"\x2e\x2e-a", r#"has a ".." element"#),
            (r"a\x00b", "NUL byte"),
            (&long, "more than 255 bytes"),
        ] {
            let error = unescape_path(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive_escape_and_unescape_and_fit_in_a_name(bytes in prop::collection::vec(any::<u8>(), 1..60)) {
            let escaped = escape(&bytes);
            prop_assert_eq!(unescape(&escaped).unwrap(), bytes);
            ScopeName::new(escaped + ".scope").unwrap();
        }

        #[test]
        fn any_path_survives_escape_and_unescape_as_its_normal_form(path in r"/?([a.\\ ä-]{0,3}/){0,4}[a.]{0,3}") {
            if let Ok(escaped) = escape_path(&path) {
                let mut normal = PathBuf::from("/");
                normal.extend(path.split('/').filter(|it| !it.is_empty() && *it != "."));
                let back = unescape_path(&escaped).unwrap();
                prop_assert_eq!(back.as_os_str(), normal.as_os_str());
                prop_assert_eq!(escape_path(normal).unwrap(), escaped);
            }
        }

        #[test]
        fn any_text_is_unescaped_or_refused_without_a_panic(text in any::<String>(), odd in r"[\\x2f-]{0,12}") {
            for text in [text, odd] {
                let _ = unescape(&text);
                if let Ok(path) = unescape_path(&text) {
                    prop_assert!(path.is_absolute());
                }
            }
        }
    }
}
