//! The commands that a command starts in turn: wrappers and shells, to a fixed depth.

use super::{
    Context, Simple, Word,
    cursor::{Reader, Step},
    redirect::Feed,
    simple::cut,
    wrapper::{self, Inner},
};

/// Wrappers inside wrappers.
const WRAPS: usize = 8;

impl Reader<'_, '_> {
    /// What the command at `index` starts in turn, and what it does to the reading itself.
    pub(super) fn finish(&mut self, index: usize, feed: &Feed) -> Step<()> {
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
        // The words of a here-string are the last arguments of what xargs starts.
        let takes_words = is_xargs(simple);
        let mark = if takes_words { mark(simple) } else { None };
        if let (true, Feed::Here(at)) = (takes_words, feed)
            && let Some(here) = self.here.get_mut(*at)
        {
            here.feeds = Some(index);
        }
        let Some(simple) = self.shared.reading.simples.get(index) else {
            return Ok(());
        };
        let found = wrapper::unwrap(simple);
        for (name, plain) in found.assigns {
            self.risky_name(&name);
            if !plain {
                self.shared.tainted.push(name);
            }
        }
        for name in found.sets {
            self.indirect_name(&name);
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
        let given = match feed {
            Feed::Text(text) if takes_words => text.as_str(),
            _ => "",
        };
        for inner in found.inner {
            match inner {
                Inner::Argv {
                    assignments,
                    mut words,
                } => {
                    give(&mut words, given, mark.as_deref());
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

/// Whether a command is xargs, which makes arguments of its input.
pub(super) fn is_xargs(simple: &Simple) -> bool {
    matches!(simple.name(), Some("xargs" | "gxargs"))
}

/// What xargs replaces, if it replaces.
fn mark(simple: &Simple) -> Option<String> {
    let mut words = simple.literals();
    let option = words.find(|word| word.starts_with("-I") || word.starts_with("-i"))?;
    match option.get(2..) {
        Some("") | None if option == "-I" => words.next().map(str::to_owned),
        Some("") | None => Some("{}".to_owned()),
        Some(mark) => Some(mark.to_owned()),
    }
}

/// Puts the words of a text at the end, or where they replace a mark, as xargs does.
fn give(words: &mut Vec<Word>, text: &str, mark: Option<&str>) {
    if text.is_empty() {
        return;
    }
    // Quotes and backslashes are xargs's own: the words without them are the likely ones, and what
    // else they could be stays open.
    let plain = text.replace(['"', '\'', '\\'], "");
    if let Some(mark) = mark {
        let open = words.iter_mut().filter(|word| word.literal.is_none());
        for word in open.filter(|word| word.text.contains(mark)) {
            word.literal = Some(word.text.replace(mark, plain.trim()));
        }
        return;
    }
    let open = words
        .last()
        .is_some_and(|last| last.literal.is_none() && last.text == "…");
    if !open {
        return;
    }
    if plain.len() == text.len() {
        words.pop();
    }
    words.extend(plain.split_whitespace().map(|word| Word {
        text: word.to_owned(),
        literal: Some(word.to_owned()),
    }));
}
