//! Redirections: each is an access to a file, or a copy of a descriptor, or text.

use super::{
    Access, Redirect,
    cursor::{Reader, Step},
    simple::cut,
    word::{Kind, Lexed},
};

/// What a command reads as its standard input.
#[derive(Debug, Clone)]
pub(super) enum Feed {
    /// What the line itself reads, or a pipe.
    Inherited,
    /// The announced here-document of this index.
    Here(usize),
    /// A here-string that is known.
    Text(String),
    /// A file, a descriptor or text that is decided at run time.
    Other,
}

impl Reader<'_, '_> {
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
    pub(super) fn redirection(&mut self, feed: &mut Feed) -> Step<Option<Option<Redirect>>> {
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
}
