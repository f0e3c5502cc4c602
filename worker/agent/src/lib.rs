//! Thinks: the turn loop as a pure machine, [`step`]`(state, event) -> (state, intents)`.
//!
//! ```text
//!            Turn            Inferred (calls)      Prepared           Results (last batch)
//!   idle ───────────► inferring ──────────► preparing ──────► running ──────┐
//!    ▲                 ▲  │ InferFailed                        ▲  │ Results │
//!    │                 │  ▼                                    └──┘         │
//!    │                 │ waiting (backoff)                                  │
//!    │                 └──────────────────── next iteration ◄───────────────┘
//!    └── TurnEnded: from anywhere, always with a reason of the closed list [`Reason`]
//! ```
//!
//! INVARIANT: whenever the machine is idle or inferring, each tool call of its history has exactly
//! one result, in the message that follows the call.
//!
//! What is absent: I/O, a clock, randomness (a seed is passed in), tools, policy. Whoever drives the
//! machine carries the [`Intent`]s out and answers with [`Event`]s.

mod answer;
mod calls;
mod history;
mod nudge;
mod progress;
mod prompt;
mod reason;
mod recovery;
mod repair;
mod state;
mod step;
mod turn;
mod wrap;

pub use calls::{Readiness, Requested, partition};
pub use nudge::announces_next_step;
pub use prompt::{Instructions, Stage, system_prompt};
pub use reason::Reason;
pub use repair::repair;
pub use state::{Phase, Setup, State, ToolFacts};
pub use step::{CallResult, Event, Intent, step};
pub use wrap::{instruction_marker, wrap};

#[cfg(test)]
mod tests;
