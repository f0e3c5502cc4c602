//! Compound commands: conditions, loops, cases, functions and tests.

use super::{
    Context,
    cursor::{Reader, Step},
    expansion::End,
    keyword::Keyword,
    word::{Kind, is_name},
};

impl Reader<'_, '_> {
    /// A compound command; `false` if none begins here.
    pub(super) fn compound(&mut self) -> Step<bool> {
        if self.peek() == Some(b'(') {
            self.enter()?;
            if self.second() == Some(b'(') && self.is_arithmetic()? {
                self.take_two();
                self.arithmetic(End::Double)?;
            } else {
                self.bump();
                self.body()?;
                if !self.take(b')') {
                    return self.stop("a subshell without its end");
                }
            }
            self.leave();
            return Ok(true);
        }
        let Some((keyword, end)) = self.keyword() else {
            return Ok(false);
        };
        let start = std::mem::replace(&mut self.pos, end);
        self.enter()?;
        match keyword {
            Keyword::Open => {
                self.body()?;
                self.expect(Keyword::Close)?;
            }
            Keyword::If => self.if_body()?,
            Keyword::While | Keyword::Until => {
                self.body()?;
                self.do_body()?;
            }
            Keyword::For => self.for_body()?,
            Keyword::Select => self.for_words()?,
            Keyword::Case => self.case_body()?,
            Keyword::Function => self.function_keyword()?,
            Keyword::Coproc => self.coproc()?,
            Keyword::Test => self.test_body()?,
            // After `|` it is the program of that name.
            Keyword::Time => {
                self.pos = start;
                self.leave();
                return Ok(false);
            }
            _ => {
                self.pos = start;
                return self.stop("a reserved word where no command can begin");
            }
        }
        self.leave();
        Ok(true)
    }

    fn if_body(&mut self) -> Step<()> {
        loop {
            self.body()?;
            self.expect(Keyword::Then)?;
            self.body()?;
            self.lines()?;
            if !self.accept(Keyword::Elif) {
                break;
            }
        }
        if self.accept(Keyword::Else) {
            self.body()?;
        }
        self.expect(Keyword::Fi)
    }

    fn do_body(&mut self) -> Step<()> {
        self.expect(Keyword::Do)?;
        self.body()?;
        self.expect(Keyword::Done)
    }

    fn for_body(&mut self) -> Step<()> {
        self.blanks();
        if self.peek() != Some(b'(') || self.second() != Some(b'(') {
            return self.for_words();
        }
        self.take_two();
        for part in 0..3 {
            self.arithmetic(End::Part)?;
            if part < 2 && !self.take(b';') {
                return self.stop("a for loop that is not understood");
            }
        }
        self.take_two();
        self.blanks();
        self.take(b';');
        self.loop_body()
    }

    /// `name [in words]`, then the body.
    fn for_words(&mut self) -> Step<()> {
        self.blanks();
        let name = self.name();
        if !is_name(&name) || !self.at_word_end() {
            return self.stop("a loop without a name");
        }
        self.lines()?;
        let mut risky = true;
        if self.plain_word("in") {
            risky = false;
            loop {
                self.blanks();
                let Some(lexed) = self.word(Kind::Plain)? else {
                    break;
                };
                risky |= lexed.risky;
                self.shared.reading.loops.push((name.clone(), lexed.word));
            }
            if !matches!(self.peek(), Some(b';' | b'\n')) {
                return self.stop("a loop whose list does not end");
            }
        }
        self.take(b';');
        if risky {
            self.shared.tainted.push(name.clone());
        }
        self.indirect_name(&name);
        self.loop_body()
    }

    fn loop_body(&mut self) -> Step<()> {
        self.lines()?;
        if self.accept(Keyword::Open) {
            self.body()?;
            return self.expect(Keyword::Close);
        }
        self.do_body()
    }

    /// Goes past a word that is reserved only here.
    fn plain_word(&mut self, wanted: &str) -> bool {
        self.peek();
        let start = self.pos;
        let found = wanted.bytes().all(|byte| self.take(byte)) && self.at_word_end();
        if !found {
            self.pos = start;
        }
        found
    }

    fn case_body(&mut self) -> Step<()> {
        self.blanks();
        if self.word(Kind::Plain)?.is_none() {
            return self.stop("a case without a word");
        }
        self.lines()?;
        if !self.plain_word("in") {
            return self.stop("a case without its patterns");
        }
        loop {
            self.lines()?;
            if self.accept(Keyword::Esac) {
                return Ok(());
            }
            self.take(b'(');
            loop {
                self.blanks();
                if self.word(Kind::Plain)?.is_none() {
                    return self.stop("a case pattern that is not understood");
                }
                self.blanks();
                if !self.take(b'|') {
                    break;
                }
            }
            if !self.take(b')') {
                return self.stop("a case pattern that is not understood");
            }
            self.enter()?;
            self.list()?;
            self.leave();
            if self.peek() == Some(b';') {
                self.separable()?;
                self.take_two();
                self.take(b'&');
            }
        }
    }

    /// `function name [()] body`.
    fn function_keyword(&mut self) -> Step<()> {
        self.blanks();
        let named = self.word(Kind::Plain)?;
        if named.is_none_or(|lexed| lexed.word.literal.is_none() || lexed.quoted) {
            return self.stop("a function without a plain name");
        }
        self.blanks();
        if self.peek() == Some(b'(') {
            let start = self.pos;
            self.bump();
            self.blanks();
            // `function f (list)` has a subshell for its body.
            if !self.take(b')') {
                self.pos = start;
            }
        }
        self.function_body()
    }

    /// The body of a function, behind its name.
    pub(super) fn function_body(&mut self) -> Step<()> {
        self.lines()?;
        let context = std::mem::replace(&mut self.context, Context::Function);
        if !self.compound()? {
            return self.stop("a function without a body");
        }
        self.context = context;
        self.redirections()
    }

    fn coproc(&mut self) -> Step<()> {
        self.blanks();
        let context = std::mem::replace(&mut self.context, Context::Background);
        let start = self.pos;
        let name = self.name();
        let named = is_name(&name) && matches!(self.peek(), Some(b' ' | b'\t'));
        self.blanks();
        let behind = self.peek() == Some(b'(') || self.keyword().is_some();
        if !(named && behind) {
            self.pos = start;
        }
        self.command()?;
        self.context = context;
        Ok(())
    }

    /// `[[ … ]]`, behind the brackets: operands may hold substitutions.
    fn test_body(&mut self) -> Step<()> {
        let mut groups = 0_usize;
        let mut kind = Kind::Test;
        let mut before: Option<String> = None;
        loop {
            self.lines()?;
            match self.peek() {
                Some(b'(') if kind == Kind::Test => {
                    groups += 1;
                    self.bump();
                    continue;
                }
                Some(b')') if groups > 0 => {
                    groups -= 1;
                    self.bump();
                    continue;
                }
                Some(b'<' | b'>') if self.second() != Some(b'(') => {
                    self.bump();
                    continue;
                }
                Some(byte @ (b'&' | b'|')) if kind == Kind::Test => {
                    if self.second() != Some(byte) {
                        return self.stop("a test that is not understood");
                    }
                    self.take_two();
                    continue;
                }
                _ => {}
            }
            let Some(lexed) = self.word(kind)? else {
                return self.stop("a test that is not understood");
            };
            let text = lexed.word.text.as_str();
            if text == "]]" {
                if groups > 0 || kind == Kind::Regex {
                    return self.stop("a test that is not understood");
                }
                return Ok(());
            }
            kind = if text == "=~" {
                Kind::Regex
            } else {
                Kind::Test
            };
            // Both sides of these are evaluated as arithmetic.
            let compares = |word: &str| {
                matches!(
                    word,
                    "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-v" | "-R"
                )
            };
            if before.as_deref().is_some_and(compares) {
                self.evaluates(&lexed);
            }
            if compares(text)
                && let Some(operand) = &before
            {
                self.evaluates_text(operand);
            }
            before = Some(lexed.word.text);
        }
    }
}
