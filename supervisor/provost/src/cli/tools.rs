//! `provost tools list|call`.

use std::process::ExitCode;

use policies::tools::Tool;
use protocol::{
    Part,
    call::{Refusal, Stage},
};
use serde_json::{Value, json};
use supervisor_core::Entry;

use super::{
    args::{Format, SetupArgs, ToolsCommand},
    models::{self, Asked},
};
use crate::{
    exit::{BUG, ENDED, Failure, USAGE},
    harden::Keys,
    output,
    session::{self, Place, Plan, RunsAs, Saved, own_places, session_id, setup},
    view::View,
};

/// `provost tools …`
pub(super) fn run(command: ToolsCommand, keys: Keys) -> Result<ExitCode, Failure> {
    match command {
        ToolsCommand::List { json } => {
            list(json);
            Ok(ExitCode::SUCCESS)
        }
        ToolsCommand::Call { name, input, setup } => call(&name, &input, &setup, keys),
    }
}

fn list(as_json: bool) {
    let contracts = Tool::ALL.iter().map(|tool| tool.contract());
    if as_json {
        let tools: Vec<_> = contracts
            .map(|contract| {
                json!({ "name": contract.name(), "description": contract.description(&[]),
                    "input_schema": contract.schema(), "read_only": contract.read_only,
                    "concurrency_safe": contract.concurrency_safe })
            })
            .collect();
        output::out(&format!("{}\n", json!({ "v": 1, "tools": tools })));
        return;
    }
    for contract in contracts {
        let marks = match (contract.read_only, contract.concurrency_safe) {
            (true, true) => "RC",
            (true, false) => "R ",
            (false, true) => " C",
            (false, false) => "  ",
        };
        let text = contract.description(&[]);
        let first = text.split_inclusive(". ").next().unwrap_or_default().trim();
        output::out(&format!("{:<15} {marks}  {first}\n", contract.name()));
    }
    output::err("R read-only, C safe to run beside others; schemas: provost tools list --json\n");
}

/// One call through everything: a conversation of one answer is played to a real agent in a real jail.
fn call(name: &str, input: &str, args: &SetupArgs, keys: Keys) -> Result<ExitCode, Failure> {
    let input: Value = serde_json::from_str(input).map_err(|error| {
        Failure::new(USAGE, format!("--input is not JSON: {error}"))
            .help("for example --input '{\"command\":\"git status\"}'")
    })?;
    let Some(tool) = Tool::parse(name) else {
        let known: Vec<_> = Tool::ALL.iter().map(|tool| tool.as_str()).collect();
        return Err(Failure::new(
            USAGE,
            format!(
                "no tool is named `{}`",
                supervisor_core::escape::escape(name, false)
            ),
        )
        .help(format!("the tools are {}", known.join(", "))));
    };
    if let Err(why) = policies::tools::input(tool, &input) {
        return Ok(refused(&Refusal {
            stage: Stage::Input,
            rule: None,
            layer: None,
            reason: why,
            instead: None,
        }));
    }
    let places = own_places()?;
    let setup = setup::setup(args, &places, None)?;
    session::sweep_containers(&places, &setup.policy.settings)?;
    let script = script(tool, &input);
    let asked = Asked {
        route: Vec::new(),
        script: Some(&script),
        done: 0,
        max_cost: None,
    };
    let models = models::choose(&asked, (&setup.policy, setup.mode), &keys, &places)?;
    let session = session_id()?;
    let place = Place::new(places.clone(), &session, RunsAs::Own)?;
    let wall = setup.policy.settings.limits.wall;
    let saved = Saved {
        setup,
        provider: models.provider,
        model: models.model,
        fallbacks: models.fallbacks,
        script: Some(script),
        wall,
        max_cost: None,
        uid: None,
        account: None,
        hidden: Vec::new(),
        tools: Vec::new(),
        holding: session::Holding::Copy,
    };
    let plan = Plan {
        saved: saved.clone(),
        task: Some(format!("tools call {name}")),
        providers: models.providers,
        vault: models.vault,
        classifier: models.classifier,
        history: None,
        entries: Vec::new(),
        asking: super::run::asked_where(Format::Text, super::args::Approvals::Terminal),
        view: View::new(Format::Json, session.as_str()),
    };
    let result =
        session::run(place, plan).inspect_err(|_| super::run::sweep(&places, &session, &saved));
    let session::Ran {
        conducted,
        place,
        saved,
        ..
    } = result?;
    let record = session::open_record(&places)?;
    let entries = super::sessions::entries(&record, &session)?;
    let (refusal, result) = found(&entries, tool);
    // The layer of a trial has nothing that anybody would review later.
    let worker = std::sync::Arc::clone(&place.worker);
    let layer = session::review::Layer::of(&places, &session, saved, worker, None)?;
    layer.discard()?;
    if let Some(refusal) = refusal {
        return Ok(self::refused(&refusal));
    }
    let Some(result) = result else {
        return Err(Failure::new(
            ENDED,
            format!("the call brought no result: {}", conducted.end.reason),
        )
        .help(format!(
            "provost sessions show {session} tells what happened"
        )));
    };
    // What the model reads is wrapped; programs get the object itself.
    let object =
        unwrapped(&result).ok_or_else(|| Failure::new(BUG, "the result is not an object"))?;
    output::out(&format!("{object}\n"));
    Ok(ExitCode::SUCCESS)
}

/// A conversation that makes this one call. A tool that changes a file wants to have read it first,
/// so that is done before, in the same agent.
fn script(tool: Tool, input: &Value) -> String {
    let say = |name: &str, input: &Value| json!({ "tool_calls": [{ "name": name, "input": input }], "stop": "tool" });
    let mut lines = Vec::new();
    if let (Tool::EditFile | Tool::WriteFile, Some(path)) = (tool, input.get("file_path")) {
        lines.push(say("read_file", &json!({ "file_path": path })));
    }
    lines.push(say(tool.as_str(), input));
    lines.push(json!({ "text": "done", "stop": "end" }));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What became of the call that the model made last of this tool.
fn found(entries: &[Entry], tool: Tool) -> (Option<Refusal>, Option<String>) {
    let parts = entries.iter().filter_map(|entry| match entry {
        Entry::Message { message } => Some(&message.parts),
        _ => None,
    });
    let parts: Vec<&Part> = parts.flatten().collect();
    let id = parts.iter().rev().find_map(|part| match part {
        Part::ToolCall { id, name, .. } if name == tool.as_str() => Some(id.clone()),
        _ => None,
    });
    let refusal = entries.iter().find_map(|entry| match entry {
        Entry::Refused { call, refusal, .. } if Some(call) == id.as_ref() => Some(refusal.clone()),
        _ => None,
    });
    let result = parts.iter().find_map(|part| match part {
        Part::ToolResult {
            id: of, content, ..
        } if Some(of) == id.as_ref() => Some(content.clone()),
        _ => None,
    });
    (refusal, result)
}

/// A refusal for programs and for people.
fn refused(refusal: &Refusal) -> ExitCode {
    output::out(&format!("{}\n", json!({ "refused": refusal })));
    let sentence = supervisor_core::escape::escape(&refusal.sentence(), false);
    output::err(&format!("provost: {sentence}\n"));
    ExitCode::from(ENDED)
}

/// The JSON object within what the model reads, byte for byte.
fn unwrapped(text: &str) -> Option<&str> {
    let object = text.get(text.find('{')?..=text.rfind('}')?)?;
    serde_json::from_str::<serde::de::IgnoredAny>(object)
        .ok()
        .map(|_| object)
}
