//! The rules of one file: each has an id, a tool, at most one kind of condition, and a verdict.

use super::section::{At, Faults, Section, Span, cut, suggestion};
use crate::{CommandPattern, Decision, Examples, Rule, glob::Pattern, tools::Tool};

/// A rule and where its words stand.
#[derive(Debug)]
pub(super) struct Draft {
    /// The rule.
    pub(super) rule: Rule,
    /// Which file of the load it stands in.
    pub(super) file: usize,
    /// Its id.
    pub(super) id: Span,
    /// Its patterns, of whatever kind.
    pub(super) patterns: Vec<Span>,
    /// The examples that must match.
    pub(super) matches: Vec<Span>,
    /// The examples that must not.
    pub(super) differs: Vec<Span>,
}

const KEYS: &[&str] = &[
    "id", "tool", "command", "path", "host", "table", "mcp", "verdict", "reason", "instead",
    "examples",
];

/// Words that verdicts use for what is not a rule, beside the detectors of the safety check.
const RESERVED: &[&str] = &[
    "default",
    "not-understood",
    "loader-variable",
    "started-by-option",
    "protected-name",
    "outside-view",
    "hidden",
    "undeclared-database",
    "too-many-parts",
    "nobody-to-ask",
    "direct-edit",
    "plan-mode",
    "classifier",
];

/// Reads all rules of a file.
pub(super) fn read(top: &Section<'_, '_>, file: usize, faults: &mut Faults<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for At {
        value: section,
        span,
    } in top.tables("rule", KEYS, faults)
    {
        if let Some(draft) = one(&section, &span, file, faults) {
            drafts.push(draft);
        }
    }
    drafts
}

fn one(
    section: &Section<'_, '_>,
    span: &Span,
    file: usize,
    faults: &mut Faults<'_>,
) -> Option<Draft> {
    for key in ["id", "tool", "verdict", "reason"] {
        if section.key(key).is_none() {
            faults.add(
                span,
                format!("a rule has `{key}`"),
                Some("add it".to_owned()),
            );
        }
    }
    let id = section.text("id", faults);
    if let Some(id) = &id {
        check_id(id, faults);
    }
    let tool = section
        .text("tool", faults)
        .filter(|tool| check_tool(tool, faults));
    let verdict = section.text("verdict", faults).and_then(|word| {
        let decision = verdict(&word, faults)?;
        fits_layer(decision, &word, faults);
        Some(decision)
    });
    let reason = section.text("reason", faults);
    if let Some(reason) = &reason {
        sentence(reason, "reason", faults);
    }
    let instead = section.text("instead", faults);
    if let Some(instead) = &instead {
        sentence(instead, "instead", faults);
    }
    let (condition, patterns) = condition(section, faults);
    let (examples, matches, differs) = examples(section, faults);
    let (id, tool, verdict, reason) = (id?, tool?, verdict?, reason?);
    fits_tool(&condition, &tool, section, faults);
    let (line, _) = super::caret::locate(&faults.source.text, id.span.start);
    Some(Draft {
        rule: Rule {
            id: id.value,
            at: format!("{}:{line}", faults.source.name),
            tool: tool.value,
            command: condition.command,
            path: condition.path,
            host: condition.host,
            table: condition.table,
            mcp: condition.mcp,
            verdict,
            reason: reason.value,
            instead: instead.map(|text| text.value),
            examples,
        },
        file,
        id: id.span,
        patterns,
        matches,
        differs,
    })
}

fn check_id(id: &At<String>, faults: &mut Faults<'_>) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if id.value.is_empty() || id.value.len() > 64 || !id.value.chars().all(fits) {
        let help = "lower-case letters, digits, `-`, `_` and `.`, at most 64".to_owned();
        faults.add(
            &id.span,
            format!("`{}` is not a rule's id", cut(&id.value)),
            Some(help),
        );
    } else if RESERVED.contains(&id.value.as_str())
        || crate::safety::DETECTORS.contains(&id.value.as_str())
    {
        let message = format!("the id `{}` is taken by the law itself", id.value);
        faults.add(&id.span, message, Some("choose another".to_owned()));
    }
}

fn check_tool(tool: &At<String>, faults: &mut Faults<'_>) -> bool {
    if tool.value == "*" || Tool::parse(&tool.value).is_some() {
        return true;
    }
    let known: Vec<&str> = Tool::ALL
        .iter()
        .map(|tool| tool.as_str())
        .chain(["*"])
        .collect();
    let message = format!("no tool is named `{}`", cut(&tool.value));
    faults.add(&tool.span, message, Some(suggestion(&tool.value, &known)));
    false
}

/// The verdict of a word.
pub(crate) fn verdict(word: &At<String>, faults: &mut Faults<'_>) -> Option<Decision> {
    let known = [Decision::Allow, Decision::Ask, Decision::Deny];
    let found = known
        .into_iter()
        .find(|decision| decision.as_str() == word.value);
    if found.is_none() {
        let message = format!("a verdict cannot be `{}`", cut(&word.value));
        let help = Some(suggestion(&word.value, &known.map(Decision::as_str)));
        faults.add(&word.span, message, help);
    }
    found
}

/// What the layer of the file may say.
fn fits_layer(decision: Decision, word: &At<String>, faults: &mut Faults<'_>) {
    if decision == Decision::Allow && !faults.source.layer.is_outer() {
        let message = "a rule of the workspace, the session or a sub-agent says only ask or deny";
        let help = "say it in a policy of yours: `--policy FILE`".to_owned();
        faults.add(&word.span, message, Some(help));
    }
}

/// Reasons are shown to people and to the model: one line, no character that hides.
fn sentence(text: &At<String>, key: &str, faults: &mut Faults<'_>) {
    let odd = |c: char| c.is_control() || crate::safety::is_hidden(c);
    if text.value.trim().is_empty() || text.value.len() > 500 || text.value.chars().any(odd) {
        let help = "one line of plain text, at most 500 bytes".to_owned();
        faults.add(&text.span, format!("`{key}` cannot be shown"), Some(help));
    }
}

#[derive(Debug, Default)]
struct Condition {
    command: Vec<CommandPattern>,
    path: Vec<String>,
    host: Vec<String>,
    table: Vec<String>,
    mcp: Vec<String>,
    kind: Option<&'static str>,
}

fn condition(section: &Section<'_, '_>, faults: &mut Faults<'_>) -> (Condition, Vec<Span>) {
    let mut condition = Condition::default();
    let mut spans = Vec::new();
    for kind in ["command", "path", "host", "table", "mcp"] {
        let Some(key) = section.key(kind) else {
            continue;
        };
        if let Some(other) = condition.kind {
            let message = format!("a rule has one condition: `{other}` or `{kind}`");
            faults.add(&key, message, Some("write two rules".to_owned()));
            continue;
        }
        condition.kind = Some(kind);
        let texts = section.texts(kind, faults).unwrap_or_default();
        if texts.is_empty() {
            let help = "leave the key out if every use is meant".to_owned();
            faults.add(
                &key,
                format!("`{kind}` is empty: the rule would match nothing"),
                Some(help),
            );
        }
        for text in texts {
            let fault = match kind {
                "command" => command(&text.value).map(|words| condition.command.push(words)),
                "path" => {
                    Pattern::parse(&text.value).map(|_| condition.path.push(text.value.clone()))
                }
                "host" => {
                    host(&text.value).map(|()| condition.host.push(text.value.to_ascii_lowercase()))
                }
                "table" => name(&text.value, '.', "table or database.table")
                    .map(|()| condition.table.push(text.value.clone())),
                _ => name(&text.value, '/', "server/tool")
                    .map(|()| condition.mcp.push(text.value.clone())),
            };
            match fault {
                Ok(()) => spans.push(text.span),
                Err(why) => faults.add(&text.span, why, None),
            }
        }
    }
    (condition, spans)
}

/// Splits a command pattern into words; what only a shell could read is refused.
pub(crate) fn command(text: &str) -> Result<CommandPattern, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '*') => {
                return Err(
                    "a command pattern is the beginning of a command: leave `*` out".into(),
                );
            }
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\\' | '\n') => {
                return Err(format!(
                    "`{}` is not taken: a pattern is one program and its first arguments",
                    c.escape_default()
                ));
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word.take());
    if words.first().is_none_or(String::is_empty) {
        return Err("a command pattern begins with a program".to_owned());
    }
    Ok(CommandPattern(words))
}

/// Checks `host`, `*.host`, `host:port`.
pub(super) fn host(text: &str) -> Result<(), String> {
    let wrong = || format!("`{}` is not a host", cut(text));
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err(wrong());
    }
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let fits = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if labels.len() > 253 || !labels.split('.').all(fits) {
        return Err(wrong());
    }
    Ok(())
}

fn name(text: &str, separator: char, shape: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(separator).collect();
    let fits = |part: &&str| !part.is_empty() && !part.chars().any(char::is_control);
    let count = if separator == '/' { 2..=2 } else { 1..=2 };
    if !count.contains(&parts.len()) || !parts.iter().all(fits) {
        return Err(format!("`{}` is not {shape}", cut(text)));
    }
    Ok(())
}

/// A condition that the tool never has makes a rule that never matches.
fn fits_tool(
    condition: &Condition,
    tool: &At<String>,
    section: &Section<'_, '_>,
    faults: &mut Faults<'_>,
) {
    let Some(kind) = condition.kind else { return };
    let files = [
        "read_file",
        "write_file",
        "edit_file",
        "list_directory",
        "glob",
        "grep",
    ];
    let word = tool.value.as_str();
    let fits = word == "*"
        || match kind {
            "command" | "host" => word == "bash",
            "path" => word == "bash" || files.contains(&word),
            "table" => word == "run_sql",
            _ => false,
        };
    if !fits && let Some(span) = section.key(kind) {
        let help = match kind {
            "command" | "host" => "`tool = \"bash\"`",
            "path" => "`tool` is a file tool, `bash` or `*`",
            "table" => "`tool = \"run_sql\"`",
            _ => "`tool = \"*\"`",
        };
        let message = format!("unreachable: `{word}` is never judged by `{kind}`");
        faults.add(&span, message, Some(help.to_owned()));
    }
}

fn examples(
    section: &Section<'_, '_>,
    faults: &mut Faults<'_>,
) -> (Examples, Vec<Span>, Vec<Span>) {
    let Some(table) = section.table("examples", &["match", "differ"], faults) else {
        return (Examples::default(), Vec::new(), Vec::new());
    };
    let mut list = |key: &str| -> (Vec<String>, Vec<Span>) {
        table
            .texts(key, faults)
            .unwrap_or_default()
            .into_iter()
            .map(|at| (at.value, at.span))
            .unzip()
    };
    let (matching, matches) = list("match");
    let (differing, differs) = list("differ");
    (
        Examples {
            r#match: matching,
            differ: differing,
        },
        matches,
        differs,
    )
}
