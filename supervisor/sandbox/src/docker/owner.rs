//! Whose container it is: labels that a later supervisor can judge without asking anybody.

use std::{collections::HashMap, fs, io};

use protocol::SessionId;

/// The label that every container of ours has: its session.
pub(super) const SESSION: &str = "provost.session";
const PID: &str = "provost.supervisor.pid";
const STARTED: &str = "provost.supervisor.started";
const BOOT: &str = "provost.boot";
const SPACE: &str = "provost.supervisor.pidns";
const INSTANCE: &str = "provost.instance";
const ACCOUNT: &str = "provost.account";

/// A supervisor as its labels tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    /// Ticks since boot: with the pid it is that process and no later one.
    started: u64,
    boot: String,
    /// The pid namespace in which the pid means something.
    space: String,
    /// Random: tells two supervisors apart where everything else is the same.
    instance: String,
    account: u32,
}

/// What can be said of an owner from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It runs.
    Lives,
    /// It does not, for certain.
    Gone,
    /// Its pid means nothing here.
    Unknown,
}

impl Owner {
    /// This very process.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let mut raw = [0_u8; 8];
        getrandom::fill(&mut raw).map_err(|error| io::Error::other(error.to_string()))?;
        let pid = std::process::id();
        Ok(Self {
            pid,
            started: started(pid)
                .ok_or_else(|| io::Error::other("/proc does not tell when this process started"))?,
            boot: boot(),
            space: space(),
            instance: raw.iter().map(|byte| format!("{byte:02x}")).collect(),
            account: rustix::process::getuid().as_raw(),
        })
    }

    /// The labels of a container of its.
    pub(super) fn labels(&self, session: &SessionId) -> HashMap<String, String> {
        let pairs = [
            (SESSION, session.to_string()),
            (PID, self.pid.to_string()),
            (STARTED, self.started.to_string()),
            (BOOT, self.boot.clone()),
            (SPACE, self.space.clone()),
            (INSTANCE, self.instance.clone()),
            (ACCOUNT, self.account.to_string()),
        ];
        pairs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Reads the labels back; `None` if they are not ours.
    pub(super) fn read(labels: &HashMap<String, String>) -> Option<(SessionId, Self)> {
        let text = |name: &str| labels.get(name).cloned();
        let owner = Self {
            pid: text(PID)?.parse().ok()?,
            started: text(STARTED)?.parse().ok()?,
            boot: text(BOOT)?,
            space: text(SPACE)?,
            instance: text(INSTANCE)?,
            account: text(ACCOUNT)?.parse().ok()?,
        };
        Some((SessionId::parse(&text(SESSION)?).ok()?, owner))
    }

    /// Whether it runs still, as far as can be told from this process.
    pub(super) fn standing(&self) -> Standing {
        self.judge(&boot(), &space(), started(self.pid))
    }

    fn judge(&self, boot: &str, space: &str, started: Option<u64>) -> Standing {
        if self.boot != boot {
            return Standing::Gone;
        }
        if self.space != space {
            return Standing::Unknown;
        }
        if started == Some(self.started) {
            Standing::Lives
        } else {
            Standing::Gone
        }
    }
}

fn line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

fn boot() -> String {
    line("/proc/sys/kernel/random/boot_id")
}

fn space() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// When a process started, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; the 22nd field is the 20th after it.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split_whitespace();
    // A process that has ended and that nobody has reaped yet owns nothing.
    if matches!(words.next()?, "Z" | "X") {
        return None;
    }
    words.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_back_and_judged() {
        let owner = Owner::of_this_process().expect("known");
        let session = SessionId::parse("s-1-ab").expect("valid");
        let labels = owner.labels(&session);
        assert_eq!(Owner::read(&labels), Some((session, owner.clone())));
        assert_eq!(owner.standing(), Standing::Lives);
        let (boot, space) = (owner.boot.clone(), owner.space.clone());
        assert_eq!(owner.judge(&boot, &space, None), Standing::Gone);
        let later = Some(owner.started + 1);
        assert_eq!(
            owner.judge(&boot, &space, later),
            Standing::Gone,
            "its pid is another's now"
        );
        assert_eq!(
            owner.judge("other", &space, Some(owner.started)),
            Standing::Gone
        );
        assert_eq!(owner.judge(&boot, "pid:[1]", None), Standing::Unknown);
        assert_eq!(Owner::read(&HashMap::new()), None);
    }
}
