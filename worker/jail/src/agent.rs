//! The agent's walls, which it raises around itself first thing.

use std::io;

use nix::{sys::prctl, unistd::Pid};
use protocol::SessionId;

use crate::{Unfit, calls, domain, filter, unfit::Step as _};

/// The role's argument: what it may read, the pretended ABI, and the session that it greets in.
pub(crate) fn encode(
    read: &[String],
    pretend_abi: Option<u32>,
    session: &SessionId,
) -> io::Result<String> {
    serde_json::to_string(&(read, pretend_abi, session)).map_err(Into::into)
}

/// Raises the agent's walls around the current process: `walls` is the role's argument, which
/// [`crate::Hands::start_agent`] wrote. The agent's first act, while it is single-threaded; from
/// then on it reads what the spec lists, and there is nothing else that it can do. Answers with the
/// session that it serves.
///
/// # Errors
/// [`Unfit`] names the wall that could not be raised.
pub fn confine_agent(walls: &str) -> Result<SessionId, Unfit> {
    let (read, pretend, session): (Vec<String>, Option<u32>, SessionId) =
        serde_json::from_str(walls)
            .map_err(|_| Unfit::new("confine the agent", "its argument is not a list of walls"))?;
    enter_domain(&read, pretend)?;
    enter_filter()?;
    Ok(session)
}

/// The Landlock half.
pub(crate) fn enter_domain(read: &[String], pretend: Option<u32>) -> Result<(), Unfit> {
    prctl::set_no_new_privs().step("set no_new_privs")?;
    let kernel = domain::kernel(pretend)?;
    let read: Vec<&str> = read.iter().map(String::as_str).collect();
    domain::enter(kernel, &domain::read(&read))
        .map_err(|failure| Unfit::new("confine the agent", failure.to_string()))
}

/// The seccomp half, for the current process alone.
pub(crate) fn enter_filter() -> Result<(), Unfit> {
    filter::install(&calls::agent(Pid::this().as_raw()))
        .map_err(|failure| Unfit::new("confine the agent", failure.to_string()))
}
