//! Repairs a history on load, so that every provider accepts it: each call has exactly one result.

use std::collections::BTreeSet;

use protocol::{CallId, Message, Part, Role};

use crate::{history, wrap};

const UNKNOWN: &str = "outcome unknown: the session was cut while this call was in flight; check \
                       what it did before repeating it";
const NOT_RUN: &str = "not run: the session was cut before this call was carried out; repeat it if \
                       it is still needed";
const LOST_START: &str = "[The beginning of the conversation is missing.]";

/// Repairs `history`. `unknown` names the calls whose effect was in flight.
///
/// Returns the repaired history and the messages that were added at its end, which are to be
/// appended to the record. What is repaired further up is repaired again on each load: a record is
/// never rewritten.
#[must_use]
pub fn repair(history: Vec<Message>, unknown: &[CallId]) -> (Vec<Message>, Vec<Message>) {
    let mut repaired = Repaired {
        out: Vec::new(),
        open: Vec::new(),
        unknown,
    };
    for message in history {
        match message.role {
            Role::Assistant => repaired.assistant(message),
            Role::User => repaired.user(message),
        }
    }
    let notes: Vec<Message> = repaired.close().into_iter().collect();
    (repaired.out, notes)
}

struct Repaired<'a> {
    out: Vec<Message>,
    /// Calls of the last answer that have no result yet, with their tool.
    open: Vec<(CallId, String)>,
    unknown: &'a [CallId],
}

impl Repaired<'_> {
    fn assistant(&mut self, message: Message) {
        self.close();
        let mut seen = BTreeSet::new();
        let parts = message.parts.into_iter().filter(|part| match part {
            Part::Text { text } => !text.is_empty(),
            Part::Reasoning { .. } => true,
            Part::ToolCall { id, .. } => seen.insert(id.clone()),
            Part::ToolResult { .. } => false,
        });
        let message = Message {
            role: Role::Assistant,
            parts: parts.collect(),
        };
        if history::is_empty(&message) {
            return;
        }
        if self.out.is_empty() {
            self.out.push(Message::user(LOST_START));
        }
        self.open = message.parts.iter().filter_map(call_of).collect();
        self.out.push(message);
    }

    fn user(&mut self, message: Message) {
        let (mut results, mut rest) = (Vec::new(), Vec::new());
        for part in message.parts {
            match part {
                // A result without an open call, or a second one, is dropped.
                Part::ToolResult { ref id, .. } => {
                    if let Some(at) = self.open.iter().position(|(open, _)| open == id) {
                        self.open.remove(at);
                        results.push(part);
                    }
                }
                Part::Text { .. } => rest.push(part),
                Part::Reasoning { .. } | Part::ToolCall { .. } => {}
            }
        }
        history::push(
            &mut self.out,
            Message {
                role: Role::User,
                parts: results,
            },
        );
        let rest = Message {
            role: Role::User,
            parts: rest,
        };
        if !history::is_empty(&rest) {
            // Whoever speaks next ends the round: results that are missing by now will not come.
            self.close();
            self.out.push(rest);
        }
    }

    /// Gives each open call its result.
    fn close(&mut self) -> Option<Message> {
        let open = std::mem::take(&mut self.open);
        let parts: Vec<Part> = open
            .into_iter()
            .map(|(id, tool)| {
                let why = if self.unknown.contains(&id) {
                    UNKNOWN
                } else {
                    NOT_RUN
                };
                let content = wrap::wrap(&tool, &format!("{{\"ok\":false,\"error\":\"{why}\"}}"));
                Part::ToolResult {
                    id,
                    content,
                    is_error: true,
                }
            })
            .collect();
        if parts.is_empty() {
            return None;
        }
        let message = Message {
            role: Role::User,
            parts,
        };
        history::push(&mut self.out, message.clone());
        Some(message)
    }
}

fn call_of(part: &Part) -> Option<(CallId, String)> {
    match part {
        Part::ToolCall { id, name, .. } => Some((id.clone(), name.clone())),
        Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(word: &str) -> CallId {
        CallId::parse(word).expect("valid")
    }

    fn calls(ids: &[&str]) -> Message {
        let parts = ids.iter().map(|word| Part::ToolCall {
            id: id(word),
            name: "bash".into(),
            input: json!({"command": "ls"}),
        });
        Message {
            role: Role::Assistant,
            parts: parts.collect(),
        }
    }

    fn results(ids: &[&str]) -> Message {
        let parts = ids.iter().map(|word| Part::ToolResult {
            id: id(word),
            content: "ok".into(),
            is_error: false,
        });
        Message {
            role: Role::User,
            parts: parts.collect(),
        }
    }

    fn shape(history: &[Message]) -> Vec<String> {
        let part = |part: &Part| match part {
            Part::Text { text } => format!("t:{}", text.chars().take(4).collect::<String>()),
            Part::Reasoning { .. } => "r".to_owned(),
            Part::ToolCall { id, .. } => format!("c:{id}"),
            Part::ToolResult { id, is_error, .. } => {
                format!("{}:{id}", if *is_error { "e" } else { "k" })
            }
        };
        let message = |m: &Message| m.parts.iter().map(part).collect::<Vec<_>>().join(" ");
        history.iter().map(message).collect()
    }

    #[test]
    fn each_call_gets_exactly_one_result_wherever_the_cut_was() {
        let go = || Message::user("go");
        let table: Vec<(Vec<Message>, Vec<&str>, usize)> = vec![
            (
                vec![go(), calls(&["a", "b"])],
                vec!["t:go", "c:a c:b", "e:a e:b"],
                1,
            ),
            (
                vec![go(), calls(&["a", "b"]), results(&["a"])],
                vec!["t:go", "c:a c:b", "k:a e:b"],
                1,
            ),
            (
                vec![go(), calls(&["a", "b"]), results(&["a"]), results(&["b"])],
                vec!["t:go", "c:a c:b", "k:a k:b"],
                0,
            ),
            (
                vec![go(), calls(&["a"]), go(), results(&["a"])],
                vec!["t:go", "c:a", "e:a", "t:go"],
                0,
            ),
            (
                vec![
                    go(),
                    calls(&["a"]),
                    results(&["a", "a", "x"]),
                    calls(&["a", "a"]),
                ],
                vec!["t:go", "c:a", "k:a", "c:a", "e:a"],
                1,
            ),
            (vec![go(), results(&["a"])], vec!["t:go"], 0),
            (vec![calls(&["a"])], vec!["t:[The", "c:a", "e:a"], 1),
            (
                vec![
                    go(),
                    Message {
                        role: Role::Assistant,
                        parts: vec![],
                    },
                    go(),
                ],
                vec!["t:go", "t:go"],
                0,
            ),
            (vec![], vec![], 0),
        ];
        for (history, want, notes) in table {
            let (repaired, added) = repair(history, &[]);
            assert_eq!(shape(&repaired), want);
            assert_eq!(added.len(), notes, "{want:?}");
            let (again, added) = repair(repaired.clone(), &[]);
            assert_eq!(
                (again, added.len()),
                (repaired, 0),
                "a repaired history stays as it is"
            );
        }
    }

    #[test]
    fn an_effect_in_flight_is_told_as_unknown_and_the_rest_as_not_run() {
        let (repaired, _) = repair(vec![Message::user("go"), calls(&["a", "b"])], &[id("b")]);
        let Some(Message { parts, .. }) = repaired.last() else {
            panic!("results")
        };
        let text = |n: usize| match &parts[n] {
            Part::ToolResult { content, .. } => content.clone(),
            other => panic!("{other:?}"),
        };
        assert!(text(0).contains("not run:"));
        assert!(text(1).contains("outcome unknown:") && text(1).contains("before repeating"));
    }
}
