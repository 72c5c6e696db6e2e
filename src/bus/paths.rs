//! D-Bus object paths as plain strings.

use std::ops::Deref;

use serde::Deserialize;

/// The path of a D-Bus object, as a peer sent it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(crate) struct ObjectPath(String);

impl zbus::Type for ObjectPath {
    const SIGNATURE: &'static zbus::Signature = &zbus::Signature::ObjectPath;
}

impl Deref for ObjectPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<ObjectPath> for String {
    fn from(path: ObjectPath) -> Self {
        path.0
    }
}
