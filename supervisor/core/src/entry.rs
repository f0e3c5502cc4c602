//! What the record keeps: one enum, versioned by its tags, append-only. Session state is a fold of it.

use protocol::{
    CallId, CommandId, Digest, Exit, Message, Transition, TurnEnd, Usage, call::Refusal,
};
use serde::{Deserialize, Serialize};

use crate::{Certificate, breaker::Phase};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The certificate: first record of the audit chain.
    Certificate(Box<Certificate>),
    /// The session began.
    Started {
        /// The task.
        task: String,
        /// Workspace on the host.
        workspace: String,
        /// Policy name and digest.
        policy: String,
        /// Digest of the whole policy.
        policy_digest: Digest,
        /// Mode in force.
        mode: String,
        /// `PROVIDER/MODEL`.
        model: String,
        /// Everything that resume needs beyond the record (JSON of the provost's own session file).
        setup: serde_json::Value,
    },
    /// A turn began.
    TurnBegan {
        /// Its number.
        number: u32,
        /// The user's message; `None` if it continues a cut one.
        text: Option<String>,
    },
    /// A message was added to the history.
    Message {
        /// The message.
        message: Message,
    },
    /// A model call is about to be made.
    InferIntent {
        /// Its number.
        id: u64,
        /// Provider.
        provider: String,
        /// Model.
        model: String,
        /// Digest of the request.
        request: Digest,
        /// Permit serial.
        permit: u64,
    },
    /// One attempt of a model call failed.
    InferTried {
        /// The call's number.
        id: u64,
        /// The attempt.
        attempt: Attempt,
    },
    /// A provider's circuit breaker changed its state by what this session's call met.
    BreakerChanged {
        /// Whose.
        provider: String,
        /// From which state.
        from: Phase,
        /// To which.
        to: Phase,
    },
    /// A model call ended.
    InferOutcome {
        /// Its number.
        id: u64,
        /// Provider.
        provider: String,
        /// Model.
        model: String,
        /// Usage, of attempts that broke off too; empty where nothing was answered.
        usage: Usage,
        /// Millionths of a US dollar; `None` if the price is not known.
        #[serde(default)]
        micro_usd: Option<u64>,
        /// Whether usage and price are estimates: the call was cut before the provider told.
        #[serde(default)]
        estimated: bool,
        /// Error class, if it failed.
        error: Option<String>,
        /// Milliseconds.
        ms: u64,
    },
    /// A call was judged.
    Verdict {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Digest of tool and input.
        action: Digest,
        /// The input, cut for the record.
        input: serde_json::Value,
        /// The verdict.
        verdict: policies::Verdict,
    },
    /// A call was refused.
    Refused {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Why.
        refusal: Refusal,
    },
    /// The classifier is about to be asked.
    ClassifyIntent {
        /// The call.
        call: CallId,
        /// `PROVIDER/MODEL`.
        by: String,
        /// Digest of the request.
        request: Digest,
        /// Permit serial.
        permit: u64,
    },
    /// What the classifier said of a call: who decided an ask in mode `auto`.
    Classified {
        /// The call.
        call: CallId,
        /// `PROVIDER/MODEL`.
        by: String,
        /// Its answer.
        #[serde(flatten)]
        answer: policies::classify::Answer,
        /// Whether the answer is one from before, to the same call.
        cached: bool,
        /// Permit serial of the model call, if one was made for it.
        permit: Option<u64>,
        /// What the model call used, if it answered.
        usage: Option<Usage>,
        /// Millionths of a US dollar; `None` if the price is not known.
        micro_usd: Option<u64>,
        /// Milliseconds.
        ms: u64,
    },
    /// A person was asked.
    Asked {
        /// The call.
        call: CallId,
        /// Question id.
        question: u64,
        /// The action as shown.
        shown: String,
        /// The rule that asks.
        rule: Option<String>,
    },
    /// A person answered, or time did.
    Answered {
        /// The call.
        call: CallId,
        /// Question id.
        question: u64,
        /// `once`, `turn`, `session`, `instead`, `deny`, `timeout`, `nobody`, `cancelled`.
        answer: String,
        /// The message that came with it.
        message: Option<String>,
    },
    /// A hook is about to run.
    HookBegan {
        /// Numbers the run within its session.
        run: u64,
        /// `LAYER/ID`.
        hook: String,
        /// The event.
        event: String,
        /// The call that it is about.
        call: Option<CallId>,
        /// Permit serial.
        permit: u64,
    },
    /// A hook has ended.
    HookEnded {
        /// The run; 0 if none began.
        run: u64,
        /// `LAYER/ID`.
        hook: String,
        /// The event.
        event: String,
        /// The call that it is about.
        call: Option<CallId>,
        /// `passed`, `allow` (advice), `deny`, `rewrite`, `continue`, `failed`, `absent`, `cancelled`.
        outcome: String,
        /// Its reason, the new input, or why it failed.
        what: String,
        /// Milliseconds.
        ms: u64,
    },
    /// An effect is about to start.
    Intent {
        /// The call.
        call: CallId,
        /// `command`, `put`, `query`, `tables`, `kill`, `read`.
        effect: String,
        /// The command, if it is one.
        command: Option<CommandId>,
        /// What exactly (line digest, path, query digest), for people.
        what: String,
        /// Permit serial; 0 for a read that the agent does itself.
        permit: u64,
    },
    /// An effect ended.
    Outcome {
        /// The call.
        call: CallId,
        /// Whether it went well.
        ok: bool,
        /// For people: exit code, error, bytes.
        what: String,
        /// Milliseconds.
        ms: u64,
        /// Digest of a pre-image in the blob store.
        before: Option<Digest>,
        /// Digest of a spool in the blob store.
        spool: Option<Digest>,
        /// The file that it wrote; `before` is then what undo restores, and without it the file is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        written: Option<Written>,
    },
    /// An effect was in flight when a process died: its outcome is not known.
    Unknown {
        /// The call.
        call: CallId,
    },
    /// The loop moved.
    Transition(Transition),
    /// A turn ended.
    TurnEnded(TurnEnd),
    /// The worker broke the treaty.
    Fault {
        /// Which link.
        link: String,
        /// What it did.
        what: String,
    },
    /// A process of the session left.
    Left {
        /// `agent` or `hands`.
        who: String,
        /// How, if known.
        exit: Option<Exit>,
    },
    /// Another mode is in force, or plan mode is over.
    Mode {
        /// The mode before.
        from: policies::Mode,
        /// The mode now.
        to: policies::Mode,
        /// Whether plan mode is on.
        planning: bool,
        /// Who did it.
        by: String,
    },
    /// Something an operator should know (the rate of notes was cut, a layer is not held).
    Notice {
        /// The sentence.
        text: String,
    },
    /// The session's layer was applied, discarded, or written as a patch.
    Reviewed {
        /// `applied`, `discarded`, `patched`.
        what: String,
        /// Changes, or bytes of the patch.
        count: u64,
        /// Digest of what was reviewed.
        digest: Option<Digest>,
    },
    /// The session is taken up again.
    Resumed {
        /// Whether its former supervisor had died.
        after_crash: bool,
    },
    /// The session ended.
    Ended {
        /// `done`, `refused`, `fault`, `outage`, `cap`, `budget`, `cancelled`.
        outcome: String,
        /// For people.
        reason: String,
        /// Totals.
        usage: Usage,
        /// Calls made.
        calls: u64,
        /// Calls refused.
        refusals: u64,
    },
}

/// An attempt of a model call that failed, and what comes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1 over the whole call.
    pub number: u32,
    /// Who was asked.
    pub provider: String,
    /// For which model.
    pub model: String,
    /// What kind of failure; `breaker_open` if the provider was not touched.
    pub class: String,
    /// Which limit of time was reached, if it was one: `connect`, `first_byte`, `first_content`,
    /// `idle`, `slow`, `total`.
    #[serde(default)]
    pub limit: Option<String>,
    /// For people.
    pub message: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How long the next one waits, in milliseconds.
    pub wait_ms: u64,
    /// `PROVIDER/MODEL` of the next one; `None`: there is none, the call has failed.
    pub next: Option<String>,
}

/// A file that a tool wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its path as the session sees it.
    pub path: String,
    /// Digest of its new content.
    pub after: Digest,
}

impl Entry {
    /// The tag, as stored beside the body.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Certificate(_) => "certificate",
            Self::Started { .. } => "started",
            Self::TurnBegan { .. } => "turn_began",
            Self::Message { .. } => "message",
            Self::InferIntent { .. } => "infer_intent",
            Self::InferTried { .. } => "infer_tried",
            Self::BreakerChanged { .. } => "breaker_changed",
            Self::InferOutcome { .. } => "infer_outcome",
            Self::Verdict { .. } => "verdict",
            Self::Refused { .. } => "refused",
            Self::ClassifyIntent { .. } => "classify_intent",
            Self::Classified { .. } => "classified",
            Self::Asked { .. } => "asked",
            Self::Answered { .. } => "answered",
            Self::HookBegan { .. } => "hook_began",
            Self::HookEnded { .. } => "hook_ended",
            Self::Intent { .. } => "intent",
            Self::Outcome { .. } => "outcome",
            Self::Unknown { .. } => "unknown",
            Self::Transition(_) => "transition",
            Self::TurnEnded(_) => "turn_ended",
            Self::Fault { .. } => "fault",
            Self::Left { .. } => "left",
            Self::Mode { .. } => "mode",
            Self::Notice { .. } => "notice",
            Self::Reviewed { .. } => "reviewed",
            Self::Resumed { .. } => "resumed",
            Self::Ended { .. } => "ended",
        }
    }

    /// Whether it is a link of the session's audit chain; all entries are events as well.
    #[must_use]
    pub fn is_audit(&self) -> bool {
        !matches!(
            self,
            Self::Message { .. } | Self::Transition(_) | Self::TurnBegan { .. }
        )
    }

    /// Whether it must survive a power cut (synchronous=FULL) and not only a process's death.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(
            self,
            Self::Certificate(_)
                | Self::Answered { .. }
                | Self::Mode { .. }
                | Self::Reviewed { .. }
                | Self::Ended { .. }
        )
    }
}
