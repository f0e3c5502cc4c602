//! `job_kill`: ends a background job and everything that it started.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `job_kill`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobKill {
    /// The job.
    pub job_id: String,
}

impl JobKill {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            job_id: input.text("job_id"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::JobKill,
    describe,
    fields: &[Field::needed(
        "job_id",
        Kind::Job,
        "The job, as bash with run_in_background gave it.",
    )],
    read_only: false,
    concurrency_safe: false,
    effect: Effect::Hands,
    time_limit: bounds::ORDER_TIME,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Ends a background job and everything that it started. Returns {ok: true, job_id, running, \
     output, omitted, exit, signal, ms, ended_by} with what it wrote since the last look."
        .to_owned()
}
