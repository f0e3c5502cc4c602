//! What the law says: allow, ask or deny, by which rule of which layer, and what would work instead.

use serde::{Deserialize, Serialize};

/// Ordered by strictness: the strictest is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may be done.
    Allow,
    /// A person decides.
    Ask,
    /// It may not be done.
    Deny,
}

impl Decision {
    /// The word of policies and outputs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Which stage decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The safety check: no mode, rule or grant lowers it.
    Safety,
    /// The rules of the layers, or the default when no rule spoke.
    Permissions,
    /// The mode turned an *ask* into something else.
    Mode,
}

/// What the law says about one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "a verdict that nobody reads decides nothing"]
pub struct Verdict {
    /// Allow, ask or deny.
    #[serde(rename = "verdict")]
    pub decision: Decision,
    /// Which stage decided.
    pub stage: Stage,
    /// The deciding rule's or detector's id; `default` when no rule spoke.
    pub rule: Option<String>,
    /// The deciding rule's layer (`safety`, `built-in`, `organisation`, `user`, `project`, `session`).
    pub layer: Option<String>,
    /// Why, as one sentence without a full stop.
    pub reason: String,
    /// What would work instead, if anything.
    pub instead: Option<String>,
    /// For a shell line: one verdict for each simple command and each redirection; empty otherwise.
    pub parts: Vec<PartVerdict>,
    /// Whether an *ask* may only be answered for this once (a safety ask): no scope, no classifier.
    #[serde(default)]
    pub once_only: bool,
}

/// The verdict on one simple command or redirection of a shell line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartVerdict {
    /// The part as written, cut to 200 characters.
    pub part: String,
    /// Allow, ask or deny.
    #[serde(rename = "verdict")]
    pub decision: Decision,
    /// The rule that said so.
    pub rule: Option<String>,
    /// Why.
    pub reason: String,
}
