//! A conversation as the dialects want it: turns that alternate, calls that are answered.

use std::collections::HashSet;

use protocol::{Message, Part, Role};

use super::Target;

/// What stands for a result that never came.
pub(crate) const NO_RESULT: &str = "(no result: the call was interrupted)";
/// What stands for a result without words.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// One turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn<'a> {
    /// What the person and the tools said.
    User {
        /// Results, one for each call of the turn before.
        results: Vec<Outcome<'a>>,
        /// Texts that are not blank.
        texts: Vec<&'a str>,
    },
    /// What the model said.
    Assistant {
        /// Its parts, in order: no blank texts, no foreign reasoning.
        parts: Vec<&'a Part>,
    },
}

/// A tool's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome<'a> {
    /// The call, as the treaty names it.
    pub(crate) id: &'a str,
    /// The tool's name.
    pub(crate) name: &'a str,
    /// What the model reads.
    pub(crate) content: &'a str,
    /// Whether it is an error.
    pub(crate) is_error: bool,
}

/// The turns of a conversation for a target.
///
/// Neighbours of one role are joined, and results come before texts. Each call gets a result, one that
/// says that there is none if it was interrupted; a result without its call is left out. Reasoning of
/// another provider or model is left out, and so is reasoning after which nothing was said.
pub(crate) fn turns<'a>(messages: &'a [Message], target: &Target<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    let mut open: Vec<(&'a str, &'a str)> = Vec::new();
    for message in messages {
        let parts = message.parts.iter().filter(|part| is_kept(part, target));
        match message.role {
            Role::Assistant => {
                let new: Vec<&'a Part> = parts
                    .filter(|part| !matches!(part, Part::ToolResult { .. }))
                    .collect();
                if new.is_empty() {
                    continue;
                }
                answer(&mut turns, &mut open, Vec::new(), Vec::new());
                for part in &new {
                    if let Part::ToolCall { id, name, .. } = part {
                        open.push((id.as_str(), name));
                    }
                }
                match turns.last_mut() {
                    Some(Turn::Assistant { parts }) => parts.extend(new),
                    _ => turns.push(Turn::Assistant { parts: new }),
                }
            }
            Role::User => {
                let (mut results, mut texts) = (Vec::new(), Vec::new());
                for part in parts {
                    match part {
                        Part::ToolResult {
                            id,
                            content,
                            is_error,
                        } => results.push((id.as_str(), content.as_str(), *is_error)),
                        Part::Text { text } => texts.push(text.as_str()),
                        Part::Reasoning { .. } | Part::ToolCall { .. } => {}
                    }
                }
                // A turn may come in several messages: what is still open waits for the model's next.
                answer(&mut turns, &mut open, results, texts);
            }
        }
    }
    answer(&mut turns, &mut open, Vec::new(), Vec::new());
    for turn in &mut turns {
        if let Turn::Assistant { parts } = turn {
            while matches!(parts.last(), Some(Part::Reasoning { .. })) {
                parts.pop();
            }
        }
    }
    // Where such a turn goes, its neighbours are one turn.
    let mut kept: Vec<Turn<'a>> = Vec::new();
    for turn in turns {
        match (kept.last_mut(), turn) {
            (_, Turn::Assistant { parts }) if parts.is_empty() => {}
            (_, Turn::User { results, texts }) if results.is_empty() && texts.is_empty() => {}
            (
                Some(Turn::User { results, texts }),
                Turn::User {
                    results: more,
                    texts: said,
                },
            ) => {
                results.extend(more);
                texts.extend(said);
            }
            (_, turn) => kept.push(turn),
        }
    }
    kept
}

/// Adds to a user turn; with neither results nor texts, closes the calls that are still open.
fn answer<'a>(
    turns: &mut Vec<Turn<'a>>,
    open: &mut Vec<(&'a str, &'a str)>,
    given: Vec<(&'a str, &'a str, bool)>,
    mut said: Vec<&'a str>,
) {
    let closing = given.is_empty() && said.is_empty();
    if closing && open.is_empty() {
        return;
    }
    let mut new = Vec::new();
    for (id, content, is_error) in given {
        let Some(at) = open.iter().position(|(known, _)| *known == id) else {
            continue;
        };
        let (id, name) = open.remove(at);
        let blank = content.trim().is_empty();
        new.push(Outcome {
            id,
            name,
            content: if blank { NO_OUTPUT } else { content },
            is_error,
        });
    }
    if closing {
        new.extend(open.drain(..).map(|(id, name)| Outcome {
            id,
            name,
            content: NO_RESULT,
            is_error: true,
        }));
    }
    match turns.last_mut() {
        Some(Turn::User { results, texts }) => {
            results.append(&mut new);
            texts.append(&mut said);
        }
        _ => turns.push(Turn::User {
            results: new,
            texts: said,
        }),
    }
}

fn is_kept(part: &Part, target: &Target<'_>) -> bool {
    match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::Reasoning {
            provider,
            model,
            raw,
        } => {
            let ours = provider == target.provider && model == target.model;
            ours && raw.starts_with('{')
        }
        Part::ToolCall { .. } | Part::ToolResult { .. } => true,
    }
}

/// Ids of the calls of a conversation, each with the one that goes on the wire; two never share one.
#[derive(Debug, Default)]
pub(crate) struct WireIds {
    given: std::collections::HashMap<String, String>,
    taken: HashSet<String>,
}

impl WireIds {
    /// The id on the wire.
    pub(crate) fn of(&mut self, id: &str, target: &Target<'_>) -> String {
        if let Some(known) = self.given.get(id) {
            return known.clone();
        }
        let mut wire = target.quirks.call_ids.wire(id);
        while !self.taken.insert(wire.clone()) {
            wire = target.quirks.call_ids.wire(&format!("{wire}_"));
        }
        self.given.insert(id.to_owned(), wire.clone());
        wire
    }
}

#[cfg(test)]
mod tests {
    use protocol::CallId;
    use serde_json::json;

    use super::*;
    use crate::dialect::Quirks;

    fn call(id: &str) -> Part {
        Part::ToolCall {
            id: CallId::parse(id).expect("fits"),
            name: format!("tool-{id}"),
            input: json!({}),
        }
    }

    fn result(id: &str, content: &str) -> Part {
        Part::ToolResult {
            id: CallId::parse(id).expect("fits"),
            content: content.into(),
            is_error: false,
        }
    }

    fn text(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    fn reasoning(model: &str) -> Part {
        Part::Reasoning {
            provider: "p".into(),
            model: model.into(),
            raw: "{\"a\":1}".into(),
        }
    }

    fn says(role: Role, parts: Vec<Part>) -> Message {
        Message { role, parts }
    }

    #[test]
    fn every_call_is_answered_once_and_foreign_reasoning_is_gone() {
        let quirks = Quirks::default();
        let target = Target {
            provider: "p",
            model: "m",
            max_output: 1,
            window: 100_000,
            quirks: &quirks,
            wish: None,
        };
        let messages = vec![
            Message::user("go"),
            Message::user(" "),
            says(
                Role::Assistant,
                vec![
                    reasoning("m"),
                    text("I look."),
                    call("a"),
                    call("b"),
                    call("c"),
                ],
            ),
            says(
                Role::User,
                vec![text("note"), result("b", " "), result("x", "lost")],
            ),
            says(Role::User, vec![result("a", "fine"), result("a", "again")]),
            says(Role::Assistant, vec![reasoning("other"), call("d")]),
            Message::user("stop"),
            says(Role::Assistant, vec![reasoning("m")]),
            Message::user("more"),
        ];
        let turns = turns(&messages, &target);
        assert_eq!(turns.len(), 5, "{turns:#?}");
        let Turn::User { results, texts } = &turns[2] else {
            panic!("{turns:?}")
        };
        let short: Vec<_> = results.iter().map(|r| (r.id, r.name, r.content)).collect();
        assert_eq!(
            short,
            [
                ("b", "tool-b", NO_OUTPUT),
                ("a", "tool-a", "fine"),
                ("c", "tool-c", NO_RESULT)
            ]
        );
        assert_eq!(texts, &["note"]);
        let Turn::User { results, texts } = &turns[4] else {
            panic!("{turns:?}")
        };
        assert_eq!((results[0].id, results[0].is_error), ("d", true));
        assert_eq!(texts, &["stop", "more"]);
        assert!(matches!(&turns[1], Turn::Assistant { parts } if parts.len() == 5));
        assert!(matches!(&turns[3], Turn::Assistant { parts } if parts.len() == 1));
    }

    #[test]
    fn two_calls_never_share_an_id_on_the_wire() {
        let quirks = Quirks {
            call_ids: crate::dialect::CallIds::Nine,
            ..Quirks::default()
        };
        let target = Target {
            provider: "p",
            model: "m",
            max_output: 1,
            window: 100_000,
            quirks: &quirks,
            wish: None,
        };
        let mut ids = WireIds::default();
        let mut seen = HashSet::new();
        for n in 0..2_000 {
            let id = format!("toolu_{n}");
            let wire = ids.of(&id, &target);
            assert_eq!(wire, ids.of(&id, &target));
            assert_eq!(wire.len(), 9);
            assert!(seen.insert(wire));
        }
    }
}
