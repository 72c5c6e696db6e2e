//! The value of one unit property, before it becomes a D-Bus variant.

/// The value of one property of a start call, in the D-Bus types that systemd gives to the properties of scopes and slices.
///
/// Source: org.freedesktop.systemd1(5), the interfaces Unit, Scope and Slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PropertyValue {
    /// `Delegate`.
    Bool(bool),
    /// `KillSignal`.
    I32(i32),
    /// Times in microseconds: `TimeoutStopUSec`.
    U64(u64),
    /// `Description`, `Slice`, `CollectMode`.
    Str(String),
    /// `PIDs`.
    U32List(Vec<u32>),
}
