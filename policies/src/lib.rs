//! The law: pure code that reads a call, and the rule files that it judges by.
//!
//! [`normalise`](normalise::normalise) turns a tool call into an [`Action`]; [`evaluate`](evaluate::evaluate)
//! turns an action into a [`Verdict`]: safety check, then permissions (the strictest over all layers),
//! then the mode. The same code runs in the worker (a courtesy: early refusal) and in the supervisor
//! (the reading that counts). What is absent: I/O, clock, randomness, knowledge of either house.

mod action;
pub mod address;
pub mod cases;
pub mod classify;
pub mod compare;
pub mod evaluate;
mod glob;
mod hook;
pub mod import;
mod mode;
pub mod normalise;
pub mod parse;
mod path;
mod policy;
pub mod project;
mod protected;
mod resolve;
pub mod safety;
pub mod shell;
pub mod sql;
pub mod suggest;
pub mod tools;
mod verdict;

pub use action::{Action, Facts, FileAccess, FileVerb, Malformed, Run};
pub use hook::{Hook, HookEvent};
pub use mode::{Category, Granular, Mode, Switch};
pub use path::{Place, ViewPath};
pub use policy::{
    Backend, Budget, CommandPattern, Confinement, Database, Examples, Filesystem, Layer, LayerName,
    Limits, Models, Network, Policy, Rule, Settings, WorkspaceMode,
};
pub use protected::protected;
pub use verdict::{Decision, PartVerdict, Stage, Verdict};
