//! Lists and pipelines: where commands stand, and what runs into what.

use super::{
    Context, Pipe,
    cursor::{Reader, Step},
    keyword::Keyword,
};

impl Reader<'_, '_> {
    /// Reads the whole text as a list.
    pub(super) fn whole(&mut self) -> Step<()> {
        self.list()?;
        if self.peek().is_some() {
            return self.stop("a word that closes nothing");
        }
        if !self.here.is_empty() {
            return self.stop("a here-document without its end");
        }
        Ok(())
    }

    /// Goes past blanks and a comment.
    pub(super) fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.bump();
        }
        if self.peek() == Some(b'#') {
            while self.byte(self.pos).is_some_and(|byte| byte != b'\n') {
                self.bump();
            }
        }
    }

    /// Goes past blanks, comments and newlines, and the here-documents behind them.
    pub(super) fn lines(&mut self) -> Step<()> {
        loop {
            self.blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            if self.held {
                return self.stop("a line break in a substitution while a here-document is open");
            }
            self.bump();
            if !self.here.is_empty() {
                self.bodies()?;
            }
        }
    }

    /// Whether a list ends here.
    fn at_close(&mut self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => matches!(self.second(), Some(b';' | b'&')),
            _ => self.keyword().is_some_and(|(keyword, _)| keyword.closes()),
        }
    }

    /// A list, up to whatever ends it.
    pub(super) fn list(&mut self) -> Step<()> {
        loop {
            self.lines()?;
            if self.at_close() {
                return Ok(());
            }
            let from = self.found();
            self.and_or()?;
            self.blanks();
            match self.peek() {
                Some(b'\n') => {}
                Some(b';') if !self.at_close() => {
                    self.separable()?;
                    self.bump();
                }
                Some(b'&') => {
                    self.separable()?;
                    self.bump();
                    self.mark_background(from);
                }
                _ if self.at_close() => return Ok(()),
                _ => return self.stop("something that is not understood"),
            }
        }
    }

    /// Bash prints a substitution and reads it again, and loses a separator that follows a
    /// here-document: `$(a <<E … E; b; c)` runs `b c`.
    pub(super) fn separable(&mut self) -> Step<()> {
        if self.open > 0 && self.inside {
            return self.stop("a separator behind a here-document in a substitution");
        }
        Ok(())
    }

    /// A list that must contain something.
    pub(super) fn body(&mut self) -> Step<()> {
        self.enter()?;
        self.lines()?;
        if self.at_close() {
            return self.stop("a compound command without a body");
        }
        self.list()?;
        self.leave();
        Ok(())
    }

    fn mark_background(&mut self, from: usize) {
        for simple in self.shared.reading.simples.iter_mut().skip(from) {
            if simple.context == Context::Plain {
                simple.context = Context::Background;
            }
        }
    }

    /// Pipelines joined by `&&` and `||`.
    fn and_or(&mut self) -> Step<()> {
        loop {
            self.pipeline()?;
            self.blanks();
            let next = self.peek();
            if !matches!(next, Some(b'&' | b'|')) || self.second() != next {
                return Ok(());
            }
            self.take_two();
            self.lines()?;
        }
    }

    /// Commands joined by `|`.
    fn pipeline(&mut self) -> Step<()> {
        loop {
            self.blanks();
            if self.accept(Keyword::Bang) {
                continue;
            }
            if !self.accept(Keyword::Time) {
                break;
            }
            self.blanks();
            for option in ["-p", "--"] {
                let rest = self.src.get(self.pos..).unwrap_or_default();
                if let Some(behind) = rest.strip_prefix(option)
                    && behind.starts_with([' ', '\t'])
                {
                    self.pos += option.len();
                    self.blanks();
                }
            }
            if matches!(self.peek(), None | Some(b'\n' | b';' | b'&' | b')')) {
                return Ok(());
            }
        }
        let mut from = self.found();
        let mut before = None;
        loop {
            let into = self.found();
            self.command()?;
            if let Some(from) = before {
                self.connect(from, into);
            }
            self.blanks();
            if self.peek() != Some(b'|') || self.second() == Some(b'|') {
                return Ok(());
            }
            self.bump();
            self.take(b'&');
            self.lines()?;
            before = Some(from..self.found());
            from = self.found();
        }
    }

    /// Notes that everything in `from` may write into what was found since `into`.
    fn connect(&mut self, from: std::ops::Range<usize>, into: usize) {
        let into = into..self.found();
        let Some(last) = from.clone().next_back() else {
            return;
        };
        for simple in self.shared.reading.simples.iter_mut().skip(into.start) {
            simple.piped_from.get_or_insert(last);
        }
        self.shared.reading.pipes.push(Pipe { from, into });
    }

    /// One command and the redirections of a compound one.
    pub(super) fn command(&mut self) -> Step<()> {
        self.blanks();
        if self.compound()? {
            self.redirections()
        } else {
            self.simple()
        }
    }
}
