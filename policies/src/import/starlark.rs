//! The little of Starlark that rule files use: calls with named arguments of strings, lists, tuples
//! and words. Anything else is a fault with its line.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A string.
    Text(String),
    /// A list or tuple.
    List(Vec<Value>),
    /// `True`, `None`, a number.
    Word(String),
}

/// A call: its name, its named arguments, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<(String, Value)>,
    pub(super) line: usize,
}

/// Levels of lists.
const DEPTH: usize = 8;
/// Calls of a file.
const CALLS: usize = 5_000;

struct Cursor<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl Cursor<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn blanks(&mut self) {
        while let Some(&c) = self.chars.peek() {
            if c == '#' {
                while self.chars.peek().is_some_and(|c| *c != '\n') {
                    self.next();
                }
            } else if c.is_whitespace() || c == '\\' {
                self.next();
            } else {
                return;
            }
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        self.blanks();
        let found = self.chars.peek() == Some(&wanted);
        if found {
            self.next();
        }
        found
    }

    fn fault<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("line {}: {what}", self.line))
    }

    fn word(&mut self) -> String {
        self.blanks();
        let mut word = String::new();
        while let Some(&c) = self.chars.peek() {
            if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-') {
                break;
            }
            word.push(c);
            self.next();
        }
        word
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH {
            return self.fault("lists in lists in lists");
        }
        self.blanks();
        match self.chars.peek() {
            Some('"' | '\'') => {
                let mut text = self.text()?;
                // Strings beside each other are one.
                loop {
                    self.blanks();
                    match self.chars.peek() {
                        Some('"' | '\'') => text.push_str(&self.text()?),
                        _ => return Ok(Value::Text(text)),
                    }
                }
            }
            Some(&open @ ('[' | '(')) => {
                self.next();
                let close = if open == '[' { ']' } else { ')' };
                let mut items = Vec::new();
                loop {
                    if self.take(close) {
                        return Ok(Value::List(items));
                    }
                    items.push(self.value(depth + 1)?);
                    if items.len() > CALLS {
                        return self.fault("a list without end");
                    }
                    if !self.take(',') {
                        return match self.take(close) {
                            true => Ok(Value::List(items)),
                            false => self.fault("a list that does not end"),
                        };
                    }
                }
            }
            _ => {
                let word = self.word();
                if word.is_empty() {
                    return self.fault("a value that is no string, list or word");
                }
                Ok(Value::Word(word))
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let Some(quote) = self.next() else {
            return self.fault("a string that does not begin");
        };
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return self.fault("a string that does not end"),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                    _ => return self.fault("an escape that is not known"),
                },
                Some(c) if c == quote => return Ok(text),
                Some(c) => text.push(c),
            }
        }
    }
}

/// The calls of a file.
pub(super) fn calls(text: &str) -> Result<Vec<Call>, String> {
    let mut cursor = Cursor {
        chars: text.chars().peekable(),
        line: 1,
    };
    let mut calls = Vec::new();
    loop {
        cursor.blanks();
        if cursor.chars.peek().is_none() {
            return Ok(calls);
        }
        let line = cursor.line;
        let name = cursor.word();
        if name.is_empty() || !cursor.take('(') {
            return cursor.fault("only calls with named arguments are read");
        }
        let mut arguments = Vec::new();
        while !cursor.take(')') {
            let key = cursor.word();
            if key.is_empty() || !cursor.take('=') {
                return cursor.fault("an argument without its name");
            }
            arguments.push((key, cursor.value(0)?));
            cursor.blanks();
            if !cursor.take(',') && cursor.chars.peek() != Some(&')') {
                return cursor.fault("a call that does not end");
            }
        }
        calls.push(Call {
            name,
            arguments,
            line,
        });
        if calls.len() > CALLS {
            return cursor.fault("more calls than are read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_and_anything_else_is_a_fault() {
        let text = "# rules\nprefix_rule(\n  pattern = [\"git\", [\"push\", 'fetch']],\n  decision = \"prompt\", # why\n  match = [\"git push\"],\n)\nx(a=True, b=())\n";
        let found = calls(text).expect("reads");
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].line), ("prefix_rule", 2));
        let word = |text: &str| Value::Text(text.into());
        assert_eq!(
            found[0].arguments[0],
            (
                "pattern".into(),
                Value::List(vec![
                    word("git"),
                    Value::List(vec![word("push"), word("fetch")])
                ])
            )
        );
        assert_eq!(found[1].arguments[1].1, Value::List(vec![]));
        for text in [
            "x",
            "x(",
            "x(a)",
            "x(a=",
            "x(a=[1",
            "x(a='b)",
            "if True: pass",
            "def f(): pass",
            "x = 1",
            "load('a')",
            "x(a='\\z')",
            "x(a=[[[[[[[[[[[]]]]]]]]]]])",
        ] {
            assert!(calls(text).is_err(), "{text}");
        }
        assert_eq!(calls(" # nothing\n").expect("reads"), vec![]);
    }
}
