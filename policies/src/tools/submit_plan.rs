//! `submit_plan`: the plan, handed in for a person's approval; until then nothing but reads is allowed.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `submit_plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitPlan {
    /// The plan.
    pub plan: String,
}

impl SubmitPlan {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            plan: input.text("plan"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::SubmitPlan,
    describe,
    fields: &[Field::needed(
        "plan",
        Kind::Text {
            min: 1,
            max: 16_384,
            nul: false,
        },
        "The plan in plain words: what will be changed, where, by which commands, how it will be checked.",
    )],
    read_only: true,
    concurrency_safe: false,
    effect: Effect::Supervisor,
    time_limit: bounds::APPROVAL,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Hands the plan in for a person's approval. This session is in plan mode: until a person approves \
     the plan, everything but a proven read is denied. Read what you need first, then hand in one whole \
     plan and wait. Returns {ok: true, answer} once it is approved; a refusal may carry what is wanted \
     instead: change the plan and hand it in again."
        .to_owned()
}
