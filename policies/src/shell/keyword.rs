//! Reserved words: which there are, and where one is next.

use super::cursor::{Reader, Step};

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
    pub(super) fn closes(self) -> bool {
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
    pub(super) fn accept(&mut self, wanted: Keyword) -> bool {
        match self.keyword() {
            Some((keyword, end)) if keyword == wanted => {
                self.pos = end;
                true
            }
            _ => false,
        }
    }

    /// Goes past `wanted`, which must be next, whatever lines come before it.
    pub(super) fn expect(&mut self, wanted: Keyword) -> Step<()> {
        self.lines()?;
        if self.accept(wanted) {
            Ok(())
        } else {
            self.stop("a compound command without its end")
        }
    }
}
