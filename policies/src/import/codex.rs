//! `prefix_rule(pattern=…, decision=…)` of a `.rules` file.

use super::{
    Gathered, pattern,
    starlark::{Call, Value, calls},
};
use crate::Decision;

/// Patterns that one rule's alternatives may make.
const ALTERNATIVES: usize = 256;

/// Reads a file of rules.
pub(super) fn read(text: &str) -> Result<Gathered, String> {
    let mut gathered = Gathered::default();
    for call in calls(text)? {
        match call.name.as_str() {
            "prefix_rule" => prefix(&call, &mut gathered)?,
            "network_rule" => network(&call, &mut gathered),
            name => {
                let what = format!("{name} (line {})", call.line);
                gathered.leave(&what, "a policy of ours has no such rule");
            }
        }
    }
    Ok(gathered)
}

fn get<'c>(call: &'c Call, key: &str) -> Option<&'c Value> {
    call.arguments
        .iter()
        .find(|(name, _)| name == key)
        .map(|(_, value)| value)
}

fn text<'c>(call: &'c Call, key: &str) -> Option<&'c str> {
    match get(call, key) {
        Some(Value::Text(text) | Value::Word(text)) => Some(text),
        _ => None,
    }
}

fn prefix(call: &Call, gathered: &mut Gathered) -> Result<(), String> {
    let line = call.line;
    let Some(Value::List(items)) = get(call, "pattern") else {
        return Err(format!(
            "line {line}: a prefix_rule has a `pattern`, a list"
        ));
    };
    let verdict = match text(call, "decision").unwrap_or("allow") {
        "allow" => Decision::Allow,
        "prompt" => Decision::Ask,
        "forbidden" => Decision::Deny,
        other => {
            return Err(format!(
                "line {line}: no decision is named `{}`",
                other.escape_debug()
            ));
        }
    };
    let mut patterns: Vec<Vec<String>> = vec![Vec::new()];
    for item in items {
        let words: Vec<String> = match item {
            Value::Text(word) => vec![word.clone()],
            Value::List(words) => words
                .iter()
                .filter_map(|word| match word {
                    Value::Text(word) => Some(word.clone()),
                    _ => None,
                })
                .collect(),
            Value::Word(word) => {
                return Err(format!("line {line}: `{word}` is no word of a command"));
            }
        };
        patterns = patterns
            .iter()
            .flat_map(|before| {
                words.iter().map(|word| {
                    let mut next = before.clone();
                    next.push(word.clone());
                    next
                })
            })
            .take(ALTERNATIVES + 1)
            .collect();
    }
    let what = format!("prefix_rule (line {line})");
    if patterns.len() > ALTERNATIVES || patterns.is_empty() {
        gathered.leave(&what, "its alternatives make too many patterns, or none");
        return Ok(());
    }
    let reason = text(call, "justification")
        .filter(|text| {
            !text.trim().is_empty() && text.len() <= 500 && !text.chars().any(char::is_control)
        })
        .unwrap_or(match verdict {
            Decision::Allow => "the imported rules allow it",
            Decision::Ask => "the imported rules ask about it",
            Decision::Deny => "the imported rules forbid it",
        });
    let (matching, differing) = (examples(call, "match"), examples(call, "not_match"));
    for words in &patterns {
        let Some(pattern) = pattern(words) else {
            gathered.leave(&what, "its words cannot be written as a pattern");
            continue;
        };
        gathered.rule("bash", verdict, reason, |rule| {
            rule.command.push(pattern);
            rule.examples.r#match.clone_from(&matching);
            rule.examples.differ.clone_from(&differing);
        });
    }
    Ok(())
}

/// Examples are lines, or lists of words.
fn examples(call: &Call, key: &str) -> Vec<String> {
    let Some(Value::List(items)) = get(call, key) else {
        return Vec::new();
    };
    let line = |item: &Value| match item {
        Value::Text(text) => Some(text.clone()),
        Value::List(words) => {
            let words: Vec<&str> = words
                .iter()
                .filter_map(|word| match word {
                    Value::Text(word) => Some(word.as_str()),
                    _ => None,
                })
                .collect();
            Some(words.join(" "))
        }
        Value::Word(_) => None,
    };
    items.iter().filter_map(line).collect()
}

fn network(call: &Call, gathered: &mut Gathered) {
    let what = format!("network_rule (line {})", call.line);
    let host = text(call, "host").map(str::to_ascii_lowercase);
    let Some(host) = host.filter(|host| crate::parse::is_host(host)) else {
        return gathered.leave(&what, "it names no host");
    };
    match text(call, "decision") {
        Some("allow") => super::merge(&mut gathered.hosts, vec![host]),
        Some("deny" | "forbidden") => {
            gathered.rule(
                "bash",
                Decision::Deny,
                "the imported rules forbid it",
                |rule| rule.host.push(host),
            );
        }
        Some("prompt") => {
            gathered.rule(
                "bash",
                Decision::Ask,
                "the imported rules ask about it",
                |rule| rule.host.push(host),
            );
        }
        _ => gathered.leave(&what, "its decision is not known"),
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{Origin, import};

    #[test]
    fn prefix_rules_become_command_rules() {
        let text = r#"
            prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="it leaves the machine", match=["git push origin"], not_match=["git status"])
            prefix_rule(pattern=["rm", "-rf"], decision="forbidden", match=[["rm", "-rf", "x"]])
            prefix_rule(pattern=["ls"])
            prefix_rule(pattern=["a\nb"], decision="forbidden")
            network_rule(host="api.example.com", protocol="https", decision="allow")
            network_rule(host="evil.test", decision="deny")
            host_executable(name="git", paths=["/usr/bin/git"])
        "#;
        let found = import(Origin::CodexRules, text, "c").expect("imports");
        for wanted in [
            "command = [\"git push\", \"git fetch\"]",
            "verdict = \"ask\"",
            "it leaves the machine",
            "match = [\"git push origin\"]",
            "command = [\"rm -rf\"]",
            "verdict = \"deny\"",
            "command = [\"ls\"]",
            "allow = [\"api.example.com\"]",
            "host = [\"evil.test\"]",
        ] {
            assert!(found.policy.contains(wanted), "{wanted}\n{}", found.policy);
        }
        assert_eq!(found.left.len(), 2, "{:?}", found.left);
    }

    #[test]
    fn what_is_no_rule_file_is_refused() {
        for text in [
            "prefix_rule()",
            "prefix_rule(pattern=[\"a\"], decision=\"maybe\")",
            "x = 1",
            "prefix_rule(pattern=[True])",
        ] {
            assert!(import(Origin::CodexRules, text, "c").is_err(), "{text}");
        }
    }
}
