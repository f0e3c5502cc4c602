//! Scripts of sed and awk: accepted when they are plain text work. Both languages can run commands
//! and write files; a script beyond the plain part is a doubt.

use super::options::{Doubt, Flags, Found, undecided};
use crate::shell::Word;

const SED: Flags = Flags {
    none: "nrEszu",
    value: "efl",
    attached: "i",
    long: "quiet silent regexp-extended separate null-data unbuffered in-place posix debug \
            sandbox follow-symlinks version help",
    long_value: "expression file line-length",
};

/// `sed [options] SCRIPT [files]`: options may stand anywhere.
pub(super) fn sed(args: &[Word]) -> Result<(), Doubt> {
    let mut found = Found::default();
    let mut first: Option<&Word> = None;
    let mut ended = false;
    while let Some(word) = args.get(found.rest) {
        found.rest += 1;
        let dashed = word
            .literal
            .as_deref()
            .is_some_and(|t| t.starts_with('-') && t.len() > 1);
        match word.literal.as_deref() {
            Some("--") if !ended => ended = true,
            Some(text) if dashed && !ended => SED.option(text, args, &mut found, "sed")?,
            _ => {
                // A file name that is decided at run time could be an option.
                let names_files = word.literal.is_some() || !word.text.starts_with(['$', '`']);
                if first.is_some() && !names_files && crate::shell::word::may_split(word) && !ended
                {
                    return Err(undecided("sed", word));
                }
                first = first.or(Some(word));
            }
        }
    }
    if found.has(&["f", "file"]) {
        return Err("`sed -f` reads its script from a file".to_owned());
    }
    let mut scripts: Vec<&Word> = Vec::new();
    for (name, value) in &found.seen {
        if matches!(name.as_str(), "e" | "expression") {
            scripts.extend(value.as_ref());
        }
    }
    if scripts.is_empty() {
        scripts.extend(first);
    }
    let mut text = String::new();
    for script in scripts {
        let Some(part) = &script.literal else {
            return Err(undecided("sed", script));
        };
        text.push_str(part);
        text.push('\n');
    }
    if found.has(&["sandbox"]) || Sed(text.chars().peekable()).plain().is_some() {
        Ok(())
    } else {
        Err("a script of `sed` that is not plain text work".to_owned())
    }
}

/// A reader of sed scripts; `None` from any step means "not plain".
struct Sed<'s>(std::iter::Peekable<std::str::Chars<'s>>);

impl Sed<'_> {
    fn plain(mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            self.skip(|c| c.is_ascii_whitespace() || c == ';');
            if self.0.peek().is_none() {
                return (depth == 0).then_some(());
            }
            self.address()?;
            match self.0.next()? {
                '{' => {
                    depth += 1;
                    continue;
                }
                '}' => depth = depth.checked_sub(1)?,
                'p' | 'P' | 'd' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'z'
                | 'F' => {}
                'q' | 'Q' | 'l' => self.skip(|c| c.is_ascii_digit() || c == ' '),
                // Labels and text end at the line's end.
                'b' | 't' | 'T' | ':' => {
                    self.skip(|c| c.is_ascii_alphanumeric() || "_ -".contains(c))
                }
                'a' | 'i' | 'c' => {
                    self.text();
                    continue;
                }
                '#' => {
                    self.skip(|c| c != '\n');
                    continue;
                }
                's' => {
                    let delimiter = self.0.next().filter(|c| !matches!(c, '\\' | '\n'))?;
                    self.until(delimiter)?;
                    self.until(delimiter)?;
                    self.skip(|c| c.is_ascii_digit() || "gpiIM".contains(c));
                }
                'y' => {
                    let delimiter = self.0.next().filter(|c| !matches!(c, '\\' | '\n'))?;
                    self.until(delimiter)?;
                    self.until(delimiter)?;
                }
                _ => return None,
            }
            self.skip(|c| c == ' ' || c == '\t');
            if !matches!(self.0.peek(), None | Some('\n' | ';' | '}' | '#')) {
                return None;
            }
        }
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        while self.0.next_if(|c| wanted(*c)).is_some() {}
    }

    /// Goes past an escaped or plain run up to `delimiter`; brackets may hold it.
    fn until(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.0.next()? {
                '\\' => {
                    self.0.next()?;
                }
                // Whether a delimiter inside brackets ends it differs: not plain.
                '[' if delimiter != '[' => {
                    let mut previous = '[';
                    loop {
                        let c = self.0.next()?;
                        if c == delimiter || c == '\n' {
                            return None;
                        }
                        if c == ']' && previous != '[' && previous != '^' {
                            break;
                        }
                        previous = if previous == ':' && c == ']' { ':' } else { c };
                    }
                }
                c if c == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    /// Goes past the addresses before a command.
    fn address(&mut self) -> Option<()> {
        loop {
            match self.0.peek()? {
                '0'..='9' | '$' | ',' | '+' | '~' | '!' | ' ' | '\t' => {
                    self.0.next();
                }
                '/' => {
                    self.0.next();
                    self.until('/')?;
                    self.skip(|c| c == 'I' || c == 'M');
                }
                '\\' => {
                    self.0.next();
                    let delimiter = self.0.next()?;
                    self.until(delimiter)?;
                    self.skip(|c| c == 'I' || c == 'M');
                }
                _ => return Some(()),
            }
        }
    }

    /// Goes past the text of `a`, `i` and `c`, continued by backslashes.
    fn text(&mut self) {
        while let Some(c) = self.0.next() {
            match c {
                '\\' => {
                    self.0.next();
                }
                '\n' => return,
                _ => {}
            }
        }
    }
}

const AWK: Flags = Flags {
    none: "",
    value: "Fv",
    attached: "",
    long: "posix traditional re-interval csv version help sandbox",
    long_value: "field-separator assign",
};

/// `awk [options] PROGRAM [files]`.
pub(super) fn awk(program: &str, args: &[Word]) -> Result<(), Doubt> {
    let found = AWK.leading(args, program)?;
    if found.has(&["version", "help", "sandbox"]) {
        return Ok(());
    }
    let Some(script) = args.get(found.rest) else {
        return Ok(());
    };
    let Some(text) = &script.literal else {
        return Err(undecided(program, script));
    };
    if awk_is_plain(text) {
        Ok(())
    } else {
        Err(format!(
            "a program of `{program}` that may run commands or write files"
        ))
    }
}

/// No call of a shell, no pipe, no reading or writing of other files, no loading.
fn awk_is_plain(text: &str) -> bool {
    // A line continued in the middle of a word could hide one.
    if text.contains("\\\n") || text.contains('@') {
        return false;
    }
    if ["system", "getline"].iter().any(|word| text.contains(word)) {
        return false;
    }
    if text.replace("||", "").contains('|') {
        return false;
    }
    // `>` compares, unless something is printed in the same statement.
    let mut statements = text.split(['{', '}', ';', '\n']);
    statements.all(|statement| !(statement.contains('>') && statement.contains("print")))
}
