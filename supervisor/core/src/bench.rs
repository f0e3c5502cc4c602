//! What a session keeps for its classifier: the user's own words and the calls so far, never what a
//! tool returned, and what the classifier said before.

use std::collections::VecDeque;

use policies::{
    Decision, Verdict,
    classify::{self, Answer, Asked, Before, Judge},
};
use protocol::{CallId, Digest, bounds};

use crate::{
    Entry,
    escape::cut,
    session::{Pending, PendingState},
};

/// Messages that are kept; the classifier is shown the newest.
const MESSAGES: usize = 64;
/// Bytes of one of them that are kept.
const MESSAGE: usize = 16 * 1024;
/// Calls that are kept.
const CALLS: usize = 64;
/// Bytes of one of them that are kept.
const CALL: usize = 1_024;

/// The classifier's side of a session.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    judge: Judge,
    said: VecDeque<String>,
    /// User messages so far: an answer holds until the user says something else.
    messages: u64,
    before: VecDeque<(CallId, Before)>,
    asked_in_turn: u32,
}

impl Bench {
    /// What the record has of it, entry by entry. Answers are not taken up again: a session that goes
    /// on asks anew.
    pub(crate) fn fold(&mut self, entry: &Entry) {
        match entry {
            Entry::TurnBegan {
                text: Some(text), ..
            } => self.hear(text),
            Entry::Verdict {
                call,
                tool,
                input,
                verdict,
                ..
            } => self.saw(call, tool, input, verdict.decision),
            Entry::Refused { call, .. } => {
                let mut calls = self.before.iter_mut().rev();
                if let Some((_, before)) = calls.find(|(id, _)| id == call) {
                    before.verdict = Decision::Deny;
                }
            }
            Entry::Intent { call, .. } => {
                let mut calls = self.before.iter_mut().rev();
                if let Some((_, before)) = calls.find(|(id, _)| id == call) {
                    before.verdict = Decision::Allow;
                }
            }
            _ => {}
        }
    }

    /// The user says something: whoever watches is here again.
    pub(crate) fn hear(&mut self, text: &str) {
        if self.said.len() == MESSAGES {
            self.said.pop_front();
        }
        self.said.push_back(cut(text, MESSAGE));
        self.messages += 1;
        self.judge.person_answered();
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.asked_in_turn = 0;
    }

    /// What became of a call.
    pub(crate) fn saw(
        &mut self,
        call: &CallId,
        tool: &str,
        input: &serde_json::Value,
        verdict: Decision,
    ) {
        if self.before.len() == CALLS {
            self.before.pop_front();
        }
        let before = Before {
            tool: cut(tool, 80),
            input: cut(&input.to_string(), CALL),
            verdict,
        };
        self.before.push_back((call.clone(), before));
    }

    /// A person answered.
    pub(crate) fn person_answered(&mut self) {
        self.judge.person_answered();
    }

    /// Counts a question of this turn.
    ///
    /// # Errors
    /// A sentence when the turn has asked often enough.
    pub(crate) fn count(&mut self) -> Result<(), String> {
        if self.asked_in_turn >= bounds::CLASSIFICATIONS {
            return Err(format!(
                "the classifier was asked {} times in this turn, the bound",
                bounds::CLASSIFICATIONS
            ));
        }
        self.asked_in_turn += 1;
        Ok(())
    }

    /// Whether it said no so often that people are asked from now on.
    pub(crate) fn is_spent(&self) -> bool {
        self.judge.is_spent()
    }

    /// Under which an answer is kept.
    pub(crate) fn key(
        &self,
        action: &Digest,
        workspace: &str,
        verdict: &Verdict,
        model: &str,
    ) -> Digest {
        let said = self.messages.to_be_bytes();
        let action = Digest::of_parts([action.as_str().as_bytes(), &[0], &said]);
        classify::key(&action, workspace, verdict, model)
    }

    /// An answer from before.
    pub(crate) fn known(&self, key: &Digest) -> Option<Answer> {
        self.judge.known(key).cloned()
    }

    /// Keeps an answer.
    pub(crate) fn note(&mut self, key: Digest, answer: &Answer) {
        self.judge.note(key, answer);
    }

    /// The question; `None` if the call is too large to be shown whole.
    pub(crate) fn request(
        &self,
        tool: &str,
        input: &str,
        reason: &str,
    ) -> Option<classify::Request> {
        let (messages, before): (Vec<_>, Vec<_>) = (
            self.said.iter().cloned().collect(),
            self.before
                .iter()
                .map(|(_, before)| before.clone())
                .collect(),
        );
        classify::request(&Asked {
            tool,
            input,
            reason,
            messages: &messages,
            before: &before,
        })
    }
}

/// How many questions to the classifier are open.
pub(crate) fn open<'a>(pending: impl Iterator<Item = &'a Pending>) -> usize {
    pending
        .filter(|pending| matches!(pending.state, PendingState::Judging(_)))
        .count()
}
