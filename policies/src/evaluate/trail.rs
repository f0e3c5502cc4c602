//! The way to a verdict: every detector, rule and default that spoke, in the order in which they count.

use serde::{Deserialize, Serialize};

use super::{built_in, pattern, speak, subject};
use crate::{Action, Decision, Facts, Mode, Policy, Stage, safety};

/// One who spoke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// In which stage.
    pub stage: Stage,
    /// About which part of the action, cut to 200 characters.
    pub about: String,
    /// The layer; `None` for the default and the mode.
    pub layer: Option<String>,
    /// The detector, rule or default.
    pub rule: String,
    /// File and line of a rule.
    pub at: Option<String>,
    /// What it says.
    pub verdict: Decision,
    /// Why.
    pub reason: String,
    /// Whether it is certain that the rule is about this, or only possible.
    pub sure: bool,
}

/// Steps that a trail holds at most.
const STEPS: usize = 200;

/// Everybody who spoke of an action, at most 200.
#[must_use]
pub fn trail(policy: &Policy, mode: Mode, action: &Action, facts: &Facts) -> Vec<Step> {
    let mut steps: Vec<Step> = safety::check(action, facts)
        .into_iter()
        .map(|finding| Step {
            stage: Stage::Safety,
            about: finding.object.clone(),
            layer: Some("safety".to_owned()),
            rule: finding.id.to_owned(),
            at: None,
            verdict: finding.decision,
            reason: finding.reason(),
            sure: true,
        })
        .collect();
    for subject in subject::of(action, policy, facts) {
        let about: String = subject.text.chars().take(200).collect();
        for layer in &policy.layers {
            for rule in &layer.rules {
                let hits = pattern::hits(rule, &subject, facts);
                let Some(best) = hits.iter().max_by_key(|hit| hit.sure) else {
                    continue;
                };
                steps.push(Step {
                    stage: Stage::Permissions,
                    about: about.clone(),
                    layer: Some(layer.name.as_str().to_owned()),
                    rule: rule.id.clone(),
                    at: Some(rule.at.clone()),
                    verdict: rule.verdict,
                    reason: rule.reason.clone(),
                    sure: best.sure,
                });
            }
        }
        let said = speak::layers(policy, &subject, facts);
        let word = built_in::judge(policy, &subject, said, facts);
        steps.push(Step {
            stage: Stage::Permissions,
            about,
            layer: word.layer.clone(),
            at: word
                .layer
                .as_deref()
                .and_then(|layer| policy.rule(layer, &word.rule))
                .map(|rule| rule.at.clone()),
            rule: word.rule,
            verdict: word.decision,
            reason: word.reason,
            sure: true,
        });
    }
    let verdict = super::evaluate(policy, mode, action, facts);
    steps.truncate(STEPS);
    steps.push(Step {
        stage: Stage::Mode,
        about: String::new(),
        layer: None,
        rule: mode.as_str().to_owned(),
        at: None,
        verdict: verdict.decision,
        reason: mode.describe(),
        sure: true,
    });
    steps
}

/// How the box holds what the verdict says, whatever the process does that was allowed: one line for
/// each wall.
#[must_use]
pub fn enforcement(policy: &Policy, action: &Action) -> Vec<String> {
    let settings = &policy.settings;
    let backend = settings.confinement.backend.as_str();
    let mut lines = Vec::new();
    match action {
        Action::Run(_) => {
            lines.push(format!(
                "the {backend} backend starts it in a domain of its own: it writes below the workspace of the session, HOME and /tmp, and nowhere else"
            ));
            lines.push(match settings.network.allow.len() {
                0 => "no host is allowed: it has no network at all".to_owned(),
                count => format!("{count} host pattern(s) are allowed; no other host is reachable"),
            });
            lines.push(format!(
                "bounds: {} MiB of memory, {} processes, {} s for the session",
                settings.limits.memory / (1024 * 1024),
                settings.limits.processes,
                settings.limits.wall
            ));
        }
        Action::File(access) => {
            lines.push(match access.verb {
                crate::FileVerb::Read => {
                    "the agent reads it itself, in a read-only view; what is not in the view cannot be opened".to_owned()
                }
                crate::FileVerb::Write => {
                    "hands write it below the workspace, through a handle that no link leads out of".to_owned()
                }
            });
            lines.push("a protected name is taken into the folder only by its digest, by a person (`provost apply`)".to_owned());
        }
        Action::Query { .. } | Action::ListTables => {
            lines.push("the reader opens the database read-only, in a jail of its own; an authorizer refuses what is not a read of a declared table".to_owned());
        }
        Action::AskPerson { .. } => {
            lines.push("the supervisor asks; the agent cannot answer".to_owned())
        }
        Action::SubmitPlan { .. } => {
            lines.push(
                "the supervisor puts it to a person, whose yes alone ends plan mode".to_owned(),
            );
        }
        Action::Job { .. } => {
            lines.push("the supervisor knows the jobs of this session and no others".to_owned())
        }
    }
    if !settings.filesystem.hide.is_empty() {
        lines.push(format!(
            "not in the view: {}",
            settings.filesystem.hide.join(", ")
        ));
    }
    let soft: Vec<&str> = settings
        .confinement
        .rights
        .iter()
        .filter(|(_, floor)| **floor != protocol::Floor::Required)
        .map(|(right, _)| right.as_str())
        .collect();
    if !soft.is_empty() {
        lines.push(format!("not insisted on: {}", soft.join(", ")));
    }
    lines
}
