//! Typed unit properties. Pure.

mod value;

pub(crate) use value::PropertyValue;
