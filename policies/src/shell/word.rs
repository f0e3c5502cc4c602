//! Words: quotes removed, and whether what is left is the one string that the shell will use.

use super::{
    Word,
    cursor::{Reader, Step},
};

/// How characters that end a word elsewhere are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word of a command.
    Plain,
    /// An operand inside `[[ ]]`, where `@(a|b)` is a pattern.
    Test,
    /// The right side of `=~`, where parentheses and bars are part of it.
    Regex,
}

/// A word and what else is known of it.
#[derive(Debug)]
pub(super) struct Lexed {
    pub(super) word: Word,
    /// Whether some of it was quoted.
    pub(super) quoted: bool,
    /// Whether it is one process substitution and nothing else.
    pub(super) process: bool,
    /// Whether its value could be more than a number when it is evaluated as arithmetic.
    pub(super) risky: bool,
}

/// A word in the making.
#[derive(Debug, Default)]
pub(super) struct Builder {
    text: String,
    quoted: bool,
    dynamic: bool,
    risky: bool,
    brace: bool,
    bracket: bool,
    checked: usize,
}

impl Builder {
    /// Adds literal text.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Something of it is known only at run time.
    pub(super) fn run_time(&mut self, risky: bool) {
        self.dynamic = true;
        self.risky |= risky;
    }

    /// An unquoted brace or bracket: with a partner it is an expansion.
    fn open_or_close(&mut self, byte: u8) {
        match byte {
            b'{' if !self.brace => {
                self.brace = true;
                self.checked = self.text.len();
            }
            b'}' if self.brace && !self.dynamic => {
                let from = self.checked.min(self.text.len());
                let inside = self.text.get(from..).unwrap_or_default();
                if inside.contains(',') || inside.contains("..") {
                    self.dynamic = true;
                }
                // Later commas count from here on; a `..` may begin in what was looked at.
                self.checked = self.text.trim_end_matches('.').len();
            }
            b'[' => self.bracket = true,
            b']' if self.bracket => self.dynamic = true,
            _ => {}
        }
    }

    /// The literal text, if it is one.
    pub(super) fn literal(self) -> Option<String> {
        (!self.dynamic).then_some(self.text)
    }

    /// Whether evaluating it as arithmetic could do more than count.
    pub(super) fn is_risky(&self) -> bool {
        self.risky || self.text.contains(['$', '`', '['])
    }
}

/// Bytes that mean nothing anywhere in a word.
fn plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | 0x80..)
        || matches!(
            byte,
            b'_' | b'-' | b'/' | b'.' | b',' | b'+' | b'=' | b':' | b'@' | b'%'
        )
}

/// Whether `byte` begins a name.
pub(super) fn name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Whether `word` is one of the words of a blank-separated list.
pub(super) fn listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// Whether `text` is a shell name.
pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(name_start)
        && text
            .bytes()
            .all(|byte| name_start(byte) || byte.is_ascii_digit())
}

/// Whether the shell may make other than exactly one word of it.
pub(super) fn may_split(word: &Word) -> bool {
    if word.literal.is_some() {
        return false;
    }
    // Quotes in a substitution stand for more than themselves once something escapes them. What is
    // glued to an option is its program's affair.
    if word.text.starts_with('-')
        || word.text.contains(['@', '\\', '\'', '`'])
        || word.text.matches('"').count() % 2 == 1
    {
        return true;
    }
    // `"$PWD":/app`: only what stands outside the quotes is split, or taken as a glob.
    let bare = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_./:=,+%-".contains(&byte))
    };
    !word.text.split('"').step_by(2).all(bare)
}

impl Reader<'_, '_> {
    /// Reads a word; `None` if none stands here.
    pub(super) fn word(&mut self, kind: Kind) -> Step<Option<Lexed>> {
        self.peek();
        let start = self.pos;
        let mut built = Builder::default();
        let process = self.word_into(&mut built, kind)?;
        if self.pos == start {
            return Ok(None);
        }
        let text = self.slice(start, self.pos).to_owned();
        Ok(Some(finished(built, text, process)))
    }

    /// Reads what follows `=` in an assignment that started at `start`; may be empty.
    pub(super) fn value(&mut self) -> Step<Lexed> {
        self.peek();
        let start = self.pos;
        let mut built = Builder::default();
        let process = self.word_into(&mut built, Kind::Plain)?;
        Ok(finished(
            built,
            self.slice(start, self.pos).to_owned(),
            process,
        ))
    }

    /// Reads to the end of the word; says whether it was one process substitution.
    fn word_into(&mut self, built: &mut Builder, kind: Kind) -> Step<bool> {
        let start = self.pos;
        let mut process = false;
        let mut groups = 0_usize;
        while let Some(byte) = self.peek() {
            if plain(byte) {
                let from = self.pos;
                while self.byte(self.pos).is_some_and(plain) {
                    self.bump();
                }
                built.push(self.slice(from, self.pos));
                continue;
            }
            match byte {
                b' ' | b'\t' if groups > 0 && !self.test_ends_behind() => self.one(built),
                b'|' if kind == Kind::Regex && self.second() != Some(b'|') => self.one(built),
                b'(' if kind == Kind::Regex
                    || (kind == Kind::Test && self.after_extglob(start)) =>
                {
                    groups += 1;
                    built.run_time(true);
                    self.one(built);
                }
                b'|' if groups > 0 => self.one(built),
                b')' if groups > 0 => {
                    groups -= 1;
                    self.one(built);
                }
                b'<' | b'>' if self.second() == Some(b'(') && groups == 0 => {
                    process = self.pos == start;
                    built.run_time(true);
                    self.bump();
                    self.peek();
                    self.substitution()?;
                    continue;
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => {
                    if groups > 0 {
                        return self.stop("parentheses that do not end inside a pattern");
                    }
                    break;
                }
                b'#' if groups > 0 => return self.stop("a comment inside a pattern"),
                b'\'' => self.single(built)?,
                b'"' => self.double(built)?,
                b'\\' => self.escape(built)?,
                b'$' => self.dollar(built, false)?,
                b'`' => {
                    built.run_time(true);
                    self.backticks(false)?;
                }
                b'*' | b'?' => {
                    built.run_time(true);
                    self.one(built);
                }
                b'{' | b'}' | b'[' | b']' => {
                    built.open_or_close(byte);
                    self.one(built);
                }
                b'~' if self.pos == start => {
                    self.one(built);
                    // `~user`, `~+` and `~-` are looked up; `~` and `~/x` stay as they are.
                    if !matches!(self.peek(), None | Some(b'/')) && !self.at_word_end() {
                        built.run_time(true);
                    }
                }
                _ => self.one(built),
            }
            process = false;
        }
        Ok(process)
    }

    /// Takes one ASCII character as it is.
    fn one(&mut self, built: &mut Builder) {
        built.push(self.slice(self.pos, self.pos + 1));
        self.bump();
    }

    /// Whether a metacharacter or the end is next.
    pub(super) fn at_word_end(&mut self) -> bool {
        matches!(
            self.peek(),
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
        )
    }

    fn test_ends_behind(&self) -> bool {
        self.src
            .get(self.pos + 1..)
            .is_some_and(|rest| rest.starts_with("]]"))
    }

    fn after_extglob(&self, start: usize) -> bool {
        self.pos > start
            && matches!(
                self.byte(self.pos - 1),
                Some(b'@' | b'!' | b'?' | b'*' | b'+')
            )
    }

    /// A newline inside quotes: the body of an announced here-document would begin behind it, or
    /// not, by rules that nobody should have to know.
    pub(super) fn quoted_newline(&mut self) -> Step<()> {
        if self.held || !self.here.is_empty() {
            return self.stop("a line break inside a word while a here-document is open");
        }
        Ok(())
    }

    /// `'…'`: everything as it is.
    pub(super) fn single(&mut self, built: &mut Builder) -> Step<()> {
        built.quoted = true;
        let from = self.pos + 1;
        let rest = self.src.get(from..).unwrap_or_default();
        let Some(length) = rest.find('\'') else {
            return self.stop("a single quote without its end");
        };
        let inside = self.slice(from, from + length);
        if inside.contains('\n') {
            self.quoted_newline()?;
        }
        built.push(inside);
        self.pos = from + length + 1;
        Ok(())
    }

    /// `"…"`: expansions stay.
    pub(super) fn double(&mut self, built: &mut Builder) -> Step<()> {
        built.quoted = true;
        let at = self.pos;
        self.bump();
        loop {
            let from = self.pos;
            while self
                .byte(self.pos)
                .is_some_and(|byte| !matches!(byte, b'"' | b'\\' | b'$' | b'`' | b'\n'))
            {
                self.bump();
            }
            built.push(self.slice(from, self.pos));
            match self.peek() {
                None => {
                    self.pos = at;
                    return self.stop("a double quote without its end");
                }
                Some(b'"') => {
                    self.bump();
                    return Ok(());
                }
                Some(b'\\') => match self.byte(self.pos + 1) {
                    Some(b'$' | b'`' | b'"' | b'\\') => {
                        self.bump();
                        self.one(built);
                    }
                    Some(_) => self.one(built),
                    None => {
                        self.pos = at;
                        return self.stop("a double quote without its end");
                    }
                },
                Some(b'$') => self.dollar(built, true)?,
                Some(b'`') => {
                    built.run_time(true);
                    self.backticks(true)?;
                }
                Some(b'\n') => {
                    self.quoted_newline()?;
                    self.one(built);
                }
                // Only a line continuation stood here.
                Some(_) => {}
            }
        }
    }

    /// `\x` outside quotes.
    fn escape(&mut self, built: &mut Builder) -> Step<()> {
        built.quoted = true;
        let rest = self.src.get(self.pos + 1..).unwrap_or_default();
        let Some(next) = rest.chars().next() else {
            return self.stop("a backslash with nothing behind it");
        };
        let end = self.pos + 1 + next.len_utf8();
        built.push(self.slice(self.pos + 1, end));
        self.pos = end;
        Ok(())
    }

    /// `$'…'`, at the quote.
    pub(super) fn ansi(&mut self, built: &mut Builder) -> Step<()> {
        built.quoted = true;
        let at = self.pos;
        self.bump();
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let Some(byte) = self.byte(self.pos) else {
                self.pos = at;
                return self.stop("a single quote without its end");
            };
            self.bump();
            match byte {
                b'\'' => break,
                b'\\' => self.ansi_escape(&mut bytes)?,
                b'\n' => {
                    self.quoted_newline()?;
                    bytes.push(byte);
                }
                _ => bytes.push(byte),
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) => built.push(&text),
            // Bytes that are no text: the word exists, but no string equals it.
            Err(_) => built.run_time(true),
        }
        Ok(())
    }

    /// One escape of `$'…'`, behind its backslash.
    fn ansi_escape(&mut self, bytes: &mut Vec<u8>) -> Step<()> {
        let Some(byte) = self.byte(self.pos) else {
            return self.stop("a single quote without its end");
        };
        self.bump();
        let value: u32 = match byte {
            b'a' => 7,
            b'b' => 8,
            b'e' | b'E' => 27,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'v' => 11,
            b'\\' | b'\'' | b'"' | b'?' => u32::from(byte),
            b'0'..=b'7' => {
                self.pos -= 1;
                // Three digits at most; bash keeps the low eight bits.
                self.digits(8, 3).unwrap_or(0) & 0xff
            }
            b'x' => match self.digits(16, 2) {
                Some(value) => value,
                None => return self.stop("an escape of $'…' that is not known"),
            },
            b'u' | b'U' => {
                let digits = if byte == b'u' { 4 } else { 8 };
                match self.digits(16, digits) {
                    // What other characters become depends on the locale.
                    Some(value) if value < 0x80 => value,
                    Some(value) if value != 0 => {
                        bytes.push(0xff);
                        return Ok(());
                    }
                    _ => return self.stop("an escape of $'…' that is not known"),
                }
            }
            b'c' => match self.byte(self.pos) {
                Some(letter) if letter.is_ascii_alphabetic() => {
                    self.bump();
                    u32::from(letter & 0x1f)
                }
                _ => return self.stop("an escape of $'…' that is not known"),
            },
            _ => {
                bytes.push(b'\\');
                self.pos -= 1;
                if byte == b'\n' {
                    self.quoted_newline()?;
                }
                if byte >= 0x80 {
                    return Ok(());
                }
                bytes.push(byte);
                self.bump();
                return Ok(());
            }
        };
        match u8::try_from(value) {
            // A NUL would end the string for bash.
            Ok(0) | Err(_) => self.stop("a NUL or a too large escape in $'…'"),
            Ok(byte) => {
                bytes.push(byte);
                Ok(())
            }
        }
    }

    /// Up to `most` digits of a base.
    fn digits(&mut self, base: u32, most: usize) -> Option<u32> {
        let mut value: Option<u32> = None;
        for _ in 0..most {
            let digit = self
                .byte(self.pos)
                .and_then(|byte| char::from(byte).to_digit(base));
            let Some(digit) = digit else { break };
            value = Some(
                value
                    .unwrap_or(0)
                    .saturating_mul(base)
                    .saturating_add(digit),
            );
            self.bump();
        }
        value
    }
}

fn finished(built: Builder, text: String, process: bool) -> Lexed {
    let (quoted, risky) = (built.quoted, built.is_risky());
    Lexed {
        word: Word {
            text,
            literal: built.literal(),
        },
        quoted,
        process,
        risky,
    }
}
