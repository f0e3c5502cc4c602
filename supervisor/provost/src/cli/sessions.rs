//! `provost sessions list|show`, and finding a session by its word.

use std::process::ExitCode;

use protocol::{Part, Role, SessionId};
use serde_json::json;
use supervisor_core::{
    Entry,
    escape::{cut, escape},
};
use supervisor_record::{Record, Stored};

use super::args::SessionsCommand;
use crate::{
    exit::{BUG, Failure, REFUSED_AT_START, USAGE},
    output,
    session::{self, Saved, now_ms, own_places},
    view::time,
};

/// The session of a word: an id, its beginning if only one fits, or `last`.
pub(super) fn find(record: &Record, word: &str) -> Result<SessionId, Failure> {
    let rows = record
        .sessions()
        .map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
    let none =
        |why: String| Failure::new(USAGE, why).help("`provost sessions list` shows the sessions");
    if word == "last" {
        return rows
            .into_iter()
            .next()
            .map(|row| row.id)
            .ok_or_else(|| none("there is no session yet".to_owned()));
    }
    if let Some(row) = rows.iter().find(|row| row.id.as_str() == word) {
        return Ok(row.id.clone());
    }
    let mut fitting = rows
        .iter()
        .filter(|row| row.id.as_str().starts_with(word) && word.len() >= 4);
    match (fitting.next(), fitting.next()) {
        (Some(row), None) => Ok(row.id.clone()),
        (Some(_), Some(_)) => Err(none(format!(
            "several sessions begin with `{}`",
            escape(word, false)
        ))),
        (None, _) => Err(none(format!("no session `{}`", escape(word, false)))),
    }
}

/// All entries of a session.
pub(crate) fn entries(record: &Record, id: &SessionId) -> Result<Vec<Entry>, Failure> {
    Ok(stored(record, id)?
        .into_iter()
        .map(|stored| stored.entry)
        .collect())
}

fn stored(record: &Record, id: &SessionId) -> Result<Vec<Stored>, Failure> {
    record
        .entries(id)
        .map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))
}

/// What the session was started with.
pub(super) fn saved(entries: &[Entry], id: &SessionId) -> Result<Saved, Failure> {
    let setup = entries.iter().find_map(|entry| match entry {
        Entry::Started { setup, .. } => Some(setup.clone()),
        _ => None,
    });
    let setup = setup
        .ok_or_else(|| Failure::new(BUG, format!("session {id} has no start in the record")))?;
    serde_json::from_value(setup).map_err(|error| {
        Failure::new(
            REFUSED_AT_START,
            format!("session {id} was recorded by another version: {error}"),
        )
        .help("finish it with the version that started it")
    })
}

/// Whether the last turn has no end.
pub(super) fn is_cut(entries: &[Entry]) -> bool {
    let last = entries.iter().rev().find_map(|entry| match entry {
        Entry::TurnBegan { .. } => Some(true),
        Entry::TurnEnded(_) => Some(false),
        _ => None,
    });
    last.unwrap_or(true)
}

/// `provost sessions …`
pub(super) fn run(command: SessionsCommand) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    match command {
        SessionsCommand::List { json } => list(&record, json),
        SessionsCommand::Show {
            session,
            transitions,
            json,
        } => {
            let id = find(&record, &session)?;
            let all = stored(&record, &id)?;
            if json {
                for stored in all {
                    output::out(&format!("{}\n", json!(stored)));
                }
            } else {
                show(&all, transitions);
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(record: &Record, json: bool) -> Result<ExitCode, Failure> {
    let rows = record
        .sessions()
        .map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
    if json {
        output::out(&format!("{}\n", json!({ "v": 1, "sessions": rows })));
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        output::err("no session yet: provost run \"…\" starts one\n");
    }
    for row in rows {
        let state = match (&row.outcome, row.live) {
            (_, true) => "running",
            (Some(outcome), false) => outcome.as_str(),
            (None, false) => "cut",
        };
        let layer = if record
            .places()
            .session_folder(&row.id)
            .join("tree")
            .is_dir()
        {
            "layer"
        } else {
            "-"
        };
        let ago = now_ms().saturating_sub(row.started_ms);
        output::out(&format!(
            "{}  {state:<10} {layer:<6} {:>14} ago  {}  {}\n",
            row.id,
            time(ago),
            escape(&row.model, false),
            escape(&cut(&row.task, 60), false)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(all: &[Stored], transitions: bool) {
    let start = all.first().map_or(0, |stored| stored.time_ms);
    for stored in all {
        let at = stored.time_ms.saturating_sub(start);
        let text = told(&stored.entry, transitions);
        if let Some(text) = text {
            output::out(&format!("{:>5} {:>10}  {text}\n", stored.seq, time(at)));
        }
    }
}

/// One entry for people; `None` for those that are shown only on request.
fn told(entry: &Entry, transitions: bool) -> Option<String> {
    let line = |text: &str| escape(&cut(text, 300), false);
    Some(match entry {
        Entry::Certificate(certificate) => format!("certificate  {}", certificate.line()),
        Entry::Started {
            task,
            policy,
            mode,
            model,
            ..
        } => {
            format!(
                "started      policy {policy}, mode {mode}, {}\n                   task: {}",
                line(model),
                line(task)
            )
        }
        Entry::TurnBegan { number, .. } => format!("turn         {number}"),
        Entry::Message { message } => return message_told(message),
        Entry::InferIntent {
            provider, model, ..
        } => format!("model asked  {}/{}", line(provider), line(model)),
        Entry::InferTried { attempt, .. } => format!(
            "model tried  {}/{} {}: {}{}",
            line(&attempt.provider),
            line(&attempt.model),
            attempt.class,
            line(&attempt.message),
            match &attempt.next {
                Some(next) => format!("; next {}", line(next)),
                None => String::new(),
            }
        ),
        Entry::BreakerChanged { provider, from, to } => format!(
            "breaker      {}: {} after {}",
            line(provider),
            to.as_str(),
            from.as_str()
        ),
        Entry::InferOutcome {
            usage, error, ms, ..
        } => match error {
            Some(class) => format!("model failed {class} after {}", time(*ms)),
            None => format!(
                "model said   {} tokens out in {}",
                usage.output.unwrap_or(0),
                time(*ms)
            ),
        },
        Entry::Verdict {
            call,
            tool,
            verdict,
            ..
        } => format!(
            "verdict      {call} {}: {:?} by {} ({}): {}",
            line(tool),
            verdict.decision,
            verdict.rule.as_deref().unwrap_or("default"),
            verdict.layer.as_deref().unwrap_or("no layer spoke"),
            line(&verdict.reason)
        ),
        Entry::Refused { call, refusal, .. } => {
            format!("refused      {call} {}", line(&refusal.sentence()))
        }
        Entry::ClassifyIntent { call, by, .. } => {
            format!("classifier   {call} put to {}", line(by))
        }
        Entry::Classified {
            call, by, answer, ..
        } => format!(
            "classifier   {call} {}: {}",
            line(by),
            line(&serde_json::to_string(answer).unwrap_or_default())
        ),
        Entry::Asked { call, shown, .. } => format!("asked        {call} {}", line(shown)),
        Entry::Answered {
            call,
            answer,
            message,
            ..
        } => {
            format!(
                "answered     {call} {answer} {}",
                line(message.as_deref().unwrap_or_default())
            )
        }
        Entry::HookBegan { hook, event, .. } => format!("hook         {} at {event}", line(hook)),
        Entry::HookEnded {
            hook,
            outcome,
            what,
            ms,
            ..
        } => format!(
            "hook         {} {outcome} in {} {}",
            line(hook),
            time(*ms),
            line(what)
        ),
        Entry::Intent {
            call, effect, what, ..
        } => format!("intent       {call} {effect}: {}", line(what)),
        Entry::Outcome {
            call, ok, what, ms, ..
        } => {
            format!(
                "outcome      {call} {} {} in {}",
                if *ok { "ok" } else { "failed" },
                line(what),
                time(*ms)
            )
        }
        Entry::Unknown { call } => format!("unknown      {call}: in flight when a process died"),
        Entry::Transition(transition) if transitions => {
            format!(
                "transition   {} {:?} {}",
                transition.iteration,
                transition.kind,
                line(&transition.reason)
            )
        }
        Entry::Transition(_) => return None,
        Entry::TurnEnded(end) => format!(
            "turn ended   {:?} {}",
            end.reason,
            line(end.detail.as_deref().unwrap_or_default())
        ),
        Entry::Fault { link, what } => format!("FAULT        on the {link} link: {}", line(what)),
        Entry::Left { who, exit } => format!("left         {who} {exit:?}"),
        Entry::Mode {
            from,
            to,
            planning,
            by,
        } => format!(
            "mode         {} → {}{}, by {}",
            from.as_str(),
            to.as_str(),
            if *planning { " (plan mode)" } else { "" },
            line(by)
        ),
        Entry::Notice { text } => format!("notice       {}", line(text)),
        Entry::Reviewed { what, count, .. } => format!("reviewed     {what} {count}"),
        Entry::Resumed { .. } => "resumed".to_owned(),
        Entry::Ended {
            outcome, reason, ..
        } => format!("ended        {outcome}: {}", line(reason)),
    })
}

fn message_told(message: &protocol::Message) -> Option<String> {
    let who = match message.role {
        Role::User => "user",
        Role::Assistant => "agent",
    };
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(escape(&cut(text, 400), false)),
        Part::ToolCall { id, name, input } => Some(format!(
            "[call {id} {} {}]",
            escape(name, false),
            escape(&cut(&input.to_string(), 200), false)
        )),
        Part::ToolResult { id, content, .. } => Some(format!(
            "[result {id} {}]",
            escape(&cut(content, 200), false)
        )),
        Part::Reasoning { .. } => None,
    });
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| format!("{who:<12} {}", parts.join(" ")))
}
