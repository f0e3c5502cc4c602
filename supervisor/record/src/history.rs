//! A session as a fold of its entries: what resume and `sessions show` need.

use protocol::{CallId, Digest, Message, TurnEnd, Usage};
use supervisor_core::{Certificate, Entry};

use crate::Stored;
use crate::orphan::in_flight;

/// What a session began with.
#[derive(Debug, Clone, PartialEq)]
pub struct Begun {
    /// The task.
    pub task: String,
    /// Workspace on the host.
    pub workspace: String,
    /// Policy name.
    pub policy: String,
    /// Digest of the whole policy.
    pub policy_digest: Digest,
    /// Mode.
    pub mode: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// What else resume needs, as the supervisor wrote it.
    pub setup: serde_json::Value,
}

/// A session so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// What it began with; the last time, if it was resumed with other settings.
    pub begun: Option<Begun>,
    /// The last certificate.
    pub certificate: Option<Certificate>,
    /// The conversation, calls without a result included.
    pub messages: Vec<Message>,
    /// Turns begun.
    pub turns: u32,
    /// Whether the last of them has not ended.
    pub open_turn: bool,
    /// The end of the last turn that ended.
    pub last_turn: Option<TurnEnd>,
    /// Calls whose outcome is not known.
    pub unknown: Vec<CallId>,
    /// Calls with an intent and neither outcome nor mark: in flight now, or cut and not yet marked.
    pub in_flight: Vec<CallId>,
    /// Tokens used.
    pub usage: Usage,
    /// Model calls made.
    pub infers: u64,
    /// The highest number of a model call.
    pub last_infer: u64,
    /// Tool calls judged.
    pub calls: u64,
    /// Tool calls refused.
    pub refusals: u64,
    /// Outcome and reason, if it ended and was not resumed.
    pub ended: Option<(String, String)>,
    /// Whether the session's layer was applied or discarded.
    pub reviewed: Option<String>,
    /// Records that were damaged, as they are told.
    pub damaged: Vec<String>,
}

/// Folds a session's entries.
#[must_use]
pub fn history(stored: &[Stored]) -> History {
    let mut history = History::default();
    for stored in stored {
        history.add(&stored.entry);
    }
    let (calls, _) = in_flight(stored.iter().map(|stored| &stored.entry));
    history.in_flight = calls.into_iter().collect();
    history
}

impl History {
    fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::Certificate(certificate) => self.certificate = Some((**certificate).clone()),
            Entry::Started {
                task,
                workspace,
                policy,
                policy_digest,
                mode,
                model,
                setup,
            } => {
                self.begun = Some(Begun {
                    task: task.clone(),
                    workspace: workspace.clone(),
                    policy: policy.clone(),
                    policy_digest: policy_digest.clone(),
                    mode: mode.clone(),
                    model: model.clone(),
                    setup: setup.clone(),
                });
            }
            Entry::TurnBegan { number, .. } => {
                self.turns = self.turns.max(*number);
                self.open_turn = true;
            }
            Entry::Message { message } => self.messages.push(message.clone()),
            Entry::TurnEnded(end) => {
                self.open_turn = false;
                self.last_turn = Some(end.clone());
            }
            Entry::InferIntent { id, .. } => self.last_infer = self.last_infer.max(*id),
            Entry::InferOutcome { id, usage, .. } => {
                self.last_infer = self.last_infer.max(*id);
                self.infers += 1;
                self.usage = self.usage.plus(*usage);
            }
            Entry::Classified {
                usage: Some(usage), ..
            } => {
                self.infers += 1;
                self.usage = self.usage.plus(*usage);
            }
            Entry::Verdict { .. } => self.calls += 1,
            Entry::Refused { .. } => self.refusals += 1,
            Entry::Unknown { call } if !self.unknown.contains(call) => {
                self.unknown.push(call.clone());
            }
            Entry::Ended {
                outcome, reason, ..
            } => {
                self.ended = Some((outcome.clone(), reason.clone()));
            }
            Entry::Resumed { .. } => self.ended = None,
            Entry::Reviewed { what, .. } if what != "patched" => self.reviewed = Some(what.clone()),
            Entry::Notice { text } if text.contains("is damaged and was left out") => {
                self.damaged.push(text.clone());
            }
            Entry::Unknown { .. }
            | Entry::Reviewed { .. }
            | Entry::Notice { .. }
            | Entry::ClassifyIntent { .. }
            | Entry::Mode { .. }
            | Entry::Classified { .. }
            | Entry::Asked { .. }
            | Entry::Answered { .. }
            | Entry::HookBegan { .. }
            | Entry::HookEnded { .. }
            | Entry::Intent { .. }
            | Entry::Outcome { .. }
            | Entry::Transition(_)
            | Entry::InferTried { .. }
            | Entry::BreakerChanged { .. }
            | Entry::Fault { .. }
            | Entry::Left { .. } => {}
        }
    }
}
