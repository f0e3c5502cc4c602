//! The smallest policy that would not ask again: from calls that were asked about, rules that are as
//! narrow as the calls themselves. What the law itself asks about no rule can answer.

use std::collections::BTreeMap;

use crate::{
    Action, CommandPattern, Decision, Examples, Facts, LayerName, Mode, Policy, Rule,
    evaluate::evaluate, shell,
};

/// What could be suggested, and what not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Suggestion {
    /// Rules for the user's layer, sorted by id.
    pub rules: Vec<Rule>,
    /// Calls that no rule can answer, and why.
    pub left: Vec<(String, String)>,
}

/// Calls that are looked at.
const CALLS: usize = 5_000;

/// Suggests rules for the calls that `policy` asks about under `mode`.
#[must_use]
pub fn suggest(policy: &Policy, mode: Mode, actions: &[Action], facts: &Facts) -> Suggestion {
    let mut suggestion = Suggestion::default();
    // By the rule that asked, so that each asking rule gets one answer.
    let mut grouped: BTreeMap<String, Rule> = BTreeMap::new();
    for action in actions.iter().take(CALLS) {
        let verdict = evaluate(policy, mode, action, facts);
        if verdict.decision == Decision::Allow {
            continue;
        }
        let shown = shown(action);
        match narrow(policy, action, facts) {
            Ok((asking, rules)) => {
                let mut wider = policy.clone();
                add(&mut wider, &rules);
                let after = evaluate(&wider, mode, action, facts);
                if after.decision == Decision::Allow {
                    for rule in rules {
                        join(&mut grouped, &asking, rule);
                    }
                } else {
                    suggestion.left.push((shown, after.reason));
                }
            }
            Err(why) => suggestion.left.push((shown, why)),
        }
    }
    suggestion.rules = grouped.into_values().collect();
    suggestion.left.sort();
    suggestion.left.dedup();
    suggestion
}

/// The policy with the rules in its user layer.
pub fn add(policy: &mut Policy, rules: &[Rule]) {
    match policy
        .layers
        .iter_mut()
        .find(|layer| layer.name == LayerName::User)
    {
        Some(layer) => layer.rules.extend(rules.iter().cloned()),
        None => policy.layers.push(crate::Layer {
            name: LayerName::User,
            sources: Vec::new(),
            rules: rules.to_vec(),
        }),
    }
}

fn join(grouped: &mut BTreeMap<String, Rule>, asking: &str, mut rule: Rule) {
    let key = format!("{}-{asking}", rule.tool.replace('_', "-"));
    rule.id = format!("learned-{key}").chars().take(64).collect();
    let kept = grouped.entry(key).or_insert_with(|| Rule {
        command: Vec::new(),
        path: Vec::new(),
        table: Vec::new(),
        examples: Examples::default(),
        ..rule.clone()
    });
    for pattern in rule.command {
        if !kept.command.contains(&pattern) {
            kept.command.push(pattern);
        }
    }
    for path in rule.path {
        if !kept.path.contains(&path) {
            kept.path.push(path);
        }
    }
    for table in rule.table {
        if !kept.table.contains(&table) {
            kept.table.push(table);
        }
    }
}

fn shown(action: &Action) -> String {
    let text = match action {
        Action::Run(run) => run.line.clone(),
        Action::File(access) => format!("{} {}", access.tool.as_str(), access.path),
        Action::Query { query, .. } => query.clone(),
        other => format!("{other:?}"),
    };
    text.chars()
        .take(200)
        .flat_map(char::escape_debug)
        .collect()
}

fn blank(tool: &str, asking: &str) -> Rule {
    Rule {
        id: String::new(),
        at: "suggested".to_owned(),
        tool: tool.to_owned(),
        command: Vec::new(),
        path: Vec::new(),
        host: Vec::new(),
        table: Vec::new(),
        mcp: Vec::new(),
        verdict: Decision::Allow,
        reason: format!("it was asked about by `{asking}` and is wanted"),
        instead: None,
        examples: Examples::default(),
    }
}

/// The narrowest rules that are about this action, and the rule that asked.
fn narrow(policy: &Policy, action: &Action, facts: &Facts) -> Result<(String, Vec<Rule>), String> {
    // What a person would have been asked, whatever the mode makes of it.
    let verdict = evaluate(policy, Mode::OnRequest, action, facts);
    let asking = verdict.rule.clone().unwrap_or_default();
    match (verdict.decision, verdict.layer.as_deref()) {
        (Decision::Ask, Some("user")) => {}
        (Decision::Ask, Some(layer)) => {
            return Err(format!(
                "`{asking}` of the layer {layer} asks, and no rule of yours lowers it"
            ));
        }
        (Decision::Deny, _) => return Err(format!("`{asking}` denies it: {}", verdict.reason)),
        _ => return Err("it was not asked about".to_owned()),
    }
    match action {
        Action::Run(run) => {
            let mut rules = Vec::new();
            let asked = verdict
                .parts
                .iter()
                .zip(&run.reading.simples)
                .filter(|(part, _)| part.decision == Decision::Ask);
            for (_, simple) in asked {
                rules.push(of_command(simple, &asking)?);
            }
            if rules.is_empty() {
                return Err("what asks is a redirection, which an allow never covers".to_owned());
            }
            Ok((asking, rules))
        }
        Action::File(access) => {
            let mut rule = blank(access.tool.as_str(), &asking);
            let relative = access.path.below(&facts.workspace);
            let path = relative.map_or_else(|| access.path.to_string(), |path| format!("./{path}"));
            if path.contains(['*', '?', '[', '{', '}', '\\', '!']) {
                return Err("its path cannot be written as a pattern".to_owned());
            }
            rule.path.push(path);
            Ok((asking, vec![rule]))
        }
        Action::Query { query, database } => {
            let tables = crate::sql::tables(query).filter(|tables| tables.len() == 1);
            let Some([table]) = tables.as_deref() else {
                return Err("a rule allows one table at a time".to_owned());
            };
            let mut rule = blank("run_sql", &asking);
            rule.table.push(if database.is_empty() {
                table.clone()
            } else {
                format!("{database}.{table}")
            });
            Ok((asking, vec![rule]))
        }
        _ => Err("a rule for a whole tool is a person's to write".to_owned()),
    }
}

/// The command with its literal words, up to the first that only run time knows.
fn of_command(simple: &shell::Simple, asking: &str) -> Result<Rule, String> {
    let Some(program) = simple
        .program
        .as_ref()
        .and_then(|word| word.literal.clone())
    else {
        return Err("which program it is shows only when it runs".to_owned());
    };
    let words = simple.args.iter().map_while(|word| word.literal.clone());
    let words: Vec<String> = std::iter::once(program).chain(words.take(12)).collect();
    if words.iter().any(|word| {
        word.is_empty()
            || word.contains(['\n', '\'', '"', '*'])
            || word.chars().any(char::is_control)
    }) {
        return Err("its words cannot be written as a pattern".to_owned());
    }
    let mut rule = blank("bash", asking);
    rule.command.push(CommandPattern(words));
    Ok(rule)
}

/// The rules as a policy file's text.
#[must_use]
pub fn to_toml(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        text.push_str("[[rule]]\n");
        let mut put = |key: &str, value: String| text.push_str(&format!("{key} = {value}\n"));
        put("id", quoted(&rule.id));
        put("tool", quoted(&rule.tool));
        let command: Vec<String> = rule.command.iter().map(written).collect();
        for (key, list) in [
            ("command", &command),
            ("path", &rule.path),
            ("host", &rule.host),
            ("table", &rule.table),
            ("mcp", &rule.mcp),
        ] {
            if !list.is_empty() {
                let items: Vec<String> = list.iter().map(|item| quoted(item)).collect();
                put(key, format!("[{}]", items.join(", ")));
            }
        }
        put("verdict", quoted(rule.verdict.as_str()));
        put("reason", quoted(&rule.reason));
        if let Some(instead) = &rule.instead {
            put("instead", quoted(instead));
        }
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        };
        let examples: Vec<String> = [
            ("match", &rule.examples.r#match),
            ("differ", &rule.examples.differ),
        ]
        .into_iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(key, items)| format!("{key} = {}", list(items)))
        .collect();
        if !examples.is_empty() {
            put("examples", format!("{{ {} }}", examples.join(", ")));
        }
        text.push('\n');
    }
    text
}

/// A command pattern as a policy writes it.
#[must_use]
pub fn written(pattern: &CommandPattern) -> String {
    let plain = |word: &String| {
        word.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:=@,+%~^".contains(c) || !c.is_ascii())
    };
    let words: Vec<String> = pattern
        .0
        .iter()
        .map(|word| {
            if plain(word) {
                word.clone()
            } else {
                format!("'{word}'")
            }
        })
        .collect();
    words.join(" ")
}

/// A string of TOML.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Run,
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

    fn line(text: &str) -> Action {
        Action::Run(Run {
            line: text.into(),
            reading: shell::read(text),
            timeout_s: 60,
            background: false,
            stdin: None,
        })
    }

    #[test]
    fn a_suggested_rule_answers_the_call_that_it_was_made_for_and_loads() {
        let policy =
            load(&[profile_source("default").expect("shipped")], &|_| None).expect("loads");
        let asked = [
            "git push origin main",
            "cd x && npm publish --access public",
            "terraform apply -auto-approve",
            "kubectl apply -f 'k 8s/x.yml'",
            "ls",
        ];
        let actions: Vec<Action> = asked.iter().map(|text| line(text)).collect();
        let found = suggest(&policy, Mode::OnRequest, &actions, &facts());
        assert!(found.left.is_empty(), "{:?}", found.left);
        assert_eq!(found.rules.len(), 3);
        let text = format!(
            "version = 1\nextends = \"default\"\n{}",
            to_toml(&found.rules)
        );
        let source = Source {
            name: "s.toml".into(),
            text,
            layer: LayerName::User,
        };
        let wider = load(&[source], &profile_source).unwrap_or_else(|faults| panic!("{faults:?}"));
        for action in &actions {
            assert_eq!(
                evaluate(&wider, Mode::OnRequest, action, &facts()).decision,
                Decision::Allow
            );
        }
        // And it allows no more than what begins so.
        for text in [
            "git push origin dev",
            "git push",
            "npm publish",
            "terraform destroy",
        ] {
            assert_eq!(
                evaluate(&wider, Mode::OnRequest, &line(text), &facts()).decision,
                Decision::Ask,
                "{text}"
            );
        }
    }

    #[test]
    fn what_no_rule_can_answer_is_told() {
        let policy =
            load(&[profile_source("default").expect("shipped")], &|_| None).expect("loads");
        let actions = [
            "sudo id",
            "echo x > .bashrc",
            "$x y",
            "git push",
            "cat ~/.ssh/id_rsa",
            "git push $x > .envrc",
        ];
        let actions: Vec<Action> = actions.iter().map(|text| line(text)).collect();
        let found = suggest(&policy, Mode::OnRequest, &actions, &facts());
        assert!(found.rules.is_empty(), "{:?}", found.rules);
        assert_eq!(found.left.len(), actions.len(), "{:?}", found.left);
    }

    #[test]
    fn words_are_quoted_so_that_they_are_read_back() {
        for words in [vec!["git", "push"], vec!["x", "a b"], vec!["x", "--a=b;c"]] {
            let pattern = CommandPattern(words.iter().map(|word| (*word).to_owned()).collect());
            let read = crate::parse::command_pattern(&written(&pattern)).expect("reads");
            assert_eq!(read, pattern);
        }
    }
}
