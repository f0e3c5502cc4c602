//! Speaks to model vendors: pure wire mappings, and one file that does HTTP.
//!
//! [`Providers::infer`] spends a `Permit<Infer>`: it finds the provider's row, asks its circuit
//! breaker, encodes the request in the row's dialect, carries it (`http.rs` is the only file here that
//! opens a connection or shows a key), decodes the stream, tries again what is worth it, and goes along
//! the route that the permit names. Success is the dialect's terminal event, never the end of the body.
//!
//! | part | pure | what for |
//! | --- | --- | --- |
//! | [`dialect`] | yes | the wire grammars, from and to bytes |
//! | [`Script`] | yes | answers from a conversation file, without key or network |
//! | `classify`, [`InferError`] | yes | what a failure is, and whether trying again helps |
//! | [`Config`], [`Models`] | yes | rows, windows, prices; embedded, overridden by the operator |
//! | [`Vault`] | reads files | keys, lent only against a permit |
//! | [`Courier`] | no | what the supervisor says of itself, to its operator's collector |
//! | `http` | no | the wire; wants a tokio runtime with time and I/O |
//!
//! What is absent: the record, budgets, the choice of the model, and anything read from a workspace.

mod anthropic;
mod attempt;
mod auth;
mod bedrock;
mod breakers;
mod classify;
mod config;
mod courier;
pub mod dialect;
mod estimate;
mod failure;
mod gemini;
mod http;
mod keys;
mod limits;
mod models;
mod ollama;
mod openai;
mod retry;
mod route;
mod row;
mod script;
mod sse;

#[cfg(test)]
#[path = "../tests/support/faults.rs"]
mod faults;
#[cfg(test)]
mod tests;

pub use auth::{Aws, Credential, Entra, Google, Issuer, Session, SignIn};
pub use breakers::{BreakerChange, BreakerStore};
pub use classify::Upstream;
pub use config::{Config, ConfigFailure};
pub use courier::{Courier, Undelivered};
pub use dialect::{Attachment, Dialect, Kind, SoFar, Wish};
pub use failure::{Class, InferError};
pub use keys::{KeyFailure, KeyFile, KeySource, Vault, check_key};
pub use limits::{Limit, Limits, RowLimits};
pub use models::{Model, Models, Price, Rates};
pub use route::{Counted, Heard, Lent, OnHeard, Providers};
pub use row::{Auth, Route, Row, Speech};
pub use script::{Script, ScriptFailure};
