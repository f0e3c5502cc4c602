//! The safety check: detectors over actions, one file each; no mode, rule or grant lowers them.
//!
//! Each answers *deny*, or an *ask* that only a person may answer, once. They read what the grammar
//! found, not the text, and explain more than they protect: the jail is the limit.

mod address;
mod credentials;
mod decode;
mod destruction;
mod download;
mod exfiltration;
mod flow;
mod misleading;
mod network;
mod own_places;
mod persistence;
mod privilege;
mod raw_device;
mod resource;
pub(crate) mod spelling;
mod sql_effect;

use std::borrow::Cow;

use crate::{Action, Decision, Facts, Run, resolve::resolved};

pub use misleading::is_hidden;

/// What a detector found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The detector.
    pub id: &'static str,
    /// Deny, or an ask that no rule can lower.
    pub decision: Decision,
    /// Why, as the beginning of a sentence.
    pub why: &'static str,
    /// About what, escaped and cut.
    pub object: String,
    /// What would work instead.
    pub instead: Option<&'static str>,
    /// Which part of a shell line: simple commands first, then redirections.
    pub part: Option<usize>,
}

impl Finding {
    /// A finding about `object`.
    pub(crate) fn new(
        id: &'static str,
        decision: Decision,
        why: &'static str,
        object: &str,
        instead: &'static str,
    ) -> Self {
        let object = object.chars().take(120).flat_map(visible).collect();
        Self {
            id,
            decision,
            why,
            object,
            instead: Some(instead),
            part: None,
        }
    }

    /// In which part of the line it was found.
    pub(crate) fn at(mut self, part: usize) -> Self {
        self.part = Some(part);
        self
    }

    /// One sentence without a full stop.
    #[must_use]
    pub fn reason(&self) -> String {
        format!("{}: `{}`", self.why, self.object)
    }
}

fn visible(c: char) -> Vec<char> {
    if c.is_control() || is_hidden(c) {
        c.escape_unicode().collect()
    } else {
        vec![c]
    }
}

/// The detectors' ids, sorted.
pub const DETECTORS: &[&str] = &[
    credentials::ID,
    decode::ID,
    download::ID,
    exfiltration::ID,
    address::ID,
    misleading::ID,
    own_places::ID,
    persistence::ID,
    privilege::ID,
    raw_device::ID,
    resource::ID,
    sql_effect::ID,
    destruction::ID,
];

/// Runs every detector.
#[must_use]
pub fn check(action: &Action, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let known = known(action);
    let action = known.as_ref().unwrap_or(action);
    destruction::detect(action, facts, &mut findings);
    download::detect(action, &mut findings);
    credentials::detect(action, facts, &mut findings);
    exfiltration::detect(action, &mut findings);
    address::detect(action, &mut findings);
    raw_device::detect(action, facts, &mut findings);
    sql_effect::detect(action, &mut findings);
    own_places::detect(action, facts, &mut findings);
    persistence::detect(action, facts, &mut findings);
    resource::detect(action, &mut findings);
    privilege::detect(action, &mut findings);
    misleading::detect(action, &mut findings);
    findings
}

/// A line with its words filled in as far as it tells them itself; `None` if it says them plainly.
fn known(action: &Action) -> Option<Action> {
    let Action::Run(run) = action else {
        return None;
    };
    match resolved(&run.reading) {
        Cow::Borrowed(_) => None,
        Cow::Owned(reading) => Some(Action::Run(Run {
            reading,
            ..run.clone()
        })),
    }
}

#[cfg(test)]
pub(crate) mod table {
    //! Match and no-match examples of a detector, as a test.

    use super::*;
    use crate::shell;

    pub(crate) fn facts() -> Facts {
        Facts {
            workspace: "/srv/app".into(),
            home: "/home/u".into(),
            system: vec!["/usr".into(), "/etc".into(), "/bin".into()],
            interactive: true,
            tree: None,
        }
    }

    pub(crate) fn line(text: &str) -> Action {
        Action::Run(Run {
            line: text.into(),
            reading: shell::read(text),
            timeout_s: 60,
            background: false,
            stdin: None,
        })
    }

    pub(crate) fn said(id: &str, action: &Action) -> Option<Decision> {
        let findings = check(action, &facts());
        findings
            .into_iter()
            .filter(|finding| finding.id == id)
            .map(|finding| finding.decision)
            .max()
    }

    pub(crate) fn holds(id: &str, matching: &[(&str, Decision)], differing: &[&str]) {
        for (text, decision) in matching {
            assert_eq!(said(id, &line(text)), Some(*decision), "must match: {text}");
        }
        for text in differing {
            assert_eq!(said(id, &line(text)), None, "must not match: {text}");
        }
    }
}
