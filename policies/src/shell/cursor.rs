//! A cursor over one text of shell, and what all cursors of one reading share.

use super::{Context, Reading};

/// Levels of nesting: recursion stays far below any stack.
const DEPTH: usize = 64;
/// Simple commands and redirections of one line: more is a script, and a script belongs in a file.
const PARTS: usize = 512;
/// Characters shown of the place where reading stopped.
const EXCERPT: usize = 24;

/// Reading cannot go on here; the doubt is noted already.
#[derive(Debug)]
pub(super) struct Stop;

/// A step of reading.
pub(super) type Step<T> = Result<T, Stop>;

/// What the cursors over a line, its backticks, here-documents and `sh -c` strings share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// What was found so far.
    pub(super) reading: Reading,
    /// Levels of nesting that are open.
    pub(super) depth: usize,
    /// Wrappers that are open.
    pub(super) wraps: usize,
    /// Names whose value is evaluated as arithmetic, where a subscript can run a command.
    pub(super) evaluated: Vec<String>,
    /// Names that get a value which could be more than a number.
    pub(super) tainted: Vec<String>,
}

/// A here-document that was announced and whose body comes after the next newline.
#[derive(Debug)]
pub(super) struct Here {
    /// The line that ends it.
    pub(super) delimiter: String,
    /// Whether the delimiter was quoted: nothing in the body is expanded.
    pub(super) quoted: bool,
    /// Whether leading tabs are removed.
    pub(super) strip: bool,
    /// Index of the shell that reads it as its script, if one does.
    pub(super) feeds: Option<usize>,
}

/// Reads one text.
#[derive(Debug)]
pub(super) struct Reader<'s, 'o> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    pub(super) shared: &'o mut Shared,
    pub(super) context: Context,
    /// Announced here-documents, in order.
    pub(super) here: Vec<Here>,
    /// Substitutions of this text that are open.
    pub(super) open: usize,
    /// Whether here-documents of an outer level wait while a substitution is read.
    pub(super) held: bool,
    /// Whether a here-document was announced inside the outermost open substitution.
    pub(super) inside: bool,
}

impl<'s, 'o> Reader<'s, 'o> {
    /// A reader at the start of `src`.
    pub(super) fn new(src: &'s str, shared: &'o mut Shared, context: Context) -> Self {
        Self {
            src,
            pos: 0,
            shared,
            context,
            here: Vec::new(),
            open: 0,
            held: false,
            inside: false,
        }
    }

    /// The byte at `at`.
    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.src.as_bytes().get(at).copied()
    }

    /// The byte at `at` after any line continuations there, and its position.
    fn beyond(&self, mut at: usize) -> (Option<u8>, usize) {
        while self.byte(at) == Some(b'\\') && self.byte(at + 1) == Some(b'\n') {
            at += 2;
        }
        (self.byte(at), at)
    }

    /// The next byte, line continuations skipped.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let (byte, at) = self.beyond(self.pos);
        self.pos = at;
        byte
    }

    /// The byte after the next one. Call it after `peek`.
    pub(super) fn second(&self) -> Option<u8> {
        self.beyond(self.pos + 1).0
    }

    /// Goes past one byte.
    pub(super) fn bump(&mut self) {
        self.pos += 1;
    }

    /// Goes past `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.bump();
        }
        found
    }

    /// Goes past two bytes, with line continuations before each.
    pub(super) fn take_two(&mut self) {
        self.peek();
        self.bump();
        self.peek();
        self.bump();
    }

    /// The text between two positions.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'s str {
        self.src.get(start..end).unwrap_or_default()
    }

    /// Notes why the line is not understood; the first reason stays.
    pub(super) fn doubt(&mut self, reason: impl Into<String>) {
        self.shared.doubt(reason);
    }

    /// Notes the reason with the place, and ends this text.
    pub(super) fn stop<T>(&mut self, reason: &str) -> Step<T> {
        if self.shared.reading.doubt.is_none() {
            let rest = self.src.get(self.pos..).unwrap_or_default();
            let near: String = rest
                .chars()
                .take(EXCERPT)
                .flat_map(char::escape_debug)
                .collect();
            let reason = if near.is_empty() {
                format!("{reason} at the end")
            } else {
                format!("{reason} near `{near}`")
            };
            self.shared.reading.doubt = Some(reason);
        }
        Err(Stop)
    }

    /// Opens a level of nesting.
    pub(super) fn enter(&mut self) -> Step<()> {
        self.shared.depth += 1;
        if self.shared.depth > DEPTH {
            return self.stop("nested more than 64 levels deep");
        }
        Ok(())
    }

    /// Closes a level of nesting.
    pub(super) fn leave(&mut self) {
        self.shared.depth = self.shared.depth.saturating_sub(1);
    }

    /// Ends the reading when it has found as many parts as a line may have.
    pub(super) fn room(&mut self) -> Step<()> {
        let reading = &self.shared.reading;
        if reading.simples.len() + reading.redirects.len() >= PARTS {
            return self.stop("more than 512 commands and redirections");
        }
        Ok(())
    }

    /// How many simple commands were found.
    pub(super) fn found(&self) -> usize {
        self.shared.reading.simples.len()
    }
}

impl Shared {
    /// Notes why the line is not understood; the first reason stays.
    pub(super) fn doubt(&mut self, reason: impl Into<String>) {
        if self.reading.doubt.is_none() {
            self.reading.doubt = Some(reason.into());
        }
    }
}
