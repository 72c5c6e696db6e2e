//! The rule that every unit name must obey, and the sentences for those that do not.
//!
//! The rule is systemd's own (systemd.unit(5), "a valid unit name"): 1 to 255 bytes, something before the last dot and a unit type after it, ASCII letters,
//! digits and `: - _ . \` only, and `@` between a template's name and its instance. Where a name has several faults, the one is told that explains most to a
//! person: a character that cannot be in any name before the suffix, because a stray newline also spoils the suffix.

use super::cgroup_dir;
use super::quote::quoted;
use super::unit_type::UnitType;
use crate::{Error, ErrorKind, Result};

/// The longest name in bytes, suffix included (`UNIT_NAME_MAX`, and `NAME_MAX` for the cgroup directory).
pub(super) const MAX_BYTES: usize = 255;

/// An [`ErrorKind::InvalidName`] with that sentence.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidName, message)
}

/// Whether systemd allows the character in a unit name, apart from `@`.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":-_.\\".contains(&byte)
}

/// Checks `name`; `what` is what the sentence calls it ("scope name"). With a `wanted` type the name must have that suffix and no `@` (slices and scopes are
/// never templates or instances) and, as these units have a cgroup, its directory name must fit into a file system as well.
pub(super) fn check(name: &str, what: &str, wanted: Option<UnitType>) -> Result<UnitType> {
    if name.is_empty() {
        return Err(invalid(format!(
            "{what} \"\" is empty, but must be 1 to {MAX_BYTES} bytes long"
        )));
    }
    let known = |c: char| c == '@' || u8::try_from(c).is_ok_and(is_name_byte);
    if let Some(bad) = name.chars().find(|&c| !known(c)) {
        return Err(invalid(format!(
            "{what} {} contains {}, but only ASCII letters, digits and : - _ . \\ are allowed; escape other text as systemd-escape does",
            quoted(name),
            quoted(bad.encode_utf8(&mut [0; 4])),
        )));
    }
    if name.len() > MAX_BYTES {
        return Err(invalid(format!(
            "{what} {} is {} bytes long, but at most {MAX_BYTES} are allowed, the suffix included",
            quoted(name),
            name.len()
        )));
    }
    let Some(kind) = UnitType::of(name).filter(|kind| wanted.is_none_or(|w| w == *kind)) else {
        let suffix = match wanted {
            Some(wanted) => format!("\".{wanted}\""),
            None => "a unit type such as \".scope\" or \".slice\"".to_owned(),
        };
        return Err(invalid(format!(
            "{what} {} does not end in {suffix}",
            quoted(name)
        )));
    };
    let stem = stem(name, kind);
    if stem.is_empty() {
        return Err(invalid(format!(
            "{what} {} has nothing before its suffix",
            quoted(name)
        )));
    }
    if let Some((prefix, instance)) = stem.split_once('@') {
        check_instance(name, what, wanted, prefix, instance)?;
    }
    if wanted.is_some() && name.len() == MAX_BYTES && cgroup_dir::needs_prefix(name) {
        return Err(invalid(format!(
            "{what} {} is one byte too long: systemd puts \"_\" before it on disk, and {MAX_BYTES} bytes is all that a directory name can have",
            quoted(name),
        )));
    }
    Ok(kind)
}

fn check_instance(
    name: &str,
    what: &str,
    wanted: Option<UnitType>,
    prefix: &str,
    instance: &str,
) -> Result<()> {
    let name = quoted(name);
    if let Some(wanted) = wanted {
        return Err(invalid(format!(
            "{what} {name} contains \"@\", but a {wanted} cannot be a template or an instance; escape it as \\x40"
        )));
    }
    if prefix.is_empty() {
        return Err(invalid(format!(
            "{what} {name} has nothing before its \"@\""
        )));
    }
    if instance.is_empty() {
        return Err(invalid(format!(
            "{what} {name} names a template, but only its instances are units; write the instance after the \"@\""
        )));
    }
    Ok(())
}

/// `name` without its suffix. The name is known to end in it.
pub(super) fn stem(name: &str, kind: UnitType) -> &str {
    let end = name.len().saturating_sub(kind.as_str().len() + 1);
    name.get(..end).unwrap_or_default()
}
