//! The lies of the lying worker: how a test chooses one, and every name that there is.

use std::path::PathBuf;

use protocol::jail::ProbePlan;
use serde::{Deserialize, Serialize};

use crate::harness::programs;

/// The file of a workspace that chooses the lie; without it the lying worker is honest.
pub const FILE: &str = ".lie";

/// The file of a workspace whose making says to lying hands that its moment has come.
pub const MOMENT: &str = "moment";

/// What stands in [`FILE`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// The lie's name.
    pub lie: String,
    /// Where the lie finds what it tries to reach.
    pub plan: ProbePlan,
}

/// The file that a taken-over agent would make.
pub const OWNED: &str = "owned";

/// The lying worker, if it is built: beside the worker, or where `PROVOST_LYING_WORKER` says.
#[must_use]
pub fn worker() -> Option<PathBuf> {
    let beside = programs().worker.with_file_name("lying-worker");
    let path = std::env::var_os("PROVOST_LYING_WORKER").map_or(beside, PathBuf::from);
    path.is_file().then_some(path)
}
