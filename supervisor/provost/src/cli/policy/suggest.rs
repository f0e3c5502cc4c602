//! `provost policy suggest`: the smallest rules that would not ask about these calls again; the calls
//! come from a file or from what a session has recorded.

use std::{path::Path, process::ExitCode};

use policies::{
    Action, Decision, Facts, Mode, Policy,
    compare::compare,
    normalise::normalise,
    suggest::{add, suggest, to_toml},
};
use protocol::{CallId, call::Call};
use serde::Deserialize;
use serde_json::{Value, json};
use supervisor_core::{
    Entry,
    escape::{cut, escape},
};

use super::{super::sessions, alone, print_json, text_of};
use crate::{
    exit::{Failure, USAGE},
    output,
    session::own_places,
};

/// One recorded call, a line of JSON.
#[derive(Debug, Deserialize)]
struct Recorded {
    tool: String,
    input: Value,
}

/// What was asked about, and under which law.
struct Matter {
    policy: Policy,
    mode: Mode,
    facts: Facts,
    actions: Vec<Action>,
    /// Calls that cannot be looked at, and why.
    left: Vec<(String, String)>,
}

/// What a session was asked about, as its record has it.
fn of_session(word: &str, policy: Option<&str>) -> Result<Matter, Failure> {
    let places = own_places()?;
    let record = crate::session::open_record(&places)?;
    let id = sessions::find(&record, word)?;
    let entries = sessions::entries(&record, &id)?;
    let saved = sessions::saved(&entries, &id)?;
    let facts = crate::session::explained_facts(&saved.setup.workspace);
    let (mut actions, mut left) = (Vec::new(), Vec::new());
    for entry in entries {
        let Entry::Verdict {
            call,
            tool,
            input,
            verdict,
            ..
        } = entry
        else {
            continue;
        };
        if verdict.decision == Decision::Allow {
            continue;
        }
        let shown = format!("{tool} {}", cut(&input.to_string(), 200));
        let call = Call {
            id: call,
            tool,
            input,
            prepared: None,
        };
        match normalise(&call, &facts) {
            Ok(action) => actions.push(action),
            // What is longer than the record keeps stands there as its digest.
            Err(error) => left.push((shown, error.to_string())),
        }
    }
    let mode = saved.setup.mode;
    let policy = policy.map(alone).transpose()?.unwrap_or(saved.setup.policy);
    Ok(Matter {
        policy,
        mode,
        facts,
        actions,
        left,
    })
}

/// The calls of a file.
fn of_file(calls: &Path, policy: Option<&str>) -> Result<Matter, Failure> {
    let policy = alone(policy.unwrap_or("default"))?;
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
    Ok(Matter {
        mode: policy.settings.mode,
        policy,
        facts,
        actions,
        left: Vec::new(),
    })
}

/// Suggests.
pub(super) fn run(
    calls: Option<&Path>,
    session: Option<&str>,
    policy: Option<&str>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let matter = match (session, calls) {
        (Some(session), _) => of_session(session, policy)?,
        (None, Some(calls)) => of_file(calls, policy)?,
        (None, None) => {
            return Err(Failure::new(
                USAGE,
                "name a file of calls, or --from-session",
            ));
        }
    };
    let Matter {
        policy,
        mode,
        facts,
        actions,
        left,
    } = matter;
    let mut found = suggest(&policy, mode, &actions, &facts);
    found.left.extend(left);
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
