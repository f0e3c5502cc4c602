//! What can be wrong with an audit chain, in words.

use protocol::SessionId;
use serde::Serialize;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditFault {
    /// The session; `None` for the chain of checkpoints.
    pub session: Option<SessionId>,
    /// The record, by its number in the chain.
    pub seq: u64,
    /// What.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum FaultKind {
    /// Records from this one on are missing.
    Gap {
        /// The last one missing.
        to: u64,
    },
    /// Events between two that stand are missing (a message, for example); numbered as events.
    EventGap {
        /// The last one missing.
        to: u64,
    },
    /// The record was changed.
    Edit,
    /// The record was written anew, with its hash: the next one carries another.
    Rewritten,
    /// The record stands here but was made as another one.
    Reorder {
        /// The number that it was made with.
        made_as: u64,
    },
    /// The chain ends before this record, which a checkpoint or a head kept elsewhere names.
    Truncated {
        /// The last record that stands.
        ends_at: u64,
    },
    /// This record is not the one that a checkpoint or a head kept elsewhere names: the chain up to
    /// it was written anew.
    Forked,
    /// An event's body is not in the chain that it says it is in.
    Loose,
    /// A checkpoint that carries no signature.
    Unsigned,
    /// A checkpoint whose signature does not fit, or was made with a key that is not known.
    Forged,
    /// More faults than are told.
    More,
}

impl std::fmt::Display for AuditFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.session {
            Some(session) => write!(f, "session {session}, ")?,
            None => f.write_str("checkpoints, ")?,
        }
        let seq = self.seq;
        match self.kind {
            FaultKind::Gap { to } if to == seq => write!(f, "gap: record {seq} is missing"),
            FaultKind::Gap { to } => write!(f, "gap: records {seq} to {to} are missing"),
            FaultKind::EventGap { to } if to == seq => write!(f, "gap: event {seq} is missing"),
            FaultKind::EventGap { to } => write!(f, "gap: events {seq} to {to} are missing"),
            FaultKind::Edit => write!(f, "edit: record {seq} was changed after it was written"),
            FaultKind::Rewritten => {
                write!(
                    f,
                    "edit: record {seq} was written anew; the one after it carries another hash"
                )
            }
            FaultKind::Reorder { made_as } => {
                write!(f, "reorder: record {seq} was written as record {made_as}")
            }
            FaultKind::Truncated { ends_at } => {
                write!(
                    f,
                    "cut tail: record {seq} is known, the chain ends at {ends_at}"
                )
            }
            FaultKind::Forked => {
                write!(
                    f,
                    "fork: record {seq} is not the one that was noted; the chain was written anew"
                )
            }
            FaultKind::Loose => write!(f, "edit: event {seq} is not what its audit record says"),
            FaultKind::Unsigned => write!(f, "unsigned: checkpoint {seq} carries no signature"),
            FaultKind::Forged => write!(
                f,
                "forged: the signature of checkpoint {seq} is not that of a known key"
            ),
            FaultKind::More => write!(f, "more faults from record {seq} on are not listed"),
        }
    }
}
