//! From call to action.

use protocol::call::Call;

use crate::{Action, Facts, Malformed};

/// Reads a call.
///
/// # Errors
/// [`Malformed`] says what is wrong with the tool's name or input.
pub fn normalise(call: &Call, facts: &Facts) -> Result<Action, Malformed> {
    let _ = facts;
    Err(Malformed::Input(format!("`{}` is not read yet", call.tool)))
}
