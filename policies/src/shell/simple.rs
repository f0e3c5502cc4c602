//! Simple commands: assignments, words and redirections, and the commands that they start in turn.

use super::{
    Access, Context, Redirect, Simple, Word,
    cursor::{Reader, Step},
    word::{Kind, Lexed, name_start},
    wrapper::{self, Inner},
};

/// Wrappers inside wrappers.
const WRAPS: usize = 8;
/// Bytes of a command that are kept as written.
const TEXT: usize = 400;

/// What a command reads as its standard input.
#[derive(Debug, Clone)]
enum Feed {
    /// What the line itself reads, or a pipe.
    Inherited,
    /// The announced here-document of this index.
    Here(usize),
    /// A here-string that is known.
    Text(String),
    /// A file, a descriptor or text that is decided at run time.
    Other,
}

/// A simple command while it is read.
#[derive(Debug)]
struct Draft {
    assignments: Vec<(String, Word)>,
    words: Vec<Word>,
    redirects: Vec<Redirect>,
    feed: Feed,
    end: usize,
    /// Whether `name=(…)` may stand among the arguments.
    declares: bool,
}

impl Reader<'_, '_> {
    /// A simple command or a function's definition.
    pub(super) fn simple(&mut self) -> Step<()> {
        self.peek();
        let start = self.pos;
        let mut draft = Draft {
            assignments: Vec::new(),
            words: Vec::new(),
            redirects: Vec::new(),
            feed: Feed::Inherited,
            end: start,
            declares: false,
        };
        let read = self.parts(&mut draft);
        // Even if the rest is not understood, what was found is listed.
        let Draft {
            assignments,
            mut words,
            redirects,
            feed,
            end,
            ..
        } = draft;
        if let Ok(true) = read {
            return self.function_body();
        }
        let bare = words.is_empty() && assignments.is_empty();
        let index = self.found();
        if !bare {
            self.room()?;
            let program = (!words.is_empty()).then(|| words.remove(0));
            self.shared.reading.simples.push(Simple {
                program,
                args: words,
                assignments,
                text: cut(self.slice(start, end)),
                context: self.context,
                piped_from: None,
                wrapped_by: None,
            });
        }
        let owner = (!bare).then_some(index);
        for redirect in redirects {
            self.room()?;
            self.shared.reading.redirects.push(Redirect {
                simple: owner,
                ..redirect
            });
        }
        read?;
        if end == start {
            return self.stop("something that is no command");
        }
        if bare {
            Ok(())
        } else {
            self.finish(index, &feed)
        }
    }

    /// Reads the parts; `true` if it turned out to be a function's name and parentheses.
    fn parts(&mut self, draft: &mut Draft) -> Step<bool> {
        loop {
            self.blanks();
            if let Some(redirect) = self.redirection(&mut draft.feed)? {
                draft.redirects.extend(redirect);
                draft.end = self.pos;
                continue;
            }
            if draft.words.is_empty() && self.assignment(draft)? {
                draft.end = self.pos;
                continue;
            }
            if draft.declares && self.declared_array(draft)? {
                draft.end = self.pos;
                continue;
            }
            let Some(lexed) = self.word(Kind::Plain)? else {
                if self.peek() == Some(b'(') {
                    return self.stop("a parenthesis that is not understood");
                }
                return Ok(false);
            };
            draft.end = self.pos;
            let first = draft.words.is_empty();
            if first {
                let name = lexed.word.literal.as_deref();
                draft.declares = matches!(
                    name,
                    Some("declare" | "typeset" | "local" | "export" | "readonly")
                );
                if self.is_function(&lexed, draft)? {
                    return Ok(true);
                }
            }
            draft.words.push(lexed.word);
        }
    }

    /// Whether `()` follows the first word; goes past it.
    fn is_function(&mut self, lexed: &Lexed, draft: &Draft) -> Step<bool> {
        let start = self.pos;
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.bump();
        }
        if self.peek() != Some(b'(') {
            self.pos = start;
            return Ok(false);
        }
        self.bump();
        self.blanks();
        let plain = lexed.word.literal.is_some()
            && !lexed.quoted
            && draft.assignments.is_empty()
            && draft.redirects.is_empty();
        if !plain || !self.take(b')') {
            self.pos = start;
            return self.stop("a parenthesis that is not understood");
        }
        Ok(true)
    }

    /// Goes past `name=value`, `name+=value`, `name[key]=value` or `name=(…)` if one is next.
    fn assignment(&mut self, draft: &mut Draft) -> Step<bool> {
        let Some(name) = self.assigned_name()? else {
            return Ok(false);
        };
        let lexed = if self.peek() == Some(b'(') {
            self.array()?
        } else {
            self.value()?
        };
        self.risky_name(&name);
        if lexed.risky || lexed.word.literal.as_deref().is_some_and(odd_number) {
            let base = name.split('[').next().unwrap_or_default();
            self.shared.tainted.push(base.to_owned());
        }
        draft.assignments.push((name, lexed.word));
        Ok(true)
    }

    /// Goes past `name=` and the like; stays where it was if none is next.
    fn assigned_name(&mut self) -> Step<Option<String>> {
        if !self.peek().is_some_and(name_start) {
            return Ok(None);
        }
        let start = self.pos;
        let mut name = self.name();
        if self.peek() == Some(b'[') {
            // Bash reads a whole bracket here, blanks and all, even if no assignment follows.
            let from = self.pos;
            self.subscript()?;
            name.push_str(self.slice(from, self.pos));
        }
        let subscript = name.contains('[');
        if self.peek() == Some(b'+') && self.second() == Some(b'=') {
            self.bump();
        }
        if self.take(b'=') {
            return Ok(Some(name));
        }
        if subscript {
            return self.stop("a subscript that is not understood");
        }
        self.pos = start;
        Ok(None)
    }

    /// `(…)` of an array, at the parenthesis.
    fn array(&mut self) -> Step<Lexed> {
        let start = self.pos;
        self.enter()?;
        self.bump();
        loop {
            self.lines()?;
            if self.take(b')') {
                break;
            }
            if self.word(Kind::Plain)?.is_none() {
                return self.stop("an array that is not understood");
            }
        }
        self.leave();
        if !self.at_word_end() {
            return self.stop("an array with text behind it");
        }
        let word = Word {
            text: self.slice(start, self.pos).to_owned(),
            literal: None,
        };
        Ok(Lexed {
            word,
            quoted: false,
            process: false,
            risky: true,
        })
    }

    /// Goes past `name=(…)` among the arguments of `declare` and its kin.
    fn declared_array(&mut self, draft: &mut Draft) -> Step<bool> {
        self.peek();
        let start = self.pos;
        if !self.peek().is_some_and(name_start) {
            return Ok(false);
        }
        let name = self.name();
        self.take(b'+');
        if !self.take(b'=') || self.peek() != Some(b'(') {
            self.pos = start;
            return Ok(false);
        }
        self.risky_name(&name);
        self.shared.tainted.push(name);
        self.array()?;
        let text = self.slice(start, self.pos).to_owned();
        draft.words.push(Word {
            text,
            literal: None,
        });
        Ok(true)
    }

    /// Redirections behind a compound command.
    pub(super) fn redirections(&mut self) -> Step<()> {
        let mut feed = Feed::Inherited;
        loop {
            self.blanks();
            let Some(redirect) = self.redirection(&mut feed)? else {
                return Ok(());
            };
            if let Some(redirect) = redirect {
                self.room()?;
                self.shared.reading.redirects.push(redirect);
            }
        }
    }

    /// One redirection, if one is next. `Some(None)`: one that opens no file.
    fn redirection(&mut self, feed: &mut Feed) -> Step<Option<Option<Redirect>>> {
        let Some(byte) = self.peek() else {
            return Ok(None);
        };
        if !matches!(byte, b'<' | b'>' | b'&' | b'{') && !byte.is_ascii_digit() {
            return Ok(None);
        }
        let start = self.pos;
        let both = byte == b'&' && self.second() == Some(b'>');
        let descriptor = if both {
            self.bump();
            Some(String::new())
        } else {
            self.descriptor()
        };
        let Some(descriptor) = descriptor else {
            self.pos = start;
            return Ok(None);
        };
        let next = self.peek();
        if !matches!(next, Some(b'<' | b'>')) || (!both && self.second() == Some(b'(')) {
            self.pos = start;
            return Ok(None);
        }
        self.bump();
        let input = next == Some(b'<');
        let standard = input && (descriptor.is_empty() || descriptor == "0");
        match self.peek() {
            Some(b'<') if input => {
                self.bump();
                if self.take(b'<') {
                    let target = self.target()?;
                    if standard {
                        *feed = target.word.literal.map_or(Feed::Other, Feed::Text);
                    }
                    return Ok(Some(None));
                }
                let strip = self.take(b'-');
                self.blanks();
                let index = self.announce(strip)?;
                if standard {
                    *feed = Feed::Here(index);
                }
                return Ok(Some(None));
            }
            Some(b'&') if !both => {
                self.bump();
                let target = self.target()?;
                let copies = |text: &str| {
                    let digits = text.strip_suffix('-').unwrap_or(text);
                    digits.bytes().all(|byte| byte.is_ascii_digit())
                };
                if standard {
                    *feed = Feed::Other;
                }
                if input || target.word.literal.as_deref().is_some_and(copies) {
                    return Ok(Some(None));
                }
                return Ok(Some(Some(self.redirect(Access::Write, target, start))));
            }
            Some(b'>' | b'|') if !input => self.bump(),
            Some(b'>') => {
                self.bump();
                let target = self.target()?;
                if standard {
                    *feed = Feed::Other;
                }
                return Ok(Some(Some(self.redirect(Access::Write, target, start))));
            }
            _ => {}
        }
        let target = self.target()?;
        if standard {
            *feed = Feed::Other;
        }
        if target.process {
            return Ok(Some(None));
        }
        let access = if input { Access::Read } else { Access::Write };
        Ok(Some(Some(self.redirect(access, target, start))))
    }

    fn redirect(&self, access: Access, target: Lexed, start: usize) -> Redirect {
        let text = cut(self.slice(start, self.pos));
        Redirect {
            access,
            target: target.word,
            text,
            simple: None,
        }
    }

    /// Digits or `{name}` before an operator, empty if neither is there; `None` for another brace.
    fn descriptor(&mut self) -> Option<String> {
        let mut descriptor = String::new();
        if self.take(b'{') {
            let name = self.name();
            return (!name.is_empty() && self.take(b'}')).then_some(name);
        }
        while let Some(byte) = self.peek().filter(u8::is_ascii_digit) {
            descriptor.push(char::from(byte));
            self.bump();
        }
        Some(descriptor)
    }

    fn target(&mut self) -> Step<Lexed> {
        self.blanks();
        match self.word(Kind::Plain)? {
            Some(lexed) => Ok(lexed),
            None => self.stop("a redirection without its target"),
        }
    }

    /// What the command at `index` starts in turn, and what it does to the reading itself.
    fn finish(&mut self, index: usize, feed: &Feed) -> Step<()> {
        let Some(simple) = self.shared.reading.simples.get(index) else {
            return Ok(());
        };
        let Some(program) = &simple.program else {
            return Ok(());
        };
        if program.literal.is_none() {
            self.doubt("a program whose name is decided at run time");
            return Ok(());
        }
        let found = wrapper::unwrap(simple);
        for name in &found.plain {
            self.risky_name(name);
        }
        for name in found.sets {
            self.risky_name(&name);
            self.shared.tainted.push(name);
        }
        for text in &found.evaluates {
            self.evaluates_text(text);
        }
        if let Some(reason) = found.doubt {
            self.doubt(reason);
        }
        if found.inner.is_empty() {
            return Ok(());
        }
        if self.shared.wraps >= WRAPS {
            return self.stop("more than 8 wrappers around a command");
        }
        self.shared.wraps += 1;
        for inner in found.inner {
            match inner {
                Inner::Argv { assignments, words } => {
                    self.wrapped(index, assignments, words, feed)?;
                }
                Inner::Line(text) => self.line(&text, index),
                Inner::Input => self.input(index, feed),
            }
        }
        self.shared.wraps -= 1;
        Ok(())
    }

    /// Lists the command that the one at `index` starts.
    fn wrapped(
        &mut self,
        index: usize,
        assignments: Vec<(String, Word)>,
        words: Vec<Word>,
        feed: &Feed,
    ) -> Step<()> {
        self.room()?;
        for (name, _) in &assignments {
            self.risky_name(name);
        }
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let text = cut(&texts.join(" "));
        let mut words = words.into_iter();
        let new = self.found();
        self.shared.reading.simples.push(Simple {
            program: words.next(),
            args: words.collect(),
            assignments,
            text,
            context: Context::Wrapped,
            piped_from: None,
            wrapped_by: Some(index),
        });
        self.finish(new, feed)
    }

    /// Reads a text that the command at `index` gives to a shell.
    pub(super) fn line(&mut self, text: &str, index: usize) {
        let from = self.found();
        let (depth, wraps) = (self.shared.depth, self.shared.wraps);
        if self.enter().is_ok() {
            let mut inner = Reader::new(text, self.shared, Context::Wrapped);
            // A doubt is noted; the rest of the outer line is still read.
            let _noted = inner.whole();
        }
        self.shared.depth = depth;
        self.shared.wraps = wraps;
        for simple in self.shared.reading.simples.iter_mut().skip(from) {
            simple.wrapped_by.get_or_insert(index);
        }
    }

    /// The shell at `index` reads its commands from its standard input.
    fn input(&mut self, index: usize, feed: &Feed) {
        match feed {
            Feed::Text(text) => self.line(text, index),
            Feed::Here(at) => match self.here.get_mut(*at) {
                Some(here) => here.feeds = Some(index),
                None => self.doubt("a shell reads its commands from a here-document"),
            },
            Feed::Inherited => self.doubt("a shell reads its commands from its standard input"),
            Feed::Other => self.doubt("a shell reads its commands from a file or descriptor"),
        }
    }
}

/// Whether a literal could do more than count when evaluated as arithmetic.
fn odd_number(text: &str) -> bool {
    text.contains(['$', '`', '['])
}

/// The first bytes of a text, on a character boundary.
fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
