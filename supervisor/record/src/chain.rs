//! The audit chain: each record carries the hash of the one before it, and a head names them all.

use protocol::{Digest, SessionId};
use serde::{Deserialize, Serialize};

/// What stands before a session's first record; names the session, so that a chain cannot be passed
/// off as another's.
pub(crate) fn genesis(session: &SessionId) -> Digest {
    Digest::of_parts([b"provost audit 1\0".as_slice(), session.as_str().as_bytes()])
}

/// What stands before the first checkpoint.
pub(crate) fn checkpoint_genesis() -> Digest {
    Digest::of(b"provost checkpoints 1\0")
}

/// Hash of one record. Each part has a fixed length or ends with NUL, so that no two records have
/// the same bytes.
pub(crate) fn link(prev: &str, seq: u64, time_ms: u64, kind: &str, body: &str) -> Digest {
    Digest::of_parts([
        prev.as_bytes(),
        b"\0",
        &seq.to_be_bytes(),
        &time_ms.to_be_bytes(),
        kind.as_bytes(),
        b"\0",
        body.as_bytes(),
    ])
}

/// The last record of a session's audit chain. Kept elsewhere, it proves that no tail was cut.
///
/// As text: `SESSION:SEQ:HASH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AuditHead {
    /// The session.
    pub session: SessionId,
    /// Sequence number of the record, from 1.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
}

/// A text that is not an audit head.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed audit head `{word}`: expected `SESSION:SEQ:HASH` as a run prints it")]
pub struct MalformedHead {
    word: String,
}

impl std::fmt::Display for AuditHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.session, self.seq, self.hash)
    }
}

impl std::str::FromStr for AuditHead {
    type Err = MalformedHead;

    fn from_str(word: &str) -> Result<Self, MalformedHead> {
        let parse = || {
            let (session, rest) = word.trim().split_once(':')?;
            let (seq, hash) = rest.split_once(':')?;
            Some(Self {
                session: SessionId::parse(session).ok()?,
                seq: seq.parse().ok().filter(|seq| *seq > 0)?,
                hash: Digest::parse(hash).ok()?,
            })
        };
        parse().ok_or_else(|| MalformedHead {
            word: word.chars().take(80).collect(),
        })
    }
}

impl TryFrom<String> for AuditHead {
    type Error = MalformedHead;
    fn try_from(word: String) -> Result<Self, MalformedHead> {
        word.parse()
    }
}

impl From<AuditHead> for String {
    fn from(head: AuditHead) -> String {
        head.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_being_written_down() {
        let head = AuditHead {
            session: SessionId::parse("s-1").expect("valid"),
            seq: 7,
            hash: Digest::of(b"x"),
        };
        assert_eq!(head.to_string().parse::<AuditHead>().expect("parses"), head);
        for word in ["", "s-1:7", "s-1:0:aa", "../x:1:aa", "s-1:x:aa"] {
            assert!(word.parse::<AuditHead>().is_err(), "{word}");
        }
    }

    #[test]
    fn the_parts_of_a_record_cannot_be_moved_into_one_another() {
        let one = link("p", 1, 2, "ab", "c");
        assert_ne!(one, link("p", 1, 2, "a", "bc"));
        assert_ne!(one, link("p", 2, 1, "ab", "c"));
        assert_ne!(
            genesis(&SessionId::parse("a").expect("valid")),
            genesis(&SessionId::parse("b").expect("valid"))
        );
    }
}
