//! `provost policy check|explain`: the same code as at run time.

use std::{path::Path, process::ExitCode};

use policies::{
    Decision, LayerName,
    evaluate::evaluate,
    normalise::normalise,
    parse::{self, Source},
};
use protocol::{CallId, call::Call};
use serde_json::{Value, json};
use supervisor_core::escape::escape;

use super::args::PolicyCommand;
use crate::{
    exit::{CONFIG, Failure, USAGE},
    output,
    session::{own_places, setup},
};

/// `provost policy …`
pub(super) fn run(command: PolicyCommand) -> Result<ExitCode, Failure> {
    match command {
        PolicyCommand::Check { file, json } => check(&file, json),
        PolicyCommand::Explain {
            tool,
            input,
            policy,
            mode,
            workspace,
            json,
        } => explain(
            &tool,
            &input,
            &policy,
            mode.as_deref(),
            workspace.as_deref(),
            json,
        ),
    }
}

fn check(file: &Path, json: bool) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let name = file.display().to_string();
    let text = setup::read_policy(file, false)?;
    let text = text.ok_or_else(|| Failure::new(CONFIG, format!("no policy file `{name}`")))?;
    // A workspace's own policy is judged as what it is: it may only tighten.
    let project = file.file_name().is_some_and(|name| name == ".provost.toml");
    let layer = if project {
        LayerName::Project
    } else {
        LayerName::User
    };
    let mut sources = vec![Source {
        name: name.clone(),
        text,
        layer,
    }];
    if project {
        sources.extend(setup::find("default", &places));
    }
    match parse::load(&sources, &|name| setup::find(name, &places)) {
        Ok(policy) => {
            let rules: usize = policy.layers.iter().map(|layer| layer.rules.len()).sum();
            if json {
                output::out(&format!(
                    "{}\n",
                    json!({ "v": 1, "ok": true, "name": policy.name, "rules": rules, "digest": policy.digest(), "faults": [] })
                ));
            } else {
                output::out(&format!(
                    "{name}: policy `{}` is good: {rules} rule(s), mode {}, every example holds\n",
                    policy.name,
                    policy.settings.mode.as_str()
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(faults) => {
            if json {
                let list: Vec<_> = faults.iter().map(|fault| json!({ "file": fault.file, "line": fault.line, "column": fault.column, "message": fault.message, "help": fault.help })).collect();
                output::out(&format!(
                    "{}\n",
                    json!({ "v": 1, "ok": false, "faults": list })
                ));
            } else {
                for fault in &faults {
                    output::err(&format!("{}\n", fault.rendered.trim_end()));
                }
            }
            Ok(ExitCode::from(CONFIG))
        }
    }
}

fn explain(
    tool: &str,
    input: &str,
    policy: &str,
    mode: Option<&str>,
    workspace: Option<&Path>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let workspace = setup::workspace(workspace)?;
    let (policy, mode, _) = setup::policy(policy, mode, &workspace, &places)?;
    let input: Value = serde_json::from_str(input).map_err(|error| {
        Failure::new(USAGE, format!("--input is not JSON: {error}"))
            .help("for example --input '{\"command\":\"git status\"}'")
    })?;
    let id = CallId::parse("explain").map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let call = Call {
        id,
        tool: tool.to_owned(),
        input,
        prepared: None,
    };
    let facts = crate::session::explained_facts(&workspace);
    let action = normalise(&call, &facts).map_err(|error| {
        Failure::new(USAGE, error.to_string())
            .help("`provost tools list --json` shows each tool's schema")
    })?;
    let verdict = evaluate(&policy, mode, &action, &facts);
    if json {
        let text = serde_json::to_value(&verdict)
            .map_err(|error| Failure::new(USAGE, error.to_string()))?;
        output::out(&format!("{text}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let word = match verdict.decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    };
    let mut text = format!("{word}: {}\n", escape(&verdict.reason, false));
    text.push_str(&format!(
        "  decided by {} in stage {}",
        verdict.rule.as_deref().unwrap_or("no rule (the default)"),
        serde_json::to_value(verdict.stage)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    ));
    if let Some(layer) = &verdict.layer {
        text.push_str(&format!(", layer {layer}"));
    }
    text.push('\n');
    if let Some(instead) = &verdict.instead {
        text.push_str(&format!("  instead: {}\n", escape(instead, false)));
    }
    for part in &verdict.parts {
        let word = match part.decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        text.push_str(&format!(
            "  {word:<5} {}  ({}: {})\n",
            escape(&part.part, false),
            part.rule.as_deref().unwrap_or("default"),
            escape(&part.reason, false)
        ));
    }
    text.push_str(&format!(
        "  mode {}; policy {} ({})\n",
        mode.as_str(),
        policy.name,
        policy.digest().short()
    ));
    output::out(&text);
    Ok(ExitCode::SUCCESS)
}
