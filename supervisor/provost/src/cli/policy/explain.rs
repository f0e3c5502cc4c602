//! `provost policy explain TOOL`: the verdict, who decided, everybody who spoke, and what holds it.

use std::{path::Path, process::ExitCode};

use policies::{
    evaluate::{enforcement, evaluate, evaluate_planning, trail},
    normalise::normalise,
};
use protocol::{CallId, call::Call};
use serde_json::{Value, json};
use supervisor_core::escape::escape;

use crate::{
    exit::{Failure, USAGE},
    output,
    session::{own_places, setup},
};

/// What is asked.
pub(super) struct Asked<'a> {
    pub(super) tool: &'a str,
    pub(super) input: &'a str,
    pub(super) policy: &'a str,
    pub(super) mode: Option<&'a str>,
    pub(super) plan: bool,
    pub(super) workspace: Option<&'a Path>,
    pub(super) json: bool,
}

/// Explains one call.
pub(super) fn run(asked: &Asked<'_>) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let workspace = setup::workspace(asked.workspace)?;
    let (policy, mode, _) = setup::policy(asked.policy, asked.mode, &workspace, &places)?;
    let input: Value = serde_json::from_str(asked.input).map_err(|error| {
        Failure::new(USAGE, format!("--input is not JSON: {error}"))
            .help("for example --input '{\"command\":\"git status\"}'")
    })?;
    let id = CallId::parse("explain").map_err(|error| Failure::new(USAGE, error.to_string()))?;
    let call = Call {
        id,
        tool: asked.tool.to_owned(),
        input,
        prepared: None,
    };
    let facts = crate::session::explained_facts(&workspace);
    let action = normalise(&call, &facts).map_err(|error| {
        Failure::new(USAGE, error.to_string())
            .help("`provost tools list --json` shows each tool's schema")
    })?;
    let verdict = if asked.plan {
        evaluate_planning(&policy, mode, &action, &facts)
    } else {
        evaluate(&policy, mode, &action, &facts)
    };
    let steps = trail(&policy, mode, &action, &facts);
    let walls = enforcement(&policy, &action);
    let at = verdict
        .layer
        .as_deref()
        .zip(verdict.rule.as_deref())
        .and_then(|(layer, id)| policy.rule(layer, id))
        .map(|rule| rule.at.clone());
    if asked.json {
        let mut value = serde_json::to_value(&verdict)
            .map_err(|error| Failure::new(USAGE, error.to_string()))?;
        if let Some(object) = value.as_object_mut() {
            object.insert("at".to_owned(), json!(at));
            object.insert("mode".to_owned(), json!(mode));
            object.insert("trail".to_owned(), json!(steps));
            object.insert("enforcement".to_owned(), json!(walls));
        }
        output::out(&format!("{value}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "{}: {}\n",
        verdict.decision.as_str(),
        escape(&verdict.reason, false)
    );
    text.push_str(&format!(
        "  decided by {} in stage {}",
        verdict.rule.as_deref().unwrap_or("no rule (the default)"),
        word(&verdict.stage)
    ));
    if let Some(layer) = &verdict.layer {
        text.push_str(&format!(", layer {layer}"));
    }
    if let Some(at) = &at {
        text.push_str(&format!(", {}", escape(at, false)));
    }
    text.push('\n');
    if let Some(instead) = &verdict.instead {
        text.push_str(&format!("  instead: {}\n", escape(instead, false)));
    }
    for part in &verdict.parts {
        text.push_str(&format!(
            "  {:<5} {}  ({}: {})\n",
            part.decision.as_str(),
            escape(&part.part, false),
            part.rule.as_deref().unwrap_or("default"),
            escape(&part.reason, false)
        ));
    }
    text.push_str("  who spoke:\n");
    for step in &steps {
        text.push_str(&format!(
            "    {:<11} {:<12} {:<5} {}{}{}\n",
            word(&step.stage),
            step.layer.as_deref().unwrap_or("-"),
            step.verdict.as_str(),
            step.rule,
            step.at
                .as_deref()
                .map_or_else(String::new, |at| format!(" ({})", escape(at, false))),
            if step.sure { "" } else { ", possibly" },
        ));
    }
    text.push_str("  what holds it:\n");
    for wall in &walls {
        text.push_str(&format!("    {}\n", escape(wall, false)));
    }
    text.push_str(&format!(
        "  mode {}: {}; policy {} ({})\n",
        mode.as_str(),
        mode.describe(),
        policy.name,
        policy.digest().short()
    ));
    output::out(&text);
    Ok(ExitCode::SUCCESS)
}

fn word(stage: &policies::Stage) -> String {
    let value = serde_json::to_value(stage).ok();
    value
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}
