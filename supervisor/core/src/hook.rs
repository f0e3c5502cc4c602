//! What hooks are told, what they answer, and what a session knows of those that run.

use std::collections::BTreeMap;

use policies::{Action, Hook, HookEvent, Verdict};
use protocol::{CallId, Digest, Infer, TurnEnd, bounds, call::Call, call::Outcome};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    End,
    escape::{cut, escape},
};

/// How a hook's run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookEnd {
    /// It left by itself.
    Exited {
        /// Its exit code.
        code: i32,
        /// Its standard output.
        out: String,
        /// Its standard error.
        err: String,
    },
    /// It did not start, was ended, or cannot be understood: a sentence.
    Failed(String),
}

/// What an answer means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// Nothing against it.
    Nothing,
    /// A word in favour: advice, which lowers nothing.
    Advice(String),
    /// No.
    Deny(String),
    /// Another input.
    Rewrite(Value),
    /// One more cycle, and what for.
    Continue(String),
    /// No answer that counts.
    Failed(String),
}

/// An answer, and what it wants the model to read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heard {
    pub(crate) said: Said,
    pub(crate) context: Option<String>,
}

impl Said {
    /// The word of the record.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Nothing => "passed",
            Self::Advice(_) => "allow",
            Self::Deny(_) => "deny",
            Self::Rewrite(_) => "rewrite",
            Self::Continue(_) => "continue",
            Self::Failed(_) => "failed",
        }
    }

    /// What the record keeps beside the word.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Advice(words)
            | Self::Deny(words)
            | Self::Continue(words)
            | Self::Failed(words) => words.clone(),
            Self::Rewrite(input) => cut(&input.to_string(), 4_096),
        }
    }
}

/// What a hook writes to standard output.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    decision: Option<Decision>,
    reason: Option<String>,
    input: Option<Value>,
    context: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Allow,
    Deny,
    Rewrite,
    Continue,
}

/// Longest reason.
const REASON: usize = 4_096;

/// Reads what a hook answered at its event. What cannot be understood has failed.
pub(crate) fn hear(event: HookEvent, end: HookEnd) -> Heard {
    let only = |said| Heard {
        said,
        context: None,
    };
    match end {
        HookEnd::Failed(why) => only(Said::Failed(why)),
        HookEnd::Exited { code: 0, out, .. } if out.trim().is_empty() => only(Said::Nothing),
        HookEnd::Exited { code: 0, out, .. } => match serde_json::from_str(out.trim()) {
            Ok(answer) => weigh(event, answer),
            Err(error) => only(Said::Failed(format!(
                "its standard output is not an answer: {error}"
            ))),
        },
        HookEnd::Exited { code: 2, err, .. } => only(no(event, reason(Some(err)))),
        HookEnd::Exited { code, err, .. } => {
            let first = err.trim().lines().next().unwrap_or_default();
            let words = escape(&cut(first, 400), false);
            let colon = if words.is_empty() { "" } else { ": " };
            only(Said::Failed(format!("exit code {code}{colon}{words}")))
        }
    }
}

fn weigh(event: HookEvent, answer: Answer) -> Heard {
    let failed = |why: &str| Said::Failed(format!("its answer does not fit: {why}"));
    let said = match (answer.decision, answer.input) {
        (Some(Decision::Rewrite), Some(input)) if event == HookEvent::PreTool => {
            Said::Rewrite(input)
        }
        (Some(Decision::Rewrite), Some(_)) => failed("only pre_tool has an input to rewrite"),
        (Some(Decision::Rewrite), None) => failed("`rewrite` without `input`"),
        (_, Some(_)) => failed("`input` without the decision `rewrite`"),
        (Some(Decision::Continue), None) if event == HookEvent::Stop => {
            Said::Continue(reason(answer.reason))
        }
        (Some(Decision::Continue), None) => failed("`continue` is for stop"),
        (Some(Decision::Deny), None) => no(event, reason(answer.reason)),
        (Some(Decision::Allow), None) => {
            Said::Advice(cut(&answer.reason.unwrap_or_default(), REASON))
        }
        (None, None) => Said::Nothing,
    };
    let context = answer
        .context
        .filter(|text| !text.trim().is_empty())
        .map(|text| cut(&text, bounds::HOOK_CONTEXT));
    Heard { said, context }
}

/// A no to a stop is one more cycle.
fn no(event: HookEvent, reason: String) -> Said {
    match event {
        HookEvent::Stop => Said::Continue(reason),
        _ => Said::Deny(reason),
    }
}

fn reason(words: Option<String>) -> String {
    let words = words.unwrap_or_default();
    match words.trim() {
        "" => "no reason was given".to_owned(),
        words => cut(words, REASON),
    }
}

/// Where a session stands still until its hooks have answered, and what it goes on with.
#[derive(Debug, Clone)]
pub(crate) enum Point {
    SessionStart,
    QueryStart,
    /// Calls are done, and the model is to be asked.
    ToolUses(Box<Infer>),
    Iteration(Box<Infer>),
    PreTool(Box<Call>),
    Permission(Box<ToAsk>),
    PostTool(Box<Done>),
    Stop(TurnEnd),
    QueryComplete(TurnEnd),
    SessionEnd(End),
}

/// A call that a person is to be asked about.
#[derive(Debug, Clone)]
pub(crate) struct ToAsk {
    pub(crate) call: Call,
    pub(crate) action: Action,
    pub(crate) verdict: Verdict,
    pub(crate) key: Digest,
}

/// A call that had its effect.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) call: CallId,
    pub(crate) tool: String,
    pub(crate) ok: bool,
    pub(crate) what: String,
    /// What the agent still waits for; nothing, if it did the call itself.
    pub(crate) outcome: Option<Outcome>,
}

impl Point {
    /// Its event.
    pub(crate) fn event(&self) -> HookEvent {
        match self {
            Self::SessionStart => HookEvent::SessionStart,
            Self::QueryStart => HookEvent::QueryStart,
            Self::ToolUses(_) => HookEvent::ToolUsesComplete,
            Self::Iteration(_) => HookEvent::IterationStart,
            Self::PreTool(_) => HookEvent::PreTool,
            Self::Permission(_) => HookEvent::PermissionRequest,
            Self::PostTool(_) => HookEvent::PostTool,
            Self::Stop(_) => HookEvent::Stop,
            Self::QueryComplete(_) => HookEvent::QueryComplete,
            Self::SessionEnd(_) => HookEvent::SessionEnd,
        }
    }

    /// The call that it is about, and its tool.
    pub(crate) fn call(&self) -> Option<(&CallId, &str)> {
        match self {
            Self::PreTool(call) => Some((&call.id, &call.tool)),
            Self::Permission(asked) => Some((&asked.call.id, &asked.call.tool)),
            Self::PostTool(done) => Some((&done.call, &done.tool)),
            Self::SessionStart
            | Self::QueryStart
            | Self::ToolUses(_)
            | Self::Iteration(_)
            | Self::Stop(_)
            | Self::QueryComplete(_)
            | Self::SessionEnd(_) => None,
        }
    }

    /// Whether the session is between turns because of it.
    pub(crate) fn is_between_turns(&self) -> bool {
        matches!(
            self,
            Self::SessionStart | Self::QueryStart | Self::Stop(_) | Self::QueryComplete(_)
        )
    }
}

/// The hooks of one point, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) point: Point,
    /// Indices of the policy's hooks.
    pub(crate) hooks: Vec<usize>,
    pub(crate) next: usize,
    pub(crate) rewrites: u32,
    /// What hooks say in favour.
    pub(crate) advice: Vec<String>,
}

/// What a session knows of its hooks.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    /// Runs so far.
    pub(crate) runs: u64,
    /// What waits for a run's end.
    pub(crate) open: BTreeMap<u64, Chain>,
    /// A model call that waits for hooks of reads.
    pub(crate) held: Option<Box<Infer>>,
    /// Calls since the model was last asked.
    pub(crate) used: Vec<Value>,
    /// What the model is to read before its next answer.
    pub(crate) context: Vec<String>,
    /// A stop hook asked for one more cycle in this turn.
    pub(crate) continued: bool,
    /// A required hook failed where nothing could be denied: nothing more is done.
    pub(crate) halted: Option<String>,
    /// The session's end, while its last hooks run.
    pub(crate) closing: Option<End>,
}

impl Hooks {
    /// Whether a call has hooks running.
    pub(crate) fn holds(&self, id: &CallId) -> bool {
        let mut points = self.open.values().map(|chain| &chain.point);
        points.any(|point| point.call().is_some_and(|(call, _)| call == id))
    }

    /// Whether a model call waits for hooks.
    pub(crate) fn holds_infer(&self) -> bool {
        let is_it = |chain: &Chain| matches!(chain.point, Point::ToolUses(_) | Point::Iteration(_));
        self.held.is_some() || self.open.values().any(is_it)
    }

    /// Whether hooks of calls that are done still run.
    pub(crate) fn after_calls(&self) -> bool {
        let mut chains = self.open.values();
        chains.any(|chain| matches!(chain.point, Point::PostTool(_)))
    }

    /// Adds words for the model, as far as there is room.
    pub(crate) fn say(&mut self, hook: &Hook, words: &str) {
        let held: usize = self.context.iter().map(String::len).sum();
        let text = format!("[Hook {}: {words}]", hook.name());
        if held.saturating_add(text.len()) <= bounds::HOOK_CONTEXTS {
            self.context.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exited(code: i32, out: &str, err: &str) -> HookEnd {
        HookEnd::Exited {
            code,
            out: out.into(),
            err: err.into(),
        }
    }

    #[test]
    fn answers_mean_what_the_protocol_says_and_nothing_else_passes() {
        use HookEvent::{IterationStart, PostTool, PreTool, Stop};
        let deny = |words: &str| Said::Deny(words.to_owned());
        for (event, end, said) in [
            (PreTool, exited(0, "", "chatter"), Said::Nothing),
            (PreTool, exited(0, " \n", ""), Said::Nothing),
            (PreTool, exited(0, "{}", ""), Said::Nothing),
            (
                PreTool,
                exited(0, r#"{"decision":"allow","reason":"fine"}"#, ""),
                Said::Advice("fine".into()),
            ),
            (
                PreTool,
                exited(0, r#"{"decision":"deny","reason":"no"}"#, ""),
                deny("no"),
            ),
            (
                PreTool,
                exited(0, r#"{"decision":"rewrite","input":{"command":"ls"}}"#, ""),
                Said::Rewrite(json!({ "command": "ls" })),
            ),
            (
                PreTool,
                exited(2, "ignored", " secrets \n"),
                deny("secrets"),
            ),
            (PreTool, exited(2, "", ""), deny("no reason was given")),
            (IterationStart, exited(2, "", "enough"), deny("enough")),
            (PostTool, exited(2, "", "lint"), deny("lint")),
            (
                Stop,
                exited(2, "", "tests fail"),
                Said::Continue("tests fail".into()),
            ),
            (
                Stop,
                exited(0, r#"{"decision":"continue","reason":"more"}"#, ""),
                Said::Continue("more".into()),
            ),
        ] {
            assert_eq!(hear(event, end.clone()).said, said, "{event:?} {end:?}");
        }
        for (event, end) in [
            (PreTool, exited(1, "", "boom\nmore")),
            (PreTool, exited(0, "ok", "")),
            (PreTool, exited(0, "[]", "")),
            (PreTool, exited(0, r#"{"decision":"ok"}"#, "")),
            (
                PreTool,
                exited(0, r#"{"decision":"allow","mode":"bypass"}"#, ""),
            ),
            (PreTool, exited(0, r#"{"decision":"rewrite"}"#, "")),
            (PreTool, exited(0, r#"{"input":{}}"#, "")),
            (PreTool, exited(0, r#"{"decision":"continue"}"#, "")),
            (Stop, exited(0, r#"{"decision":"rewrite","input":{}}"#, "")),
            (PreTool, HookEnd::Failed("ended after 10 s".into())),
        ] {
            let heard = hear(event, end.clone());
            assert!(matches!(heard.said, Said::Failed(_)), "{event:?} {end:?}");
        }
    }

    #[test]
    fn what_a_hook_says_to_the_model_is_bounded() {
        let long = "x".repeat(2 * bounds::HOOK_CONTEXT);
        let out = json!({ "context": long }).to_string();
        let heard = hear(HookEvent::PreTool, exited(0, &out, ""));
        let context = heard.context.expect("said");
        assert!(
            context.len() <= bounds::HOOK_CONTEXT + 64,
            "{}",
            context.len()
        );
        let blank = hear(HookEvent::PreTool, exited(0, r#"{"context":" "}"#, ""));
        assert_eq!(blank.context, None);
    }
}
