//! What is asked of one call beside its answer: a count of its tokens, or the form of the answer.

use std::process::ExitCode;

use protocol::{Inference, StopReason};
use serde_json::json;
use supervisor_providers::{Config, InferError};
use supervisor_record::Places;

use super::{ask::Ask, wish};
use crate::{
    exit::{ENDED, Failure},
    harden::Keys,
    output,
};

/// An answer that was to be an object and is none is no answer; one that calls a tool is on its way.
pub(super) fn formed(answer: Inference, wanted: bool) -> Result<Inference, InferError> {
    let is_over = answer.stop == StopReason::End;
    if !wanted || !is_over || wish::is_object(&answer.message.text()) {
        return Ok(answer);
    }
    let words = format!(
        "{}: the answer is no JSON object, which --schema asks for",
        answer.provider
    );
    Err(InferError::damaged(words))
}

/// `call --count`
pub(super) fn count(
    ask: &Ask<'_>,
    config: Config,
    keys: &Keys,
    places: &Places,
    json: bool,
) -> Result<ExitCode, Failure> {
    let counted = ask.count(config, keys, places)?;
    let counted = counted.map_err(|error| {
        Failure::new(
            ENDED,
            format!("{}: {}", error.class.as_str(), error.message),
        )
    })?;
    if json {
        let object = json!({"v": 1, "input_tokens": counted.tokens, "estimate": counted.estimate});
        output::out(&format!("{object}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    output::out(&match counted.estimate {
        true => format!(
            "about {} tokens (estimated from the bytes)\n",
            counted.tokens
        ),
        false => format!("{} tokens (counted by {})\n", counted.tokens, ask.provider),
    });
    Ok(ExitCode::SUCCESS)
}
