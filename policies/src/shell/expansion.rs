//! Expansions: what stands behind `$` and between backticks, and the commands inside it.

use super::{
    Context,
    cursor::{Reader, Step},
    word::{Builder, name_start},
};

/// Where an arithmetic expression ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At `))`.
    Double,
    /// At `]`.
    Bracket,
    /// At `;` or `))`: a part of `for ((…;…;…))`.
    Part,
    /// At `}`: an offset and a length in `${x:1:2}`.
    Brace,
}

/// The last token of an arithmetic expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Operator,
    Operand,
    /// An operand with a blank behind it: another operand is no arithmetic.
    Spaced,
}

impl Reader<'_, '_> {
    /// Reads an expansion, at the `$`. `quoted`: inside double quotes or a here-document.
    pub(super) fn dollar(&mut self, built: &mut Builder, quoted: bool) -> Step<()> {
        self.bump();
        match self.peek() {
            Some(b'(') if self.second() == Some(b'(') && self.is_arithmetic()? => {
                built.run_time(false);
                self.enter()?;
                self.take_two();
                self.arithmetic(End::Double)?;
                self.leave();
            }
            Some(b'(') => {
                let from = self.found();
                self.substitution()?;
                built.run_time(!self.prints_a_number(from));
            }
            Some(b'{') => {
                let number = self.parameter(quoted)?;
                built.run_time(!number);
            }
            Some(b'[') => {
                built.run_time(false);
                self.enter()?;
                self.bump();
                self.arithmetic(End::Bracket)?;
                self.leave();
            }
            Some(b'\'') if !quoted => self.ansi(built)?,
            Some(b'"') if !quoted => {
                // Translated by a catalogue that the environment names.
                built.run_time(true);
                self.double(built)?;
            }
            Some(byte) if name_start(byte) => {
                built.run_time(true);
                self.name();
            }
            Some(byte) if byte.is_ascii_digit() || b"@*-_".contains(&byte) => {
                built.run_time(true);
                self.bump();
            }
            Some(b'#' | b'?' | b'$' | b'!') => {
                built.run_time(false);
                self.bump();
            }
            _ => built.push("$"),
        }
        Ok(())
    }

    /// Reads a name, which may be empty.
    pub(super) fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek() {
            if !name_start(byte) && !byte.is_ascii_digit() {
                break;
            }
            name.push(char::from(byte));
            self.bump();
        }
        name
    }

    /// `(list)` of `$(…)`, `<(…)` and `>(…)`, at the parenthesis.
    pub(super) fn substitution(&mut self) -> Step<()> {
        self.enter()?;
        self.bump();
        let context = std::mem::replace(&mut self.context, Context::Substitution);
        let waiting = std::mem::take(&mut self.here);
        let held = self.held;
        self.held |= !waiting.is_empty();
        self.open += 1;
        self.list()?;
        if !self.take(b')') {
            return self.stop("a substitution without its end");
        }
        if !self.here.is_empty() {
            return self.stop("a here-document that does not end inside its substitution");
        }
        self.open -= 1;
        self.inside &= self.open > 0;
        self.held = held;
        self.here = waiting;
        self.context = context;
        self.leave();
        Ok(())
    }

    /// `` `…` ``, at the backtick. The text is unescaped once and read as a text of its own.
    pub(super) fn backticks(&mut self, quoted: bool) -> Step<()> {
        let at = self.pos;
        self.bump();
        let mut text = String::new();
        let mut from = self.pos;
        loop {
            match self.byte(self.pos) {
                None => {
                    self.pos = at;
                    return self.stop("a backtick without its end");
                }
                Some(b'`') => break,
                // Shells differ in what a quote is here.
                Some(b'"') if quoted => {
                    return self.stop("a double quote between backticks between double quotes");
                }
                Some(b'\\') => {
                    if matches!(self.byte(self.pos + 1), Some(b'`' | b'$' | b'\\')) {
                        text.push_str(self.slice(from, self.pos));
                        from = self.pos + 1;
                    }
                    self.pos += 2;
                }
                Some(b'\n') => {
                    self.quoted_newline()?;
                    self.bump();
                }
                Some(_) => self.bump(),
            }
        }
        text.push_str(self.slice(from, self.pos));
        self.bump();
        self.enter()?;
        let mut inner = Reader::new(&text, self.shared, Context::Substitution);
        inner.whole()?;
        self.leave();
        Ok(())
    }

    /// `${…}`, at the brace. Says whether it can only be a number.
    fn parameter(&mut self, quoted: bool) -> Step<bool> {
        self.enter()?;
        self.bump();
        let mut number = false;
        let mut indirect = false;
        match self.peek() {
            Some(b'#') if self.second() != Some(b'}') => {
                number = true;
                self.bump();
            }
            Some(b'!') if self.second() != Some(b'}') => {
                indirect = true;
                self.bump();
            }
            _ => {}
        }
        let sigil = self.peek();
        let name = self.parameter_name()?;
        if indirect && name.is_empty() && sigil != Some(b'#') {
            self.doubt("an argument is used as the name of a variable");
        }
        if self.peek() == Some(b'[') && !name.is_empty() {
            self.subscript()?;
        }
        match self.peek() {
            Some(b'}') if indirect => self.shared.evaluated.push(name),
            // `${!prefix*}` and `${!prefix@}` are names, not values.
            Some(b'*' | b'@') if indirect && self.second() == Some(b'}') => self.bump(),
            _ if indirect => {
                self.shared.evaluated.push(name.clone());
                self.operator(quoted, name)?;
            }
            Some(b'}') => {}
            _ => {
                number = false;
                self.operator(quoted, name)?;
            }
        }
        if !self.take(b'}') {
            return self.stop("a parameter expansion that is not understood");
        }
        self.leave();
        Ok(number)
    }

    fn parameter_name(&mut self) -> Step<String> {
        match self.peek() {
            Some(byte) if name_start(byte) => Ok(self.name()),
            Some(byte) if byte.is_ascii_digit() => {
                while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    self.bump();
                }
                Ok(String::new())
            }
            Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                self.bump();
                Ok(String::new())
            }
            _ => self.stop("a parameter expansion that is not understood"),
        }
    }

    /// What follows the name: `:-word`, `#pattern`, `/from/to`, `:1:2`, `^`, `@Q`.
    fn operator(&mut self, quoted: bool, name: String) -> Step<()> {
        let next = self.peek();
        if next == Some(b'=') || (next == Some(b':') && self.second() == Some(b'=')) {
            self.indirect_name(&name);
            self.shared.tainted.push(name);
        }
        match next {
            Some(b':') if !matches!(self.second(), Some(b'-' | b'=' | b'?' | b'+')) => {
                self.bump();
                self.arithmetic(End::Brace)
            }
            Some(b'@') => {
                self.bump();
                match self.peek() {
                    Some(b'P') => self.stop("an expansion that runs its value as a prompt"),
                    Some(byte) if byte.is_ascii_alphabetic() => {
                        self.bump();
                        Ok(())
                    }
                    _ => self.stop("a parameter expansion that is not understood"),
                }
            }
            Some(b':' | b'-' | b'=' | b'?' | b'+' | b'#' | b'%' | b'/' | b'^' | b',' | b'~') => {
                self.bump();
                self.parameter_word(quoted)
            }
            _ => self.stop("a parameter expansion that is not understood"),
        }
    }

    /// The word inside `${x:-word}`, up to the brace that ends it.
    fn parameter_word(&mut self, quoted: bool) -> Step<()> {
        let mut inner = Builder::default();
        loop {
            match self.peek() {
                None => return self.stop("a parameter expansion without its end"),
                Some(b'}') => return Ok(()),
                // Inside double quotes it is a quote behind some operators and none behind others.
                Some(b'\'') if quoted => {
                    return self.stop("a single quote in an expansion between double quotes");
                }
                Some(b'\'') => self.single(&mut inner)?,
                Some(b'"') => self.double(&mut inner)?,
                Some(b'\\') => {
                    if self.byte(self.pos + 1).is_none() {
                        return self.stop("a backslash with nothing behind it");
                    }
                    self.pos += 2;
                }
                Some(b'$') => self.dollar(&mut inner, quoted)?,
                Some(b'`') => self.backticks(quoted)?,
                Some(b'<' | b'>') if !quoted && self.second() == Some(b'(') => {
                    self.bump();
                    self.peek();
                    self.substitution()?;
                }
                Some(b'\n') => {
                    self.quoted_newline()?;
                    self.bump();
                }
                Some(_) => self.bump(),
            }
        }
    }

    /// `[…]` behind a name, at the bracket: an index or a key.
    pub(super) fn subscript(&mut self) -> Step<()> {
        self.enter()?;
        self.bump();
        let mut inner = Builder::default();
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None | Some(b'\n' | b';' | b'|' | b'<' | b'>' | b'{' | b'}' | b'\\') => {
                    return self.stop("a subscript that is not understood");
                }
                Some(b'[') => {
                    depth += 1;
                    self.bump();
                }
                Some(b']') if depth == 0 => break,
                Some(b']') => {
                    depth -= 1;
                    self.bump();
                }
                Some(b'\'') => self.single(&mut inner)?,
                Some(b'"') => self.double(&mut inner)?,
                Some(b'$') => self.evaluated_dollar(&mut inner)?,
                Some(b'`') => self.backticks(false)?,
                Some(byte) if name_start(byte) => {
                    let name = self.name();
                    self.shared.evaluated.push(name);
                }
                Some(_) => self.bump(),
            }
        }
        self.bump();
        self.leave();
        Ok(())
    }

    /// An expansion inside arithmetic: its value is evaluated again.
    fn evaluated_dollar(&mut self, inner: &mut Builder) -> Step<()> {
        let at = self.pos;
        let mut own = Builder::default();
        self.dollar(&mut own, true)?;
        let text = self.slice(at, self.pos);
        let name = text.trim_start_matches(['$', '{', '!']);
        let end = name
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(name.len());
        let name = name.get(..end).unwrap_or_default();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            // `$(…)`, `$1`, `$@`: not a name that the line could be asked about.
            if own.is_risky() {
                self.doubt("text of a command or an argument is evaluated as arithmetic");
            }
        } else {
            self.shared.evaluated.push(name.to_owned());
        }
        inner.run_time(false);
        Ok(())
    }

    /// Whether `((`, which is next, begins arithmetic; otherwise it is two subshells.
    pub(super) fn is_arithmetic(&mut self) -> Step<bool> {
        let mut at = self.pos + 2;
        let mut depth = 1_usize;
        loop {
            match self.byte(at) {
                None => return self.stop("double parentheses without their end"),
                Some(b'\\') => at += 1,
                Some(quote @ (b'\'' | b'"')) => {
                    at += 1;
                    while self.byte(at).is_some_and(|byte| byte != quote) {
                        at += if self.byte(at) == Some(b'\\') && quote == b'"' {
                            2
                        } else {
                            1
                        };
                    }
                }
                Some(b'(') => depth += 1,
                Some(b')') if depth > 1 => depth -= 1,
                Some(b')') => return Ok(self.byte(at + 1) == Some(b')')),
                Some(_) => {}
            }
            at += 1;
        }
    }

    /// An arithmetic expression and its end. Strict: what could be a command is a doubt.
    pub(super) fn arithmetic(&mut self, end: End) -> Step<()> {
        const ODD: &str = "an arithmetic expression that is not understood";
        let mut groups: Vec<u8> = Vec::new();
        let mut last = Last::Operator;
        let mut inner = Builder::default();
        loop {
            let Some(byte) = self.peek() else {
                return self.stop("an arithmetic expression without its end");
            };
            let outermost = groups.is_empty();
            match (byte, end) {
                (b')', End::Double | End::Part) if outermost => {
                    if self.second() != Some(b')') {
                        return self.stop(ODD);
                    }
                    if end == End::Double {
                        self.take_two();
                    }
                    return Ok(());
                }
                (b']', End::Bracket) if outermost => {
                    self.bump();
                    return Ok(());
                }
                (b';', End::Part) | (b'}', End::Brace) if outermost => return Ok(()),
                _ => {}
            }
            let operand = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'`');
            if operand && last == Last::Spaced {
                return self.stop(ODD);
            }
            match byte {
                b' ' | b'\t' | b'\n' => {
                    if byte == b'\n' {
                        self.quoted_newline()?;
                    }
                    if last == Last::Operand {
                        last = Last::Spaced;
                    }
                    self.bump();
                    continue;
                }
                b'(' | b'[' => {
                    groups.push(if byte == b'(' { b')' } else { b']' });
                    self.bump();
                    last = Last::Operator;
                    continue;
                }
                b')' | b']' => {
                    if groups.pop() != Some(byte) {
                        return self.stop(ODD);
                    }
                    self.bump();
                }
                b'0'..=b'9' => {
                    while self
                        .peek()
                        .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'#')
                    {
                        self.bump();
                    }
                }
                b'$' => self.evaluated_dollar(&mut inner)?,
                b'`' => {
                    self.backticks(end != End::Bracket)?;
                    self.doubt("text of a command or an argument is evaluated as arithmetic");
                }
                _ if operand => {
                    let name = self.name();
                    self.shared.evaluated.push(name);
                }
                _ if b"+-*/%<>=!&|^~?:,".contains(&byte) => {
                    self.bump();
                    last = Last::Operator;
                    continue;
                }
                _ => return self.stop(ODD),
            }
            last = Last::Operand;
        }
    }
}
