//! `provost policy suggest CALLS`: the smallest rules that would not ask about these calls again.

use std::{path::Path, process::ExitCode};

use policies::{
    compare::compare,
    normalise::normalise,
    suggest::{add, suggest, to_toml},
};
use protocol::{CallId, call::Call};
use serde::Deserialize;
use serde_json::{Value, json};
use supervisor_core::escape::escape;

use super::{alone, print_json, text_of};
use crate::{
    exit::{Failure, USAGE},
    output,
};

/// One recorded call, a line of JSON.
#[derive(Debug, Deserialize)]
struct Recorded {
    tool: String,
    input: Value,
}

/// Suggests.
pub(super) fn run(calls: &Path, policy: &str, json: bool) -> Result<ExitCode, Failure> {
    let policy = alone(policy)?;
    let facts = crate::session::explained_facts(Path::new("/srv/workspace"));
    let text = text_of(calls)?;
    let mut actions = Vec::new();
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let wrong = |why: String| {
            Failure::new(USAGE, format!("{}:{}: {why}", calls.display(), at + 1))
                .help("each line is {\"tool\":\"bash\",\"input\":{\"command\":\"git push\"}}")
        };
        let recorded: Recorded =
            serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let id = CallId::parse("recorded").map_err(|error| wrong(error.to_string()))?;
        let call = Call {
            id,
            tool: recorded.tool,
            input: recorded.input,
            prepared: None,
        };
        actions.push(normalise(&call, &facts).map_err(|error| wrong(error.to_string()))?);
    }
    let mode = policy.settings.mode;
    let found = suggest(&policy, mode, &actions, &facts);
    let mut wider = policy.clone();
    add(&mut wider, &found.rules);
    let newly = compare(&policy, &wider, &facts).wider;
    let toml = to_toml(&found.rules);
    if json {
        let left: Vec<_> = found
            .left
            .iter()
            .map(|(call, why)| json!({ "call": call, "why": why }))
            .collect();
        print_json(&json!({ "v": 1, "rules": toml, "newly_allows": newly, "left": left }));
        return Ok(ExitCode::SUCCESS);
    }
    if found.rules.is_empty() {
        output::err(
            "no rule would help: nothing here is asked about by a rule of the policy itself\n",
        );
    } else {
        output::out(&format!(
            "# Add these to the policy `{}`. Each allows every line that begins so.\n{toml}",
            policy.name
        ));
    }
    for one in &newly {
        output::err(&format!(
            "newly allowed: {} ({} → {})\n",
            escape(&one.what, false),
            one.before,
            one.after
        ));
    }
    for (call, why) in &found.left {
        output::err(&format!(
            "left: {}: {}\n",
            escape(call, false),
            escape(why, false)
        ));
    }
    Ok(ExitCode::SUCCESS)
}
