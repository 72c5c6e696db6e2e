//! How a unit's name becomes an element of a D-Bus object path, which may have letters, digits and underscores only.

/// `_` and two lower-case hexadecimal digits for every byte that is not an ASCII letter or digit, and for a digit at the start; `_` for nothing at all.
pub(super) fn escape(text: &str) -> String {
    if text.is_empty() {
        return "_".to_owned();
    }
    let mut label = String::with_capacity(text.len() + 8);
    for (at, byte) in text.bytes().enumerate() {
        if byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit()) {
            label.push(char::from(byte));
        } else {
            label.push_str(&format!("_{byte:02x}"));
        }
    }
    label
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_digits_stay_and_all_else_is_hexadecimal() {
        for (text, label) in [
            ("", "_"),
            ("foo.service", "foo_2eservice"),
            ("foobar", "foobar"),
            ("woof@woof.service", "woof_40woof_2eservice"),
            ("0123456", "_30123456"),
            ("account_db.service", "account_5fdb_2eservice"),
            ("got-dashes", "got_2ddashes"),
            ("a-p0.scope", "a_2dp0_2escope"),
            (r"a\x2d.scope", "a_5cx2d_2escope"),
            ("-.slice", "_2d_2eslice"),
        ] {
            assert_eq!(escape(text), label);
        }
    }
}
