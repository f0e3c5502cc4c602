//! `job_output`: what a background job wrote since the last look.

use std::time::Duration;

use protocol::DatabaseInfo;

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `job_output`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    /// The job.
    pub job_id: String,
    /// How long to wait for its end, in milliseconds; 0 does not wait.
    pub timeout_ms: u64,
}

impl JobOutput {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            job_id: input.text("job_id"),
            timeout_ms: input.number("timeout_ms"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::JobOutput,
    describe,
    fields: &[
        Field::needed(
            "job_id",
            Kind::Job,
            "The job, as bash with run_in_background gave it.",
        ),
        Field::optional(
            "timeout_ms",
            Kind::Integer {
                min: 0,
                max: 600_000,
                default: 0,
            },
            "Milliseconds to wait for the job's end before answering; 0 answers at once.",
        ),
    ],
    read_only: true,
    concurrency_safe: false,
    effect: Effect::Supervisor,
    time_limit: Duration::from_secs(600),
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Looks at a background job: what it wrote since the last look and whether it still runs. Returns \
     {ok: true, job_id, running, output, omitted, exit, signal, ms, ended_by}; exit and signal are \
     null while it runs. Use timeout_ms to wait instead of asking again and again."
        .to_owned()
}
