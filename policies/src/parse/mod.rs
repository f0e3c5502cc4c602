//! From TOML to a policy, with file:line:column and a caret for each fault.

mod caret;
mod checks;
mod draft;
mod hooks;
mod merge;
mod places;
mod rules;
mod section;
#[cfg(test)]
mod tests;
mod tighten;
mod units;

pub(crate) use draft::mode as mode_word;
#[cfg(test)]
pub(crate) use rules::command as command_pattern;
pub(crate) use rules::verdict as decision_word;
pub(crate) use section::{At, Faults, Section, document};

use protocol::bounds;

use crate::{Layer, LayerName, Mode, Policy};

/// A policy file's text; reading it is the caller's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Name for messages (a path or `built-in:default`).
    pub name: String,
    /// The text.
    pub text: String,
    /// The layer that it belongs to.
    pub layer: LayerName,
}

/// One fault of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// File, line and column, from 1.
    pub file: String,
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
    /// What is wrong, without a full stop.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The text with a caret below, as `FILE:LINE:COL: error: …` and three more lines.
    pub rendered: String,
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.rendered)
    }
}

/// Names of the shipped profiles.
pub const PROFILES: &[&str] = &["ci", "default", "locked-down"];

/// Shipped profiles by name.
#[must_use]
pub fn profile(name: &str) -> Option<&'static str> {
    match name {
        "ci" => Some(include_str!("../../rules/ci.toml")),
        "default" => Some(include_str!("../../rules/default.toml")),
        "locked-down" => Some(include_str!("../../rules/locked-down.toml")),
        _ => None,
    }
}

/// The shipped profile as a source of the user layer.
#[must_use]
pub fn profile_source(name: &str) -> Option<Source> {
    profile(name).map(|text| Source {
        name: format!("built-in:{name}"),
        text: text.to_owned(),
        layer: LayerName::User,
    })
}

/// Loads a policy from its layers. `extends` is resolved by `find`, which gets the name as written;
/// what it does not know is looked for among the shipped profiles.
///
/// # Errors
/// Every fault that was found, in order of place.
pub fn load(
    sources: &[Source],
    find: &dyn Fn(&str) -> Option<Source>,
) -> Result<Policy, Vec<Diagnostic>> {
    let mut files: Vec<Source> = Vec::new();
    let mut faults: Vec<Diagnostic> = Vec::new();
    let mut layers: Vec<(LayerName, merge::Word)> = Vec::new();
    let mut rules: Vec<(LayerName, Vec<rules::Draft>)> = Vec::new();
    let mut name = None;
    let mut ordered: Vec<&Source> = sources.iter().collect();
    ordered.sort_by_key(|source| source.layer);
    for source in ordered {
        let chain = chain(source, find, &mut files, &mut faults);
        let layer = source.layer;
        if layers.last().is_none_or(|(last, _)| *last != layer) {
            layers.push((layer, merge::Word::default()));
            rules.push((layer, Vec::new()));
        }
        // What is extended comes first, so that the extending file's word stands.
        for (file, mut draft) in chain.into_iter().rev() {
            if layer == LayerName::User {
                name = draft.name.take().or(name);
            }
            if let Some((_, word)) = layers.last_mut() {
                word.add(&draft, file);
            }
            if let Some((_, list)) = rules.last_mut() {
                list.append(&mut draft.rules);
            }
        }
    }
    let (settings, clashes) = merge::settings(&layers);
    for clash in clashes {
        let (file, span) = clash.at.unwrap_or((0, 0..0));
        if let Some(source) = files.get(file) {
            faults.push(caret::diagnostic(source, span, clash.message, None));
        }
    }
    // Rules are checked together only when each of them could be read: a missing one would make
    // others look wrong.
    if faults.is_empty() {
        for (_, list) in &rules {
            checks::layer(list, &settings, &files, &mut faults);
        }
    }
    if !faults.is_empty() {
        let place = |fault: &Diagnostic| {
            let file = files.iter().position(|source| source.name == fault.file);
            (file, fault.line, fault.column)
        };
        faults.sort_by_key(place);
        faults.dedup();
        return Err(faults);
    }
    let layers = rules
        .into_iter()
        .map(|(name, list)| Layer {
            name,
            sources: files
                .iter()
                .filter(|source| source.layer == name)
                .map(|source| source.name.clone())
                .collect(),
            rules: list.into_iter().map(|draft| draft.rule).collect(),
        })
        .collect();
    Ok(Policy {
        name: name.unwrap_or_else(|| "unnamed".to_owned()),
        layers,
        settings,
    })
}

/// The laxest mode that the organisation's policy leaves to whoever starts a session; `bypass` where
/// it does not say.
///
/// # Errors
/// Every fault of the organisation's policy.
pub fn mode_ceiling(
    organisation: &Source,
    find: &dyn Fn(&str) -> Option<Source>,
) -> Result<Mode, Vec<Diagnostic>> {
    let free = Source {
        name: "no limit".to_owned(),
        text: "version = 1\nmode = \"bypass\"\n".to_owned(),
        layer: LayerName::User,
    };
    load(&[organisation.clone(), free], find).map(|policy| policy.settings.mode)
}

/// Whether a word is a host as rules write it.
pub(crate) fn is_host(word: &str) -> bool {
    word.contains('.') && !word.contains(' ') && rules::host(word).is_ok()
}

/// Reads a file and what it extends, the extending one first.
fn chain(
    source: &Source,
    find: &dyn Fn(&str) -> Option<Source>,
    files: &mut Vec<Source>,
    faults: &mut Vec<Diagnostic>,
) -> Vec<(usize, draft::Draft)> {
    let mut chain = Vec::new();
    let first = files.len();
    let mut next = Some(source.clone());
    while let Some(current) = next.take() {
        let file = files.len();
        let (draft, mut found) = draft::read(&current, file);
        faults.append(&mut found);
        files.push(current.clone());
        let extends = draft.extends.clone();
        chain.push((file, draft));
        let Some(extends) = extends else { break };
        let mut fault = |message: String, help: Option<String>| {
            faults.push(caret::diagnostic(
                &current,
                extends.span.clone(),
                message,
                help,
            ));
        };
        if !current.layer.is_outer() {
            break;
        }
        if chain.len() > bounds::POLICY_EXTENDS {
            fault(
                format!(
                    "more than {} files extend each other",
                    bounds::POLICY_EXTENDS
                ),
                None,
            );
            break;
        }
        let found = find(&extends.value).or_else(|| profile_source(&extends.value));
        let Some(mut found) = found else {
            let shipped = PROFILES.join(", ");
            let message = format!("no policy is named `{}`", section::cut(&extends.value));
            fault(
                message,
                Some(format!("shipped: {shipped}; or write the path of a file")),
            );
            break;
        };
        if files.iter().skip(first).any(|file| file.name == found.name) {
            fault(
                format!("`{}` extends itself", section::cut(&found.name)),
                None,
            );
            break;
        }
        found.layer = current.layer;
        next = Some(found);
    }
    chain
}
