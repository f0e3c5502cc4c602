//! A session as a text that is the same on every machine: what was said, judged, begun and answered.

use serde_json::Value;

use super::Place;

/// The transcript of a session, with everything that differs from run to run made equal.
#[must_use]
pub fn transcript(place: &Place, session: &str) -> String {
    let mut text = String::new();
    let mut outcomes = Vec::new();
    for entry in place.told(session) {
        let word = |key: &str| {
            entry
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or("-")
                .to_owned()
        };
        match entry
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "message" => text.push_str(&message(entry.get("message").unwrap_or(&Value::Null))),
            "verdict" => {
                let verdict = entry.get("verdict").unwrap_or(&Value::Null);
                let of = |key: &str| verdict.get(key).and_then(Value::as_str).unwrap_or("-");
                text.push_str(&format!(
                    "verdict {}: {} by {} ({}, {}): {}\n",
                    word("call"),
                    of("verdict"),
                    of("rule"),
                    of("stage"),
                    of("layer"),
                    of("reason")
                ));
            }
            "intent" => {
                text.push_str(&format!(
                    "intent {}: {} {}\n",
                    word("call"),
                    word("effect"),
                    word("what")
                ));
            }
            // Calls that run together end in any order.
            "outcome" => {
                let ok = entry.get("ok").and_then(Value::as_bool).unwrap_or(false);
                outcomes.push(format!(
                    "outcome {}: {}\n",
                    word("call"),
                    if ok { "ok" } else { "failed" }
                ));
            }
            "unknown" => text.push_str(&format!("unknown {}\n", word("call"))),
            "asked" => text.push_str(&format!("asked {}: {}\n", word("call"), word("shown"))),
            "answered" => {
                text.push_str(&format!("answered {}: {}\n", word("call"), word("answer")))
            }
            "turn_ended" => text.push_str(&format!("turn ended: {}\n", word("reason"))),
            "ended" => text.push_str(&format!("ended: {}\n", word("outcome"))),
            _ => {}
        }
    }
    outcomes.sort();
    text.push_str(&outcomes.concat());
    let text = text
        .replace(&place.root().display().to_string(), "@ROOT@")
        .replace(session, "@SESSION@");
    without_times(&text)
}

fn message(message: &Value) -> String {
    let who = message.get("role").and_then(Value::as_str).unwrap_or("?");
    let mut text = String::new();
    for part in message
        .get("parts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let word = |of: &Value, key: &str| {
            of.get(key)
                .and_then(Value::as_str)
                .unwrap_or("-")
                .to_owned()
        };
        if let Some(said) = part.get("text") {
            text.push_str(&format!("{who}: {}\n", word(said, "text").trim_end()));
        } else if let Some(call) = part.get("tool_call") {
            let input = call.get("input").unwrap_or(&Value::Null);
            text.push_str(&format!(
                "call {}: {} {input}\n",
                word(call, "id"),
                word(call, "name")
            ));
        } else if let Some(result) = part.get("tool_result") {
            text.push_str(&format!(
                "result {}: {}\n",
                word(result, "id"),
                word(result, "content")
            ));
        }
    }
    text
}

/// `"ms":12` is `"ms":0`.
fn without_times(text: &str) -> String {
    let mut pieces = text.split("\"ms\":");
    let mut clean = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        clean.push_str("\"ms\":0");
        let rest = piece.strip_prefix("null").unwrap_or(piece);
        clean.push_str(rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    clean
}
