//! What a hook is told of the point that it is asked at.

use policies::Hook;
use protocol::CallId;
use serde_json::{Value, json};

use super::Turn;
use crate::hook::Point;

impl Turn {
    /// What a hook is told.
    pub(super) fn told(&self, hook: &Hook, point: &Point) -> Value {
        let config = &self.session.config;
        let mut told = json!({
            "v": 1,
            "event": hook.event.as_str(),
            "hook": hook.name(),
            "session": config.welcome.hello.session,
            "workspace": config.welcome.workspace,
            "mode": config.mode.as_str(),
            "model": config.welcome.model,
            "turn": self.session.turn,
        });
        let mut add = |key: &str, value: Value| {
            if let Some(object) = told.as_object_mut() {
                object.insert(key.to_owned(), value);
            }
        };
        let mut about = |id: &CallId, tool: &str| {
            add("call", json!(id));
            add("tool", json!(tool));
        };
        match point {
            Point::SessionStart => add("resumed", json!(!config.welcome.history.is_empty())),
            Point::QueryStart => {}
            Point::Iteration(_) => add("iteration", json!(self.session.infers_in_turn + 1)),
            Point::ToolUses(_) => add("calls", json!(self.session.hooks.used)),
            Point::PreTool(call) => {
                about(&call.id, &call.tool);
                add("input", call.input.clone());
            }
            Point::Permission(asked) => {
                about(&asked.call.id, &asked.call.tool);
                add("input", asked.call.input.clone());
                add("reason", json!(asked.verdict.reason));
                add("rule", json!(asked.verdict.rule));
                add("once_only", json!(asked.verdict.once_only));
            }
            Point::PostTool(done) => {
                about(&done.call, &done.tool);
                add("ok", json!(done.ok));
                add("what", json!(done.what));
                add("outcome", json!(done.outcome));
            }
            Point::Stop(end) => {
                add("text", json!(end.text));
                add("continued", json!(self.session.hooks.continued));
            }
            Point::QueryComplete(end) => {
                add("reason", json!(end.reason));
                add("detail", json!(end.detail));
                add("text", json!(end.text));
            }
            Point::SessionEnd(end) => {
                add("outcome", json!(end.outcome));
                add("reason", json!(end.reason));
                add("calls", json!(self.session.totals.calls));
                add("refusals", json!(self.session.totals.refusals));
                add("usage", json!(self.session.totals.usage));
            }
        }
        told
    }
}
