//! Remembers: sessions, events, audit chains, usage and blobs of one account, shared by all its supervisors.
//!
//! | module | keeps |
//! | --- | --- |
//! | [`Places`] | where configuration, record and sockets lie, and that nobody else can write there |
//! | [`Record`] | one SQLite file in WAL mode; a transaction per [`Record::append`] |
//! | [`SessionLock`] | that one supervisor at a time serves a session |
//! | [`AuditHead`], [`AuditFault`] | a hash chain per session, and what is wrong with one |
//! | [`Checkpoint`] | the heads of all chains, chained and signed |
//! | [`History`] | what a session said, as a fold of its entries |
//!
//! **Durable** means: written to the WAL before [`Record::append`] returns, so that it survives the
//! death of any process. Entries that [`is_full`](supervisor_core::Entry::is_full) are also flushed
//! to the disk, and with them everything before.
//!
//! What is absent: no decision, no network, no key but those that its [`Masker`] looks for in all that is
//! written, no clock (times are passed in) and no async: callers choose the thread.

mod append;
mod blobs;
mod breakers;
mod chain;
mod checkpoint;
mod export;
mod fault;
mod grants;
mod history;
mod lock;
mod money;
mod orphan;
mod places;
mod read;
mod record;
mod schema;
mod sign;
mod usage;
mod verify;

pub use append::AppendError;
pub use blobs::BlobError;
pub use chain::{AuditHead, MalformedHead};
pub use checkpoint::Checkpoint;
pub use export::{ExportError, Exported, ExportedRecord, verify_export};
pub use fault::{AuditFault, FaultKind};
pub use grants::{Grant, GrantKind};
pub use history::{Begun, History, history};
pub use lock::{LockError, SessionLock};
pub use money::{Holding, Spent};
pub use orphan::{Orphan, OrphanError};
pub use places::{PlaceError, Places};
pub use read::{ReadError, SessionRow, Stored};
pub use record::{NewSession, OpenError, Record};
pub use sign::{KeyError, public_keys};
pub use supervisor_core::{MASKED, MaskStream, Masker};
pub use usage::{UsageBy, UsageRow};
