//! Programs that walk files and run a command for what they find, or for what they are given.

use super::{
    Inner, Unwrapped,
    options::{Doubt, Flags, Found, literal_word, undecided},
};
use crate::shell::{
    Word,
    word::{listed, may_split},
};

/// Words of `find` that take one value.
const VALUED: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -newer \
    -anewer -cnewer -mtime -atime -ctime -mmin -amin -cmin -size -user -group -uid -gid \
    -perm -maxdepth -mindepth -printf -inum -links -lname -ilname -samefile -fstype -used \
    -regextype -D -context";

/// `find … -exec COMMAND ;`.
pub(super) fn find(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let mut at = 0;
    let mut undecided_words = 0;
    while let Some(word) = args.get(at) {
        at += 1;
        let Some(text) = word.literal.as_deref() else {
            // A glob names files below what is written before it; an expansion could be `-exec`.
            if word.text.contains(['$', '`']) {
                undecided_words += if may_split(word) { 2 } else { 1 };
            }
            continue;
        };
        if listed(VALUED, text) {
            if args.get(at).is_some_and(|value| !may_split(value)) {
                at += 1;
            }
            continue;
        }
        if !matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let command = args.get(at..).unwrap_or_default();
        let ends = |word: &Word| matches!(word.literal.as_deref(), Some(";"));
        let plus = command.windows(2).position(|pair| {
            let literal = |index: usize| {
                pair.get(index)
                    .and_then(|word: &Word| word.literal.as_deref())
            };
            literal(0) == Some("{}") && literal(1) == Some("+")
        });
        let semicolon = command.iter().position(ends);
        let end = match (semicolon, plus.map(|index| index + 1)) {
            (Some(one), Some(two)) => one.min(two),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Err(format!("`find {text}` does not end")),
        };
        let words: Vec<Word> = command
            .get(..end)
            .unwrap_or_default()
            .iter()
            .map(|word| replaced(word, "{}"))
            .collect();
        out.argv(&words);
        at += end + 1;
    }
    if undecided_words > 1 {
        return Err("words of `find` are decided at run time".to_owned());
    }
    Ok(())
}

/// The word as it is once `mark` was replaced: not known.
fn replaced(word: &Word, mark: &str) -> Word {
    let marked = word
        .literal
        .as_deref()
        .is_some_and(|text| text.contains(mark));
    let literal = if marked { None } else { word.literal.clone() };
    Word {
        text: word.text.clone(),
        literal,
    }
}

/// `fd … -x COMMAND`.
pub(super) fn fd(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    for (at, word) in args.iter().enumerate() {
        let Some(text) = word.literal.as_deref() else {
            if word.text.contains(['$', '`']) && may_split(word) {
                return Err(undecided("fd", word));
            }
            continue;
        };
        if matches!(text, "-x" | "-X" | "--exec" | "--exec-batch") {
            let mut words: Vec<Word> = args
                .get(at + 1..)
                .unwrap_or_default()
                .iter()
                .map(|word| replaced(word, "{"))
                .collect();
            words.push(Word {
                text: "{}".to_owned(),
                literal: None,
            });
            out.argv(&words);
            return Ok(());
        }
        let short = text.starts_with('-') && !text.starts_with("--");
        if text.starts_with("--exec") || (short && text.contains(['x', 'X'])) {
            return Err(
                "options of `fd` that run a command in a form that is not known".to_owned(),
            );
        }
    }
    Ok(())
}

const XARGS: Flags = Flags {
    none: "0rtpxo",
    value: "adEILnPs",
    attached: "iel",
    long: "null no-run-if-empty verbose interactive exit open-tty",
    long_value: "arg-file delimiter max-args max-chars max-procs process-slot-var max-lines",
};

/// `xargs [options] COMMAND…`.
pub(super) fn xargs(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let found = XARGS.leading(args, "xargs")?;
    let rest = args.get(found.rest..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(());
    }
    let mark = match found.value(&["I", "i"]) {
        Some(word) => match &word.literal {
            Some(text) => Some(text.clone()),
            None => return Err(undecided("xargs", word)),
        },
        None if found.has(&["i"]) => Some("{}".to_owned()),
        None => None,
    };
    let words: Vec<Word> = match mark {
        Some(mark) => rest.iter().map(|word| replaced(word, &mark)).collect(),
        None => {
            let more = Word {
                text: "…".to_owned(),
                literal: None,
            };
            rest.iter().cloned().chain([more]).collect()
        }
    };
    out.argv(&words);
    Ok(())
}

/// `rg --pre COMMAND`.
pub(super) fn ripgrep(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    for option in ["--pre", "--hostname-bin"] {
        started(args, option, "rg", out)?;
    }
    Ok(())
}

/// `sort --compress-program=PROGRAM`.
pub(super) fn sort(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let short = args
        .iter()
        .filter_map(|word| word.literal.as_deref())
        .any(|text| text.starts_with("--co") && !text.starts_with("--compress-program"));
    if short {
        return Err("a shortened option of `sort`".to_owned());
    }
    started(args, "--compress-program", "sort", out)
}

/// The program that a long option names, whatever its arguments.
fn started(args: &[Word], option: &str, program: &str, out: &mut Unwrapped) -> Result<(), Doubt> {
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.literal.as_deref().unwrap_or(&word.text);
        if text == "--" {
            break;
        }
        let named = match text.strip_prefix(option) {
            Some("") => match words.next() {
                Some(value) => value.clone(),
                None => break,
            },
            Some(value) if value.starts_with('=') => match &word.literal {
                Some(_) => literal_word(value.trim_start_matches('=')),
                None => return Err(undecided(program, word)),
            },
            _ => continue,
        };
        if named.literal.is_none() {
            return Err(undecided(program, &named));
        }
        if named.literal.as_deref() != Some("") {
            out.argv(&[
                named,
                Word {
                    text: "…".to_owned(),
                    literal: None,
                },
            ]);
        }
    }
    Ok(())
}

/// Long options of `tar` that run a line, and those that run a program.
const TAR_LINES: &[&str] = &[
    "to-command",
    "info-script",
    "new-volume-script",
    "checkpoint-action",
];
const TAR_PROGRAMS: &[&str] = &["use-compress-program", "rsh-command", "rmt-command"];

/// `tar --to-command=LINE`, `--checkpoint-action=exec=LINE`, `-I PROGRAM`.
pub(super) fn tar(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let mut found = Found::default();
    let mut first = true;
    while let Some(word) = args.get(found.rest) {
        found.rest += 1;
        let bundle = std::mem::take(&mut first);
        let Some(text) = word.literal.as_deref() else {
            if may_split(word) && word.text.contains(['$', '`']) {
                return Err(undecided("tar", word));
            }
            continue;
        };
        let value = match text.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').unwrap_or((long, ""));
                let full = TAR_LINES.iter().chain(TAR_PROGRAMS);
                let Some(full) = full
                    .copied()
                    .find(|full| name.len() > 1 && full.starts_with(name))
                else {
                    continue;
                };
                let value = if long.contains('=') {
                    value.to_owned()
                } else {
                    let Some(next) = args.get(found.rest) else {
                        continue;
                    };
                    found.rest += 1;
                    next.literal.clone().ok_or_else(|| undecided("tar", next))?
                };
                match value.strip_prefix("exec=") {
                    Some(line) if full == "checkpoint-action" => line.to_owned(),
                    None if full == "checkpoint-action" => continue,
                    _ => value,
                }
            }
            None => {
                let short = text.starts_with('-') || bundle;
                if !short || !text.contains(['I', 'F']) || text.contains('/') {
                    continue;
                }
                if !matches!(text, "-I" | "-F") {
                    return Err("options of `tar` that run a program, in one word".to_owned());
                }
                let Some(next) = args.get(found.rest) else {
                    continue;
                };
                found.rest += 1;
                next.literal.clone().ok_or_else(|| undecided("tar", next))?
            }
        };
        out.inner.push(Inner::Line(value));
    }
    Ok(())
}
