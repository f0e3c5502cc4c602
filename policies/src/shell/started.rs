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
