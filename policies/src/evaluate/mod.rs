//! The heart: an action and a policy make a verdict.
//!
//! Safety check, then permissions, then mode. Permissions are an algebra: within a layer `deny > ask >
//! allow`, where a more specific allow lowers that layer's own ask; over the layers the strictest word
//! counts; if nobody spoke, what stays in the jail is allowed and what leaves it asks. The order of rules
//! never matters.

mod built_in;
mod carried;
mod embedded;
mod loader;
mod moded;
mod outputs;
mod pattern;
mod speak;
mod subject;
mod trail;

use protocol::bounds;

pub(crate) use pattern::{example_matches, host_contains, rule_contains};
pub(crate) use subject::folders;

pub use moded::evaluate_planning;
pub use trail::{Step, enforcement, trail};

use crate::{
    Action, Category, Decision, Facts, Mode, PartVerdict, Policy, Stage, Verdict,
    safety::{self, Finding},
    tools::Tool,
};
use moded::{About, Part, under};

/// What permissions say of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Allow, ask or deny.
    pub(crate) decision: Decision,
    /// The deciding rule's id.
    pub(crate) rule: String,
    /// Its layer.
    pub(crate) layer: Option<String>,
    /// Why.
    pub(crate) reason: String,
    /// What would work instead.
    pub(crate) instead: Option<String>,
    /// Whether it comes from not understanding: an answer of *yes* in advance does not cover it.
    pub(crate) unread: bool,
    /// What an *ask* is about.
    pub(crate) category: Category,
    /// Whether it asks about an edit of the workspace only because that is the folder itself.
    pub(crate) edit: bool,
}

impl Word {
    /// The law's own word, of the built-in layer.
    pub(crate) fn built_in(decision: Decision, rule: &str, reason: impl Into<String>) -> Self {
        Self {
            decision,
            rule: rule.to_owned(),
            layer: Some("built-in".to_owned()),
            reason: reason.into(),
            instead: None,
            unread: false,
            category: Category::Sandbox,
            edit: false,
        }
    }

    /// With what would work instead.
    pub(crate) fn instead(mut self, text: impl Into<String>) -> Self {
        self.instead = Some(text.into());
        self
    }

    /// The stricter of two; of equals the one that fewer advance answers cover, else the first.
    pub(crate) fn or_stricter(self, other: Self) -> Self {
        let asks = |word: &Self| word.decision == Decision::Ask;
        let rank = |word: &Self| {
            (
                word.decision,
                asks(word) && word.unread,
                asks(word) && !word.edit,
            )
        };
        if rank(&other) > rank(&self) {
            other
        } else {
            self
        }
    }
}

/// Safety check, then permissions, then mode.
///
/// An *ask* stays an ask where `facts.interactive` is false: who has nobody to ask denies it, and says so.
/// The parts of a shell line are told after the mode, so that the whole is the strictest of them.
pub fn evaluate(policy: &Policy, mode: Mode, action: &Action, facts: &Facts) -> Verdict {
    let findings = safety::check(action, facts);
    let (word, mut parts) = permissions(policy, mode, action, facts);
    for finding in &findings {
        if let Some(part) = finding.part.and_then(|index| parts.get_mut(index))
            && finding.decision >= part.verdict.decision
        {
            part.verdict.decision = finding.decision;
            part.verdict.rule = Some(finding.id.to_owned());
            part.verdict.reason = finding.reason();
            part.once_only = true;
            part.about = About::finding(finding.id);
        }
    }
    let worst = findings.into_iter().reduce(|worst, next| {
        if next.decision > worst.decision {
            next
        } else {
            worst
        }
    });
    let about = About::of(&word);
    let (verdict, about) = match worst {
        // Where nobody answers, a safety ask denies; the safety check comes first and says why.
        Some(finding)
            if finding.decision >= word.decision || matches!(mode, Mode::Never | Mode::Bypass) =>
        {
            (from_finding(&finding), About::finding(finding.id))
        }
        _ => {
            let verdict = Verdict {
                decision: word.decision,
                stage: Stage::Permissions,
                rule: Some(word.rule),
                layer: word.layer,
                reason: word.reason,
                instead: word.instead,
                parts: Vec::new(),
                once_only: false,
            };
            (verdict, about)
        }
    };
    let mut verdict = under(mode, verdict, about);
    verdict.parts = parts.into_iter().map(|part| part.under(mode)).collect();
    verdict
}

fn from_finding(finding: &Finding) -> Verdict {
    Verdict {
        decision: finding.decision,
        stage: Stage::Safety,
        rule: Some(finding.id.to_owned()),
        layer: Some("safety".to_owned()),
        reason: finding.reason(),
        instead: finding.instead.map(str::to_owned),
        parts: Vec::new(),
        once_only: finding.decision == Decision::Ask,
    }
}

/// Rules and defaults, without mode: the word on the whole, and on each part of a shell line.
fn permissions(policy: &Policy, mode: Mode, action: &Action, facts: &Facts) -> (Word, Vec<Part>) {
    let mut whole: Option<Word> = None;
    let mut parts = Vec::new();
    let subjects = subject::of(action, policy, facts);
    let is_line = matches!(action, Action::Run(_));
    if is_line && subjects.len() > bounds::LINE_PARTS {
        return (too_many(policy, mode, facts, subjects.len()), parts);
    }
    for subject in &subjects {
        let said = speak::layers(policy, subject, facts);
        let word = built_in::judge(policy, subject, said, facts);
        if is_line && !matches!(subject.kind, subject::Kind::Plain) {
            parts.push(Part {
                verdict: PartVerdict {
                    part: subject.text.chars().take(200).collect(),
                    decision: word.decision,
                    rule: Some(word.rule.clone()),
                    reason: word.reason.clone(),
                },
                once_only: false,
                about: About::of(&word),
            });
        }
        whole = Some(match whole {
            Some(before) => before.or_stricter(word),
            None => word,
        });
    }
    let mut whole = whole.unwrap_or_else(built_in::contained);
    if let Action::AskPerson { .. } | Action::SubmitPlan { .. } = action
        && whole.decision != Decision::Deny
        && (mode == Mode::Never || !facts.interactive)
    {
        whole = Word::built_in(
            Decision::Deny,
            "nobody-to-ask",
            "nobody can be asked in this session",
        )
        .instead("decide by what is known, and say what was assumed");
    }
    (whole, parts)
}

/// A line of more parts than anyone reads fails closed.
fn too_many(policy: &Policy, mode: Mode, facts: &Facts, count: usize) -> Word {
    let deny_exists = policy
        .layers
        .iter()
        .flat_map(|layer| &layer.rules)
        .any(|rule| {
            rule.verdict == Decision::Deny && (rule.tool == "*" || rule.tool == Tool::Bash.as_str())
        });
    let closed = deny_exists || !facts.interactive || mode == Mode::Never;
    let decision = if closed {
        Decision::Deny
    } else {
        Decision::Ask
    };
    let reason = format!(
        "the line has {count} parts, and more than {} are not judged",
        bounds::LINE_PARTS
    );
    let mut word = Word::built_in(decision, "too-many-parts", reason)
        .instead("write a script into the workspace and run it, or send shorter lines");
    word.unread = true;
    word
}

#[cfg(test)]
mod tests;
