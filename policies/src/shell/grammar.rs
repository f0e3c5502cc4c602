//! Lists, pipelines and compound commands: where simple commands stand.

use super::{
    Context, Pipe,
    cursor::{Reader, Step},
    expansion::End,
    word::{Kind, is_name},
};

/// A reserved word, where one is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    If,
    Then,
    Elif,
    Else,
    Fi,
    While,
    Until,
    For,
    Select,
    Do,
    Done,
    Case,
    Esac,
    Function,
    Coproc,
    Time,
    Bang,
    Open,
    Close,
    Test,
}

impl Keyword {
    fn of(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"if" => Self::If,
            b"then" => Self::Then,
            b"elif" => Self::Elif,
            b"else" => Self::Else,
            b"fi" => Self::Fi,
            b"while" => Self::While,
            b"until" => Self::Until,
            b"for" => Self::For,
            b"select" => Self::Select,
            b"do" => Self::Do,
            b"done" => Self::Done,
            b"case" => Self::Case,
            b"esac" => Self::Esac,
            b"function" => Self::Function,
            b"coproc" => Self::Coproc,
            b"time" => Self::Time,
            b"!" => Self::Bang,
            b"{" => Self::Open,
            b"}" => Self::Close,
            b"[[" => Self::Test,
            _ => return None,
        })
    }

    /// Whether it ends a list.
    fn closes(self) -> bool {
        matches!(
            self,
            Self::Then
                | Self::Elif
                | Self::Else
                | Self::Fi
                | Self::Do
                | Self::Done
                | Self::Esac
                | Self::Close
        )
    }
}

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

    /// The reserved word that is next and where it ends, if one is.
    pub(super) fn keyword(&mut self) -> Option<(Keyword, usize)> {
        let first = self.peek()?;
        if !matches!(first, b'a'..=b'z' | b'!' | b'{' | b'}' | b'[') {
            return None;
        }
        let start = self.pos;
        let mut word = [0_u8; 8];
        let mut length = 0;
        while !self.at_word_end() {
            match (word.get_mut(length), self.peek()) {
                (Some(slot), Some(byte)) => *slot = byte,
                _ => {
                    self.pos = start;
                    return None;
                }
            }
            length += 1;
            self.bump();
        }
        let end = std::mem::replace(&mut self.pos, start);
        Keyword::of(word.get(..length)?).map(|keyword| (keyword, end))
    }

    /// Goes past `wanted` if it is next.
    fn accept(&mut self, wanted: Keyword) -> bool {
        match self.keyword() {
            Some((keyword, end)) if keyword == wanted => {
                self.pos = end;
                true
            }
            _ => false,
        }
    }

    /// Goes past `wanted`, which must be next, whatever lines come before it.
    fn expect(&mut self, wanted: Keyword) -> Step<()> {
        self.lines()?;
        if self.accept(wanted) {
            Ok(())
        } else {
            self.stop("a compound command without its end")
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
                Some(b';') if !self.at_close() => self.bump(),
                Some(b'&') => {
                    self.bump();
                    self.mark_background(from);
                }
                _ if self.at_close() => return Ok(()),
                _ => return self.stop("something that is not understood"),
            }
        }
    }

    /// A list that must contain something.
    fn body(&mut self) -> Step<()> {
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
    fn command(&mut self) -> Step<()> {
        self.blanks();
        if self.compound()? {
            self.redirections()
        } else {
            self.simple()
        }
    }

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
            }
            if !matches!(self.peek(), Some(b';' | b'\n')) {
                return self.stop("a loop whose list does not end");
            }
        }
        self.take(b';');
        if risky {
            self.shared.tainted.push(name.clone());
        }
        self.risky_name(&name);
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
