//! The account that a root supervisor's session works for (`run --as ACCOUNT`): the jail and every reader
//! run as that account, what they make belongs to it, and root opens nothing below its folders.

use std::path::PathBuf;

use nix::unistd::{Uid, User, geteuid};
use protocol::jail::Identity;
use serde::{Deserialize, Serialize};
use supervisor_sandbox::ClaimedUid;

use super::Saved;
use crate::exit::{Failure, REFUSED_AT_START, USAGE};

/// An account of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    /// Its name.
    pub(crate) name: String,
    /// Its user id and primary group. Supplementary groups are not taken along.
    pub(crate) identity: Identity,
    /// Its home folder, whose name the private HOME gets.
    pub(crate) home: PathBuf,
}

impl Account {
    /// Finds an account by its name or number.
    ///
    /// # Errors
    /// The caller is not root, or no session can work for such an account.
    pub(crate) fn find(word: &str) -> Result<Self, Failure> {
        if !geteuid().is_root() {
            return Err(Failure::new(
                USAGE,
                "--as is for root: only root can work for another account",
            )
            .help("leave --as out: an account's own sessions run under it"));
        }
        let found = match word.parse::<u32>() {
            Ok(uid) => User::from_uid(Uid::from_raw(uid)),
            Err(_) => User::from_name(word),
        };
        let user = found
            .map_err(|error| {
                Failure::new(
                    REFUSED_AT_START,
                    format!("--as `{word}`: the accounts cannot be read: {error}"),
                )
            })?
            .ok_or_else(|| {
                Failure::new(
                    USAGE,
                    format!("--as `{word}`: this machine has no such account"),
                )
                .help("name one that `getent passwd` lists")
            })?;
        Self::of(user)
    }

    fn of(user: User) -> Result<Self, Failure> {
        let refused = |why: &str, help: &str| {
            Err(Failure::new(USAGE, format!("--as `{}`: {why}", user.name)).help(help.to_owned()))
        };
        if user.uid.is_root() || user.gid.as_raw() == 0 {
            return refused(
                "no session runs as root or in root's group",
                "leave --as out: root's own sessions run under a user id that owns nothing",
            );
        }
        if ClaimedUid::is_unused(user.uid.as_raw()) {
            return refused(
                "its number is one of those that root's own sessions get",
                "give the account a number outside 61184 to 65519",
            );
        }
        let home = if user.dir.is_absolute() {
            user.dir
        } else {
            PathBuf::from("/home/agent")
        };
        Ok(Self {
            name: user.name,
            identity: Identity {
                uid: user.uid.as_raw(),
                gid: user.gid.as_raw(),
            },
            home,
        })
    }

    /// Whether the account is still the one that a session was started for.
    ///
    /// # Errors
    /// It is gone, or its numbers belong to another now.
    pub(crate) fn still(&self) -> Result<(), Failure> {
        let now = Self::find(&self.name)?;
        if now.identity == self.identity {
            return Ok(());
        }
        let Identity { uid, gid } = self.identity;
        Err(Failure::new(
            REFUSED_AT_START,
            format!("the session works for `{}` as user {uid}, group {gid}, and that account has other numbers now", self.name),
        )
        .help("its files belong to nobody who could go on: take them with `provost diff --patch`, or discard them"))
    }
}

/// Whom a session runs as.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunsAs<'a> {
    /// The supervisor's own account, or for root an unused uid.
    Own,
    /// For root the unused uid that owns the session's files already.
    Again(Option<u32>),
    /// The account that root works for.
    Account(&'a Account),
}

impl<'a> RunsAs<'a> {
    /// Whom a session that goes on runs as.
    pub(crate) fn of(saved: &'a Saved) -> Self {
        saved
            .account
            .as_ref()
            .map_or(Self::Again(saved.uid), Self::Account)
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Gid;

    use super::*;

    fn user(uid: u32, gid: u32) -> User {
        let mut user = User::from_uid(geteuid()).expect("read").expect("ours");
        (user.uid, user.gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        user.dir = "relative".into();
        user
    }

    #[test]
    fn nobody_works_as_root_or_under_an_id_that_is_given_out() {
        for (uid, gid) in [(0, 0), (0, 7), (7, 0), (61_184, 7), (65_519, 7)] {
            assert!(Account::of(user(uid, gid)).is_err(), "{uid}:{gid}");
        }
        let account = Account::of(user(7, 8)).expect("fit");
        assert_eq!(account.identity, Identity { uid: 7, gid: 8 });
        assert_eq!(
            account.home,
            PathBuf::from("/home/agent"),
            "a home is absolute"
        );
    }
}
