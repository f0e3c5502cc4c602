//! What a `reader` is sent to do: read or apply what crosses a jail's edge, as the asking account.
//!
//! One process does one errand: the spec comes on descriptor 2, the finding goes out as frames on
//! descriptor 0, then it leaves. Large lists travel as several [`Finding::Changes`] frames.

use serde::{Deserialize, Serialize};

use crate::{Digest, SessionId, call::SqlAnswer, call::Table, jail::Identity};

/// Everything that `provost-worker reader` needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReaderSpec {
    /// Build of the writer; must equal the reader's.
    pub build: String,
    /// The session.
    pub session: SessionId,
    /// The account to become before anything is opened, when the supervisor is root and works for
    /// somebody; `None` keeps the supervisor's own.
    #[serde(default)]
    pub account: Option<Identity>,
    /// The errand.
    pub errand: Errand,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Errand {
    /// Copy a workspace into an empty session tree and write the manifest.
    CopyIn {
        /// The workspace on the host.
        workspace: String,
        /// The empty folder that becomes the session's tree.
        tree: String,
        /// The manifest to write: JSON Lines of [`ManifestEntry`].
        manifest: String,
        /// Globs (gitignore syntax, from the workspace root) that are left out.
        hide: Vec<String>,
        /// Bound on bytes.
        max_bytes: u64,
        /// Bound on entries.
        max_entries: u64,
        /// Who owns the copy, when the supervisor is root.
        owner: Option<Identity>,
    },
    /// Look through a workspace that becomes the lower folder of an overlay: write the manifest
    /// (without digests) and prepare the layer above, so that what is hidden, special or unreadable
    /// cannot be seen through it.
    Prepare {
        /// The workspace on the host.
        workspace: String,
        /// The empty folder that becomes the layer.
        tree: String,
        /// The manifest to write: JSON Lines of [`ManifestEntry`].
        manifest: String,
        /// Globs (gitignore syntax, from the workspace root) that are hidden.
        hide: Vec<String>,
        /// Bound on entries.
        max_entries: u64,
        /// Who owns the layer, when the supervisor is root.
        owner: Option<Identity>,
    },
    /// List what a dead session changed, beside its manifest.
    List {
        /// The sealed tree.
        tree: String,
        /// What the tree is.
        #[serde(default)]
        kind: TreeKind,
        /// The manifest.
        manifest: String,
        /// Globs that were left out of the copy: never reported as deleted, never applied.
        hide: Vec<String>,
        /// The workspace, for counting the lines of changed text; `None` counts new files only.
        #[serde(default)]
        workspace: Option<String>,
    },
    /// Write the changes as one git-extended patch.
    Patch {
        /// The sealed tree.
        tree: String,
        /// What the tree is.
        #[serde(default)]
        kind: TreeKind,
        /// The manifest.
        manifest: String,
        /// The workspace, for the old contents.
        workspace: String,
        /// The patch to write.
        out: String,
        /// Globs that were left out of the copy.
        hide: Vec<String>,
        /// Paths to leave out of the patch (protected names).
        skip: Vec<String>,
    },
    /// Put the changes into the workspace: planned first, then by exchange, each journaled.
    Apply {
        /// The sealed tree.
        tree: String,
        /// What the tree is.
        #[serde(default)]
        kind: TreeKind,
        /// The manifest.
        manifest: String,
        /// The workspace.
        workspace: String,
        /// The journal to write: JSON Lines, one per change done.
        journal: String,
        /// Exactly what was shown and chosen.
        changes: Vec<Change>,
    },
    /// Put back what tools changed in a sealed tree: all of it or, if anything is not as a tool left
    /// it, nothing.
    Restore {
        /// The sealed tree.
        tree: String,
        /// What the tree is.
        kind: TreeKind,
        /// The manifest.
        manifest: String,
        /// One a path.
        steps: Vec<Step>,
    },
    /// Run one query on one database file.
    Query {
        /// The file.
        database: String,
        /// The query, already read by the law.
        query: String,
        /// Rows to return.
        max_rows: u32,
        /// Tables that may be read; empty means all.
        tables: Vec<String>,
    },
    /// List tables and columns of one database file.
    Tables {
        /// Name for the answer.
        name: String,
        /// The file.
        database: String,
        /// Tables that may be told; empty means all.
        tables: Vec<String>,
    },
    /// Count what a live session's tree holds, links not followed, sparse files as they are stored.
    Measure {
        /// The tree.
        tree: String,
    },
    /// Remove a session's folder content (tree, manifest, journal), whatever lies in it.
    Remove {
        /// The folder.
        folder: String,
    },
}

/// One file to put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Path relative to the root, escaped as in [`ManifestEntry::path`].
    pub path: String,
    /// Digests of the contents that tools left or found there: it must be one of these now.
    pub known: Vec<Digest>,
    /// What it was before; `None` if a tool made the file.
    pub before: Option<Kept>,
}

/// A content that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Its digest.
    pub digest: Digest,
    /// The file on the host that holds it.
    pub file: String,
}

/// What a session's tree is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeKind {
    /// A copy of the workspace: what is not in it was removed.
    #[default]
    Copy,
    /// The layer of an overlay: what is not in it is as in the workspace.
    Upper,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Finding {
    /// The copy stands.
    Copied {
        /// Entries copied.
        entries: u64,
        /// Bytes copied.
        bytes: u64,
        /// Entries left out because they are hidden, at most 100 relative paths.
        hidden: Vec<String>,
        /// Entries left out because they are sockets, FIFOs, devices or unreadable, at most 100
        /// relative paths, each with the reason in brackets.
        skipped: Vec<String>,
    },
    /// The layer of an overlay is prepared.
    Prepared {
        /// Entries of the workspace.
        entries: u64,
        /// Who owns all of them.
        owner: Identity,
        /// Entries that are hidden, at most 100 relative paths.
        hidden: Vec<String>,
        /// Entries that cannot be seen because they are sockets, FIFOs, devices or unreadable, at
        /// most 100 relative paths, each with the reason in brackets.
        skipped: Vec<String>,
    },
    /// A page of changes; the last page has `more` false.
    Changes {
        /// The changes, sorted by path.
        changes: Vec<Change>,
        /// Whether another page follows.
        more: bool,
        /// What is never applied, with the reason in brackets, at most 100, on the last page:
        /// sockets, FIFOs, devices, hidden names, folders beyond the depth bound.
        #[serde(default)]
        skipped: Vec<String>,
    },
    /// The tree was counted.
    Measured {
        /// Bytes as stored.
        bytes: u64,
        /// Entries.
        entries: u64,
    },
    /// The patch is written.
    Patched {
        /// Bytes.
        bytes: u64,
        /// Digest.
        digest: Digest,
    },
    /// The changes are in.
    Applied {
        /// How many.
        changes: u64,
    },
    /// What tools changed is put back.
    Restored {
        /// How many files; those that were as before already are not counted.
        files: u64,
    },
    /// A query's answer.
    Rows(SqlAnswer),
    /// A database's tables.
    Tables {
        /// The tables.
        tables: Vec<Table>,
    },
    /// The folder is empty or gone.
    Removed,
    /// It could not be done; nothing, or what the journal says, was changed.
    Failed {
        /// What kind.
        class: ReaderFailure,
        /// What, where, what to do.
        message: String,
    },
}

/// Why an errand failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReaderFailure {
    /// A bound was crossed.
    Limit,
    /// The workspace moved on underneath; nothing was changed.
    Moved,
    /// The place is unfit (missing, not a folder, another owner).
    Unfit,
    /// The kernel refused or the disk failed.
    Io,
    /// The session's tree holds what cannot be applied (a special file, an odd name).
    Hostile,
}

/// One line of a manifest: what the workspace held when it was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    /// Path relative to the root; bytes that are not UTF-8 as `\xNN`, a backslash as `\\`.
    pub path: String,
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Device and inode in the workspace.
    pub identity: (u64, u64),
    /// Change time in the workspace, nanoseconds.
    pub ctime_ns: i128,
    /// Digest of a file's content or of a link's target; `None` below an overlay, where nothing is
    /// read before it was changed.
    pub digest: Option<Digest>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
}

/// One change of a session, named by digest: what is shown is what is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Path relative to the root, escaped as in [`ManifestEntry::path`].
    pub path: String,
    /// What it is now; `None` if it was removed.
    pub after: Option<Node>,
    /// What it was; `None` if it is new.
    pub before: Option<Node>,
    /// Lines added and removed, for text.
    pub lines: Option<(u64, u64)>,
}

/// A node's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits (0o644 or 0o755 class for files; setuid and setgid never).
    pub mode: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Digest of a file's content or of a link's target; `None` for a folder, and for the old state of
    /// what moved on below an overlay.
    pub digest: Option<Digest>,
}
