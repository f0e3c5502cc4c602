//! `permissions` of a `settings.json`: `Tool(pattern)` under `allow`, `ask` and `deny`.

use serde_json::Value;

use super::{Gathered, pattern};
use crate::{Decision, glob::Pattern};

/// Reads a settings file.
pub(super) fn read(text: &str) -> Result<Gathered, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Some(top) = value.as_object() else {
        return Err("the settings are not an object".to_owned());
    };
    let mut gathered = Gathered::default();
    for key in top
        .keys()
        .filter(|key| !["permissions", "$schema"].contains(&key.as_str()))
    {
        gathered.leave(key, "it is no permission");
    }
    let Some(permissions) = top.get("permissions") else {
        return Ok(gathered);
    };
    let Some(permissions) = permissions.as_object() else {
        return Err("`permissions` is not an object".to_owned());
    };
    for (key, value) in permissions {
        let verdict = match key.as_str() {
            "allow" => Decision::Allow,
            "ask" => Decision::Ask,
            "deny" => Decision::Deny,
            "defaultMode" => {
                mode(value.as_str().unwrap_or(""), &mut gathered);
                continue;
            }
            _ => {
                gathered.leave(key, "a policy of ours has no such setting");
                continue;
            }
        };
        let Some(list) = value.as_array() else {
            return Err(format!("`permissions.{key}` is not a list"));
        };
        for item in list {
            match item.as_str() {
                Some(text) => entry(text, verdict, &mut gathered),
                None => gathered.leave(&item.to_string(), "it is no text"),
            }
        }
    }
    Ok(gathered)
}

fn mode(word: &str, gathered: &mut Gathered) {
    gathered.mode = match word {
        "default" => Some("onRequest"),
        "acceptEdits" => Some("acceptEdits"),
        "dontAsk" => Some("never"),
        "auto" => Some("auto"),
        "bypassPermissions" => {
            gathered.leave(
                word,
                "a mode that says yes to everything is not imported: give --mode bypass",
            );
            None
        }
        _ => {
            gathered.leave(word, "a policy has no such mode");
            None
        }
    };
}

fn entry(text: &str, verdict: Decision, gathered: &mut Gathered) {
    let (tool, inside) = match text.split_once('(') {
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some(inside) => (tool.trim(), Some(inside)),
            None => return gathered.leave(text, "its parenthesis is not closed"),
        },
        None => (text.trim(), None),
    };
    // A star alone is the whole tool.
    let inside = inside.filter(|inside| !["*", "", ":*", "**"].contains(inside));
    match tool {
        "Bash" => bash(text, inside, verdict, gathered),
        "Read" | "Grep" | "Glob" | "LS" | "NotebookRead" => {
            reads(text, tool, inside, verdict, gathered)
        }
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => edits(text, inside, verdict, gathered),
        "WebFetch" => fetch(text, inside, verdict, gathered),
        _ if tool.starts_with("mcp__") => mcp(text, tool, verdict, gathered),
        _ => gathered.leave(text, "no tool of ours does that"),
    }
}

fn reason(verdict: Decision) -> &'static str {
    match verdict {
        Decision::Allow => "the imported settings allow it",
        Decision::Ask => "the imported settings ask about it",
        Decision::Deny => "the imported settings deny it",
    }
}

fn bash(text: &str, inside: Option<&str>, verdict: Decision, gathered: &mut Gathered) {
    let Some(inside) = inside else {
        if verdict == Decision::Allow {
            return gathered.leave(text, "an allow of every command is not imported: what stays in the jail is allowed anyway");
        }
        return gathered.rule("bash", verdict, reason(verdict), |_| {});
    };
    let (words, open) = match inside
        .strip_suffix(":*")
        .or_else(|| inside.strip_suffix(" *"))
    {
        Some(words) => (words, true),
        None => (inside, false),
    };
    let (words, cut) = match words.find('*') {
        // `git * main`: the beginning is all that a pattern can say.
        Some(star) => (words.get(..star).unwrap_or(""), true),
        None => (words, false),
    };
    if words.contains(['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\']) {
        return gathered.leave(
            text,
            "a pattern is one program and its first words; each part of a line is judged by itself",
        );
    }
    // A star inside a word cuts the word off.
    let mut list: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    if cut && !words.ends_with(' ') {
        list.pop();
    }
    if verdict == Decision::Allow && (!open || cut) {
        return gathered.leave(
            text,
            "an allow here covers every line that begins so, which is more than the settings say",
        );
    }
    let Some(pattern) = pattern(&list) else {
        if verdict == Decision::Allow {
            return gathered.leave(text, "its words cannot be written as a pattern");
        }
        gathered.leave(
            text,
            "its words cannot be written as a pattern: every command is meant now",
        );
        return gathered.rule("bash", verdict, reason(verdict), |_| {});
    };
    if cut || !open {
        gathered.leave(
            text,
            "here it is about every line that begins so, which is stricter",
        );
    }
    gathered.rule("bash", verdict, reason(verdict), |rule| {
        rule.command.push(pattern)
    });
}

/// Where a path pattern of the settings leads.
enum Place {
    /// A pattern of ours, from the workspace.
    Workspace(String),
    /// Somewhere that no session sees.
    Elsewhere,
}

fn place(inside: &str) -> Place {
    if inside.starts_with("//") || inside.starts_with("~/") || inside == "~" {
        return Place::Elsewhere;
    }
    let begins = inside.starts_with("./") || inside.starts_with('/');
    let rest = inside.trim_start_matches("./").trim_start_matches('/');
    // As for git, a slash anywhere but at the end ties a pattern to its root.
    let tied = begins || rest.trim_end_matches('/').contains('/');
    let rest = rest.trim_end_matches("/**").trim_end_matches('/');
    if rest.is_empty() || rest.split('/').any(|part| part == "..") {
        return Place::Elsewhere;
    }
    Place::Workspace(if tied && !rest.contains('/') {
        format!("./{rest}")
    } else {
        rest.to_owned()
    })
}

fn reads(text: &str, tool: &str, inside: Option<&str>, verdict: Decision, gathered: &mut Gathered) {
    let ours = match tool {
        "Grep" => "grep",
        "Glob" => "glob",
        "LS" => "list_directory",
        _ => "read_file",
    };
    let Some(inside) = inside else {
        if verdict == Decision::Allow {
            return gathered.leave(text, "reads of the view are allowed anyway");
        }
        return gathered.rule(ours, verdict, reason(verdict), |_| {});
    };
    match (place(inside), verdict) {
        (_, Decision::Allow) => gathered.leave(
            text,
            "reads of the view are allowed anyway; `[filesystem] read` shows more of the host",
        ),
        (Place::Elsewhere, _) => gathered.leave(text, "nothing there is in a session's view"),
        (Place::Workspace(path), Decision::Deny) => {
            // Hidden from every process, and not only from a tool.
            if Pattern::parse(&path).is_ok() {
                super::merge(&mut gathered.hide, vec![path]);
            } else {
                gathered.leave(text, "its pattern cannot be written here");
            }
        }
        (Place::Workspace(path), _) => match Pattern::parse(&path) {
            Ok(_) => gathered.rule(ours, verdict, reason(verdict), |rule| rule.path.push(path)),
            Err(why) => gathered.leave(text, &why),
        },
    }
}

fn edits(text: &str, inside: Option<&str>, verdict: Decision, gathered: &mut Gathered) {
    let path = match inside.map(place) {
        None => None,
        Some(Place::Elsewhere) => return gathered.leave(text, "a session writes nothing there"),
        Some(Place::Workspace(path)) => match Pattern::parse(&path) {
            Ok(_) => Some(path),
            Err(why) => return gathered.leave(text, &why),
        },
    };
    if verdict == Decision::Allow && path.is_none() {
        return gathered.leave(text, "edits of a copy of the workspace are allowed anyway");
    }
    for tool in ["write_file", "edit_file"] {
        gathered.rule(tool, verdict, reason(verdict), |rule| {
            rule.path.extend(path.clone())
        });
    }
}

fn fetch(text: &str, inside: Option<&str>, verdict: Decision, gathered: &mut Gathered) {
    let Some(host) = inside.and_then(|inside| inside.strip_prefix("domain:")) else {
        return gathered.leave(text, "hosts are named one by one, in `[network] allow`");
    };
    let host = host.trim().to_ascii_lowercase();
    if !crate::parse::is_host(&host) {
        return gathered.leave(text, "it is no host");
    }
    match verdict {
        Decision::Allow => super::merge(&mut gathered.hosts, vec![host]),
        _ => gathered.rule("bash", verdict, reason(verdict), |rule| {
            rule.host.push(host)
        }),
    }
}

fn mcp(text: &str, tool: &str, verdict: Decision, gathered: &mut Gathered) {
    let rest = tool.trim_start_matches("mcp__");
    let (server, name) = match rest.split_once("__") {
        Some((server, name)) if !name.is_empty() => (server, name),
        _ => (rest, "*"),
    };
    if server.is_empty() || server.contains(['*', '/']) || (name.contains('*') && name != "*") {
        return gathered.leave(text, "it names no server and tool");
    }
    let named = format!("{server}/{name}");
    gathered.rule("*", verdict, reason(verdict), |rule| rule.mcp.push(named));
}

#[cfg(test)]
mod tests {
    use crate::import::{Imported, Origin, import};

    fn imported(text: &str) -> Imported {
        import(Origin::ClaudeSettings, text, "team").expect("imports")
    }

    #[test]
    fn what_can_be_said_is_said_and_the_rest_is_listed() {
        let text = r#"{
            "permissions": {
                "allow": ["Bash(npm run test:*)", "Bash(git status)", "Bash(git push origin *)", "Read(~/.zshrc)", "WebFetch(domain:docs.rs)", "mcp__github__list", "Edit(src/**)", "Bash(*)"],
                "ask": ["Bash(git push:*)", "Edit(migrations/**)", "Bash(docker run * --rm)"],
                "deny": ["Bash(curl:*)", "Bash(rm -rf /)", "Read(./.env)", "Read(secrets/**)", "Read(//etc/shadow)", "WebFetch(domain:evil.test)", "Bash(a | b)", "WebSearch"],
                "defaultMode": "acceptEdits",
                "additionalDirectories": ["../x"]
            },
            "env": {"A": "b"},
            "hooks": {}
        }"#;
        let found = imported(text);
        for wanted in [
            "mode = \"acceptEdits\"",
            "hide = [\"./.env\", \"./secrets\"]",
            "allow = [\"docs.rs\"]",
            "\"npm run test\"",
            "\"git push origin\"",
            "\"curl\", \"rm -rf /\"",
            "\"docker run\"",
            "path = [\"./migrations\"]",
            "path = [\"./src\"]",
            "host = [\"evil.test\"]",
            "mcp = [\"github/list\"]",
        ] {
            assert!(found.policy.contains(wanted), "{wanted}\n{}", found.policy);
        }
        let left = found.left.join("\n");
        for wanted in [
            "Bash(git status)",
            "Read(~/.zshrc)",
            "Bash(*)",
            "Bash(docker run * --rm)",
            "Bash(rm -rf /)",
            "//etc/shadow",
            "Bash(a | b)",
            "WebSearch",
            "additionalDirectories",
            "env",
            "hooks",
        ] {
            assert!(left.contains(wanted), "{wanted}\n{left}");
        }
    }

    #[test]
    fn an_imported_rule_that_another_overrules_is_listed() {
        let text =
            r#"{"permissions": {"allow": ["Bash(npm publish:*)"], "deny": ["Bash(npm:*)"]}}"#;
        let found = imported(text);
        assert!(
            !found.policy.contains("verdict = \"allow\""),
            "{}",
            found.policy
        );
        assert!(
            found.left.join("\n").contains("unreachable"),
            "{:?}",
            found.left
        );
    }

    #[test]
    fn what_is_no_settings_file_is_refused() {
        for text in [
            "",
            "[]",
            "{\"permissions\": 1}",
            "{\"permissions\": {\"deny\": \"x\"}}",
        ] {
            assert!(import(Origin::ClaudeSettings, text, "t").is_err(), "{text}");
        }
        assert!(imported("{}").policy.contains("version = 1"));
    }
}
