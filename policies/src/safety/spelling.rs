//! What a word may turn out to be, as far as its spelling tells.

use crate::shell::{Reading, Simple, Word};

/// The word's text as the shell would most likely make it: its literal, or its spelling without
/// quotes and with HOME filled in. Expansions and globs stay as they are written.
pub(crate) fn spelled(word: &Word) -> String {
    if let Some(literal) = &word.literal {
        return literal.clone();
    }
    let plain: String = word
        .text
        .chars()
        .filter(|c| !matches!(c, '"' | '\'' | '\\'))
        .collect();
    for home in ["${HOME}", "$HOME", "${HOME:-~}", "${HOME:?}"] {
        if let Some(rest) = plain.strip_prefix(home)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("~{rest}");
        }
    }
    for here in ["${PWD}/", "$PWD/"] {
        if let Some(rest) = plain.strip_prefix(here) {
            return format!("./{rest}");
        }
    }
    plain
}

/// Every spelling of an argument that could name a file: itself, what follows `=`, `@` or a short
/// option's letter, the path of a `file:` address.
pub(crate) fn files(word: &Word) -> Vec<String> {
    let text = spelled(word);
    let mut files = vec![text.clone()];
    if let Some((_, value)) = text.split_once('=') {
        files.push(value.to_owned());
    }
    if let Some((_, value)) = text.rsplit_once('@') {
        files.push(value.to_owned());
    }
    if let Some(rest) = text.strip_prefix('-')
        && !rest.starts_with('-')
        && let Some((at, _)) = rest.char_indices().nth(1)
    {
        files.push(rest.get(at..).unwrap_or("").to_owned());
    }
    for file in files.clone() {
        if let Some(path) = file.strip_prefix("file://") {
            files.push(path.to_owned());
        }
        // `host:path`, and lists as in `-v a:b`.
        files.extend(
            file.split(':')
                .filter(|part| part.contains('/'))
                .map(str::to_owned),
        );
    }
    files
}

/// Interpreters of code: what they are given as text or on standard input, they run.
pub(crate) const INTERPRETERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "ash",
    "fish",
    "csh",
    "tcsh",
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "pwsh",
    "powershell",
    "osascript",
    "Rscript",
    "julia",
    "guile",
    "elixir",
];

/// Whether a simple command starts an interpreter; `python3.12` counts.
pub(crate) fn is_interpreter(simple: &Simple) -> bool {
    simple.name().is_some_and(|name| {
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        INTERPRETERS.contains(&name) || INTERPRETERS.contains(&bare)
    })
}

/// Whether it is a shell.
pub(crate) fn is_shell(simple: &Simple) -> bool {
    let shells = [
        "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh",
    ];
    simple.name().is_some_and(|name| shells.contains(&name))
}

/// Code given to an interpreter as an argument, as far as it can be read.
pub(crate) fn code(simple: &Simple) -> Vec<String> {
    if !is_interpreter(simple) {
        return Vec::new();
    }
    let mut code = Vec::new();
    let mut next = false;
    for word in &simple.args {
        let text = spelled(word);
        if next {
            code.push(text);
            next = false;
        } else if let Some(rest) = text.strip_prefix('-') {
            let eval = rest.ends_with(['c', 'e', 'E', 'r', 'p']) && !rest.starts_with('-');
            next = eval || ["-eval", "-command", "-print", "-execute"].contains(&rest);
        }
    }
    code
}

/// The simple command and all wrappers around it, innermost first.
pub(crate) fn with_wrappers(reading: &Reading, index: usize) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut next = Some(index);
    while let Some(at) = next {
        // A reader that points in a circle is a reader's fault, not an endless loop.
        if chain.contains(&at) {
            break;
        }
        chain.push(at);
        next = reading.simples.get(at).and_then(|simple| simple.wrapped_by);
    }
    chain
}
