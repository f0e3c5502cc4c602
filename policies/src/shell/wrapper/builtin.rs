//! Builtins that change how the rest of the line is read or what its words run, and those that
//! evaluate text.

use super::{
    Unwrapped,
    options::{Doubt, undecided},
    shells::BENIGN,
};
use crate::shell::{
    Word,
    word::{is_name, listed},
};

/// Notes what a builtin changes.
pub(super) fn builtin(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    match program {
        "alias" if !args.is_empty() => Err("an alias changes what a word runs".to_owned()),
        "shopt" => shopt(args),
        "set" => set(args),
        "enable" if !args.is_empty() => Err("`enable` changes what a word runs".to_owned()),
        "hash" if flag(args, 'p') => Err("`hash -p` changes what a word runs".to_owned()),
        "bind" | "fc" | "complete" | "compopt" => {
            Err(format!("`{program}` runs text that is not understood"))
        }
        "compgen" if flag(args, 'C') || flag(args, 'W') || flag(args, 'F') => {
            Err("`compgen` runs text that is not understood".to_owned())
        }
        "mapfile" | "readarray" if flag(args, 'C') => {
            Err(format!("`{program} -C` runs text that is not understood"))
        }
        "let" => {
            for word in args {
                evaluated(word, out)?;
            }
            Ok(())
        }
        "declare" | "typeset" | "local" | "export" | "readonly" => declare(args, out),
        "read" | "mapfile" | "readarray" | "getopts" | "unset" => {
            for word in args {
                named(word, out)?;
            }
            Ok(())
        }
        "printf" if args.first().and_then(|word| word.literal.as_deref()) == Some("-v") => {
            args.get(1).map_or(Ok(()), |word| named(word, out))
        }
        "wait" if flag(args, 'p') => Err("`wait -p` sets a variable".to_owned()),
        "test" | "[" => {
            let mut before = "";
            for word in args {
                let text = word.literal.as_deref().unwrap_or_default();
                if matches!(before, "-v" | "-R") {
                    evaluated(word, out)?;
                }
                before = text;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a single-letter option is given, alone or in a bundle.
fn flag(args: &[Word], letter: char) -> bool {
    args.iter().any(|word| {
        let text = word.literal.as_deref().unwrap_or(&word.text);
        text.starts_with('-') && text.contains(letter)
    })
}

fn shopt(args: &[Word]) -> Result<(), Doubt> {
    for word in args {
        match word.literal.as_deref() {
            Some("-s" | "-u" | "-q" | "-p" | "-o" | "-sq" | "-qs" | "-uq" | "-so" | "-uo") => {}
            Some(name) if listed(BENIGN, name) => {}
            Some(name) => {
                return Err(format!(
                    "the option `{name}` changes how later lines are read"
                ));
            }
            None => return Err(undecided("shopt", word)),
        }
    }
    Ok(())
}

/// `set -eu`, `set -o pipefail`, `set -- words`.
fn set(args: &[Word]) -> Result<(), Doubt> {
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal.as_deref() else {
            // Behind `--` they would be positional parameters.
            return Err(undecided("set", word));
        };
        if text == "--" || text == "-" || !text.starts_with(['-', '+']) {
            return Ok(());
        }
        let letters = text.get(1..).unwrap_or_default();
        if letters.contains(['k', 'H', 'P', 't', 'i', 'r']) {
            return Err(format!("`set {text}` changes how later lines are read"));
        }
        if letters.contains('o') {
            match words.next().map(|word| word.literal.as_deref()) {
                None => {}
                Some(Some(name)) if listed(BENIGN, name) => {}
                _ => return Err("an option of `set -o` that changes how lines are read".to_owned()),
            }
        }
    }
    Ok(())
}

/// `declare name=value`: the names are given values, some of them evaluated.
fn declare(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let references = flag(args, 'n');
    let counts = flag(args, 'i');
    for word in args {
        let text = match &word.literal {
            Some(text) => text,
            None => word.text.trim_start_matches('"'),
        };
        if text.starts_with(['-', '+']) {
            continue;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end_matches('+'), Some(value)),
            None => (text, None),
        };
        if !is_name(name) {
            return Err("`declare` with a name that is not understood".to_owned());
        }
        let Some(value) = value else { continue };
        let plain = word.literal.is_some() && !value.contains(['$', '`', '[']);
        // A reference makes a later assignment set what its own name does not say.
        if references || (!plain && counts) {
            return Err("a reference or a number is made of text by `declare`".to_owned());
        }
        // An assignment among the arguments shows its name; judgement looks at it there.
        out.assigns_name(name, plain);
    }
    Ok(())
}

/// A word that names a variable, which a subscript could make into a command.
fn named(word: &Word, out: &mut Unwrapped) -> Result<(), Doubt> {
    match word.literal.as_deref() {
        Some(text) if text.contains(['$', '`', '[']) => {
            Err("a name of a variable that is evaluated".to_owned())
        }
        Some(text) if is_name(text) => {
            out.sets.push(text.to_owned());
            Ok(())
        }
        Some(_) => Ok(()),
        None if word.text.contains(['$', '`']) => {
            Err("a name of a variable that is decided at run time".to_owned())
        }
        None => Ok(()),
    }
}

fn evaluated(word: &Word, out: &mut Unwrapped) -> Result<(), Doubt> {
    match word.literal.as_deref() {
        Some(text) if text.contains(['$', '`']) => Err("quoted text is evaluated".to_owned()),
        Some(text) => {
            out.evaluates.push(text.to_owned());
            Ok(())
        }
        None => {
            out.evaluates.push(word.text.clone());
            Ok(())
        }
    }
}

impl Unwrapped {
    /// A name is assigned; `plain` if it is nothing but text without a subscript.
    fn assigns_name(&mut self, name: &str, plain: bool) {
        self.assigns.push((name.to_owned(), plain));
    }
}
