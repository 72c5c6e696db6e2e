//! The value of one unit property, before it becomes a D-Bus variant.

/// The value of one property of a start call, in the D-Bus types that systemd gives to the properties of scopes and slices.
///
/// Source: org.freedesktop.systemd1(5), the interfaces Unit, Scope and Slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PropertyValue {
    /// `Delegate`, `SendSIGHUP`, `DefaultDependencies`.
    Bool(bool),
    /// `KillSignal`.
    I32(i32),
    /// `IPAddressAllow` and other 32-bit settings.
    U32(u32),
    /// Sizes in bytes and times in microseconds: `TimeoutStopUSec`, `MemoryMax`.
    U64(u64),
    /// `Description`, `Slice`, `CollectMode`.
    Str(String),
    /// `After`, `Wants`.
    StrList(Vec<String>),
    /// `PIDs`.
    U32List(Vec<u32>),
    /// `AllowedCPUs`.
    Bytes(Vec<u8>),
}

impl PropertyValue {
    /// The D-Bus signature of the value.
    pub(crate) fn signature(&self) -> &'static str {
        match self {
            Self::Bool(_) => "b",
            Self::I32(_) => "i",
            Self::U32(_) => "u",
            Self::U64(_) => "t",
            Self::Str(_) => "s",
            Self::StrList(_) => "as",
            Self::U32List(_) => "au",
            Self::Bytes(_) => "ay",
        }
    }
}

impl From<bool> for PropertyValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for PropertyValue {
    fn from(value: i32) -> Self {
        Self::I32(value)
    }
}

impl From<u32> for PropertyValue {
    fn from(value: u32) -> Self {
        Self::U32(value)
    }
}

impl From<u64> for PropertyValue {
    fn from(value: u64) -> Self {
        Self::U64(value)
    }
}

impl From<&str> for PropertyValue {
    fn from(value: &str) -> Self {
        Self::Str(value.to_owned())
    }
}

impl From<String> for PropertyValue {
    fn from(value: String) -> Self {
        Self::Str(value)
    }
}

impl From<Vec<String>> for PropertyValue {
    fn from(value: Vec<String>) -> Self {
        Self::StrList(value)
    }
}

impl From<Vec<u32>> for PropertyValue {
    fn from(value: Vec<u32>) -> Self {
        Self::U32List(value)
    }
}
