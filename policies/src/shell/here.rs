//! Here-documents: their delimiters, their bodies and the expansions inside.

use super::{
    cursor::{Here, Reader, Step},
    redirect::Feed,
    started::is_xargs,
    word::Builder,
};

impl Reader<'_, '_> {
    /// Reads the delimiter behind `<<` or `<<-` and announces the body.
    pub(super) fn announce(&mut self, strip: bool) -> Step<usize> {
        let mut built = Builder::default();
        let mut quoted = false;
        self.peek();
        let start = self.pos;
        while !self.at_word_end() {
            match self.peek() {
                Some(b'\'') => self.single(&mut built)?,
                Some(b'"') => {
                    let from = self.pos;
                    self.double(&mut built)?;
                    if self.slice(from, self.pos).contains(['$', '`', '\\']) {
                        return self.stop("a here-document delimiter with an expansion");
                    }
                }
                Some(b'$' | b'`') => {
                    return self.stop("a here-document delimiter with an expansion");
                }
                Some(b'\\') => {
                    self.bump();
                    self.character(&mut built);
                }
                _ => {
                    self.character(&mut built);
                    continue;
                }
            }
            quoted = true;
        }
        let delimiter = built.literal().unwrap_or_default();
        if self.pos == start || delimiter.contains('\n') {
            return self.stop("a here-document without a delimiter");
        }
        self.inside |= self.open > 0;
        self.here.push(Here {
            delimiter,
            quoted,
            strip,
            feeds: None,
        });
        Ok(self.here.len() - 1)
    }

    /// Takes one character, whatever it is.
    fn character(&mut self, built: &mut Builder) {
        let rest = self.src.get(self.pos..).unwrap_or_default();
        let length = rest.chars().next().map_or(1, char::len_utf8);
        built.push(self.slice(self.pos, self.pos + length));
        self.pos += length;
    }

    /// Reads the bodies of all announced here-documents, behind the newline.
    pub(super) fn bodies(&mut self) -> Step<()> {
        for here in std::mem::take(&mut self.here) {
            let body = self.here_body(&here)?;
            let literal = if here.quoted {
                Some(body)
            } else {
                self.expand(&body)?
            };
            let Some(index) = here.feeds else { continue };
            let words = self.shared.reading.simples.get(index).is_some_and(is_xargs);
            match literal {
                // It was taken apart once without its words.
                Some(text) if words => self.finish(index, &Feed::Text(text))?,
                None if words => {}
                Some(text) => self.line(&text, index),
                None => self.doubt("a shell reads a here-document with expansions as its script"),
            }
        }
        Ok(())
    }

    /// The text of a body, its end gone past.
    fn here_body(&mut self, here: &Here) -> Step<String> {
        let mut body = String::new();
        loop {
            if self.pos >= self.src.len() {
                return self.stop("a here-document without its end");
            }
            let mut line = self.physical_line();
            if here.strip {
                line = line.trim_start_matches('\t');
            }
            let mut joined = line.to_owned();
            while !here.quoted && continues(&joined) {
                joined.pop();
                if self.pos >= self.src.len() {
                    return self.stop("a here-document without its end");
                }
                joined.push_str(self.physical_line());
            }
            if joined == here.delimiter {
                return Ok(body);
            }
            // Inside a substitution bash also ends it at `EOF )`.
            if self.open > 0 && joined.starts_with(&here.delimiter) && joined.contains(')') {
                return self.stop("a here-document that may end together with its substitution");
            }
            body.push_str(&joined);
            body.push('\n');
        }
    }

    /// The rest of this line, without its newline, which is gone past.
    fn physical_line(&mut self) -> &str {
        let start = self.pos;
        let rest = self.src.get(start..).unwrap_or_default();
        let length = rest.find('\n').unwrap_or(rest.len());
        self.pos = start + length + 1;
        rest.get(..length).unwrap_or_default()
    }

    /// Reads the expansions of a body; the text if there are none.
    fn expand(&mut self, body: &str) -> Step<Option<String>> {
        if !body.contains(['$', '`', '\\']) {
            return Ok(Some(body.to_owned()));
        }
        self.enter()?;
        let context = self.context;
        let mut inner = Reader::new(body, self.shared, context);
        let literal = inner.here_text()?;
        self.leave();
        Ok(literal)
    }

    fn here_text(&mut self) -> Step<Option<String>> {
        let mut built = Builder::default();
        loop {
            let from = self.pos;
            while self
                .byte(self.pos)
                .is_some_and(|byte| !matches!(byte, b'$' | b'`' | b'\\'))
            {
                self.bump();
            }
            built.push(self.slice(from, self.pos));
            match self.byte(self.pos) {
                None => return Ok(built.literal()),
                Some(b'$') => self.dollar(&mut built, true)?,
                Some(b'`') => {
                    built.run_time(true);
                    self.backticks(true)?;
                }
                Some(_) => {
                    if !matches!(self.byte(self.pos + 1), Some(b'$' | b'`' | b'\\')) {
                        built.push("\\");
                    }
                    self.bump();
                    if self.pos < self.src.len() {
                        self.character(&mut built);
                    }
                }
            }
        }
    }
}

/// Whether a line ends in a backslash that is not itself escaped.
fn continues(line: &str) -> bool {
    let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
    backslashes % 2 == 1
}
