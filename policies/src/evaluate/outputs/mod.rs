//! Files that a command writes because its arguments say so: options that name an output, operands
//! that are written. One table by program; what is in none could write whatever it names.

mod table;

use table::{
    GIT_LOOKS, LOOKS,
    Operands::{After, All, First, Into, Last, Maybe, None as No},
    READERS, WRITERS, holds,
};

use crate::{
    safety::spelling::{code, files, is_interpreter, spelled},
    shell::Simple,
};

/// A file that a command writes, as it is spelled; a folder stands for what is put into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Output {
    /// The path as the words say it.
    pub(super) path: String,
    /// Whether the table says that it is written, rather than that it could be.
    pub(super) sure: bool,
}

/// Options before which, or after whose `=`, a name is left out rather than written.
fn leaves_out(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    [
        "exclude", "ignore", "skip", "omit", "prune", "filter", "message",
    ]
    .iter()
    .any(|word| name.contains(word))
        || ["-x", "-X", "-E", "-I", "-m", "-not"].contains(&name)
}

/// What a command writes. `quiet` says that it is a proven read, or only
/// starts another one, which is looked at by itself: then only what the table knows counts.
pub(super) fn of(simple: &Simple, quiet: bool) -> Vec<Output> {
    let Some(name) = simple.name() else {
        return Vec::new();
    };
    let words: Vec<String> = simple.args.iter().take(WORDS).map(spelled).collect();
    let mut found = Vec::new();
    known(name, &words, &mut found);
    if !quiet {
        could(name, simple, &words, &mut found);
    }
    found.sort();
    // Of a path that is both sure and possible, the sure one counts.
    found.reverse();
    found.dedup_by(|later, first| later.path == first.path);
    found
}

/// Whether a command writes nothing but what [`of`] finds, and reads the rest that it names.
pub(super) fn only_reads(simple: &Simple) -> bool {
    let Some(name) = simple.name() else {
        return false;
    };
    match name {
        "cp" | "gcp" | "rsync" | "scp" => true,
        "git" => {
            let words: Vec<String> = simple.args.iter().take(WORDS).map(spelled).collect();
            let first = operands(name, &words).first().copied();
            first.is_some_and(|sub| holds(GIT_LOOKS, sub))
        }
        _ => holds(LOOKS, name),
    }
}

/// Arguments of one command that are looked at.
const WORDS: usize = 1_000;

/// What the table says.
fn known(name: &str, words: &[String], found: &mut Vec<Output>) {
    let (name, words) = behind_runner(name, words);
    for writer in WRITERS.iter().filter(|writer| holds(writer.names, name)) {
        let mut operands = operands(name, words);
        if !writer.sub.is_empty()
            && !operands
                .first()
                .is_some_and(|first| holds(writer.sub, first))
        {
            continue;
        }
        let mut named = false;
        for option in writer.options.split_whitespace() {
            for value in values(option, words, name) {
                named = true;
                found.extend(output(&value, true));
            }
        }
        if !writer.only_with.is_empty()
            && !writer
                .only_with
                .split_whitespace()
                .any(|option| has(option, words))
        {
            continue;
        }
        match writer.operands {
            No => {}
            All => found.extend(operands.iter().filter_map(|word| output(word, true))),
            After(count) => {
                let behind = operands.iter().skip(count);
                found.extend(behind.filter_map(|word| output(word, true)));
            }
            Maybe(count) => {
                let behind = operands
                    .iter()
                    .skip(count)
                    .filter(|word| !word.contains("://"));
                found.extend(behind.filter_map(|word| output(word, false)));
            }
            First => found.extend(operands.first().and_then(|word| output(word, true))),
            Last => found.extend(operands.last().and_then(|word| output(word, true))),
            Into => into(&mut operands, named, words, found),
        }
    }
    match name {
        "tar" | "gtar" | "bsdtar" => archive(words, found),
        "curl" => {
            let by_address = words.iter().any(|word| {
                ["--remote-name", "--remote-name-all"].contains(&word.as_str())
                    || (word.starts_with('-') && !word.starts_with("--") && word.contains('O'))
            });
            let folder = values("--output-dir", words, name).into_iter().next();
            if by_address {
                fetched(words, folder.as_deref().unwrap_or("."), found);
            }
        }
        "wget" | "wget2" | "aria2c" => {
            let folder = ["-P", "--directory-prefix", "-d", "--dir"]
                .iter()
                .find_map(|option| values(option, words, name).into_iter().next());
            if values("-O", words, name).is_empty() {
                fetched(words, folder.as_deref().unwrap_or("."), found);
            }
        }
        "unzip" | "cpio" | "unrar" | "7z" | "7za" | "patch" | "csplit" | "split" => {
            found.extend(output(".", true));
        }
        "git" if rewrites_remotes(&operands(name, words)) => {
            found.extend(output(".git/config", true));
        }
        "git"
            if words
                .iter()
                .any(|word| word == "apply" || word == "am" || word == "format-patch") =>
        {
            found.extend(output(".", true));
        }
        _ => {}
    }
}

/// `git remote set-url`: where the next push goes.
fn rewrites_remotes(operands: &[&str]) -> bool {
    let rewriting = ["set-url", "add", "rename", "remove", "rm", "set-branches"];
    matches!(operands, ["remote", verb, ..] if rewriting.contains(verb))
        || matches!(operands, ["config", key, _, ..]
            if key.to_lowercase().starts_with("remote.") || key.to_lowercase().starts_with("url."))
}

/// `npx prettier`, `uv run ruff`: the program that is started.
fn behind_runner<'w>(name: &'w str, words: &'w [String]) -> (&'w str, &'w [String]) {
    let leading: &[&str] = match name {
        "npx" | "bunx" | "uvx" | "pnpx" => &[],
        "pnpm" | "yarn" | "npm" => &["exec", "dlx", "x"],
        "uv" | "poetry" | "pipx" | "pdm" | "rye" | "hatch" | "pixi" => &["run", "tool"],
        "bundle" | "mise" | "direnv" => &["exec"],
        _ => return (name, words),
    };
    let mut rest = words;
    let mut wants = !leading.is_empty();
    while let Some((first, tail)) = rest.split_first() {
        if first.starts_with('-') {
            rest = tail;
        } else if wants {
            if !leading.contains(&first.as_str()) {
                return (name, words);
            }
            wants = false;
            rest = tail;
        } else {
            return (first.rsplit('/').next().unwrap_or(first), tail);
        }
    }
    (name, words)
}

/// The words that are no options.
fn operands<'w>(name: &str, words: &'w [String]) -> Vec<&'w str> {
    let mut only = false;
    let mut operands = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !only && word == "--" {
            only = true;
        } else if !only && word.len() > 1 && word.starts_with('-') {
            if leaves_out(word) && !word.contains('=') {
                words.next();
            }
            if name == "git"
                && ["-C", "-c", "--git-dir", "--work-tree", "--namespace"].contains(&word.as_str())
            {
                words.next();
            }
        } else {
            operands.push(word.as_str());
        }
    }
    operands
}

/// The values of one option in all its spellings.
fn values(option: &str, words: &[String], name: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut words = words.iter().peekable();
    // Programs whose long options have one dash do not join short ones.
    let joins = ![
        "gcc", "g++", "cc", "c++", "clang", "clang++", "go", "find", "gfind", "bfs", "openssl",
        "ld", "rustc", "7z", "7za", "7zr", "ffmpeg",
    ]
    .contains(&name);
    while let Some(word) = words.next() {
        let mut next = || words.peek().map(|word| (*word).clone());
        if option.ends_with('=') {
            values.extend(word.strip_prefix(option).map(str::to_owned));
        } else if word == option {
            values.extend(next());
        } else if option.starts_with("--") {
            let (long, value) = match word.split_once('=') {
                Some((long, value)) => (long, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            // A long option may be cut short.
            if long.len() >= 5 && option.starts_with(long) && word.starts_with("--") {
                values.extend(value.or_else(next));
            }
        } else if option.len() > 2 {
            let value = word
                .strip_prefix(option)
                .and_then(|rest| rest.strip_prefix('='));
            values.extend(value.map(str::to_owned));
        } else if word.starts_with('-') && !word.starts_with("--") {
            let letter = option.chars().nth(1).unwrap_or('-');
            let Some(at) = word.find(letter) else {
                continue;
            };
            let before = word.get(1..at).unwrap_or("");
            let plain = before.len() <= 3 && before.bytes().all(|byte| byte.is_ascii_alphabetic());
            let starts = before.is_empty() || (joins && plain);
            if !starts {
                continue;
            }
            match word.get(at + 1..).unwrap_or("") {
                "" => values.extend(next()),
                rest => values.push(rest.trim_start_matches('=').to_owned()),
            }
        }
    }
    values
}

/// Whether an option stands among the words: alone, with a value, in a cluster.
fn has(option: &str, words: &[String]) -> bool {
    words.iter().any(|word| {
        if option.starts_with("--") {
            return word.split('=').next() == Some(option);
        }
        let cluster = word.starts_with('-') && !word.starts_with("--");
        let letter = option.chars().nth(1).unwrap_or('-');
        // Before it only letters that take no value.
        cluster
            && word.find(letter).is_some_and(|at| {
                let before = word.get(1..at).unwrap_or("");
                before.bytes().all(|byte| b"nErszuplaw0".contains(&byte))
            })
    })
}

/// Copies: the last operand, and in a folder the names that are put there.
fn into(operands: &mut Vec<&str>, named: bool, words: &[String], found: &mut Vec<Output>) {
    let folder = if named {
        let folder = found.last().map(|output| output.path.clone());
        folder.map(|folder| (folder, true))
    } else {
        let last = if operands.len() > 1 {
            operands.pop()
        } else {
            None
        };
        last.map(|last| {
            let is_folder = last.ends_with(['/', '.'])
                && matches!(last.rsplit('/').next(), Some("" | "." | ".."));
            (last.to_owned(), is_folder || operands.len() > 1)
        })
    };
    let Some((to, is_folder)) = folder else {
        return;
    };
    let remote = to
        .split_once(':')
        .is_some_and(|(host, _)| !host.contains('/'));
    if remote {
        return;
    }
    found.extend(output(&to, true));
    if is_folder || words.iter().any(|word| word == "-D") {
        for from in operands.iter() {
            let name = from.trim_end_matches('/').rsplit('/').next().unwrap_or("");
            if !matches!(name, "" | "." | "..") {
                found.extend(output(&format!("{to}/{name}"), true));
            }
        }
    }
}

/// What fetchers name by the address.
fn fetched(words: &[String], folder: &str, found: &mut Vec<Output>) {
    found.extend(output(folder, true));
    for word in words.iter().filter(|word| word.contains("://")) {
        let path = word.split(['?', '#']).next().unwrap_or(word);
        let name = path.rsplit('/').next().unwrap_or("");
        if !name.is_empty() {
            found.extend(output(&format!("{folder}/{name}"), true));
        }
    }
}

/// tar: the archive that it makes, or the folder and names that it takes out.
fn archive(words: &[String], found: &mut Vec<Output>) {
    let letters: String = words
        .iter()
        .enumerate()
        .filter(|(at, word)| *at == 0 || (word.starts_with('-') && !word.starts_with("--")))
        .filter(|(_, word)| !word.contains(['/', '.']))
        .map(|(_, word)| word.trim_start_matches('-').to_owned())
        .collect();
    let long = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    if letters.contains(['c', 'r', 'u', 'A'])
        || long(&["--create", "--append", "--update", "--concatenate"])
    {
        for value in values("--file", words, "tar") {
            found.extend(output(&value, true));
        }
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let short =
                !word.starts_with("--") && !word.contains(['/', '.']) && word.ends_with('f');
            if short {
                found.extend(rest.next().and_then(|value| output(value, true)));
            }
        }
    } else if letters.contains('x') || long(&["--extract", "--get"]) {
        let folders = ["-C", "--directory"]
            .iter()
            .flat_map(|option| values(option, words, "tar"));
        let mut folders: Vec<String> = folders.collect();
        if folders.is_empty() {
            folders.push(".".to_owned());
        }
        let members: Vec<&str> = operands("tar", words).into_iter().skip(1).collect();
        for folder in folders {
            found.extend(output(&folder, true));
            found.extend(
                members
                    .iter()
                    .filter_map(|name| output(&format!("{folder}/{name}"), true)),
            );
        }
    }
}

/// What a command that nobody knows could write: whatever it names.
fn could(name: &str, simple: &Simple, words: &[String], found: &mut Vec<Output>) {
    let (inner, words) = behind_runner(name, words);
    for text in code(simple) {
        written_by_code(&text, found);
    }
    if holds(LOOKS, inner) || holds(READERS, inner) {
        return;
    }
    if inner == name
        && WRITERS
            .iter()
            .any(|writer| holds(writer.names, name) && writer.only_with.is_empty())
    {
        return;
    }
    // A script is read; what it is given could be written.
    let module = words.iter().any(|word| word == "-m");
    let script = usize::from(is_interpreter(simple) && !module);
    let mut operands = 0;
    let mut left_out = false;
    for (word, made) in words.iter().zip(
        simple
            .args
            .iter()
            .skip(simple.args.len().saturating_sub(words.len())),
    ) {
        if std::mem::take(&mut left_out)
            || word.contains("://")
            || word.contains(char::is_whitespace)
        {
            continue;
        }
        if word.starts_with('-') {
            left_out = leaves_out(word) && !word.contains('=');
            if leaves_out(word) {
                continue;
            }
        } else {
            operands += 1;
            if operands <= script {
                continue;
            }
        }
        found.extend(files(made).iter().filter_map(|path| output(path, false)));
    }
}

/// Files that code on the command line names, if it speaks of writing.
fn written_by_code(text: &str, found: &mut Vec<Output>) {
    let writes = [
        "write", "'w", "\"w", "'a'", "\"a\"", "'a+", "'x'", "append", "rename", "copy", "move",
        "unlink", "remove", "link", "mkdir", "chmod", "touch", ">", "truncate", "extract", "dump",
    ];
    if !writes.iter().any(|word| text.contains(word)) {
        return;
    }
    let apart = |c: char| c.is_whitespace() || "'\"`()[]{},;<>=|&+".contains(c);
    for token in text.split(apart).filter(|token| token.len() > 3) {
        found.extend(output(token, false));
    }
}

fn output(path: &str, sure: bool) -> Option<Output> {
    let nothing = ["", "-", "/dev/null", "/dev/stdout", "/dev/stderr"].contains(&path);
    (!nothing && !path.contains('\0')).then(|| Output {
        path: path.to_owned(),
        sure,
    })
}
