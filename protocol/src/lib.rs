//! The treaty: everything that the supervisor and the worker may say to each other.
//!
//! Two links run between the houses. On the **agent link** the worker's brain says [`Request`]s and
//! hears [`Reply`]s; on the **hands link** the supervisor says [`Order`]s and hears [`Report`]s. A
//! third pair, [`reader::Errand`] and [`reader::Finding`], is spoken with a `reader`, the role that
//! reads or applies what crosses a jail's edge. All are JSON in length-prefixed frames ([`frame`]).
//!
//! | phase ([`phase`]) | the agent may say | hands may say |
//! | --- | --- | --- |
//! | greeting | `hello`, once | `hello`, once |
//! | idle | nothing but `note` | `ready` once, then answers to orders |
//! | turn | `infer`, `calls`, `settled`, `append`, `transition`, `note`, `turn_ended` | answers to orders |
//! | ended | nothing | nothing |
//!
//! What is absent: no I/O, no clock, no policy. Unknown fields and unknown tags are refused; a frame
//! that does not decode, or a message that its phase does not permit, is a *fault*: it ends the
//! session, because no honest worker sends it.

pub mod bounds;
pub mod call;
mod digest;
pub mod escape;
pub mod frame;
mod ids;
pub mod jail;
mod message;
mod order;
pub mod phase;
pub mod reader;
mod reply;
mod report;
mod request;
mod rights;
mod version;

pub use digest::Digest;
pub use ids::{CallId, CommandId, Malformed, SessionId};
pub use message::{Inference, Message, Part, Role, StopReason, ToolSpec, Usage};
pub use order::{CommandLimits, Order, Put, Spawn};
pub use reply::{DatabaseInfo, Delta, InferFailure, Reply, TurnStart, Welcome};
pub use report::{Entry, EntryKind, Exit, Failure, FailureClass, PutDone, Report, Resolved};
pub use request::{Infer, Note, Request, Settled, Transition, TransitionKind, TurnEnd, TurnReason};
pub use rights::{Backend, Floor, Probe, ProbeDomain, Right, State};
pub use version::{BUILD, Hello, Mismatch, PROTOCOL_VERSION, ROLE_AGENT, ROLE_HANDS, ROLE_READER};
