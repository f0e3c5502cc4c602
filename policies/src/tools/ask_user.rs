//! `ask_user`: a question to the person.

use protocol::{DatabaseInfo, bounds};

use super::{
    Contract, Effect, Tool,
    field::{Checked, Field, Kind},
};

/// Input of `ask_user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskUser {
    /// The question.
    pub question: String,
    /// Answers on offer; empty for a free answer.
    pub choices: Vec<String>,
}

impl AskUser {
    pub(super) fn from_checked(input: &Checked<'_>) -> Self {
        Self {
            question: input.text("question"),
            choices: input.texts("choices"),
        }
    }
}

pub(super) static CONTRACT: Contract = Contract {
    tool: Tool::AskUser,
    describe,
    fields: &[
        Field::needed(
            "question",
            Kind::Text {
                min: 1,
                max: 4_096,
                nul: false,
            },
            "One question, self-contained, that the person can answer without reading anything else.",
        ),
        Field::optional(
            "choices",
            Kind::Texts { items: 8, max: 200 },
            "Up to 8 short answers to choose from; leave it out for a free answer.",
        ),
    ],
    read_only: true,
    concurrency_safe: false,
    effect: Effect::Supervisor,
    time_limit: bounds::APPROVAL,
};

fn describe(_: &[DatabaseInfo]) -> String {
    "Asks the person a question and waits for the answer. Use it only when you cannot go on \
     without a decision that is theirs; look things up yourself first. Returns {ok: true, answer}. \
     Fails when nobody can answer: then choose the safest option yourself and say so."
        .to_owned()
}
