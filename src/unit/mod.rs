//! Names of units: what systemd accepts, how it spells them on disk and on the bus, and how slices nest. Nothing here does I/O.
//!
//! A name is checked once, when a [`UnitName`], [`ScopeName`] or [`SliceName`] is made from text; whoever holds one need not check again. Text is never
//! repaired: what systemd would refuse is an error of kind [`InvalidName`](crate::ErrorKind::InvalidName) that quotes it. [`escape`] and [`escape_path`] turn
//! any text or path into something that fits in a name, as `systemd-escape` does.
//!
//! ```
//! use scopectl::unit::{CgroupsPath, ScopeName, SliceName, escape};
//!
//! let slice = SliceName::new("kubepods-burstable.slice")?;
//! assert_eq!(slice.path(), "/kubepods.slice/kubepods-burstable.slice");
//!
//! let scope = ScopeName::new(format!("job-{}.scope", escape("nightly build")))?;
//! assert_eq!(scope.as_str(), r"job-nightly\x20build.scope");
//!
//! let oci = CgroupsPath::parse("machine.slice:libpod:4f2a")?;
//! assert_eq!(oci.unit().as_str(), "libpod-4f2a.scope");
//! # Ok::<(), scopectl::Error>(())
//! ```

mod argument;
mod bus_label;
mod cgroup_dir;
mod cgroups_path;
mod check;
mod escape;
mod name;
mod name_type;
mod quote;
mod scope;
mod slice;
mod unit_type;

pub use cgroups_path::{CgroupsPath, CgroupsUnit};
pub use escape::{escape, escape_path, unescape, unescape_path};
pub use name::UnitName;
pub use scope::ScopeName;
pub use slice::SliceName;
pub use unit_type::UnitType;
