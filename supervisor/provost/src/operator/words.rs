//! What is said on an operator's socket: one request, one answer, as frames of the treaty's form.
//!
//! A word without content is written `Word {}`: serde lets any field pass beside a bare one, whatever
//! `deny_unknown_fields` says, and an answer must not bring along what nobody asked.

use serde::{Deserialize, Serialize};

/// Operator → supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Ask {
    /// What is open?
    List {},
    /// Which mode is in force? With `to`, put another one in force.
    Mode {
        /// The mode that is wanted.
        to: Option<policies::Mode>,
        /// Whether it may be a raise.
        raise: bool,
    },
    /// An answer.
    Answer {
        /// The question.
        question: u64,
        /// The nonce that was shown with it.
        nonce: String,
        /// The answer.
        answer: Said,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Said {
    /// Yes, this call.
    Once {},
    /// Yes, this very action until the turn ends.
    Turn {},
    /// Yes, this very action until the session ends.
    Session {},
    /// Not this, but this input instead, once.
    Instead {
        /// The tool's input.
        input: serde_json::Value,
    },
    /// No.
    Deny {
        /// A word for the model.
        message: Option<String>,
    },
    /// Words, for a question of the model's own.
    Words {
        /// The words.
        text: String,
    },
}

/// Supervisor → operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Tell {
    /// What is open.
    Open {
        /// The form's version.
        v: u32,
        /// The session.
        session: String,
        /// The questions, the oldest first.
        questions: Vec<Shown>,
    },
    /// The mode in force.
    Mode {
        /// The mode.
        mode: policies::Mode,
        /// Whether plan mode is on.
        planning: bool,
    },
    /// The answer was taken.
    Taken {},
    /// It was not.
    Refused {
        /// Why, for people.
        why: String,
    },
}

/// A question as a person sees it; every text is escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shown {
    /// Its number within the session.
    pub(crate) question: u64,
    /// An answer must carry it.
    pub(crate) nonce: String,
    /// The call.
    pub(crate) call: String,
    /// The tool.
    pub(crate) tool: String,
    /// The action.
    pub(crate) action: String,
    /// What would change, for a file.
    pub(crate) preview: Option<String>,
    /// Why it is asked.
    pub(crate) reason: String,
    /// The rule that asks.
    pub(crate) rule: Option<String>,
    /// Whether only `once` is on offer.
    pub(crate) once_only: bool,
    /// What hooks say in favour; it decides nothing.
    #[serde(default)]
    pub(crate) advice: Vec<String>,
    /// Programs of the line that the answer does not cover.
    pub(crate) not_covered: Vec<String>,
    /// Answers on offer, for a question of the model's own; `None` for an approval.
    pub(crate) choices: Option<Vec<String>>,
    /// Seconds until silence is a no.
    pub(crate) seconds_left: u64,
}

/// Lines of a file that a prompt shows.
const PREVIEW: usize = 40;

impl Shown {
    /// The question as people read it, each line with a bar before it.
    pub(crate) fn text(&self) -> String {
        let title = if self.choices.is_some() {
            "the agent asks"
        } else if self.tool == "submit_plan" {
            "approve this plan?"
        } else {
            "approval needed"
        };
        let mut text = format!("  ── {title} · {} · call {}\n", self.tool, self.call);
        for line in self.action.lines() {
            text.push_str(&format!("  │ {line}\n"));
        }
        for (number, choice) in self.choices.iter().flatten().enumerate() {
            text.push_str(&format!("  {}. {choice}\n", number + 1));
        }
        if let Some(preview) = &self.preview {
            text.push_str("  │\n");
            for line in preview.lines().take(PREVIEW) {
                text.push_str(&format!("  │ + {line}\n"));
            }
            // What is not shown is said: nobody should believe that they saw all of it.
            let more = preview.lines().count().saturating_sub(PREVIEW);
            if more > 0 {
                text.push_str(&format!("  │ … {more} more line(s) are NOT shown here\n"));
            }
        }
        if supervisor_core::escape::mixes_alphabets(&self.action) {
            text.push_str("  ! letters of different alphabets stand in one word: look twice\n");
        }
        if !self.not_covered.is_empty() {
            let names = self.not_covered.join(", ");
            text.push_str(&format!(
                "  ! content not covered, the session can change it: {names}\n"
            ));
        }
        for advice in &self.advice {
            text.push_str(&format!("  · {advice} (advice only)\n"));
        }
        text.push_str(&format!("  why: {}", self.reason));
        if let Some(rule) = &self.rule {
            text.push_str(&format!(" (rule {rule})"));
        }
        text.push_str(&format!("\n  nonce {}", self.nonce));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_lets_a_strange_field_pass() {
        for word in ["once", "turn", "session"] {
            let plain = format!("{{\"say\":\"{word}\"}}");
            serde_json::from_str::<Said>(&plain).expect(word);
            let more = format!("{{\"say\":\"{word}\",\"mode\":\"bypass\"}}");
            serde_json::from_str::<Said>(&more).expect_err(word);
        }
        serde_json::from_str::<Ask>("{\"ask\":\"list\"}").expect("plain");
        serde_json::from_str::<Ask>("{\"ask\":\"list\",\"all\":true}").expect_err("more");
    }
}
