//! What a mode makes of an *ask*, and plan mode: until a person approves the plan, what is not a
//! proven read is denied.

use super::{Word, evaluate};
use crate::{
    Action, Category, Decision, Facts, FileVerb, Mode, PartVerdict, Place, Policy, Run, Stage,
    Switch, Verdict, ViewPath,
    shell::{self, Access},
    sql,
};

/// What of a word the mode needs to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// What it asks about.
    pub(super) category: Category,
    /// Whether it comes from not understanding.
    pub(super) unread: bool,
    /// Whether it is an edit of the workspace that nothing else speaks of.
    pub(super) edit: bool,
}

impl About {
    pub(super) fn of(word: &Word) -> Self {
        Self {
            category: word.category,
            unread: word.unread,
            edit: word.edit,
        }
    }

    /// A finding of the safety check.
    pub(super) fn finding(id: &str) -> Self {
        let network = [
            "internal-address",
            "exfiltration",
            "download-to-interpreter",
        ]
        .contains(&id);
        Self {
            category: if network {
                Category::Network
            } else {
                Category::Permissions
            },
            unread: false,
            edit: false,
        }
    }
}

/// What a mode makes of an *ask*; everything else stays as it is.
pub(super) fn under(mode: Mode, mut verdict: Verdict, about: About) -> Verdict {
    if verdict.decision != Decision::Ask {
        return verdict;
    }
    let name = mode.as_str();
    match answer(mode, about, verdict.once_only) {
        Decision::Ask => return verdict,
        Decision::Deny if verdict.once_only => {
            // A safety ask is answered by a person, once, or not at all.
            verdict.once_only = false;
            verdict.reason = match mode {
                Mode::Granular(_) => format!(
                    "{}; mode granular refuses what asks about {}",
                    verdict.reason,
                    about.category.as_str()
                ),
                _ => format!("{}; mode {name} asks nobody", verdict.reason),
            };
            verdict.decision = Decision::Deny;
            return verdict;
        }
        Decision::Deny => {
            verdict.reason = match mode {
                Mode::Bypass => format!(
                    "mode bypass says yes only to what is understood: {}",
                    verdict.reason
                ),
                Mode::Granular(_) => format!(
                    "mode granular refuses what asks about {}: {}",
                    about.category.as_str(),
                    verdict.reason
                ),
                _ => format!(
                    "mode {name} asks nobody, and this needs a yes: {}",
                    verdict.reason
                ),
            };
            verdict.decision = Decision::Deny;
        }
        Decision::Allow => {
            verdict.reason = format!("mode {name} says yes in advance: {}", verdict.reason);
            verdict.instead = None;
            verdict.decision = Decision::Allow;
        }
    }
    verdict.stage = Stage::Mode;
    verdict
}

/// What becomes of an ask.
fn answer(mode: Mode, about: About, once_only: bool) -> Decision {
    match mode {
        // The classifier is asked by who wires it; until it answers it is an ask.
        Mode::OnRequest | Mode::Auto => Decision::Ask,
        Mode::AcceptEdits if about.edit && !once_only && !about.unread => Decision::Allow,
        Mode::AcceptEdits => Decision::Ask,
        Mode::Never => Decision::Deny,
        Mode::Bypass if once_only || about.unread => Decision::Deny,
        Mode::Bypass => Decision::Allow,
        Mode::Granular(switches) => match switches.of(about.category) {
            Switch::Ask => Decision::Ask,
            Switch::Deny => Decision::Deny,
        },
    }
}

/// One part of a line with what the mode needs to know of it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) verdict: PartVerdict,
    pub(super) once_only: bool,
    pub(super) about: About,
}

impl Part {
    pub(super) fn under(mut self, mode: Mode) -> PartVerdict {
        if self.verdict.decision == Decision::Ask {
            self.verdict.decision = answer(mode, self.about, self.once_only);
        }
        self.verdict
    }
}

/// As [`evaluate`], in plan mode: what is not a proven read is denied.
///
/// A person's approval of the plan ends plan mode; nothing else does.
pub fn evaluate_planning(policy: &Policy, mode: Mode, action: &Action, facts: &Facts) -> Verdict {
    let mut verdict = evaluate(policy, mode, action, facts);
    let Some(part) = unproven(action, facts) else {
        return verdict;
    };
    if verdict.decision == Decision::Deny {
        return verdict;
    }
    let part: String = part
        .chars()
        .take(120)
        .flat_map(char::escape_debug)
        .collect();
    verdict.decision = Decision::Deny;
    verdict.stage = Stage::Mode;
    verdict.rule = Some("plan-mode".to_owned());
    verdict.layer = None;
    verdict.once_only = false;
    verdict.reason =
        format!("no person has approved the plan yet, and `{part}` is not a proven read");
    verdict.instead =
        Some("read what is needed, write the plan, and ask for its approval".to_owned());
    for told in &mut verdict.parts {
        if told.part == part {
            told.decision = Decision::Deny;
            told.rule = Some("plan-mode".to_owned());
        }
    }
    verdict
}

/// What of an action is not a proven read.
fn unproven(action: &Action, facts: &Facts) -> Option<String> {
    match action {
        Action::Run(run) => unproven_line(run, facts),
        Action::File(access) => (access.verb != FileVerb::Read).then(|| access.path.to_string()),
        Action::Query { query, .. } => {
            let reads = sql::check(query).is_ok() && sql::effect(query).is_none();
            (!reads).then(|| query.clone())
        }
        Action::Job { job, kill: true } => Some(format!("job_kill {job}")),
        Action::ListTables
        | Action::AskPerson { .. }
        | Action::SubmitPlan { .. }
        | Action::Job { .. } => None,
    }
}

fn unproven_line(run: &Run, facts: &Facts) -> Option<String> {
    if run.reading.doubt.is_some() || run.background {
        return Some(run.line.clone());
    }
    let simple = run
        .reading
        .simples
        .iter()
        .find(|simple| !shell::is_proven_read(simple));
    let redirect = || {
        run.reading.redirects.iter().find(|redirect| {
            let path = redirect
                .target
                .literal
                .as_deref()
                .and_then(|word| ViewPath::new(word, &facts.workspace, &facts.home));
            match (redirect.access, path) {
                (Access::Read, Some(path)) => {
                    path.below("/dev/tcp").is_some() || path.below("/dev/udp").is_some()
                }
                (Access::Write, Some(path)) => {
                    !(facts.place(&path) == Place::System && path.as_str() == "/dev/null"
                        || path.as_str() == "/dev/null")
                }
                (_, None) => true,
            }
        })
    };
    simple
        .map(|simple| simple.text.clone())
        .or_else(|| redirect().map(|redirect| redirect.text.clone()))
}
