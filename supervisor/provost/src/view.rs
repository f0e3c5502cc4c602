//! What people and programs see of a session while it runs: a live view, or events as JSON.

use std::{collections::BTreeMap, time::Instant};

use protocol::CallId;
use serde_json::json;
use supervisor_core::{
    Attempt, Question, ViewEvent,
    escape::{cut, escape},
};

use crate::{cli::Format, output};

/// A call as the summary lists it.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct CallLine {
    id: String,
    tool: String,
    verdict: &'static str,
    rule: Option<String>,
    ok: bool,
    ms: u64,
}

#[derive(Debug)]
struct Open {
    tool: String,
    what: String,
    since: Instant,
    told: u64,
    percent: u8,
}

/// The view of one session.
#[derive(Debug)]
pub(crate) struct View {
    format: Format,
    colour: bool,
    seq: u64,
    /// Whether a line of model text is unfinished.
    midline: bool,
    open: BTreeMap<CallId, Open>,
    calls: Vec<CallLine>,
    tried: Vec<serde_json::Value>,
    session: String,
}

/// Seconds after which a running call says that it still runs, and then each time again.
const STILL: u64 = 5;
/// Calls that the summary lists; the record has all.
const LISTED: usize = 10_000;

impl View {
    /// For a session in a format.
    pub(crate) fn new(format: Format, session: &str) -> Self {
        let colour = format == Format::Text
            && output::err_is_terminal()
            && std::env::var_os("NO_COLOR").is_none();
        Self {
            format,
            colour,
            seq: 0,
            midline: false,
            open: BTreeMap::new(),
            calls: Vec::new(),
            tried: Vec::new(),
            session: session.to_owned(),
        }
    }

    /// The calls so far, for the summary.
    pub(crate) fn calls(&self) -> &[CallLine] {
        &self.calls
    }

    /// Attempts of model calls that failed, for the summary.
    pub(crate) fn tried(&self) -> &[serde_json::Value] {
        &self.tried
    }

    /// A line about the session itself (`session`, `certificate`, `workspace`). Paths and names in it
    /// are a stranger's.
    pub(crate) fn head(&mut self, kind: &str, text: &str) {
        match self.format {
            Format::Text => {
                let text = escape(text, false);
                self.line(&self.paint("2", &format!("{kind:<11} {text}")));
            }
            Format::StreamJson => self.emit(kind, json!({ "text": text })),
            Format::Json => {}
        }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &ViewEvent) {
        self.keep(event);
        match self.format {
            Format::Text => self.show(event),
            Format::StreamJson => self.stream(event),
            Format::Json => {}
        }
    }

    /// A question is open; the approver draws it.
    pub(crate) fn asking(&mut self, question: &Question) {
        if self.format == Format::StreamJson {
            let body = json!({ "call": question.call, "tool": question.tool, "action": question.shown,
                "rule": question.rule, "reason": question.reason });
            self.emit("ask", body);
        }
        self.end_line();
    }

    /// Called about once a second: long calls say that they still run.
    pub(crate) fn tick(&mut self) {
        if self.format != Format::Text {
            return;
        }
        let mut lines = Vec::new();
        for open in self.open.values_mut() {
            let seconds = open.since.elapsed().as_secs();
            if seconds >= open.told + STILL {
                open.told = seconds;
                lines.push(format!(
                    "  … {} {} · {seconds} s",
                    open.tool,
                    cut(&open.what, 60)
                ));
            }
        }
        for line in lines {
            let line = self.paint("2", &line);
            self.line(&line);
        }
    }

    fn keep(&mut self, event: &ViewEvent) {
        match event {
            ViewEvent::Judged {
                call, tool, what, ..
            } => {
                let tool = escape(&cut(tool, 40), false);
                let open = Open {
                    tool,
                    what: what.clone(),
                    since: Instant::now(),
                    told: 0,
                    percent: 33,
                };
                self.open.insert(call.clone(), open);
            }
            ViewEvent::Tried(attempt) if self.tried.len() < LISTED => {
                self.tried.push(json!(attempt));
            }
            ViewEvent::Progress { call, percent } => {
                if let Some(open) = self.open.get_mut(call) {
                    open.percent = *percent;
                }
            }
            ViewEvent::Settled {
                call,
                tool,
                ok,
                ms,
                verdict,
                rule,
                ..
            } if self.calls.len() < LISTED => {
                self.calls.push(CallLine {
                    id: call.to_string(),
                    tool: tool.clone(),
                    verdict,
                    rule: rule.clone(),
                    ok: *ok,
                    ms: *ms,
                });
            }
            _ => {}
        }
    }

    fn show(&mut self, event: &ViewEvent) {
        match event {
            ViewEvent::Text(text) => {
                let shown = escape(text, true);
                output::err(&shown);
                self.midline = !shown.ends_with('\n') && (self.midline || !shown.is_empty());
            }
            ViewEvent::Withdrawn => self.line("  (the answer was cut; asking again)"),
            ViewEvent::Tried(attempt) => {
                // The last one is told as the call's failure.
                if let Some(text) = what_next(attempt) {
                    self.line(&self.paint("33", &format!("  ↻ {text}")));
                }
            }
            ViewEvent::InferFailed { class, message } => {
                let text = format!("  ✗ model: {class}: {message}");
                self.line(&self.paint("31", &text));
            }
            ViewEvent::Settled {
                call,
                tool,
                ok,
                what,
                ms,
                verdict,
                rule,
            } => {
                let open = self.open.remove(call);
                let action = open.map(|open| open.what).unwrap_or_default();
                let mark = if *ok {
                    self.paint("32", "✓")
                } else {
                    self.paint("31", "✗")
                };
                let by = rule.as_deref().filter(|rule| *rule != "default");
                let by = by.map(|rule| format!(" by {rule}")).unwrap_or_default();
                let verdict = self.paint(
                    if *verdict == "deny" { "31" } else { "2" },
                    &format!("{verdict}{by}"),
                );
                let head = format!(
                    "  {mark} {tool} {} [{verdict} · {}]",
                    cut(&action, 90),
                    time(*ms)
                );
                self.line(&head);
                if !what.is_empty() {
                    let what = self.paint("2", &format!("      {}", cut(what, 300)));
                    self.line(&what);
                }
            }
            ViewEvent::Classified {
                call,
                by,
                answer,
                why,
                cached,
                ms,
            } => {
                let what = self.open.get(call).map(|open| cut(&open.what, 60));
                let when = if *cached {
                    "as before".to_owned()
                } else {
                    time(*ms)
                };
                let by = escape(by, false);
                let text = format!(
                    "  ⚖ classifier {by}: {answer} {} [{when}] {}",
                    what.unwrap_or_default(),
                    cut(why, 200)
                );
                self.line(&self.paint("2", &text));
            }
            ViewEvent::Mode { mode, planning, by } => {
                let plan = if *planning { ", plan mode" } else { "" };
                let text = format!("  ! mode {}{plan}: {by}", mode.as_str());
                self.line(&self.paint("33", &text));
            }
            ViewEvent::Notice(text) => self.line(&self.paint("33", &format!("  ! {text}"))),
            ViewEvent::Log(text) => self.line(&self.paint("2", &format!("  worker: {text}"))),
            ViewEvent::TurnEnded(end) => {
                self.end_line();
                if let Some(detail) = &end.detail {
                    self.line(&self.paint("33", &format!("  {}", escape(detail, false))));
                }
            }
            ViewEvent::TurnBegan { .. }
            | ViewEvent::Inferred { .. }
            | ViewEvent::Judged { .. }
            | ViewEvent::Progress { .. }
            | ViewEvent::Transition { .. } => {}
        }
    }

    fn stream(&mut self, event: &ViewEvent) {
        let (kind, body) = match event {
            ViewEvent::TurnBegan { number } => ("turn", json!({ "number": number })),
            ViewEvent::Text(text) => ("text", json!({ "text": text })),
            ViewEvent::Withdrawn => ("withdrawn", json!({})),
            ViewEvent::Inferred { input, output, ms } => (
                "inferred",
                json!({ "input": input, "output": output, "ms": ms }),
            ),
            ViewEvent::Tried(attempt) => ("tried", json!(attempt)),
            ViewEvent::InferFailed { class, message } => (
                "infer_failed",
                json!({ "class": class, "message": message }),
            ),
            ViewEvent::Judged {
                call,
                tool,
                what,
                verdict,
                rule,
                reason,
            } => (
                "verdict",
                json!({ "call": call, "tool": tool, "action": what, "verdict": verdict,
                    "rule": rule, "reason": reason }),
            ),
            ViewEvent::Classified {
                call,
                by,
                answer,
                why,
                cached,
                ms,
            } => (
                "classified",
                json!({ "call": call, "by": by, "answer": answer, "why": why, "cached": cached, "ms": ms }),
            ),
            ViewEvent::Mode { mode, planning, by } => (
                "mode",
                json!({ "mode": mode.as_str(), "plan": planning, "by": by }),
            ),
            ViewEvent::Progress { call, percent } => {
                ("progress", json!({ "call": call, "percent": percent }))
            }
            ViewEvent::Settled {
                call,
                tool,
                ok,
                what,
                ms,
                verdict,
                rule,
            } => (
                "call",
                json!({ "call": call, "tool": tool, "ok": ok, "what": what, "ms": ms,
                    "verdict": verdict, "rule": rule }),
            ),
            ViewEvent::Transition { iteration, text } => (
                "transition",
                json!({ "iteration": iteration, "text": text }),
            ),
            ViewEvent::Log(text) => ("log", json!({ "text": text })),
            ViewEvent::TurnEnded(end) => (
                "turn_ended",
                json!({ "reason": end.reason, "detail": end.detail }),
            ),
            ViewEvent::Notice(text) => ("notice", json!({ "text": text })),
        };
        self.emit(kind, body);
    }

    /// One event as a line on standard output.
    pub(crate) fn emit(&mut self, kind: &str, body: serde_json::Value) {
        self.seq += 1;
        let mut object = json!({ "v": 1, "seq": self.seq, "time": crate::session::now_ms(),
            "session": self.session, "type": kind });
        if let (Some(object), serde_json::Value::Object(body)) = (object.as_object_mut(), body) {
            object.extend(body);
        }
        output::out(&format!("{object}\n"));
    }

    /// A line for people, on a line of its own.
    pub(crate) fn line(&mut self, text: &str) {
        self.end_line();
        output::err(&format!("{text}\n"));
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.midline) {
            output::err("\n");
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A failed attempt and what comes after it, for people; `None` if nothing does.
pub(crate) fn what_next(attempt: &Attempt) -> Option<String> {
    let next = attempt.next.as_deref()?;
    let same = next.split_once('/') == Some((&attempt.provider, &attempt.model));
    let then = match (same, attempt.wait_ms) {
        (true, 0) => "asking again".to_owned(),
        (true, ms) => format!("asking again in {}", time(ms)),
        (false, _) => format!("asking {next} instead"),
    };
    let text = format!(
        "{}/{}: {}: {} · {then}",
        attempt.provider, attempt.model, attempt.class, attempt.message
    );
    Some(escape(&cut(&text, 400), false))
}

/// Milliseconds for people.
pub(crate) fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}
