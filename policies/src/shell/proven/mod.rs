//! Proven reads: a simple command that can only read, by an accept-list of options per program.
//!
//! The list says what is known to be harmless; everything else is not proven, which costs a question
//! and never a breach. Redirections are judged apart, and so are the commands that a wrapper starts.

mod git;
mod table;

use super::{
    Simple, Word,
    word::{is_name, listed, may_split},
};
use table::{Operands, Program};

/// Whether the command is a proven read.
#[must_use]
pub fn is_proven_read(simple: &Simple) -> bool {
    let Some(program) = &simple.program else {
        return simple
            .assignments
            .iter()
            .all(|(name, value)| is_local(name) && is_inert(value));
    };
    let prefixed = simple.assignments.iter().all(|(name, value)| {
        matches!(
            name.as_str(),
            "LC_ALL" | "LANG" | "TZ" | "NO_COLOR" | "COLUMNS"
        ) && value.literal.is_some()
    });
    let Some(path) = program.literal.as_deref() else {
        return false;
    };
    let name = path
        .strip_prefix("/usr/bin/")
        .or_else(|| path.strip_prefix("/bin/"))
        .unwrap_or(path);
    if !prefixed || name.contains('/') || !simple.args.iter().all(is_inert) {
        return false;
    }
    match name {
        "git" => git::is_read(&simple.args),
        "find" => find(&simple.args),
        "date" => date(&simple.args),
        "jq" => jq(&simple.args),
        "sed" => sed(&simple.args),
        "hostname" => simple.args.is_empty() || literal(&simple.args, "-f -s -i -I -d -A"),
        "rpm" if !literal_first(&simple.args, 'q') => false,
        _ if only_version(&simple.args) => listed(table::VERSIONED, name),
        _ => table::find(name).is_some_and(|entry| accepts(entry, &simple.args)),
    }
}

/// A shell variable of the line's own: lower case, so no program looks at it.
fn is_local(name: &str) -> bool {
    is_name(name) && !name.contains(|c: char| c.is_ascii_uppercase()) && !name.ends_with("_proxy")
}

/// Whether nothing in the word but plain variables, globs and substitutions is expanded: those are
/// listed as commands of their own, arithmetic and indirection evaluate text.
fn is_inert(word: &Word) -> bool {
    if word.literal.is_some() {
        return true;
    }
    let mut rest = word.text.as_str();
    while let Some(at) = rest.find('$') {
        rest = rest.get(at + 1..).unwrap_or_default();
        let evaluates = rest.starts_with("((")
            || rest.starts_with('[')
            || (rest.starts_with('{') && !is_plain_parameter(rest));
        if evaluates {
            return false;
        }
    }
    !word.text.contains(">(")
}

/// `{name}` and nothing else inside the braces.
fn is_plain_parameter(text: &str) -> bool {
    let inside = text
        .strip_prefix('{')
        .and_then(|text| text.split('}').next());
    inside.is_some_and(is_name)
}

/// Whether a word that is decided at run time can only become operands.
fn stays_operand(word: &Word) -> bool {
    let first = word.text.trim_start_matches('"');
    !word.text.contains(['$', '`', '{'])
        && first.starts_with(|c: char| c.is_ascii_alphanumeric() || "./_~".contains(c))
}

fn only_version(args: &[Word]) -> bool {
    matches!(args, [only] if only.literal.as_deref() == Some("--version"))
}

/// Whether each argument is one of the words of a list.
fn literal(args: &[Word], list: &str) -> bool {
    args.iter().all(|word| {
        word.literal
            .as_deref()
            .is_some_and(|text| listed(list, text))
    })
}

/// Whether the first argument is a group of letters that holds one of them.
fn literal_first(args: &[Word], letter: char) -> bool {
    args.first()
        .and_then(|word| word.literal.as_deref())
        .is_some_and(|text| text.starts_with('-') && text.contains(letter))
}

/// `sed -n '10,20p' FILE…`: scripts of plain addresses that print, skip or quit.
fn sed(args: &[Word]) -> bool {
    let mut script = false;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.literal.as_deref() {
            Some("-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "--quiet" | "--silent") => {}
            Some("-e" | "--expression") => {
                if !words
                    .next()
                    .is_some_and(|next| next.literal.as_deref().is_some_and(prints))
                {
                    return false;
                }
                script = true;
            }
            Some(text) if text.starts_with('-') && text != "-" => return false,
            Some(text) if !script => {
                if !prints(text) {
                    return false;
                }
                script = true;
            }
            Some(_) => {}
            None if script && stays_operand(word) => {}
            None => return false,
        }
    }
    script
}

/// A script of sed that only prints: addresses of numbers, `$` and `/plain words/`, then `p`, `d`, `q`
/// or `=`.
fn prints(script: &str) -> bool {
    script.split([';', '\n']).all(|command| {
        let command = command.trim();
        let Some(addresses) = command.strip_suffix(['p', 'd', 'q', '=']) else {
            return command.is_empty();
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || " _-.:^$*#=<>@\"'{}()[]+?|".contains(c);
        addresses
            .trim_end_matches(['!', ' '])
            .split(',')
            .all(|address| {
                let address = address.trim();
                let number = address.trim_start_matches(['+', '~']);
                address.is_empty()
                    || address == "$"
                    || number.bytes().all(|b| b.is_ascii_digit() || b == b'~')
                    || address
                        .strip_prefix('/')
                        .and_then(|rest| rest.strip_suffix('/'))
                        .is_some_and(|inside| inside.chars().all(plain))
            })
    })
}

/// Whether `args` hold nothing but accepted options and operands.
fn accepts(entry: &Program, args: &[Word]) -> bool {
    let mut operands = 0_usize;
    let mut words = args.iter();
    let mut ended = false;
    while let Some(word) = words.next() {
        let Some(text) = word.literal.as_deref() else {
            // An expansion could be any option, unless any option is harmless.
            if !(ended || entry.open || stays_operand(word)) {
                return false;
            }
            operands = operands.saturating_add(if entry.open { 1 } else { 2 });
            continue;
        };
        if ended || !text.starts_with('-') || text == "-" {
            operands += 1;
            ended |= entry.leading;
            continue;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        match option(entry, text) {
            Some(false) => {}
            // The value is the next word, which must be one word.
            Some(true) => match words.next() {
                Some(value) if value.literal.is_some() || !may_split(value) => {}
                _ => return false,
            },
            None => return false,
        }
    }
    match entry.operands {
        Operands::Any => true,
        Operands::Most(most) => operands <= most,
    }
}

/// Whether an option is accepted, and if so whether the next word is its value.
fn option(entry: &Program, text: &str) -> Option<bool> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, has_value) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        if listed(entry.long, name) {
            return Some(false);
        }
        return listed(entry.long_value, name).then_some(!has_value);
    }
    let letters = text.strip_prefix('-')?;
    if entry.digits && letters.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(false);
    }
    if listed(entry.words, text) {
        return Some(false);
    }
    for (at, letter) in letters.char_indices() {
        if entry.value.contains(letter) {
            return Some(at + letter.len_utf8() == letters.len());
        }
        if !entry.short.contains(letter) {
            return None;
        }
    }
    Some(false)
}

/// Predicates of find that only test or print.
const FIND: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -newer \
    -anewer -cnewer -mtime -atime -ctime -mmin -amin -cmin -size -user -group -uid -gid \
    -perm -maxdepth -mindepth -printf -inum -links -lname -ilname -samefile -regextype \
    -print -print0 -ls -prune -not -a -o -and -or -empty -readable -writable -executable \
    -follow -xdev -mount -depth -true -false -quit -nouser -nogroup -L -P -H -daystart \
    -noleaf -d -nowarn -warn -O1 -O2 -O3";

fn find(args: &[Word]) -> bool {
    args.iter().all(|word| match word.literal.as_deref() {
        Some(text) if text.starts_with('-') && text.len() > 1 => {
            let number = text.get(1..).unwrap_or_default();
            listed(FIND, text) || number.starts_with(|c: char| c.is_ascii_digit())
        }
        Some(_) => true,
        None => stays_operand(word),
    })
}

/// `date` prints a time; a bare operand and `-s` set it.
fn date(args: &[Word]) -> bool {
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal.as_deref() else {
            // `+%s$x` can only be a format.
            let format = word.text.trim_start_matches(['"', '\'']).starts_with('+');
            if format && !may_split(word) {
                continue;
            }
            return false;
        };
        let accepted = match text {
            "-u" | "--utc" | "--universal" | "-R" | "--rfc-email" | "-I" => true,
            "-d" | "--date" | "-r" | "--reference" => {
                words.next().is_some_and(|value| !may_split(value))
            }
            _ => {
                text.starts_with('+')
                    || ["--date=", "--reference=", "--iso-8601", "--rfc-3339=", "-I"]
                        .iter()
                        .any(|option| text.starts_with(option))
            }
        };
        if !accepted {
            return false;
        }
    }
    true
}

const JQ: Program = Program {
    short: "nreascCMSjRfh",
    value: "L",
    long: "null-input raw-input slurp compact-output raw-output raw-output0 join-output \
            ascii-output sort-keys color-output monochrome-output tab unbuffered stream \
            exit-status seq args jsonargs help arg argjson slurpfile rawfile from-file",
    long_value: "indent",
    ..Program::NONE
};

/// jq cannot write, but its input options take two words.
fn jq(args: &[Word]) -> bool {
    accepts(&JQ, args)
}
