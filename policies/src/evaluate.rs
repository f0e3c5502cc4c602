//! The heart: an action and a policy make a verdict.

use crate::{Action, Decision, Facts, Mode, Policy, Stage, Verdict};

/// Safety check, then permissions, then mode.
pub fn evaluate(policy: &Policy, mode: Mode, action: &Action, facts: &Facts) -> Verdict {
    let _ = (policy, mode, action, facts);
    Verdict {
        decision: Decision::Deny,
        stage: Stage::Permissions,
        rule: None,
        layer: None,
        reason: "nothing is judged yet".to_owned(),
        instead: None,
        parts: Vec::new(),
        once_only: false,
    }
}
