//! `provost policy import`: rules of another agent as a policy of ours, and what could not be said.

use std::{path::Path, process::ExitCode};

use policies::import::{Origin, import};
use supervisor_core::escape::escape;

use super::text_of;
use crate::{
    cli::args::ImportFrom,
    exit::{CONFIG, Failure},
    output,
};

/// Imports a file: the policy goes to standard output, the rest to standard error.
pub(super) fn run(from: ImportFrom, file: &Path, name: Option<&str>) -> Result<ExitCode, Failure> {
    let origin = match from {
        ImportFrom::ClaudeSettings => Origin::ClaudeSettings,
        ImportFrom::CodexRules => Origin::CodexRules,
    };
    let text = text_of(file)?;
    let found = import(origin, &text, name.unwrap_or("imported"))
        .map_err(|why| Failure::new(CONFIG, format!("`{}`: {why}", file.display())))?;
    output::out(&found.policy);
    for left in &found.left {
        output::err(&format!(
            "not imported as it stands: {}\n",
            escape(left, false)
        ));
    }
    Ok(ExitCode::SUCCESS)
}
