//! What can be said of rules only together: twins, rules that never decide, examples, and read
//! denials that nothing would enforce.

use std::collections::BTreeMap;

use protocol::bounds;

use super::{Diagnostic, Source, caret, rules::Draft};
use crate::{
    Decision, Rule, Settings,
    evaluate::{example_matches, rule_contains},
    glob::{Pattern, Root},
};

/// Checks the rules of one layer.
pub(super) fn layer(
    drafts: &[Draft],
    settings: &Settings,
    files: &[Source],
    faults: &mut Vec<Diagnostic>,
) {
    let mut add =
        |draft: &Draft, span: &std::ops::Range<usize>, message: String, help: Option<String>| {
            if let Some(source) = files.get(draft.file) {
                faults.push(caret::diagnostic(source, span.clone(), message, help));
            }
        };
    let patterns: usize = drafts.iter().map(|draft| draft.patterns.len()).sum();
    if drafts.len() > bounds::POLICY_RULES || patterns > bounds::POLICY_PATTERNS {
        if let Some(draft) = drafts.last() {
            let message = format!(
                "a layer has at most {} rules and {} patterns",
                bounds::POLICY_RULES,
                bounds::POLICY_PATTERNS
            );
            add(draft, &draft.id, message, None);
        }
        return;
    }
    let mut seen: BTreeMap<&str, &Draft> = BTreeMap::new();
    for draft in drafts {
        if let Some(first) = seen.insert(&draft.rule.id, draft) {
            let message = format!("a second rule has the id `{}`", draft.rule.id);
            add(
                draft,
                &draft.id,
                message,
                Some(format!("the first stands at {}", first.rule.at)),
            );
        }
    }
    for (index, draft) in drafts.iter().enumerate() {
        if let Some((stricter, why)) = overruled(index, draft, drafts) {
            let message = format!(
                "unreachable: rule `{}` ({}) {why}",
                stricter.rule.id, stricter.rule.at
            );
            add(
                draft,
                &draft.id,
                message,
                Some("remove one of the two".to_owned()),
            );
        }
        for (path, span) in draft.rule.path.iter().zip(&draft.patterns) {
            if let Some((message, help)) = not_enforced(&draft.rule, path, settings) {
                add(draft, span, message, Some(help));
            }
        }
        for (example, span) in draft.rule.examples.r#match.iter().zip(&draft.matches) {
            match example_matches(&draft.rule, example) {
                Ok(true) => {}
                Ok(false) => add(
                    draft,
                    span,
                    "this example must match and does not".to_owned(),
                    None,
                ),
                Err(why) => add(
                    draft,
                    span,
                    format!("this example cannot be read: {why}"),
                    None,
                ),
            }
        }
        for (example, span) in draft.rule.examples.differ.iter().zip(&draft.differs) {
            match example_matches(&draft.rule, example) {
                Ok(false) => {}
                Ok(true) => add(
                    draft,
                    span,
                    "this example must not match and does".to_owned(),
                    None,
                ),
                Err(why) => add(
                    draft,
                    span,
                    format!("this example cannot be read: {why}"),
                    None,
                ),
            }
        }
    }
}

/// The rule of the same layer that always speaks louder than `draft`, and why.
fn overruled<'a>(
    index: usize,
    draft: &Draft,
    drafts: &'a [Draft],
) -> Option<(&'a Draft, &'static str)> {
    drafts
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index)
        .find_map(|(at, other)| {
            let (ours, theirs) = (draft.rule.verdict, other.rule.verdict);
            if theirs < ours || !rule_contains(&other.rule, &draft.rule) {
                return None;
            }
            if theirs == Decision::Deny && ours != Decision::Deny {
                return Some((other, "denies all that it could match"));
            }
            let same = rule_contains(&draft.rule, &other.rule);
            match (same, theirs == ours) {
                (true, false) => Some((other, "matches the same and is stricter")),
                // Of two twins the later one is told.
                (true, true) if at < index => Some((other, "says the same")),
                _ => None,
            }
        })
}

/// Why a read denial would not hold for commands: what must not be read must not be in the view.
fn not_enforced(rule: &Rule, path: &str, settings: &Settings) -> Option<(String, String)> {
    let reads = ["*", "bash", "read_file", "list_directory", "glob", "grep"];
    if rule.verdict != Decision::Deny || !reads.contains(&rule.tool.as_str()) {
        return None;
    }
    let pattern = Pattern::parse(path).ok()?;
    if pattern.root != Root::Workspace {
        return Some((
            format!("not enforceable for commands: `{path}` is outside the workspace"),
            "leave it out: the account's files are not in the view, and its system folders can be read"
                .to_owned(),
        ));
    }
    let hidden = settings
        .filesystem
        .hide
        .iter()
        .filter_map(|glob| hide_pattern(glob))
        .any(|hide| hide.contains(&pattern));
    if hidden {
        return None;
    }
    Some((
        format!("not enforceable for commands: `{path}` is in the view"),
        "add it to [filesystem] hide; a denial of writes is a rule for write_file and edit_file"
            .to_owned(),
    ))
}

/// A gitignore glob as a pattern of ours.
fn hide_pattern(glob: &str) -> Option<Pattern> {
    match glob.strip_prefix('/') {
        Some(rest) => Pattern::parse(&format!("./{rest}")).ok(),
        None => Pattern::parse(glob).ok(),
    }
}
