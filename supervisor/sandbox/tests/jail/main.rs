//! A whole box, as root and as an ordinary account: started, ordered about, killed, and nothing left.
//!
//! Needs the worker: `PROVOST_WORKER`, or a build of it in this target folder.

#[cfg(test)]
mod promises;
