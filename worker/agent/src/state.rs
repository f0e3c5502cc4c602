//! What the machine knows: the session's set-up, its history, and where its turn stands.

use protocol::{Message, ToolSpec};

use crate::{calls::Running, progress::Progress};

/// What the loop is told once, at the greeting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The system prompt, the same bytes for every call of the session.
    pub system: String,
    /// The tools on offer, in a stable order.
    pub tools: Vec<ToolFacts>,
    /// Output limit in tokens.
    pub max_output: u32,
    /// Cap on iterations of a turn.
    pub iterations: u32,
    /// Cap on turns of the session.
    pub turns: u32,
    /// Turns already done.
    pub turns_done: u32,
    /// The conversation so far; repaired when the machine is made.
    pub history: Vec<Message>,
    /// Calls whose effect was in flight when the session was cut.
    pub unknown: Vec<protocol::CallId>,
    /// Seed of the jitter.
    pub seed: u64,
}

/// A tool as the loop needs to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFacts {
    /// What the model is shown.
    pub spec: ToolSpec,
    /// Whether asking it again and again with the same answer is waiting, not spinning.
    pub waits: bool,
}

/// The machine's state.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) setup: Setup,
    pub(crate) history: Vec<Message>,
    pub(crate) turns_done: u32,
    /// The number of the turn that ran last in this process; none has 0.
    pub(crate) last_turn: u32,
    pub(crate) next_infer: u64,
    pub(crate) seed: u64,
    pub(crate) turn: Turn,
    pub(crate) at: At,
}

/// Where the machine stands, with what it holds there.
#[derive(Debug, Clone)]
pub(crate) enum At {
    Idle,
    Inferring { id: u64 },
    Waiting,
    Preparing { running: Running },
    Running { running: Running, cancelled: bool },
}

/// Where the machine stands, for whoever drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No turn runs.
    Idle,
    /// A model call is out.
    Inferring,
    /// A backoff runs.
    Waiting,
    /// The calls of an answer are being prepared.
    Preparing,
    /// A batch is out.
    Running,
}

/// Counters of one turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    pub(crate) iteration: u32,
    pub(crate) tools_used: bool,
    /// Each limit has a counter of its own.
    pub(crate) nudges: u32,
    pub(crate) resumes: u32,
    pub(crate) recoveries: u32,
    pub(crate) empties: u32,
    pub(crate) invalid_rounds: u32,
    pub(crate) progress: Progress,
    pub(crate) last_text: String,
}

impl State {
    /// The phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.at {
            At::Idle => Phase::Idle,
            At::Inferring { .. } => Phase::Inferring,
            At::Waiting => Phase::Waiting,
            At::Preparing { .. } => Phase::Preparing,
            At::Running { .. } => Phase::Running,
        }
    }

    /// The history as the next model call would see it.
    #[must_use]
    pub fn history(&self) -> &[Message] {
        &self.history
    }

    /// Iterations of the running or the last turn.
    #[must_use]
    pub fn iteration(&self) -> u32 {
        self.turn.iteration
    }
}
