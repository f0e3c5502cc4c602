//! Splits SQL text as SQLite does: strings, quoted names, comments, words and single marks.

/// One piece of a query; comments and blanks are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lexeme {
    /// A bare word or number.
    Word(String),
    /// A quoted identifier, quotes removed.
    Name(String),
    /// A string, quotes removed.
    Text(String),
    /// `;`.
    Semicolon,
    /// Any other character.
    Mark(char),
    /// A string or name that never closes: it takes the rest of the text.
    Broken(String),
}

impl Lexeme {
    /// The piece's text, for messages.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Word(text) | Self::Name(text) | Self::Text(text) | Self::Broken(text) => {
                text.clone()
            }
            Self::Semicolon => ";".to_owned(),
            Self::Mark(mark) => mark.to_string(),
        }
    }
}

/// Splits a query.
pub(super) fn lex(query: &str) -> Vec<Lexeme> {
    let mut lexemes = Vec::new();
    let mut rest = query.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // SQLite's own blanks; U+FEFF and the other Unicode blanks are words to it.
            ' ' | '\t' | '\n' | '\u{c}' | '\r' => {}
            ';' => lexemes.push(Lexeme::Semicolon),
            '-' if rest.peek() == Some(&'-') => {
                for skipped in rest.by_ref() {
                    if skipped == '\n' {
                        break;
                    }
                }
            }
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                let mut before = ' ';
                for skipped in rest.by_ref() {
                    if before == '*' && skipped == '/' {
                        break;
                    }
                    before = skipped;
                }
            }
            '\'' | '"' | '`' | '[' => lexemes.push(quoted(c, &mut rest)),
            _ if is_word(c) => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| is_word(*c)) {
                    word.push(c);
                }
                lexemes.push(Lexeme::Word(word));
            }
            _ => lexemes.push(Lexeme::Mark(c)),
        }
    }
    lexemes
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

fn quoted(open: char, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Lexeme {
    let close = if open == '[' { ']' } else { open };
    let mut text = String::new();
    while let Some(c) = rest.next() {
        if c != close {
            text.push(c);
        } else if close != ']' && rest.peek() == Some(&close) {
            // A doubled quote stands for itself.
            rest.next();
            text.push(close);
        } else if open == '\'' {
            return Lexeme::Text(text);
        } else {
            return Lexeme::Name(text);
        }
    }
    Lexeme::Broken(text)
}
