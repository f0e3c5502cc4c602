//! What the agent may say. Every effect is a request; the rest are bounded notes.

use serde::{Deserialize, Serialize};

use crate::{CallId, Hello, Message, ToolSpec, call::Call};

/// Worker's agent → supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The greeting, first and once.
    Hello(Hello),
    /// Ask the model.
    Infer(Infer),
    /// Ask for a batch of tool calls, at most [`crate::bounds::BATCH`].
    Calls {
        /// The calls, in model order.
        calls: Vec<Call>,
    },
    /// How an allowed read went.
    Settled(Settled),
    /// A message to keep in the history: tool results and the loop's own notes (role user only).
    Append(Message),
    /// One transition of the loop, for the record.
    Transition(Transition),
    /// Progress or a log line; bounded, never trusted.
    Note(Note),
    /// The turn is over.
    TurnEnded(TurnEnd),
}

/// One model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Infer {
    /// Numbers the call within its session; answers carry it.
    pub id: u64,
    /// System prompt.
    pub system: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Output limit in tokens.
    pub max_output: u32,
}

/// How an allowed read went in the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// The call.
    pub call: CallId,
    /// Whether it gave a result.
    pub ok: bool,
    /// Bytes of the result.
    pub bytes: u64,
    /// Milliseconds.
    pub ms: u64,
}

/// What kind of transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionKind {
    /// The loop goes on.
    Continue,
    /// The loop goes on after something went wrong.
    ContinueWithRecovery,
    /// The turn ends.
    Terminate,
}

/// One transition of the loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// Iteration, from 1.
    pub iteration: u32,
    /// What kind. The record's own tag is `kind`, so it cannot be that on the wire.
    #[serde(rename = "transition")]
    pub kind: TransitionKind,
    /// A word from the loop's closed list, at most 64 bytes.
    pub reason: String,
}

/// Something to show or log; the worker's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Note {
    /// Progress of a call, in percent: 0 resolve, 20 pre-hooks, 25 safety, 33 permissions, 66 call,
    /// 90 post-hooks, 100 done.
    Progress {
        /// The call.
        call: CallId,
        /// 0 to 100.
        percent: u8,
    },
    /// A log line, at most 2 KiB.
    Log {
        /// The line.
        text: String,
    },
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnReason {
    /// The model was done.
    Done,
    /// The cap on iterations.
    MaxIterationsReached,
    /// The cap on turns.
    MaxTurnsReached,
    /// A hook or the supervisor stopped it.
    Stopped,
    /// The person cancelled.
    Cancelled,
    /// The model or its provider failed for good.
    ModelFailed,
    /// A budget was reached.
    BudgetReached,
    /// The same call gave the same result again and again.
    NoProgress,
    /// The context is full and could not be made smaller.
    ContextFull,
    /// The provider refused or filtered the answer.
    Filtered,
    /// The loop itself failed.
    Bug,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnEnd {
    /// Why.
    pub reason: TurnReason,
    /// The last text of the model.
    pub text: String,
    /// A sentence for people when the reason needs one.
    pub detail: Option<String>,
}
