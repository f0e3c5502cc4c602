//! Commands among the arguments of a program that is in no table of wrappers: whatever it is, it may
//! start them. Rules that tighten count that as a possibility; a program that only reads, prints or
//! moves its words carries none.

use super::pattern::command;
use crate::{
    CommandPattern,
    shell::{Context, Reading, Simple, Word},
};

/// Programs that start none of their words, apart from options that are known elsewhere.
const PLAIN: &str = "echo printf grep egrep fgrep zgrep ggrep rg ag ack sed gsed awk gawk mawk nawk \
    cat bat tac less more head tail wc git test [ [[ man info tldr help which type whereis hash \
    apt-cache apropos whatis ls dir eza exa lsd tree stat file du df touch mkdir rmdir cp mv ln rm \
    chmod chown chgrp basename dirname realpath readlink cd pushd diff cmp comm sort uniq cut tr \
    tee paste column nl fold jq yq md5sum sha1sum sha256sum sha512sum cksum kill pkill killall \
    pgrep pidof ps lsof dpkg dpkg-query rpm pacman export declare typeset local readonly unset set \
    let alias unalias complete read true false : sleep date seq expr find gfind bfs fd fdfind tar \
    gtar bsdtar zip unzip gzip gunzip xz zstd gh glab return exit shift getopts id groups passwd \
    useradd usermod code nano vim vi nvim emacs systemctl journalctl service locate mktemp \
    pytest jest vitest mocha ctest rspec phpunit rustc gcc g++ cc c++ clang clang++ ld";

/// Tools of many verbs: what they start stands behind `--` or one of the verbs that run something.
const MANAGERS: &str = "apt apt-get aptitude brew pip pip3 pipx npm pnpm yarn bun cargo gem bundle go \
    dnf yum apk snap conda nix docker podman nerdctl kubectl helm uv poetry pdm rye hatch mise asdf \
    rustup make gmake just task ninja cmake mvn gradle terraform tofu ansible";
const RUNNING: &str = "-- exec x dlx run tool watch shell develop repl";

/// Occurrences of a rule's program among the arguments of one command that are looked into.
const PLACES: usize = 16;

fn holds(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// From which argument on the command at `index` may start what its words say; `None` if it does not,
/// or if what it starts stands in the reading by itself.
fn from(reading: &Reading, index: usize) -> Option<usize> {
    let simple = reading.simples.get(index)?;
    let name = simple.name()?;
    let unwrapped = || {
        let mut behind = reading.simples.iter().skip(index + 1);
        behind.any(|inner| inner.wrapped_by == Some(index))
    };
    if holds(PLAIN, name) || name.starts_with("git-") || unwrapped() {
        return None;
    }
    if !holds(MANAGERS, name) {
        return Some(0);
    }
    // What stands behind the dashes of a test is the name of a test.
    let verb = simple.literals().find(|word| !word.starts_with(['-', '+']));
    if verb.is_some_and(|verb| holds("test t bench nextest", verb)) {
        return None;
    }
    let runs = |word: &Word| {
        word.literal
            .as_deref()
            .is_some_and(|word| holds(RUNNING, word))
    };
    simple.args.iter().position(runs).map(|at| at + 1)
}

/// The arguments of the command at `index` among which a command may stand.
pub(super) fn words(reading: &Reading, index: usize, known: &Simple) -> Vec<Word> {
    let carried = from(reading, index).and_then(|from| known.args.get(from..));
    carried.unwrap_or_default().to_vec()
}

/// Whether a command that stands among `words` could be what `pattern` is about.
pub(super) fn carried(pattern: &CommandPattern, words: &[Word]) -> bool {
    let Some(program) = pattern.0.first() else {
        return false;
    };
    let wanted = base(program);
    let mut places = 0;
    for (at, word) in words.iter().enumerate() {
        let value = line_of(word.literal.as_deref().unwrap_or_default());
        let name = base(value);
        if name != wanted && !(wanted == "git" && name.starts_with("git-")) {
            continue;
        }
        places += 1;
        let inner = Simple {
            program: Some(Word {
                text: value.to_owned(),
                literal: Some(value.to_owned()),
            }),
            args: words.get(at + 1..).unwrap_or_default().to_vec(),
            assignments: Vec::new(),
            text: String::new(),
            context: Context::Wrapped,
            piped_from: None,
            wrapped_by: None,
        };
        if places > PLACES || command(pattern, &inner, true).is_some() {
            return true;
        }
    }
    false
}

/// Whether a line inside an argument holds what `pattern` is about, itself or carried.
pub(super) fn inside(pattern: &CommandPattern, reading: &Reading) -> bool {
    reading.simples.iter().enumerate().any(|(index, simple)| {
        simple.name().is_some()
            && (command(pattern, simple, true).is_some()
                || carried(pattern, &words(reading, index, simple)))
    })
}

/// What stands behind `--option=` or `-o`, or behind an address as `EXEC:` of socat.
pub(super) fn line_of(word: &str) -> &str {
    let value = match word.split_once('=') {
        Some((option, value)) if option.starts_with('-') && !option.contains(' ') => value,
        _ => match word.strip_prefix('-').map(str::chars) {
            Some(mut letters) if !word.starts_with("--") => {
                letters.next();
                letters.as_str()
            }
            _ => word,
        },
    };
    match value.split_once(':') {
        Some((address, line))
            if ["exec", "system", "shell"]
                .iter()
                .any(|known| address.eq_ignore_ascii_case(known)) =>
        {
            // The options of the address stand behind a comma.
            line.split(',').next().unwrap_or(line)
        }
        _ => value,
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
