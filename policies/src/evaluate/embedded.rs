//! Commands inside the arguments of programs that are no wrappers: code of an interpreter, an editor's
//! `!command`, the remote shell of `rsync`. Rules that tighten look into them; nothing else does.

use super::carried::line_of;
use crate::{
    safety::spelling::{code, spelled},
    shell::{self, Reading, Simple},
};

/// Texts of one command that are read, and their length.
const TEXTS: usize = 32;
const LENGTH: usize = 4_096;

/// Options whose value is a command line, by program; lists are words between blanks.
const OPTIONS: &[(&str, &str)] = &[
    ("rsync", "-e --rsh --rsync-path"),
    ("scp sftp", "-S"),
    ("zip", "-TT --unzip-command"),
    ("man", "-P --pager"),
    ("vim vi nvim ex view", "-c --cmd"),
    ("gdb lldb", "-ex -iex --eval-command -o"),
    ("sqlite3", "-cmd"),
    ("emacs", "--eval"),
    ("nc ncat netcat", "-e -c --exec --sh-exec"),
    ("socat", ""),
];

/// Options whose value is for people.
const PROSE: &str =
    "-m --message --title --body --description --note --notes --comment --subject --reason";

/// The lines inside a command, read; `carries` if the command is one that may start its words.
pub(super) fn of(simple: &Simple, carries: bool) -> Vec<Reading> {
    let mut texts = Vec::new();
    let code = code(simple);
    for text in &code {
        from_code(text, &mut texts);
    }
    if carries && code.is_empty() {
        let words: Vec<String> = simple.args.iter().take(256).map(spelled).collect();
        let mut before = "";
        for word in &words {
            let option = word.split('=').next().unwrap_or(word);
            let prose = |option: &str| PROSE.split_whitespace().any(|known| known == option);
            let spaced = word.trim().contains([' ', '\t', '\n']);
            if spaced && !prose(before) && !prose(option) {
                texts.push(line_of(word).to_owned());
            }
            before = word;
        }
    }
    let name = simple.name().unwrap_or("");
    let holds = |list: &str, word: &str| list.split_whitespace().any(|known| known == word);
    let words: Vec<String> = simple.args.iter().take(256).map(spelled).collect();
    if let Some((_, options)) = OPTIONS.iter().find(|(names, _)| holds(names, name)) {
        for (at, word) in words.iter().enumerate() {
            let value = match word.split_once('=') {
                Some((option, value)) if holds(options, option) => Some(value),
                _ if holds(options, word) => words.get(at + 1).map(String::as_str),
                _ => None,
            };
            match value {
                Some(lisp) if name == "emacs" => from_code(lisp, &mut texts),
                value => texts.extend(value.map(commands)),
            }
        }
    }
    match name {
        "vim" | "vi" | "nvim" | "ex" | "less" | "more" | "man" => {
            let commanded = words.iter().filter_map(|word| word.strip_prefix('+'));
            texts.extend(commanded.map(commands));
        }
        "gdb" | "lldb" | "valgrind" | "perf" | "rr" | "heaptrack" | "hyperfine" => {
            let from = words
                .iter()
                .position(|word| word == "--args" || word == "--" || !word.starts_with('-'));
            let skip =
                usize::from(["gdb", "lldb"].contains(&name) || ["perf", "rr"].contains(&name));
            if let Some(rest) = from.and_then(|from| words.get(from + skip..)) {
                texts.push(rest.join(" "));
            }
        }
        _ => {}
    }
    texts.truncate(TEXTS);
    texts.retain(|text| !text.is_empty() && text.len() <= LENGTH);
    texts.iter().map(|text| shell::read(text)).collect()
}

/// `!command`, `:!command`, `.shell command`: what an editor or a debugger hands on.
fn commands(text: &str) -> String {
    let text = text.trim_start_matches([':', '.']);
    match text.split_once('!') {
        Some((_, command)) => command.to_owned(),
        None => text.strip_prefix("shell ").unwrap_or(text).to_owned(),
    }
}

/// Quoted pieces of code that speaks of running programs; lists of words are joined.
fn from_code(text: &str, texts: &mut Vec<String>) {
    let runs = [
        "system",
        "popen",
        "subprocess",
        "spawn",
        "exec",
        "child_process",
        "qx",
        "`",
        "Command",
        "run(",
        "%x",
        "shell",
    ];
    if !runs.iter().any(|word| text.contains(word)) {
        return;
    }
    let mut joined = text.to_owned();
    for between in ["','", "', '", "\",\"", "\", \""] {
        joined = joined.replace(between, " ");
    }
    let pieces = joined.split(['"', '\'', '`']).map(str::trim);
    texts.extend(pieces.filter(|piece| !piece.is_empty()).map(str::to_owned));
    // `qx(…)`, `%x{…}`
    let inner = joined.split_once("qx").or_else(|| joined.split_once("%x"));
    texts.extend(inner.map(|(_, rest)| {
        rest.trim_matches(['(', ')', '{', '}', '/', ';', ' '])
            .to_owned()
    }));
}
