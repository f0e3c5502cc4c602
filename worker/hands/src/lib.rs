//! Pid 1 of the jail: ACTS on the supervisor's orders and on nothing else.
//!
//! | order | what hands does |
//! | --- | --- |
//! | start agent | gives the agent link away and watches the process |
//! | spawn, probe, kill | through `worker_jail`: wardens, domains, tripwires |
//! | resolve | tells what a path is, beneath the workspace root |
//! | put | changes a file by exchange; the old content goes up a pipe |
//! | end | ends everything and leaves |
//!
//! What is absent: policy, secrets, model output, the network. Taken over, hands has the session's
//! ceiling and nothing more; its reports explain and never raise authority.

mod beneath;
mod greeting;
mod link;
mod preimage;
mod put;
mod resolve;
mod serve;

pub use greeting::{greet, say};
pub use link::LinkFault;
pub use serve::{ServeError, serve};

#[cfg(test)]
mod tests;
