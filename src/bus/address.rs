//! Where a manager is: D-Bus addresses and systemd's private sockets. Pure: the environment is an argument.
//!
//! Sources: D-Bus specification, "Server Addresses"; sd_bus_open_system(3), sd_bus_open_user(3); systemctl(1) for the private sockets.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";
const SYSTEM_PRIVATE: &str = "/run/systemd/private";
const PRIVATE_SUFFIX: &str = "systemd/private";

/// The longest path of a Unix socket, in bytes (unix(7): 108 with the final NUL).
const LONGEST_PATH: usize = 107;

/// Where to connect, and what is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    /// A message bus.
    Bus(BusAddress),
    /// systemd's private socket: one peer, no bus.
    Private(PathBuf),
}

/// The socket of a message bus.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BusAddress {
    pub(super) socket: SocketName,
    /// The server's ID, if the address tells it; a server with another one is refused.
    pub(super) guid: Option<String>,
}

/// The name of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SocketName {
    Path(PathBuf),
    Abstract(Vec<u8>),
}

impl Endpoint {
    pub(super) fn socket(&self) -> SocketName {
        match self {
            Self::Bus(address) => address.socket.clone(),
            Self::Private(path) => SocketName::Path(path.clone()),
        }
    }

    /// Whether this is systemd's private socket.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self, Self::Private(_))
    }
}

/// The D-Bus address; [`parse`] reads it back.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.socket() {
            SocketName::Path(path) => {
                write!(f, "unix:path={}", escape(path.as_os_str().as_bytes()))
            }
            SocketName::Abstract(name) => write!(f, "unix:abstract={}", escape(&name)),
        }?;
        match self {
            Self::Bus(BusAddress {
                guid: Some(guid), ..
            }) => write!(f, ",guid={guid}"),
            _ => Ok(()),
        }
    }
}

/// The environment variables that say where the buses are. An empty one counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// `XDG_RUNTIME_DIR`.
    pub(crate) runtime_dir: Option<OsString>,
    /// `DBUS_SESSION_BUS_ADDRESS`.
    pub(crate) session_bus: Option<OsString>,
    /// `DBUS_SYSTEM_BUS_ADDRESS`.
    pub(crate) system_bus: Option<OsString>,
}

impl Environment {
    /// The caller's own.
    pub(crate) fn of_process() -> Self {
        let read = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            runtime_dir: read("XDG_RUNTIME_DIR"),
            session_bus: read("DBUS_SESSION_BUS_ADDRESS"),
            system_bus: read("DBUS_SYSTEM_BUS_ADDRESS"),
        }
    }

    /// The system bus: `DBUS_SYSTEM_BUS_ADDRESS`, else `/run/dbus/system_bus_socket`.
    pub(crate) fn system_bus(&self) -> Result<Endpoint> {
        match &self.system_bus {
            Some(address) => from_variable("DBUS_SYSTEM_BUS_ADDRESS", address),
            None => Ok(bus_at(SYSTEM_BUS.into())),
        }
    }

    /// The system manager's private socket, which takes connections from root.
    pub(crate) fn system_private(&self) -> Endpoint {
        Endpoint::Private(SYSTEM_PRIVATE.into())
    }

    /// The bus that the caller's user manager is on: `$XDG_RUNTIME_DIR/bus`; `DBUS_SESSION_BUS_ADDRESS` only without `XDG_RUNTIME_DIR`, since a session may have a bus of its
    /// own with no manager on it (as systemd does from version 257 on).
    pub(crate) fn user_bus(&self) -> Result<Endpoint> {
        match (&self.runtime_dir, &self.session_bus) {
            (Some(_), _) => Ok(bus_at(self.in_runtime_dir("bus")?)),
            (None, Some(address)) => from_variable("DBUS_SESSION_BUS_ADDRESS", address),
            (None, None) => Err(no_runtime_dir(" and DBUS_SESSION_BUS_ADDRESS are")),
        }
    }

    /// The private socket of the caller's user manager.
    pub(crate) fn user_private(&self) -> Result<Endpoint> {
        Ok(Endpoint::Private(self.in_runtime_dir(PRIVATE_SUFFIX)?))
    }

    fn in_runtime_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self
            .runtime_dir
            .as_ref()
            .ok_or_else(|| no_runtime_dir(" is"))?;
        usable_path(Path::new(dir).join(name)).map_err(|reason| {
            Error::new(
                ErrorKind::InvalidInput,
                format!("XDG_RUNTIME_DIR is {dir:?}, which cannot be used: {reason}"),
            )
        })
    }
}

fn no_runtime_dir(what: &str) -> Error {
    Error::new(
        ErrorKind::NoManager,
        format!(
            "XDG_RUNTIME_DIR{what} not set, so the user manager cannot be found: log in as the user (su and sudo do not set it), or name an address"
        ),
    )
}

fn bus_at(path: PathBuf) -> Endpoint {
    Endpoint::Bus(BusAddress {
        socket: SocketName::Path(path),
        guid: None,
    })
}

fn from_variable(name: &str, address: &OsStr) -> Result<Endpoint> {
    let text = address.to_string_lossy();
    first_usable(&text).map_err(|reason| {
        Error::new(
            ErrorKind::InvalidInput,
            format!("{name} is {text:?}, which cannot be used: {reason}"),
        )
    })
}

/// Reads an address that a person gave: `unix:path=PATH` or `unix:abstract=NAME`, with `,guid=ID` if wanted; of a list, separated by `;`, the first that can be used.
///
/// A path that ends in `systemd/private` is systemd's private socket, every other one a message bus.
///
/// # Errors
///
/// [`InvalidInput`](ErrorKind::InvalidInput) for every address that is not one of these.
pub(crate) fn parse(address: &str) -> Result<Endpoint> {
    first_usable(address).map_err(|reason| {
        Error::new(
            ErrorKind::InvalidInput,
            format!("{address:?} is not an address that can be used: {reason}"),
        )
    })
}

type Reason = &'static str;

fn first_usable(list: &str) -> std::result::Result<Endpoint, Reason> {
    let mut first = None;
    for address in list.split(';').filter(|address| !address.is_empty()) {
        match one(address) {
            Ok(endpoint) => return Ok(endpoint),
            Err(reason) => first = first.or(Some(reason)),
        }
    }
    Err(first.unwrap_or("it is empty; write unix:path=PATH"))
}

fn one(address: &str) -> std::result::Result<Endpoint, Reason> {
    let (transport, options) = address
        .split_once(':')
        .ok_or("it has no transport; write unix:path=PATH")?;
    if transport != "unix" {
        return Err("only the transport unix: is supported; write unix:path=PATH");
    }
    let mut socket = None;
    let mut guid = None;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option
            .split_once('=')
            .ok_or("an option has no value; write unix:path=PATH")?;
        let value = unescape(value).ok_or("a % in it is not followed by two hexadecimal digits")?;
        match key {
            "path" | "abstract" if socket.is_some() => {
                return Err("it names more than one socket");
            }
            "path" => {
                let path = PathBuf::from(OsString::from_vec(value));
                socket = Some(SocketName::Path(usable_path(path)?));
            }
            "abstract" if value.is_empty() => return Err("the name of its socket is empty"),
            "abstract" if value.len() > LONGEST_PATH => {
                return Err("the name of its socket is longer than 107 bytes");
            }
            "abstract" => socket = Some(SocketName::Abstract(value)),
            "guid" => {
                let text = String::from_utf8(value)
                    .ok()
                    .filter(|text| is_guid(text))
                    .ok_or("its guid is not 32 hexadecimal digits")?;
                guid = Some(text.to_ascii_lowercase());
            }
            // `dir`, `tmpdir` and `runtime` are for servers that choose a name.
            _ => return Err("only the options path, abstract and guid are supported"),
        }
    }
    match socket {
        Some(SocketName::Path(path)) if path.ends_with(PRIVATE_SUFFIX) => {
            Ok(Endpoint::Private(path))
        }
        Some(socket) => Ok(Endpoint::Bus(BusAddress { socket, guid })),
        None => Err("it names no socket; write unix:path=PATH"),
    }
}

fn usable_path(path: PathBuf) -> std::result::Result<PathBuf, Reason> {
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() {
        Err("the path must be absolute")
    } else if bytes.contains(&0) {
        Err("the path has a NUL byte in it")
    } else if bytes.len() > LONGEST_PATH {
        Err("the path is longer than 107 bytes, which is the longest that a Unix socket can have")
    } else {
        Ok(path)
    }
}

fn is_guid(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high << 4 | low).ok()?
            }
            other => other,
        });
    }
    Some(out)
}

fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            // The characters that the specification lets stand as they are.
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'/' | b'.' | b'*' => {
                out.push(char::from(*byte));
            }
            other => out.push_str(&format!("%{other:02x}")),
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#[path = "address_tests.rs"]
mod tests;
