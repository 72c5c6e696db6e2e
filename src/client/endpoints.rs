//! From an instance and a transport to the sockets that are tried. The environment is an argument.

use std::path::Path;

use crate::bus::Endpoint;
use crate::bus::address::{self, Environment};
use crate::manager::{Instance, Transport};
use crate::{Error, ErrorKind, Result};

/// What there is on this machine, as far as it decides where a manager is looked for.
pub(crate) struct Surroundings {
    pub(crate) environment: Environment,
    pub(crate) uid: u32,
    /// `/run/systemd/system` exists (sd_booted(3)).
    pub(crate) booted: bool,
}

impl Surroundings {
    pub(crate) fn of_process() -> Self {
        Self {
            environment: Environment::of_process(),
            uid: rustix::process::geteuid().as_raw(),
            booted: Path::new("/run/systemd/system").is_dir(),
        }
    }
}

/// The sockets in the order in which they are tried, and the instance that `Auto` turned out to be.
pub(crate) fn endpoints(
    instance: &Instance,
    transport: Transport,
    around: &Surroundings,
) -> Result<(Instance, Vec<Endpoint>)> {
    let environment = &around.environment;
    let (instance, bus, private) = match instance {
        Instance::Auto if around.uid == 0 && around.booted => {
            return endpoints(&Instance::System, transport, around);
        }
        Instance::Auto if environment.runtime_dir.is_some() => {
            return endpoints(&Instance::User, transport, around);
        }
        Instance::Auto => return Err(nothing_to_try(around)),
        Instance::System => (
            Instance::System,
            environment.system_bus(),
            // Its directory lets nobody else in.
            (around.uid == 0).then(|| Ok(environment.system_private())),
        ),
        Instance::User => (
            Instance::User,
            environment.user_bus(),
            Some(environment.user_private()),
        ),
        Instance::Address(text) => {
            let endpoint = address::parse(text)?;
            let wrong = match (&endpoint, transport) {
                (Endpoint::Bus(_), Transport::Private) => {
                    Some("a bus, not a private socket (a path that ends in systemd/private)")
                }
                (Endpoint::Private(_), Transport::Bus) => {
                    Some("systemd's private socket, not a bus")
                }
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!(
                        "{text:?} is {wrong}; leave the transport open or name another address"
                    ),
                ));
            }
            return Ok((instance.clone(), vec![endpoint]));
        }
    };
    let list = match transport {
        Transport::Bus => vec![bus?],
        Transport::Private => vec![private.unwrap_or_else(|| Err(only_root()))?],
        Transport::Auto => match (bus, private) {
            (Ok(bus), Some(Ok(private))) => vec![bus, private],
            (Ok(endpoint), _) | (Err(_), Some(Ok(endpoint))) => vec![endpoint],
            (Err(error), _) => return Err(error),
        },
    };
    Ok((instance, list))
}

fn only_root() -> Error {
    Error::new(
        ErrorKind::PermissionDenied,
        "only root may use the system manager's private socket; use the bus",
    )
}

fn nothing_to_try(around: &Surroundings) -> Error {
    let system = match (around.uid, around.booted) {
        (0, _) => {
            "this machine was not booted with systemd (/run/systemd/system is missing)".to_owned()
        }
        (uid, true) => format!(
            "the system manager is taken for root only (this is uid {uid}; name it to use it)"
        ),
        (_, false) => {
            "this machine was not booted with systemd (/run/systemd/system is missing)".to_owned()
        }
    };
    Error::new(
        ErrorKind::NoManager,
        format!(
            "no systemd manager was found: {system}, and XDG_RUNTIME_DIR is not set, so there is no user manager (su and sudo do not set it)"
        ),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn around(uid: u32, booted: bool, runtime_dir: Option<&str>) -> Surroundings {
        Surroundings {
            environment: Environment {
                runtime_dir: runtime_dir.map(Into::into),
                ..Environment::default()
            },
            uid,
            booted,
        }
    }

    fn tried(instance: Instance, transport: Transport, around: &Surroundings) -> Vec<String> {
        let (_, list) = endpoints(&instance, transport, around).unwrap();
        list.iter().map(Endpoint::to_string).collect()
    }

    const SYSTEM: [&str; 2] = [
        "unix:path=/run/dbus/system_bus_socket",
        "unix:path=/run/systemd/private",
    ];
    const USER: [&str; 2] = [
        "unix:path=/run/user/7/bus",
        "unix:path=/run/user/7/systemd/private",
    ];

    #[test]
    fn auto_is_the_system_manager_for_root_and_else_the_user_manager() {
        let auto = |around: &Surroundings| tried(Instance::Auto, Transport::Auto, around);
        assert_eq!(auto(&around(0, true, Some("/run/user/7"))), SYSTEM);
        assert_eq!(auto(&around(0, false, Some("/run/user/7"))), USER);
        assert_eq!(auto(&around(7, true, Some("/run/user/7"))), USER);
    }

    #[test]
    fn what_was_tried_in_vain_is_said() {
        for (around, part) in [
            (around(0, false, None), "not booted with systemd"),
            (around(7, true, None), "uid 7"),
            (around(7, false, None), "XDG_RUNTIME_DIR"),
        ] {
            let error = endpoints(&Instance::Auto, Transport::Auto, &around).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoManager);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn only_root_tries_the_system_managers_private_socket() {
        let user = around(7, true, None);
        assert_eq!(
            tried(Instance::System, Transport::Auto, &user),
            &SYSTEM[..1]
        );
        let error = endpoints(&Instance::System, Transport::Private, &user).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn an_address_is_taken_alone_and_must_fit_the_transport() {
        let root = around(0, true, None);
        let address = |text: &str| Instance::Address(text.to_owned());
        assert_eq!(
            tried(address("unix:path=/a/bus"), Transport::Auto, &root),
            ["unix:path=/a/bus"]
        );
        for (text, transport) in [
            ("unix:path=/a/bus", Transport::Private),
            ("unix:path=/a/systemd/private", Transport::Bus),
            ("tcp:host=a", Transport::Auto),
            ("", Transport::Auto),
        ] {
            let error = endpoints(&address(text), transport, &root).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        }
    }
}
