//! What the agent hears.

use serde::{Deserialize, Serialize};

use crate::{CallId, Hello, Inference, Message, call::Outcome};

/// Supervisor → worker's agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reply {
    /// The greeting's answer: everything the loop needs to know.
    Welcome(Box<Welcome>),
    /// Start a turn.
    Turn(TurnStart),
    /// A piece of a model's answer while it streams.
    Delta(Delta),
    /// A whole model answer; what streamed before is part of it.
    Inferred {
        /// [`crate::Infer::id`].
        id: u64,
        /// The answer.
        answer: Box<Inference>,
    },
    /// A model call failed; what streamed before is withdrawn.
    InferFailed(InferFailure),
    /// What became of one call of a batch.
    Outcome {
        /// The call.
        call: CallId,
        /// What became of it.
        outcome: Box<Outcome>,
    },
    /// Another mode is in force, or plan mode is over.
    Standing {
        /// The mode, as people write it.
        mode: String,
        /// The mode as the law reads it.
        law: serde_json::Value,
    },
    /// A message that the supervisor has recorded and added to the model call that is running.
    Context(Message),
    /// The person cancelled the turn: end it with a valid history.
    Cancel,
    /// The session is over: leave.
    Bye,
}

/// What the loop needs to know at start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The supervisor's greeting.
    pub hello: Hello,
    /// Workspace path as the session sees it.
    pub workspace: String,
    /// The mode in force, as people write it.
    pub mode: String,
    /// `PROVIDER/MODEL`.
    pub model: String,
    /// Context window in tokens.
    pub window: u32,
    /// Output limit in tokens.
    pub max_output: u32,
    /// Names of the tools that are enabled, sorted.
    pub tools: Vec<String>,
    /// Databases that run_sql can reach.
    pub databases: Vec<DatabaseInfo>,
    /// Whether a person can be asked.
    pub interactive: bool,
    /// Cap on iterations of a turn.
    pub iterations: u32,
    /// Cap on turns of the session.
    pub turns: u32,
    /// Turns already done.
    pub turns_done: u32,
    /// The conversation so far (resume), possibly with calls that have no result.
    pub history: Vec<Message>,
    /// Calls whose effect was in flight when the session was cut: told as unknown, never repeated.
    pub unknown: Vec<CallId>,
    /// The law as the worker may read it: JSON of `policies::Policy`'s worker view, for early refusals.
    pub law: serde_json::Value,
}

/// A declared database as the agent knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseInfo {
    /// Its name.
    pub name: String,
    /// Its tables, in the order of their creation.
    pub tables: Vec<String>,
    /// What the policy says of money columns ("Money is in cents (INTEGER)."), if anything.
    pub money: Option<String>,
}

/// A turn to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnStart {
    /// Its number, from 1.
    pub number: u32,
    /// The user's message; `None` continues a turn that was cut.
    pub text: Option<String>,
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// [`crate::Infer::id`].
    pub id: u64,
    /// Text to append.
    pub text: String,
}

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferFailure {
    /// [`crate::Infer::id`].
    pub id: u64,
    /// `client`, `context_too_long`, `authentication`, `rate_limit`, `quota`, `network`, `overload`,
    /// `refusal`, `budget`, `output_limit`, `stopped` (by a hook), `other`.
    pub class: String,
    /// Whether the loop may try again.
    pub retryable: bool,
    /// For people; never holds a key or an upstream body.
    pub message: String,
    /// The provider's advice in milliseconds.
    pub retry_after_ms: Option<u64>,
}
