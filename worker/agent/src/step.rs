//! The machine's one door: what happened, and what is to be done about it.

use protocol::{CallId, Infer, InferFailure, Inference, Message, Transition, TurnEnd, TurnStart};

use crate::{
    Readiness, Requested, Setup, State, answer, calls, history, recovery, repair,
    state::{At, Turn},
    turn,
};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A turn is to run.
    Turn(TurnStart),
    /// The model answered.
    Inferred {
        /// [`Infer::id`].
        id: u64,
        /// The answer.
        answer: Box<Inference>,
    },
    /// The model call failed.
    InferFailed(InferFailure),
    /// The calls of [`Intent::Prepare`] were looked at, one readiness for each, in order.
    Prepared(Vec<Readiness>),
    /// The batch of [`Intent::Run`] is over. A call without a result is told as unknown.
    Results(Vec<CallResult>),
    /// The supervisor has recorded a message and added it to the model call that is running.
    Context(Message),
    /// The time of [`Intent::Wait`] is over.
    Waited,
    /// The person cancelled.
    Cancel,
}

/// How one call ended, as the model will read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The call.
    pub id: CallId,
    /// The result, already wrapped.
    pub content: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// The result without what differs each time (durations): equal essence is equal result.
    pub essence: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// Keep a message (results, or a note of the loop).
    Append(Message),
    /// Record a transition.
    Transition(Transition),
    /// Ask the model; answer with `Inferred` or `InferFailed`.
    Infer(Box<Infer>),
    /// Find each call's tool and check its input; answer with `Prepared`.
    Prepare(Vec<Requested>),
    /// Run these calls together; answer with `Results`.
    Run(Vec<Requested>),
    /// Wait; answer with `Waited`.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// The turn is over.
    TurnEnded(TurnEnd),
}

impl State {
    /// The machine at the greeting: the history is repaired, and what was repaired at its end is to
    /// be appended to the record.
    #[must_use]
    pub fn new(mut setup: Setup) -> (Self, Vec<Intent>) {
        let (history, notes) = repair(std::mem::take(&mut setup.history), &setup.unknown);
        let state = Self {
            history,
            turns_done: setup.turns_done,
            last_turn: 0,
            next_infer: 1,
            seed: setup.seed,
            turn: Turn::default(),
            at: At::Idle,
            setup,
        };
        (state, notes.into_iter().map(Intent::Append).collect())
    }
}

/// Takes one event. Events that come late (an answer after a cancel) or out of place change nothing.
#[must_use]
pub fn step(mut state: State, event: Event) -> (State, Vec<Intent>) {
    let mut out = Vec::new();
    let at = std::mem::replace(&mut state.at, At::Idle);
    match (at, event) {
        (At::Idle, Event::Turn(start)) => turn::begin(&mut state, start, &mut out),
        (At::Inferring { id }, Event::Inferred { id: of, answer }) if id == of => {
            answer::take(&mut state, *answer, &mut out);
        }
        (At::Inferring { id }, Event::InferFailed(failure)) if id == failure.id => {
            recovery::take(&mut state, &failure, &mut out);
        }
        (At::Inferring { id }, Event::Context(message)) => {
            history::push(&mut state.history, message);
            state.at = At::Inferring { id };
        }
        (At::Waiting, Event::Waited) => turn::iterate(&mut state, &mut out),
        (At::Preparing { running }, Event::Prepared(ready)) => {
            calls::prepared(&mut state, running, ready, &mut out);
        }
        (At::Running { running, cancelled }, Event::Results(results)) => {
            calls::settled(&mut state, running, results, cancelled, &mut out);
        }
        (At::Inferring { .. } | At::Waiting, Event::Cancel) => {
            turn::cancelled(&mut state, &mut out);
        }
        (At::Preparing { running }, Event::Cancel) => {
            calls::cancelled(&mut state, running, &mut out);
        }
        // What the batch already did must be told: its results are awaited, nothing new is started.
        (At::Running { running, .. }, Event::Cancel) => {
            state.at = At::Running {
                running,
                cancelled: true,
            };
        }
        (at, _) => state.at = at,
    }
    (state, out)
}
