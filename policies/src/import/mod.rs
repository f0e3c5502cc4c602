//! Rules of other agents as a policy of ours: what can be said is said, what cannot is listed. Nothing
//! that is imported allows more than its source did.

mod claude;
mod codex;
mod starlark;

use crate::{
    CommandPattern, Decision, Examples, LayerName, Rule,
    parse::{Source, load, profile_source},
    suggest::{quoted, to_toml},
};

/// Where rules come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `settings.json` with `permissions`.
    ClaudeSettings,
    /// `*.rules` with `prefix_rule(…)`.
    CodexRules,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::ClaudeSettings, Self::CodexRules];

    /// As the command line names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeSettings => "claude-settings",
            Self::CodexRules => "codex-rules",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// A policy file that loads.
    pub policy: String,
    /// What the source says and the policy does not, or says more strictly.
    pub left: Vec<String>,
}

/// What was read, before it is a policy.
#[derive(Debug, Default)]
struct Gathered {
    mode: Option<&'static str>,
    hide: Vec<String>,
    hosts: Vec<String>,
    rules: Vec<Rule>,
    left: Vec<String>,
}

impl Gathered {
    /// Adds a pattern to the rule of its tool, kind and verdict.
    fn rule(&mut self, tool: &str, verdict: Decision, reason: &str, put: impl FnOnce(&mut Rule)) {
        let mut rule = Rule {
            id: String::new(),
            at: String::new(),
            tool: tool.to_owned(),
            command: Vec::new(),
            path: Vec::new(),
            host: Vec::new(),
            table: Vec::new(),
            mcp: Vec::new(),
            verdict,
            reason: reason.to_owned(),
            instead: None,
            examples: Examples::default(),
        };
        put(&mut rule);
        let same = |other: &&mut Rule| {
            (&other.tool, other.verdict, &other.reason) == (&rule.tool, rule.verdict, &rule.reason)
                && other.command.is_empty() == rule.command.is_empty()
                && other.path.is_empty() == rule.path.is_empty()
                && other.host.is_empty() == rule.host.is_empty()
                && other.mcp.is_empty() == rule.mcp.is_empty()
        };
        match self.rules.iter_mut().find(same) {
            Some(known) => {
                merge(&mut known.command, rule.command);
                merge(&mut known.path, rule.path);
                merge(&mut known.host, rule.host);
                merge(&mut known.mcp, rule.mcp);
                merge(&mut known.examples.r#match, rule.examples.r#match);
                merge(&mut known.examples.differ, rule.examples.differ);
            }
            None => self.rules.push(rule),
        }
    }

    fn leave(&mut self, what: &str, why: &str) {
        let what: String = what
            .chars()
            .take(200)
            .flat_map(char::escape_debug)
            .collect();
        self.left.push(format!("`{what}`: {why}"));
    }
}

fn merge<T: PartialEq>(list: &mut Vec<T>, more: Vec<T>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

/// Translates the text of a file; `name` is the policy's.
///
/// # Errors
/// The text is not of its kind, and where.
pub fn import(origin: Origin, text: &str, name: &str) -> Result<Imported, String> {
    if text.len() > protocol::bounds::POLICY_FILE {
        return Err("the file has more than 1 MiB".to_owned());
    }
    let mut gathered = match origin {
        Origin::ClaudeSettings => claude::read(text)?,
        Origin::CodexRules => codex::read(text)?,
    };
    for (at, rule) in gathered.rules.iter_mut().enumerate() {
        rule.id = format!("imported-{}-{}", rule.verdict.as_str(), at + 1);
    }
    // What the checks at load refuse is left out, and said: a rule that another one overrules, an
    // example that the two languages read differently.
    loop {
        let policy = write(&gathered, origin, name);
        let source = Source {
            name: "imported".to_owned(),
            text: policy.clone(),
            layer: LayerName::User,
        };
        let Err(faults) = load(&[source], &profile_source) else {
            gathered.left.sort();
            gathered.left.dedup();
            return Ok(Imported {
                policy,
                left: gathered.left,
            });
        };
        let Some(fault) = faults.first() else {
            return Err("the translation does not load".to_owned());
        };
        if !drop_faulty(&mut gathered, &policy, fault.line, &fault.message) {
            return Err(format!("the translation does not load: {}", fault.message));
        }
    }
}

/// Leaves out what a fault in line `line` of the text is about.
fn drop_faulty(gathered: &mut Gathered, policy: &str, line: usize, message: &str) -> bool {
    let lines: Vec<&str> = policy.lines().collect();
    let id = lines
        .iter()
        .take(line)
        .rev()
        .find_map(|line| line.strip_prefix("id = "))
        .map(|id| id.trim_matches('"').to_owned());
    let at_examples = lines
        .get(line.saturating_sub(1))
        .is_some_and(|line| line.starts_with("examples"));
    let Some(index) = gathered
        .rules
        .iter()
        .position(|rule| Some(&rule.id) == id.as_ref())
    else {
        return false;
    };
    if at_examples {
        if let Some(rule) = gathered.rules.get_mut(index) {
            rule.examples = Examples::default();
            let id = rule.id.clone();
            gathered.leave(&id, &format!("its examples were left out: {message}"));
        }
        return true;
    }
    let rule = gathered.rules.remove(index);
    let what = to_toml(std::slice::from_ref(&rule)).replace('\n', " ");
    gathered.leave(&what, message);
    true
}

fn write(gathered: &Gathered, origin: Origin, name: &str) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
        format!("[{}]", items.join(", "))
    };
    let mut text = format!(
        "# Imported from {}. Read it before you use it.\nversion = 1\nname = {}\nextends = \"default\"\n",
        origin.as_str(),
        quoted(name)
    );
    if let Some(mode) = gathered.mode {
        text.push_str(&format!("mode = {}\n", quoted(mode)));
    }
    if !gathered.hide.is_empty() {
        text.push_str(&format!(
            "\n[filesystem]\nhide = {}\n",
            list(&gathered.hide)
        ));
    }
    if !gathered.hosts.is_empty() {
        text.push_str(&format!("\n[network]\nallow = {}\n", list(&gathered.hosts)));
    }
    text.push('\n');
    text.push_str(&to_toml(&gathered.rules));
    text
}

/// A command pattern from words; `None` if a policy cannot write it.
fn pattern(words: &[String]) -> Option<CommandPattern> {
    let fits = |word: &String| {
        !word.is_empty() && !word.contains(['\'', '"']) && !word.chars().any(char::is_control)
    };
    (!words.is_empty() && words.iter().all(fits)).then(|| CommandPattern(words.to_vec()))
}
