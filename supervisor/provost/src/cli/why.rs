//! `provost why`: the whole story of one call, from the record alone.

use std::process::ExitCode;

use protocol::CallId;
use serde_json::{Value, json};
use supervisor_core::{
    Entry,
    escape::{cut, escape},
};

use super::{args::WhyArgs, sessions};
use crate::{
    exit::{ENDED, Failure},
    output,
    session::{self, own_places},
    view::time,
};

/// `provost why`
pub(super) fn run(args: &WhyArgs) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let id = sessions::find(&record, &args.session)?;
    let entries = sessions::entries(&record, &id)?;
    let calls: Vec<&CallId> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Verdict { call, .. } => Some(call),
            // What is refused before it is judged (an unknown tool, a malformed input) has no verdict.
            Entry::Refused { call, .. } => Some(call),
            _ => None,
        })
        .fold(Vec::new(), |mut calls, call| {
            if !calls.contains(&call) {
                calls.push(call);
            }
            calls
        });
    let Some(call) = chosen(&calls, args.call.as_deref()) else {
        let names: Vec<String> = calls
            .iter()
            .rev()
            .take(20)
            .map(ToString::to_string)
            .collect();
        let word = args.call.as_deref().unwrap_or("last");
        return Err(
            Failure::new(ENDED, format!("session {id} has no call `{word}`")).help(format!(
                "name one of its {} calls by id or number: {}",
                calls.len(),
                names.join(", ")
            )),
        );
    };
    let story = story(&entries, call);
    if args.json {
        let object = json!({ "v": 1, "session": id, "call": call, "story": story });
        output::out(&format!("{object}\n"));
    } else {
        for step in &story {
            output::out(&told(step));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A call by its id, its number from 1, or `last`.
fn chosen<'a>(calls: &[&'a CallId], word: Option<&str>) -> Option<&'a CallId> {
    let word = word.unwrap_or("last");
    let by_id = calls.iter().find(|call| call.to_string() == word);
    let number = || word.parse::<usize>().ok()?.checked_sub(1);
    let last = || calls.last().filter(|_| word == "last");
    by_id
        .or_else(|| number().and_then(|number| calls.get(number)))
        .or_else(last)
        .copied()
}

/// Every entry about the call, and what held around it: the mode as it was changed before the call.
fn story(entries: &[Entry], call: &CallId) -> Vec<Value> {
    let mine = |entry: &Entry| match entry {
        Entry::Verdict { call: of, .. }
        | Entry::Refused { call: of, .. }
        | Entry::ClassifyIntent { call: of, .. }
        | Entry::Classified { call: of, .. }
        | Entry::Asked { call: of, .. }
        | Entry::Answered { call: of, .. }
        | Entry::Intent { call: of, .. }
        | Entry::Outcome { call: of, .. }
        | Entry::Unknown { call: of } => of == call,
        Entry::HookEnded { call: of, .. } => of.as_ref() == Some(call),
        Entry::Started { .. } => true,
        _ => false,
    };
    let whole = |entry: &Entry| {
        let mut value = serde_json::to_value(entry).unwrap_or_default();
        if let (Entry::Started { .. }, Some(object)) = (entry, value.as_object_mut()) {
            // The session's own file is for resume, not for people.
            object.remove("setup");
        }
        value
    };
    let first = entries.iter().position(|entry| {
        matches!(entry, Entry::Verdict { call: of, .. } | Entry::Refused { call: of, .. } if of == call)
    });
    let before = entries.get(..first.unwrap_or(0)).unwrap_or_default();
    let changed = before
        .iter()
        .rposition(|entry| matches!(entry, Entry::Mode { .. }));
    let mine = |(at, entry): &(usize, &Entry)| mine(entry) || Some(*at) == changed;
    let numbered = entries.iter().enumerate();
    let mut story: Vec<Value> = numbered
        .filter(mine)
        .map(|(_, entry)| whole(entry))
        .collect();
    let certificate = entries.iter().rev().find_map(|entry| match entry {
        Entry::Certificate(certificate) => Some(certificate.line()),
        _ => None,
    });
    story.extend(certificate.map(|line| json!({ "kind": "confinement", "line": line })));
    story
}

/// One step for people, each line escaped.
fn told(step: &Value) -> String {
    let text = |field: &str| {
        let word = step.get(field).and_then(Value::as_str).unwrap_or_default();
        escape(&cut(word, 2_000), false)
    };
    let or = |word: String, other: &str| {
        if word.is_empty() {
            other.to_owned()
        } else {
            word
        }
    };
    match step.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "started" => format!(
            "under      policy {} ({}), mode {}\n",
            text("policy"),
            cut(&text("policy_digest"), 12),
            text("mode")
        ),
        "mode" => {
            let planning = step.get("planning").and_then(Value::as_bool) == Some(true);
            let to: Option<policies::Mode> = step
                .get("to")
                .and_then(|to| serde_json::from_value(to.clone()).ok());
            format!(
                "changed    mode {}{}, by {}\n",
                to.map_or("unknown", policies::Mode::as_str),
                if planning { ", plan mode" } else { "" },
                text("by")
            )
        }
        "verdict" => judged(step, &text("tool")),
        "refused" => {
            let refusal = step.get("refusal").cloned().unwrap_or_default();
            let word = |field: &str| {
                escape(
                    refusal
                        .get(field)
                        .and_then(Value::as_str)
                        .unwrap_or_default(),
                    false,
                )
            };
            let mut line = format!("refused    {}: {}\n", word("stage"), word("reason"));
            if !word("instead").is_empty() {
                line.push_str(&format!("instead    {}\n", word("instead")));
            }
            line
        }
        "classify_intent" => format!("put to     the classifier {}\n", text("by")),
        "classified" => {
            let ms = step.get("ms").and_then(Value::as_u64).unwrap_or(0);
            let cached = step.get("cached").and_then(Value::as_bool) == Some(true);
            format!(
                "decided by the classifier {}: {}: {} ({})\n",
                text("by"),
                text("answer"),
                text("why"),
                if cached {
                    "its answer to the same call before".to_owned()
                } else {
                    format!("in {}", time(ms))
                }
            )
        }
        "asked" => format!(
            "asked      {} (rule {})\n",
            text("shown"),
            or(text("rule"), "none")
        ),
        "answered" => match text("message") {
            words if words.is_empty() => format!("answered   {}\n", text("answer")),
            words => format!("answered   {}: {words}\n", text("answer")),
        },
        "hook_ended" => {
            let ms = step.get("ms").and_then(Value::as_u64).unwrap_or(0);
            let what = text("what");
            let colon = if what.is_empty() { "" } else { ": " };
            format!(
                "hook       {} at {}: {} in {}{colon}{what}\n",
                text("hook"),
                text("event"),
                text("outcome"),
                time(ms)
            )
        }
        "intent" => format!("effect     {}: {}\n", text("effect"), text("what")),
        "outcome" => {
            let ms = step.get("ms").and_then(Value::as_u64).unwrap_or(0);
            format!("outcome    {} in {}\n", text("what"), time(ms))
        }
        "unknown" => "outcome    unknown: a process died while it was carried out\n".to_owned(),
        "confinement" => format!("confined   {}\n", text("line")),
        _ => String::new(),
    }
}

fn judged(step: &Value, tool: &str) -> String {
    let input = step
        .get("input")
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut lines = format!("call       {tool} {}\n", escape(&cut(&input, 2_000), false));
    let verdict = step.get("verdict").cloned().unwrap_or_default();
    let word = |of: &Value, field: &str| {
        escape(
            of.get(field).and_then(Value::as_str).unwrap_or_default(),
            false,
        )
    };
    lines.push_str(&format!(
        "verdict    {} · stage {} · layer {} · rule {}\nreason     {}\n",
        word(&verdict, "verdict"),
        word(&verdict, "stage"),
        Some(word(&verdict, "layer"))
            .filter(|word| !word.is_empty())
            .unwrap_or_else(|| "none spoke".to_owned()),
        Some(word(&verdict, "rule"))
            .filter(|word| !word.is_empty())
            .unwrap_or_else(|| "default".to_owned()),
        word(&verdict, "reason"),
    ));
    for part in verdict
        .get("parts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let rule = word(part, "rule");
        let rule = if rule.is_empty() {
            String::new()
        } else {
            format!(" (rule {rule})")
        };
        lines.push_str(&format!(
            "  part     {:<5} {}: {}{rule}\n",
            word(part, "verdict"),
            word(part, "part"),
            word(part, "reason")
        ));
    }
    let instead = word(&verdict, "instead");
    if !instead.is_empty() {
        lines.push_str(&format!("instead    {instead}\n"));
    }
    lines
}
