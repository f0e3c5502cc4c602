//! What words become where the line itself tells: variables that it sets, loops over a list, the
//! working folder, braces, and what `echo` hands to `xargs`.
//!
//! Only judgements that tighten read it: a word that is resolved wrongly costs a question. What is
//! allowed is decided on the words as they are written.

use std::{borrow::Cow, collections::BTreeMap};

use crate::shell::{Reading, Simple, Word};

/// Words that one word may become.
const WORDS: usize = 16;
/// Values of one variable that are followed.
const VALUES: usize = 4;
/// Words of a whole line that may be added.
const ADDED: usize = 4_096;

/// Values by the variable's name.
type Known = BTreeMap<String, Vec<String>>;

/// The reading with every word replaced by what it is known to become. The simple commands keep
/// their places.
pub(crate) fn resolved(reading: &Reading) -> Cow<'_, Reading> {
    let literal = |word: &Word| word.literal.is_some();
    let plain = reading.simples.iter().all(|simple| {
        simple.program.as_ref().is_none_or(literal)
            && simple.args.iter().all(literal)
            && simple.name() != Some("xargs")
    });
    if plain
        && reading
            .redirects
            .iter()
            .all(|redirect| literal(&redirect.target))
    {
        return Cow::Borrowed(reading);
    }
    let known = known(reading);
    let mut room = ADDED;
    let mut out = reading.clone();
    for simple in &mut out.simples {
        words(simple, &known, &mut room);
    }
    handed(&mut out, &mut room);
    for redirect in &mut out.redirects {
        if redirect.target.literal.is_none()
            && let Some(first) = become_words(&redirect.target, &known).into_iter().next()
        {
            redirect.target = first;
        }
    }
    Cow::Owned(out)
}

/// Resolves the words of one simple command.
fn words(simple: &mut Simple, known: &Known, room: &mut usize) {
    let mut args = Vec::with_capacity(simple.args.len());
    for word in &simple.args {
        if word.literal.is_some() || *room == 0 {
            args.push(word.clone());
            continue;
        }
        let words = become_words(word, known);
        *room = room.saturating_sub(words.len());
        args.extend(words);
    }
    let program = simple
        .program
        .as_ref()
        .filter(|word| word.literal.is_none());
    if let Some(program) = program {
        let mut words = become_words(program, known).into_iter();
        if let Some(first) = words.next() {
            simple.program = Some(first);
            args.splice(0..0, words);
        }
    }
    simple.args = args;
}

/// `echo / | xargs rm -rf`: what is printed stands behind the command that `xargs` starts.
fn handed(reading: &mut Reading, room: &mut usize) {
    let printed: Vec<(usize, Vec<Word>)> = reading
        .simples
        .iter()
        .enumerate()
        .filter_map(|(index, simple)| {
            let xargs = simple.wrapped_by.and_then(|at| reading.simples.get(at))?;
            if !matches!(xargs.name(), Some("xargs" | "gxargs" | "parallel")) {
                return None;
            }
            let from = xargs.piped_from.and_then(|at| reading.simples.get(at))?;
            if !matches!(from.name(), Some("echo" | "printf")) {
                return None;
            }
            let words = from.args.iter().filter(|word| !word.text.starts_with('-'));
            let mut words: Vec<Word> = words.take(WORDS).cloned().collect();
            if from.name() == Some("printf") && words.len() > 1 {
                words.remove(0);
            }
            Some((index, words))
        })
        .collect();
    for (index, words) in printed {
        if *room < words.len() {
            return;
        }
        *room -= words.len();
        if let Some(simple) = reading.simples.get_mut(index) {
            let pieces = words.iter().flat_map(|word| {
                let text = word.literal.as_deref().unwrap_or(&word.text);
                text.split_whitespace().map(made).collect::<Vec<_>>()
            });
            simple.args.extend(pieces);
        }
    }
}

/// The values that the line gives to its variables.
fn known(reading: &Reading) -> Known {
    let mut known = Known::new();
    let mut note = |name: &str, value: &Word| {
        let values = known.entry(name.to_owned()).or_default();
        let value = value
            .literal
            .clone()
            .unwrap_or_else(|| unquoted(&value.text));
        if values.len() < VALUES && !values.contains(&value) {
            values.push(value);
        }
    };
    for simple in &reading.simples {
        for (name, value) in &simple.assignments {
            note(name, value);
        }
        let declares = [
            "export", "declare", "typeset", "local", "readonly", "read", "printf",
        ];
        if !simple.name().is_some_and(|name| declares.contains(&name)) {
            continue;
        }
        for word in &simple.args {
            let text = word.literal.clone().unwrap_or_else(|| unquoted(&word.text));
            if let Some((name, value)) = text.split_once('=') {
                note(name, &made(value));
            }
        }
    }
    for (name, value) in &reading.loops {
        note(name, value);
    }
    known
}

fn unquoted(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '"' | '\'' | '\\'))
        .collect()
}

/// A word of that text; it is a literal if nothing in it is decided at run time.
fn made(text: &str) -> Word {
    let open = text.contains(['$', '`', '*', '?', '[', '{']);
    Word {
        text: text.to_owned(),
        literal: (!open).then(|| text.to_owned()),
    }
}

/// What a word that is not a literal may become.
fn become_words(word: &Word, known: &Known) -> Vec<Word> {
    let quoted = word.text.starts_with(['"', '\'']);
    let mut done: Vec<String> = Vec::new();
    let mut waiting = vec![here(&unquoted(&word.text))];
    // Each step fills in one variable of one text, so that this ends even where a value names itself.
    let mut steps = WORDS * VALUES;
    while let Some(text) = waiting.pop() {
        steps = steps.saturating_sub(1);
        let next = if steps == 0 { None } else { variable(&text) };
        let Some(found) = next else {
            done.push(text);
            continue;
        };
        let values = known.get(found.name).map(Vec::as_slice).unwrap_or_default();
        let fallback = found.default.map(str::to_owned);
        let values: Vec<String> = values.iter().cloned().chain(fallback).collect();
        if values.is_empty() {
            // It stays unknown; what stands behind it may be known.
            waiting.push(format!(
                "{}\u{0}{}\u{0}{}",
                found.before, found.name, found.after
            ));
            continue;
        }
        for value in values.into_iter().take(VALUES) {
            // A `$` in a value is not expanded again.
            let value = here(&value).replace('$', "\u{1}");
            waiting.push(format!("{}{value}{}", found.before, found.after));
        }
        if waiting.len() + done.len() > WORDS {
            break;
        }
    }
    done.extend(waiting);
    done.reverse();
    done.into_iter()
        .map(|text| marked(&text))
        .flat_map(|text| braces(&text))
        .flat_map(|text| {
            if quoted || text.contains(['$', '`']) {
                vec![made(&text)]
            } else {
                text.split_whitespace().map(made).collect()
            }
        })
        .take(WORDS)
        .collect()
}

/// Puts back the marks of variables that stay unknown.
fn marked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut opens = true;
    for c in text.chars() {
        match c {
            '\u{0}' => {
                out.push_str(if opens { "${" } else { "}" });
                opens = !opens;
            }
            '\u{1}' => out.push('$'),
            _ => out.push(c),
        }
    }
    out
}

/// The working folder by its other names.
fn here(text: &str) -> String {
    for name in [
        "$PWD",
        "${PWD}",
        "${PWD:?}",
        "$(pwd)",
        "`pwd`",
        "$(pwd -P)",
        "$(git rev-parse --show-toplevel)",
        "`git rev-parse --show-toplevel`",
    ] {
        if let Some(rest) = text.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!(".{rest}");
        }
    }
    for name in ["$(git rev-parse --git-dir)", "`git rev-parse --git-dir`"] {
        if let Some(rest) = text.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!(".git{rest}");
        }
    }
    for name in ["$HOME", "${HOME}", "${HOME:?}"] {
        if let Some(rest) = text.strip_prefix(name)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("~{rest}");
        }
    }
    text.to_owned()
}

struct Variable<'t> {
    before: &'t str,
    name: &'t str,
    default: Option<&'t str>,
    after: &'t str,
}

/// The first variable of a text in its plain forms: `$name`, `${name}`, `${name:-default}`.
fn variable(text: &str) -> Option<Variable<'_>> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut from = 0;
    while let Some(found) = text.get(from..)?.find('$') {
        let at = from + found;
        let before = text.get(..at)?;
        let rest = text.get(at + 1..)?;
        from = at + 1;
        if let Some(inside) = rest.strip_prefix('{') {
            let Some((body, after)) = inside.split_once('}') else {
                continue;
            };
            let name = body.get(..body.find(|c| !fits(c)).unwrap_or(body.len()))?;
            let suffix = body.get(name.len()..)?;
            let default = [":-", ":=", "-", "="]
                .iter()
                .find_map(|mark| suffix.strip_prefix(mark));
            if !name.is_empty() && (suffix.is_empty() || default.is_some()) {
                return Some(Variable {
                    before,
                    name,
                    default,
                    after,
                });
            }
            continue;
        }
        let name = rest.get(..rest.find(|c| !fits(c)).unwrap_or(rest.len()))?;
        if !name.is_empty() {
            let after = rest.get(name.len()..)?;
            return Some(Variable {
                before,
                name,
                default: None,
                after,
            });
        }
    }
    None
}

/// What braces make of a text: `a{b,c}` becomes `ab` and `ac`.
fn braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut waiting = vec![text.to_owned()];
    while let Some(text) = waiting.pop() {
        match brace(&text) {
            Some((before, inside, after)) if waiting.len() + done.len() < WORDS => {
                for part in inside.into_iter().rev().take(WORDS) {
                    waiting.push(format!("{before}{part}{after}"));
                }
            }
            _ if done.contains(&text) => {}
            _ => done.push(text),
        }
    }
    done.truncate(WORDS);
    done
}

/// The first innermost braces with a comma.
fn brace(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let mut open = None;
    for (at, c) in text.char_indices() {
        match c {
            '{' if !text.get(..at)?.ends_with('$') => open = Some(at),
            '}' => {
                let Some(start) = open.take() else { continue };
                let inside = text.get(start + 1..at)?;
                if inside.contains(',') {
                    let after = text.get(at + 1..)?;
                    return Some((text.get(..start)?, inside.split(',').collect(), after));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell;

    fn args(line: &str) -> Vec<String> {
        let reading = shell::read(line);
        let out = resolved(&reading);
        let last = out.simples.last().expect("a command");
        let program = last.program.iter().chain(&last.args);
        program.map(|word| word.text.clone()).collect()
    }

    #[test]
    fn words_become_what_the_line_says() {
        for (line, wanted) in [
            ("cat /etc/{passwd,shadow}", "cat /etc/passwd /etc/shadow"),
            ("cat a{b,c{d,e}}", "cat ab acd ace"),
            ("X=/; rm -rf $X", "rm -rf /"),
            ("X=/; rm -rf \"${X}etc\"", "rm -rf /etc"),
            ("F='-rf /'; rm $F", "rm -rf /"),
            ("X='rm -rf'; $X /", "rm -rf /"),
            ("rm -rf $(pwd)", "rm -rf ."),
            ("rm -rf \"$PWD\"/*", "rm -rf ./*"),
            ("rm -rf ${X:-/}", "rm -rf /"),
            ("export D=~/.ssh; cat $D/id", "cat ~/.ssh/id"),
            ("for f in /a /b; do cat $f; done", "cat /a /b"),
            ("cat $f/x", "cat ${f}/x"),
            ("X=$X; cat $X", "cat $X"),
            ("echo / | xargs rm -rf", "rm -rf /"),
            ("rm {1..3}", "rm {1..3}"),
        ] {
            let found: Vec<String> = args(line).into_iter().filter(|word| word != "…").collect();
            assert_eq!(found.join(" "), wanted, "{line}");
        }
    }

    #[test]
    fn many_values_stay_few_words() {
        let line = format!(
            "{}cat $a$a$a$a$a$a$a$a{{1,2,3,4}}{{1,2,3,4}}{{1,2,3,4}}",
            "a=1; a=2; a=3; a=4; "
        );
        assert!(args(&line).len() <= WORDS + 1);
    }
}
