//! The `[[hook]]` tables of one file.

use protocol::bounds;

use super::{
    section::{At, Faults, Section, cut, suggestion},
    units,
};
use crate::{Hook, HookEvent, LayerName, tools::Tool};

const KNOWN: &[&str] = &["id", "event", "command", "tool", "required", "timeout"];

/// Reads the hooks of a file that belongs to `layer`.
pub(super) fn read(
    top: &Section<'_, '_>,
    layer: LayerName,
    faults: &mut Faults<'_>,
) -> Vec<At<Hook>> {
    let mut hooks: Vec<At<Hook>> = Vec::new();
    for At {
        value: section,
        span,
    } in top.tables("hook", KNOWN, faults)
    {
        for key in ["id", "event", "command"] {
            if section.key(key).is_none() {
                faults.add(&span, format!("a hook has `{key}`"), None);
            }
        }
        let id = section.text("id", faults);
        let event = event(&section, faults);
        let command = command(&section, faults);
        let tool = tools(&section, event, faults);
        let required = section
            .flag("required", faults)
            .is_some_and(|flag| flag.value);
        let timeout = timeout(&section, faults);
        let (Some(id), Some(event), Some(command)) = (id, event, command) else {
            continue;
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if id.value.is_empty() || id.value.len() > 64 || !id.value.chars().all(fits) {
            let message = format!("`{}` is not a hook's id", cut(&id.value));
            let help = Some("letters, digits, `_` and `-`".to_owned());
            faults.add(&id.span, message, help);
        }
        if hooks.iter().any(|other| other.value.id == id.value) {
            let message = format!("a second hook has the id `{}`", cut(&id.value));
            faults.add(&id.span, message, None);
            continue;
        }
        let at = faults.place(&id.span);
        hooks.push(At {
            value: Hook {
                id: id.value,
                layer,
                at,
                file: faults.source.name.clone(),
                event,
                command,
                tool,
                required,
                timeout,
            },
            span: id.span,
        });
    }
    hooks
}

fn event(section: &Section<'_, '_>, faults: &mut Faults<'_>) -> Option<HookEvent> {
    let word = section.text("event", faults)?;
    let found = HookEvent::parse(&word.value);
    if found.is_none() {
        let known = HookEvent::ALL.map(HookEvent::as_str);
        let message = format!("no event is named `{}`", cut(&word.value));
        faults.add(&word.span, message, Some(suggestion(&word.value, &known)));
    }
    found
}

/// Program and arguments. A program is a path: a bare name would mean whatever lies first on a path
/// that somebody else set.
fn command(section: &Section<'_, '_>, faults: &mut Faults<'_>) -> Option<Vec<String>> {
    let words = section.texts("command", faults)?;
    let Some(program) = words.first() else {
        let span = section.key("command").unwrap_or(0..0);
        faults.add(&span, "a hook's `command` names a program", None);
        return None;
    };
    let path = &program.value;
    let up = path.split('/').any(|part| part == "..");
    if !path.contains('/') || path.ends_with('/') || up {
        let message = format!("`{}` is not a hook's program", cut(path));
        let help = "write its path, absolute or from this file's folder: `/usr/bin/python3`, `./check.sh`; no shell reads the words";
        faults.add(&program.span, message, Some(help.to_owned()));
    }
    for word in &words {
        if word.value.contains('\0') || word.value.len() > 4_096 {
            faults.add(
                &word.span,
                "a word of a command has no NUL and at most 4,096 bytes",
                None,
            );
        }
    }
    if words.len() > 64 {
        let span = words.last().map_or(0..0, |word| word.span.clone());
        faults.add(&span, "a hook's `command` has at most 64 words", None);
    }
    Some(words.into_iter().map(|word| word.value).collect())
}

fn tools(
    section: &Section<'_, '_>,
    event: Option<HookEvent>,
    faults: &mut Faults<'_>,
) -> Vec<String> {
    let words = section.texts("tool", faults).unwrap_or_default();
    if let (Some(event), Some(first)) = (event.filter(|event| !event.has_tool()), words.first()) {
        let message = format!("`{}` is about no tool", event.as_str());
        let help = "leave `tool` out; pre_tool, permission_request and post_tool have it";
        faults.add(&first.span, message, Some(help.to_owned()));
    }
    let known: Vec<&str> = Tool::ALL.iter().map(|tool| tool.as_str()).collect();
    for word in &words {
        if word.value != "*" && !known.contains(&word.value.as_str()) {
            let message = format!("no tool is named `{}`", cut(&word.value));
            faults.add(&word.span, message, Some(suggestion(&word.value, &known)));
        }
    }
    if words.iter().any(|word| word.value == "*") {
        return Vec::new();
    }
    words.into_iter().map(|word| word.value).collect()
}

fn timeout(section: &Section<'_, '_>, faults: &mut Faults<'_>) -> u64 {
    let default = bounds::HOOK_TIME.as_secs();
    let Some(text) = section.text("timeout", faults) else {
        return default;
    };
    let longest = bounds::HOOK_TIME_MAX.as_secs();
    match units::time(&text.value).filter(|seconds| (1..=longest).contains(seconds)) {
        Some(seconds) => seconds,
        None => {
            let message = format!("`{}` is not a hook's time", cut(&text.value));
            let help = format!("write it as 5s; at most {longest}s");
            faults.add(&text.span, message, Some(help));
            default
        }
    }
}
