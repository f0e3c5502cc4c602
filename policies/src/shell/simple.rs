//! Simple commands: assignments, words and redirections in any order.

use super::{
    Redirect, Simple, Word,
    cursor::{Reader, Step},
    redirect::Feed,
    word::{Kind, Lexed, name_start},
};

/// Bytes of a command that are kept as written.
const TEXT: usize = 400;

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
        // `PATH[0]=x` sets PATH.
        let base = name.split('[').next().unwrap_or_default().to_owned();
        self.risky_name(&base);
        if lexed.risky || lexed.word.literal.as_deref().is_some_and(odd_number) {
            self.shared.tainted.push(base.clone());
        }
        draft.assignments.push((base, lexed.word));
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
}

/// Whether a literal could do more than count when evaluated as arithmetic.
fn odd_number(text: &str) -> bool {
    text.contains(['$', '`', '['])
}

/// The first bytes of a text, on a character boundary.
pub(super) fn cut(text: &str) -> String {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
