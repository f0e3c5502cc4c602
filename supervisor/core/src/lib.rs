//! Decides. [`step`](step::step) takes a session, a message and the time, and answers with the session,
//! what must be recorded, and the effects to start, each owning the [`Permit`] that allows it.
//!
//! The order of the gate: phase → normalise → safety → permissions → mode (a person) → bounds → permit;
//! for a model call: phase → route → budget → breaker → permit. Cheap and structural checks come first,
//! stateful ones last; each stage can only refuse.
//!
//! What is absent: async, clock, file, socket, randomness, `unsafe`. Time is a [`Tick`], passed in.

mod bench;
pub mod breaker;
pub mod budget;
mod certificate;
mod effect;
mod entry;
pub mod escape;
mod gate;
mod hook;
mod mask;
mod permit;
mod secret;
mod session;
mod step;

pub use certificate::{Certificate, Container, RightState};
pub use effect::{Bill, Effect, EffectOutcome, Question, QuestionAnswer, Scope, ViewEvent};
pub use entry::{Attempt, Entry, Written};
pub use hook::HookEnd;
pub use mask::{MASKED, MaskStream, Masker};
pub use permit::{
    AskPerson, Infer, KillJob, ListTables, ModelName, Permit, PutFile, QueryDatabase, RunCommand,
    RunHook,
};
pub use secret::Secret;
pub use session::{By, Config, End, Message, Session, Totals, standing};
pub use step::{Step, end_of, step};

/// Milliseconds since the session began, so that a replay has the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

impl Tick {
    /// This tick and `ms` milliseconds more.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}
