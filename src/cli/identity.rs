//! `--uid` and `--gid`: looked up before anything starts, assumed right before the command.
//!
//! | given         | groups                          | gid               | uid   | HOME, USER, LOGNAME, SHELL |
//! |---------------|---------------------------------|-------------------|-------|----------------------------|
//! | --uid         | the user's, as initgroups(3)    | the user's        | given | the user's                 |
//! | --uid, --gid  | the user's, and the given one   | given             | given | the user's                 |
//! | --gid         | the given one alone             | given             | same  | as they are                |
//!
//! With `--gid` alone the caller's supplementary groups are given up: a command that is told its group should not keep what its caller was trusted with.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist, getgroups, setgroups};
use nix::unistd::{getresgid, getresuid, setresgid, setresuid};

use super::exit::Failure;

const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;

/// Who the command runs as.
#[derive(Debug)]
pub(super) struct Identity {
    uid: Option<Uid>,
    gid: Gid,
    groups: Vec<Gid>,
    variables: Vec<(&'static str, Vec<u8>)>,
}

impl Identity {
    /// Looks both up. `None` when neither is given.
    pub(super) fn resolve(
        uid: Option<&OsStr>,
        gid: Option<&OsStr>,
    ) -> Result<Option<Self>, Failure> {
        let gid = gid
            .map(|text| find_group(text).map_err(|why| Failure::option("--gid", why)))
            .transpose()?;
        let user = uid
            .map(|text| find_user(text).map_err(|why| Failure::option("--uid", why)))
            .transpose()?;
        let identity = match (user, gid) {
            (None, None) => return Ok(None),
            (None, Some(gid)) => Self {
                uid: None,
                gid,
                groups: vec![gid],
                variables: Vec::new(),
            },
            (Some(Found::User(user)), gid) => Self::of_user(&user, gid.unwrap_or(user.gid))?,
            (Some(Found::Number(uid)), Some(gid)) => Self {
                uid: Some(uid),
                gid,
                groups: vec![gid],
                variables: variables(
                    uid.to_string().as_bytes(),
                    OsStr::new("/"),
                    OsStr::new("/bin/sh"),
                ),
            },
            (Some(Found::Number(uid)), None) => {
                return Err(Failure::option(
                    "--uid",
                    format!(
                        "no user has the number {uid}, so its group is not known; give --gid as well"
                    ),
                ));
            }
        };
        identity.check_privileges()?;
        Ok(Some(identity))
    }

    fn of_user(user: &User, gid: Gid) -> Result<Self, Failure> {
        let name = CString::new(user.name.as_bytes()).unwrap_or_default();
        let groups = getgrouplist(&name, gid).map_err(|error| {
            Failure::option(
                "--uid",
                format!(
                    "cannot read the groups of user {:?}: {}",
                    user.name,
                    error.desc()
                ),
            )
        })?;
        Ok(Self {
            uid: Some(user.uid),
            gid,
            groups,
            variables: variables(
                user.name.as_bytes(),
                user.dir.as_os_str(),
                user.shell.as_os_str(),
            ),
        })
    }

    /// What the environment says of the user.
    pub(super) fn variables(&self) -> &[(&'static str, Vec<u8>)] {
        &self.variables
    }

    /// Refuses early what the kernel would refuse after the start.
    fn check_privileges(&self) -> Result<(), Failure> {
        let refuse = |option: &str, what: &str| {
            let why = format!("changing the {what} needs root or the matching capability");
            Err(Failure::option(option, why))
        };
        let group_option = if self.uid.is_some() { "--uid" } else { "--gid" };
        if self.changes_groups() && !has_capability(CAP_SETGID) {
            return refuse(group_option, "groups");
        }
        if self.changes_uid() && !has_capability(CAP_SETUID) {
            return refuse("--uid", "user");
        }
        Ok(())
    }

    fn changes_uid(&self) -> bool {
        self.uid.is_some_and(|uid| {
            getresuid().map_or(true, |now| [now.real, now.effective, now.saved] != [uid; 3])
        })
    }

    fn changes_gid(&self) -> bool {
        getresgid().map_or(true, |now| {
            [now.real, now.effective, now.saved] != [self.gid; 3]
        })
    }

    fn changes_list(&self) -> bool {
        let sorted = |mut groups: Vec<Gid>| {
            groups.sort_unstable_by_key(|gid| gid.as_raw());
            groups.dedup();
            groups
        };
        getgroups().map_or(true, |now| sorted(now) != sorted(self.groups.clone()))
    }

    fn changes_groups(&self) -> bool {
        self.changes_gid() || self.changes_list()
    }

    /// Becomes that user: supplementary groups, then the group, then the user, since each step may take away the right to the one before.
    pub(super) fn assume(&self) -> Result<(), Failure> {
        let failed = |what: String| {
            move |error: nix::errno::Errno| {
                Failure::run(format!("cannot change to {what}: {}", error.desc()))
            }
        };
        if self.changes_list() {
            setgroups(&self.groups).map_err(failed("the supplementary groups".to_owned()))?;
        }
        if self.changes_gid() {
            setresgid(self.gid, self.gid, self.gid).map_err(failed(format!("gid {}", self.gid)))?;
        }
        if let Some(uid) = self.uid.filter(|_| self.changes_uid()) {
            setresuid(uid, uid, uid).map_err(failed(format!("uid {uid}")))?;
        }
        Ok(())
    }
}

fn variables(name: &[u8], home: &OsStr, shell: &OsStr) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("HOME", home.as_bytes().to_vec()),
        ("USER", name.to_vec()),
        ("LOGNAME", name.to_vec()),
        ("SHELL", shell.as_bytes().to_vec()),
    ]
}

enum Found {
    User(Box<User>),
    /// A number that is in no user database.
    Number(Uid),
}

fn find_user(text: &OsStr) -> Result<Found, String> {
    let text = database_name(text, "user")?;
    let looked_up = match number(text, "uid")? {
        Some(uid) => {
            let uid = Uid::from_raw(uid);
            match User::from_uid(uid) {
                Ok(None) => return Ok(Found::Number(uid)),
                found => found,
            }
        }
        None => User::from_name(text),
    };
    match looked_up {
        Ok(Some(user)) => Ok(Found::User(Box::new(user))),
        Ok(None) => Err(format!("there is no user {text:?}")),
        Err(error) => Err(format!("cannot look up user {text:?}: {}", error.desc())),
    }
}

fn find_group(text: &OsStr) -> Result<Gid, String> {
    let text = database_name(text, "group")?;
    if let Some(gid) = number(text, "gid")? {
        return Ok(Gid::from_raw(gid));
    }
    match Group::from_name(text) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err(format!("there is no group {text:?}")),
        Err(error) => Err(format!("cannot look up group {text:?}: {}", error.desc())),
    }
}

fn database_name<'a>(text: &'a OsStr, what: &str) -> Result<&'a str, String> {
    match text.to_str() {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(format!("{text:?} is not the name or number of a {what}")),
    }
}

/// A text that begins like a number must be one: no name does.
fn number(text: &str, what: &str) -> Result<Option<u32>, String> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
        return Ok(None);
    }
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u32>() {
        // The kernel takes the highest number for "leave as it is".
        Ok(number) if all_digits && number != u32::MAX => Ok(Some(number)),
        _ => Err(format!(
            "{text:?} is not a {what}: a name, or a number from 0 to {}, is expected",
            u32::MAX - 1
        )),
    }
}

/// Whether the effective set has the capability; where that cannot be read, the kernel will say.
pub(super) fn has_capability(bit: u32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return true;
    };
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_none_or(|set| set & (1 << bit) != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_ids_are_refused() {
        for text in ["-1", "4294967295", "4294967296", "1x", "+1", "0x0", "1 "] {
            assert!(number(text, "uid").is_err(), "{text}");
        }
        assert_eq!(number("0", "uid").unwrap(), Some(0));
        assert_eq!(number("4294967294", "uid").unwrap(), Some(u32::MAX - 1));
        assert_eq!(number("root", "uid").unwrap(), None);
    }

    #[test]
    fn a_number_without_an_account_needs_a_group() {
        let uid = Some(OsStr::new("4000000001"));
        let failure = Identity::resolve(uid, None).unwrap_err();
        assert!(
            failure.sentence().contains("--gid"),
            "{}",
            failure.sentence()
        );
        assert!(failure.sentence().contains("4000000001"));
    }

    #[test]
    fn an_unknown_name_is_named() {
        for (uid, gid) in [(Some("no-such-one"), None), (None, Some("no-such-one"))] {
            let failure = Identity::resolve(uid.map(OsStr::new), gid.map(OsStr::new)).unwrap_err();
            assert!(failure.sentence().contains("\"no-such-one\""));
        }
    }
}
