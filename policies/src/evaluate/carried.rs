//! Commands among the arguments of a program that is in no table of wrappers: whatever it is, it may
//! start them. Rules that tighten count that as a possibility; a program that only reads, prints or
//! moves its words carries none.

use super::pattern::command;
use crate::{
    CommandPattern,
    shell::{Reading, Simple, Word},
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
    useradd usermod code nano vim vi nvim emacs systemctl journalctl service locate mktemp";

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
pub(super) fn from(reading: &Reading, index: usize) -> Option<usize> {
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
    if name == "cargo" && verb.is_some_and(|verb| holds("test t bench nextest", verb)) {
        return None;
    }
    let runs = |word: &Word| {
        word.literal
            .as_deref()
            .is_some_and(|word| holds(RUNNING, word))
    };
    simple.args.iter().position(runs).map(|at| at + 1)
}

/// Whether a command that stands among the arguments from `from` on could be what `pattern` is about.
pub(super) fn carried(pattern: &CommandPattern, simple: &Simple, from: usize) -> bool {
    let Some(program) = pattern.0.first() else {
        return false;
    };
    let wanted = base(program);
    let named = |word: &Word| {
        let text = word.literal.as_deref()?;
        let value = match text.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ => text,
        };
        let name = base(value);
        (name == wanted || wanted == "git" && name.starts_with("git-")).then(|| value.to_owned())
    };
    let mut places = 0;
    for (at, word) in simple.args.iter().enumerate().skip(from) {
        let Some(value) = named(word) else { continue };
        places += 1;
        let inner = Simple {
            program: Some(Word {
                text: value.clone(),
                literal: Some(value),
            }),
            args: simple.args.get(at + 1..).unwrap_or_default().to_vec(),
            assignments: Vec::new(),
            text: String::new(),
            context: simple.context,
            piped_from: None,
            wrapped_by: None,
        };
        // What only could match in what only could be a command would be a guess on a guess.
        if places > PLACES || command(pattern, &inner, true) == Some(true) {
            return true;
        }
    }
    false
}

/// Whether a line inside an argument holds what `pattern` is about, itself or carried.
pub(super) fn inside(pattern: &CommandPattern, reading: &Reading) -> bool {
    reading.simples.iter().enumerate().any(|(index, simple)| {
        simple.name().is_some()
            && (command(pattern, simple, true) == Some(true)
                || from(reading, index).is_some_and(|from| carried(pattern, simple, from)))
    })
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
