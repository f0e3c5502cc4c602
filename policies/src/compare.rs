//! What one policy newly allows beside another: by their settings, word for word, and by calls that
//! their own rules and a list of usual ones name.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Decision, Facts, Mode, Policy, Rule, evaluate::evaluate, normalise::normalise};

/// One thing that the second policy lets through and the first did not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Widening {
    /// `mode`, `network`, `limits`, … or `call`.
    pub kind: String,
    /// What.
    pub what: String,
    /// What the first policy says.
    pub before: String,
    /// What the second one says.
    pub after: String,
}

/// The comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the second policy newly allows.
    pub wider: Vec<Widening>,
    /// What it newly asks about or denies.
    pub tighter: Vec<Widening>,
    /// Calls that were judged under both.
    pub calls: usize,
}

/// Calls that every comparison makes, beside those that the rules name.
const USUAL: &[&str] = &[
    "ls",
    "cat README.md",
    "git status",
    "git commit -m x",
    "git push",
    "git push --force",
    "git fetch",
    "npm install",
    "npm test",
    "npm publish",
    "cargo build",
    "cargo publish",
    "pip install x",
    "make",
    "make install",
    "docker build .",
    "docker push x",
    "curl https://example.com",
    "ssh host.test id",
    "kubectl apply -f x.yml",
    "terraform apply",
    "rm -rf build",
    "rm x",
    "./script.sh",
    "python3 x.py",
    "bash -c 'ls'",
    "ls > out",
    "cat < in",
    "$x",
    "sudo id",
    "echo x > .github/workflows/x.yml",
];

/// Compares two policies, each in its own mode.
#[must_use]
pub fn compare(before: &Policy, after: &Policy, facts: &Facts) -> Comparison {
    let mut comparison = Comparison::default();
    settings(before, after, &mut comparison.wider);
    settings(after, before, &mut comparison.tighter);
    // Said from the second policy's side: what it says stands behind.
    for told in &mut comparison.tighter {
        std::mem::swap(&mut told.before, &mut told.after);
    }
    for (tool, input, shown) in calls(before, after) {
        let (Some(old), Some(new)) = (
            said(before, before.settings.mode, &tool, &input, facts),
            said(after, after.settings.mode, &tool, &input, facts),
        ) else {
            continue;
        };
        comparison.calls += 1;
        if old.0 == new.0 {
            continue;
        }
        let told = Widening {
            kind: "call".to_owned(),
            what: format!("{tool}: {shown}"),
            before: old.1,
            after: new.1,
        };
        if new.0 < old.0 {
            comparison.wider.push(told);
        } else {
            comparison.tighter.push(told);
        }
    }
    comparison.wider.sort();
    comparison.wider.dedup();
    comparison.tighter.sort();
    comparison.tighter.dedup();
    comparison
}

fn said(
    policy: &Policy,
    mode: Mode,
    tool: &str,
    input: &serde_json::Value,
    facts: &Facts,
) -> Option<(Decision, String)> {
    let call = protocol::call::Call {
        id: protocol::CallId::parse("compared").ok()?,
        tool: tool.to_owned(),
        input: input.clone(),
        prepared: None,
    };
    let action = normalise(&call, facts).ok()?;
    let verdict = evaluate(policy, mode, &action, facts);
    let rule = verdict.rule.as_deref().unwrap_or("default");
    Some((
        verdict.decision,
        format!("{} by {rule}", verdict.decision.as_str()),
    ))
}

/// The calls by which two policies are compared: a tool, its input, and a text for people.
fn calls(before: &Policy, after: &Policy) -> Vec<(String, serde_json::Value, String)> {
    let mut calls = Vec::new();
    let mut line = |text: &str| {
        calls.push((
            "bash".to_owned(),
            json!({ "command": text }),
            text.to_owned(),
        ));
    };
    for text in USUAL {
        line(text);
    }
    let rules = || {
        [before, after]
            .into_iter()
            .flat_map(|policy| &policy.layers)
            .flat_map(|layer| &layer.rules)
    };
    for rule in rules() {
        for text in lines_of(rule) {
            line(&text);
        }
    }
    let paths =
        |rule: &Rule| -> Vec<String> { rule.path.iter().map(|glob| sample(glob)).collect() };
    let hidden = [before, after]
        .into_iter()
        .flat_map(|policy| {
            policy
                .settings
                .filesystem
                .hide
                .iter()
                .chain(&policy.settings.filesystem.protect)
        })
        .map(|glob| sample(glob.trim_start_matches('/')));
    for path in rules().flat_map(paths).chain(hidden) {
        calls.push((
            "read_file".to_owned(),
            json!({ "file_path": path }),
            path.clone(),
        ));
        calls.push((
            "write_file".to_owned(),
            json!({ "file_path": path, "content": "" }),
            path.clone(),
        ));
    }
    for table in rules().flat_map(|rule| &rule.table) {
        let query = format!(
            "SELECT 1 FROM {}",
            table.rsplit('.').next().unwrap_or(table)
        );
        calls.push((
            "run_sql".to_owned(),
            json!({ "query": query }),
            query.clone(),
        ));
    }
    calls
}

/// Lines that a rule is about: its patterns, themselves and with a further word, and its examples.
fn lines_of(rule: &Rule) -> Vec<String> {
    let mut lines: Vec<String> = rule
        .command
        .iter()
        .flat_map(|pattern| {
            let text = pattern.0.join(" ");
            [text.clone(), format!("{text} x")]
        })
        .collect();
    lines.extend(rule.host.iter().map(|host| {
        let host = host.replace("*.", "x.");
        format!("curl https://{host}/")
    }));
    if rule.tool == "bash" || rule.tool == "*" {
        let about_lines = rule.path.is_empty() && rule.table.is_empty() && rule.mcp.is_empty();
        let examples = rule.examples.r#match.iter().chain(&rule.examples.differ);
        lines.extend(examples.filter(|_| about_lines).cloned());
    }
    lines
}

/// A path that a glob covers.
fn sample(glob: &str) -> String {
    let parts = glob.split('/').map(|part| match part {
        "**" => "d".to_owned(),
        _ => part.replace(['*', '?'], "x"),
    });
    let path = parts.collect::<Vec<_>>().join("/");
    if path.contains('[') {
        // A set has no sample that is worth its code; the folder above stands for it.
        return path
            .split('[')
            .next()
            .unwrap_or("")
            .trim_end_matches('/')
            .to_owned()
            + "x";
    }
    path
}

/// Settings by which `after` is laxer than `before`.
fn settings(before: &Policy, after: &Policy, told: &mut Vec<Widening>) {
    let (a, b) = (&before.settings, &after.settings);
    let mut tell = |kind: &str, what: &str, before: String, after: String| {
        told.push(Widening {
            kind: kind.to_owned(),
            what: what.to_owned(),
            before,
            after,
        });
    };
    if a.mode.is_raised_by(b.mode) {
        tell(
            "mode",
            "how an ask is answered",
            a.mode.as_str().to_owned(),
            b.mode.as_str().to_owned(),
        );
    }
    if b.confinement.workspace == Some(crate::WorkspaceMode::Direct)
        && a.confinement.workspace != b.confinement.workspace
    {
        let word = a
            .confinement
            .workspace
            .map_or("default", |mode| mode.as_str());
        tell(
            "confinement",
            "workspace",
            word.to_owned(),
            "direct".to_owned(),
        );
    }
    if a.confinement.backend != b.confinement.backend {
        tell(
            "confinement",
            "backend",
            a.confinement.backend.as_str().to_owned(),
            b.confinement.backend.as_str().to_owned(),
        );
    }
    for (right, floor) in &b.confinement.rights {
        let old = a.confinement.rights.get(right).copied();
        if old.is_some_and(|old| *floor < old) {
            let word = |floor: protocol::Floor| format!("{floor:?}").to_lowercase();
            tell(
                "rights",
                right.as_str(),
                old.map_or_else(String::new, word),
                word(*floor),
            );
        }
    }
    let lists = [
        ("network", "allow", &a.network.allow, &b.network.allow),
        ("filesystem", "read", &a.filesystem.read, &b.filesystem.read),
        (
            "filesystem",
            "write",
            &a.filesystem.write,
            &b.filesystem.write,
        ),
        // What is no longer hidden or protected is newly there.
        ("filesystem", "hide", &b.filesystem.hide, &a.filesystem.hide),
        (
            "filesystem",
            "protect",
            &b.filesystem.protect,
            &a.filesystem.protect,
        ),
    ];
    for (kind, key, less, more) in lists {
        let removed = key == "hide" || key == "protect";
        for item in more.iter().filter(|item| !less.contains(item)) {
            let (before, after) = if removed {
                ("listed", "not listed")
            } else {
                ("not listed", "listed")
            };
            tell(
                kind,
                &format!("{key} {item}"),
                before.to_owned(),
                after.to_owned(),
            );
        }
    }
    let numbers = [
        ("memory", a.limits.memory, b.limits.memory),
        ("processes", a.limits.processes, b.limits.processes),
        ("disk", a.limits.disk, b.limits.disk),
        ("wall", a.limits.wall, b.limits.wall),
        ("output", a.limits.output, b.limits.output),
        (
            "turns",
            u64::from(a.limits.turns),
            u64::from(b.limits.turns),
        ),
        (
            "iterations",
            u64::from(a.limits.iterations),
            u64::from(b.limits.iterations),
        ),
        (
            "tokens",
            a.limits.tokens.unwrap_or(u64::MAX),
            b.limits.tokens.unwrap_or(u64::MAX),
        ),
    ];
    for (key, old, new) in numbers {
        if new > old {
            let word = |number: u64| {
                if number == u64::MAX {
                    "no limit".to_owned()
                } else {
                    number.to_string()
                }
            };
            tell("limits", key, word(old), word(new));
        }
    }
    let session = |limits: &crate::Limits| crate::Budget {
        cost_usd: limits.cost_usd,
        tokens: None,
        calls: limits.calls,
    };
    for (name, old, new) in [
        ("limits", session(&a.limits), session(&b.limits)),
        ("limits.day", a.limits.day, b.limits.day),
        ("limits.account", a.limits.account, b.limits.account),
        ("limits.model_day", a.limits.model_day, b.limits.model_day),
    ] {
        let figure = |number: Option<u64>| number.map(|number| number as f64);
        for (key, old, new) in [
            ("cost_usd", old.cost_usd, new.cost_usd),
            ("tokens", figure(old.tokens), figure(new.tokens)),
            ("calls", figure(old.calls), figure(new.calls)),
        ] {
            if new.unwrap_or(f64::INFINITY) > old.unwrap_or(f64::INFINITY) {
                let word = |number: Option<f64>| {
                    number.map_or_else(|| "no limit".to_owned(), |number| format!("{number}"))
                };
                tell(name, key, word(old), word(new));
            }
        }
    }
    if b.limits.unpriced && !a.limits.unpriced {
        tell("limits", "unpriced", "false".to_owned(), "true".to_owned());
    }
    crate::hook::missed(&a.hooks, &b.hooks, &mut tell);
    for database in &b.databases {
        match a.databases.iter().find(|old| old.name == database.name) {
            None => tell(
                "database",
                &database.name,
                "not declared".to_owned(),
                database.path.clone(),
            ),
            Some(old) if old.path != database.path => tell(
                "database",
                &database.name,
                old.path.clone(),
                database.path.clone(),
            ),
            Some(old) => {
                let fewer = !old.tables.is_empty()
                    && (database.tables.is_empty()
                        || database
                            .tables
                            .iter()
                            .any(|table| !old.tables.contains(table)));
                if fewer {
                    let word = |tables: &[String]| {
                        if tables.is_empty() {
                            "every table".to_owned()
                        } else {
                            tables.join(", ")
                        }
                    };
                    tell(
                        "database",
                        &database.name,
                        word(&old.tables),
                        word(&database.tables),
                    );
                }
            }
        }
    }
    let any = |models: &[String]| {
        if models.is_empty() {
            "any".to_owned()
        } else {
            models.join(", ")
        }
    };
    let more = !a.models.allow.is_empty()
        && (b.models.allow.is_empty()
            || b.models
                .allow
                .iter()
                .any(|model| !a.models.allow.contains(model)));
    if more {
        tell(
            "models",
            "allow",
            any(&a.models.allow),
            any(&b.models.allow),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        LayerName,
        parse::{Source, load, profile_source},
    };

    fn facts() -> Facts {
        Facts {
            workspace: "/srv/app".into(),
            home: "/home/u".into(),
            system: vec!["/usr".into()],
            interactive: true,
            tree: None,
        }
    }

    fn policy(text: &str) -> Policy {
        let source = Source {
            name: "p.toml".into(),
            text: format!("version = 1\n{text}"),
            layer: LayerName::User,
        };
        load(&[source], &|_| None).expect("loads")
    }

    #[test]
    fn the_same_policy_allows_nothing_new() {
        let ci = load(&[profile_source("ci").expect("shipped")], &|_| None).expect("loads");
        let same = compare(&ci, &ci, &facts());
        assert!(same.wider.is_empty() && same.tighter.is_empty() && same.calls > 30);
    }

    #[test]
    fn each_widening_is_told() {
        let a = policy(
            "mode = \"never\"\n[filesystem]\nhide = [\"private.txt\"]\n[limits]\nwall = \"5m\"\n[models]\nallow = [\"a/b\"]\n[[rule]]\nid = \"p\"\ntool = \"bash\"\ncommand = [\"git push\"]\nverdict = \"deny\"\nreason = \"x\"\n",
        );
        let b = policy(
            "mode = \"bypass\"\n[network]\nallow = [\"x.test\"]\n[limits]\nwall = \"10m\"\n[confinement.rights]\nterminal = \"off\"\n",
        );
        let diff = compare(&a, &b, &facts());
        let has = |kind: &str, what: &str| {
            diff.wider
                .iter()
                .any(|told| told.kind == kind && told.what.contains(what))
        };
        for (kind, what) in [
            ("mode", "ask"),
            ("network", "x.test"),
            ("limits", "wall"),
            ("rights", "terminal"),
            ("filesystem", "hide private.txt"),
            ("models", "allow"),
            ("call", "bash: git push"),
            ("call", "read_file: private.txt"),
        ] {
            assert!(has(kind, what), "{kind} {what}: {:?}", diff.wider);
        }
        let back = compare(&b, &a, &facts());
        assert!(!back.wider.iter().any(|told| told.what == "bash: git push"));
        assert!(
            back.tighter
                .iter()
                .any(|told| told.what == "bash: git push")
        );
    }
}
