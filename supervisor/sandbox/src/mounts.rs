//! The mounts of a box, as they were when it was proven: read-only trees, masks over `/proc`, layers. Nobody
//! inside can change them; somebody with root's rights on the host can.

use std::fs;

use protocol::jail::Situation;

/// Mounts that a difference names at most.
const NAMED: usize = 3;

/// Every mount of a box: where, what, with which attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountView {
    lines: Vec<String>,
}

impl MountView {
    /// The mounts of a box that has its own; `None` where it shares the host's.
    ///
    /// # Errors
    /// The kernel does not tell of them: what cannot be read once cannot be watched.
    pub fn of(hands: u32, situation: Situation) -> std::io::Result<Option<Self>> {
        match situation {
            Situation::Landlock => Ok(None),
            Situation::Namespaces | Situation::Container => read(hands).map(Some),
        }
    }

    /// How the mounts differ from what they were, if they do.
    #[must_use]
    pub fn changed(&self, hands: u32) -> Option<String> {
        let now = match read(hands) {
            Ok(now) => now,
            Err(error) => return Some(format!("its mounts cannot be read any more: {error}")),
        };
        let missing = |from: &Self, to: &Self, word: &str| -> Vec<String> {
            let gone = from.lines.iter().filter(|line| !to.lines.contains(line));
            gone.map(|line| format!("{word} `{}`", told(line)))
                .collect()
        };
        let mut found = missing(self, &now, "gone or changed:");
        found.extend(missing(&now, self, "new:"));
        let more = found.len().saturating_sub(NAMED);
        found.truncate(NAMED);
        if more > 0 {
            found.push(format!("{more} more"));
        }
        (!found.is_empty()).then(|| found.join(", "))
    }
}

fn read(pid: u32) -> std::io::Result<MountView> {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(std::io::Error::other("there are none"));
    }
    Ok(MountView { lines })
}

/// Place and attributes of a line: `36 35 98:0 /root /place attributes … - type source super`.
fn told(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match (words.get(4), words.get(5)) {
        (Some(place), Some(attributes)) => format!("{place} {attributes}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_changed_is_named_and_the_hosts_own_are_not_watched() {
        let own = std::process::id();
        let view = MountView::of(own, Situation::Namespaces).expect("readable");
        let view = view.expect("its own");
        assert_eq!(view.changed(own), None);
        let mut other = view.clone();
        other
            .lines
            .push("1 1 0:1 / /laid ro,nosuid - tmpfs none ro".to_owned());
        let told = other.changed(own).expect("differs");
        assert_eq!(told, "gone or changed: `/laid ro,nosuid`");
        assert!(
            view.changed(u32::MAX)
                .expect("nobody")
                .contains("cannot be read")
        );
        assert_eq!(MountView::of(own, Situation::Landlock).expect("fine"), None);
    }
}
