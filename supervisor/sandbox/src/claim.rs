//! Finds a user id that owns nothing on this machine, for a session whose supervisor is root: root's
//! own sessions run under it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, Instant},
};

use protocol::{bounds, jail::Identity};
use rustix::fs::FlockOperation;

/// First id of the range that distributions leave unassigned.
const FIRST: u32 = 61_184;
/// Last id of the range.
const LAST: u32 = 65_519;
/// Ids that are tried before giving up.
const TRIES: u32 = 64;

/// The user id that a session of a root supervisor runs under: one that is this session's alone as
/// long as the claim lives, or that of the account that it works for.
#[derive(Debug)]
pub struct ClaimedUid {
    identity: Identity,
    // The lock file of an id that is the session's alone, held for life.
    lock: Option<File>,
}

impl ClaimedUid {
    /// An account's own id, which its other sessions and programs use too.
    #[must_use]
    pub fn of_account(identity: Identity) -> Self {
        Self {
            identity,
            lock: None,
        }
    }

    /// Whether it is the id of an account, which reaches its own places by itself.
    #[must_use]
    pub fn is_account(&self) -> bool {
        self.lock.is_none()
    }

    /// Whether an id is one of those that sessions of root's own get.
    #[must_use]
    pub fn is_unused(uid: u32) -> bool {
        (FIRST..=LAST).contains(&uid)
    }

    /// The identity: the group has the same number.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

/// Why no id could be claimed.
#[derive(Debug, thiserror::Error)]
pub enum NoUid {
    /// The lock folder cannot be used.
    #[error("cannot lock a user id in `{folder}`: {source}")]
    Locks {
        /// The folder.
        folder: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This root has no such ids.
    #[error(
        "user ids {FIRST} to {LAST} do not exist in this user namespace: run as an ordinary account, or give the container a map of 65,536 ids"
    )]
    Unmapped,
    /// All are taken.
    #[error("no free user id between {FIRST} and {LAST}: all that were tried are in use")]
    Exhausted,
    /// A session that goes on needs the id that owns its files.
    #[error("user id {0} owns this session's files and is in use: end what runs under it")]
    Taken(u32),
}

/// Claims an id: `wanted` when a session goes on whose files belong to it, else any free one.
///
/// Free means: in neither the accounts nor the groups, no process runs under it, no other live
/// session has locked it in `runtime`.
///
/// # Errors
/// [`NoUid`] names what to do.
pub fn free_uid(runtime: &Path, wanted: Option<u32>) -> Result<ClaimedUid, NoUid> {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !covers(&map, FIRST) || !covers(&map, LAST) {
        return Err(NoUid::Unmapped);
    }
    let folder = runtime.join("uids");
    let broken = |source: io::Error| NoUid::Locks {
        folder: folder.display().to_string(),
        source,
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(broken)?;
    if let Some(uid) = wanted {
        let in_range = (FIRST..=LAST).contains(&uid);
        let claim = if in_range {
            // What a supervisor that died has left is being killed by the kernel right now.
            claim(&folder, uid, bounds::END_TIME).map_err(broken)?
        } else {
            None
        };
        return claim.ok_or(NoUid::Taken(uid));
    }
    let accounts = known("/etc/passwd");
    let groups = known("/etc/group");
    let mut seed = [0_u8; 4];
    getrandom::fill(&mut seed).map_err(|error| broken(io::Error::other(error.to_string())))?;
    let span = LAST - FIRST + 1;
    let start = u32::from_ne_bytes(seed) % span;
    for step in 0..TRIES {
        // A stride without a common divisor with the span: no id is tried twice.
        let uid = FIRST + (start + step * 7) % span;
        if accounts.contains(&uid) || groups.contains(&uid) {
            continue;
        }
        if let Some(claim) = claim(&folder, uid, Duration::ZERO).map_err(broken)? {
            return Ok(claim);
        }
    }
    Err(NoUid::Exhausted)
}

/// Locks one id and makes sure that nothing runs under it, waiting so long for what holds the lock in
/// passing or is still dying.
fn claim(folder: &Path, uid: u32, patience: Duration) -> io::Result<Option<ClaimedUid>> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(uid.to_string()))?;
    let until = Instant::now() + patience;
    // A child that was just started holds its parent's locks until it is the program that it becomes.
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= until => return Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.into()),
        }
    }
    while runs_anything(uid) {
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Some(ClaimedUid {
        identity: Identity { uid, gid: uid },
        lock: Some(lock),
    }))
}

/// Whether a process runs under `uid`. One that has ended and that nobody has reaped yet runs nothing.
fn runs_anything(uid: u32) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else {
        return true;
    };
    entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .bytes()
                .all(|b| b.is_ascii_digit())
        })
        .any(|entry| {
            entry.metadata().is_ok_and(|facts| facts.uid() == uid) && is_alive(&entry.path())
        })
}

/// Whether any thread of a process still runs: a leader that has ended shows as dead although its
/// other threads go on. What cannot be read is taken for alive, unless it is gone.
fn is_alive(process: &Path) -> bool {
    let Ok(threads) = fs::read_dir(process.join("task")) else {
        return process.exists();
    };
    threads.flatten().any(|thread| {
        let path = thread.path();
        let Ok(text) = fs::read_to_string(path.join("stat")) else {
            return path.exists();
        };
        // The name stands in parentheses and may hold anything, so the state is after the last one.
        let state = text
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        !matches!(state, Some('Z' | 'X'))
    })
}

/// The ids in an account or group file.
fn known(path: &str) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split(':').nth(2)?.parse().ok())
        .collect()
}

/// Whether a uid map has `uid` inside.
fn covers(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (words.next(), words.next(), words.next())
        else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(uid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_covers_exactly_its_ids() {
        let map = "         0     100000      65536\n";
        assert!(covers(map, FIRST) && covers(map, LAST) && !covers(map, 65_536));
        assert!(!covers("0 1000 1\n", FIRST));
        assert!(!covers("", FIRST));
    }

    #[test]
    fn a_process_that_nobody_has_reaped_does_not_count_as_running() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let path = std::path::PathBuf::from(format!("/proc/{}", child.id()));
        let until = Instant::now() + Duration::from_secs(10);
        while is_alive(&path) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(path.exists() && !is_alive(&path), "a zombie");
        child.wait().expect("reaped");
        assert!(!is_alive(&path), "gone");
        assert!(is_alive(Path::new("/proc/self")));
    }

    #[test]
    fn a_claimed_id_is_nobody_elses_until_it_is_given_back() {
        let runtime = tempfile::tempdir().expect("folder");
        let first = free_uid(runtime.path(), None).expect("free");
        let uid = first.identity().uid;
        assert!((FIRST..=LAST).contains(&uid));
        assert!(matches!(
            free_uid(runtime.path(), Some(uid)),
            Err(NoUid::Taken(_))
        ));
        assert!(matches!(
            free_uid(runtime.path(), Some(0)),
            Err(NoUid::Taken(0))
        ));
        drop(first);
        let again = free_uid(runtime.path(), Some(uid)).expect("given back");
        assert_eq!(again.identity(), Identity { uid, gid: uid });
    }
}
