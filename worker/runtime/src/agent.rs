//! The role agent: confines itself, greets, and runs the loop over its link until the link ends.

mod calls;
mod link;
mod session;
mod turn;

use std::{
    fs::File,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    process::ExitCode,
};

use link::Lost;

/// Runs the agent. Its argument is the list of its walls, as hands wrote it.
pub(crate) fn run() -> ExitCode {
    let walls = std::env::args().nth(2).unwrap_or_default();
    // The link is taken first: behind the walls no descriptor can be moved.
    let Ok(link) = worker_jail::agent_link() else {
        return ExitCode::from(crate::BUG);
    };
    let Ok(session) = worker_jail::confine_agent(&walls) else {
        return ExitCode::from(crate::UNFIT);
    };
    // Read and written as a file: the filter leaves no call that only sockets have.
    match session::serve(File::from(link), session, seed()) {
        Ok(()) | Err(Lost::Closed) => ExitCode::SUCCESS,
        Err(Lost::Fault(_) | Lost::Stranger(_) | Lost::Broken(_)) => ExitCode::from(crate::FAULT),
    }
}

/// For the jitter of backoffs alone; no secret hangs on it.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
