//! What the record keeps of a session's set-up, for `resume` and for review.

use serde::{Deserialize, Serialize};
use supervisor_core::ModelName;

use super::{Account, setup::Setup};

/// What `resume` needs of a session, as [`supervisor_core::Entry::Started`] keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    /// Policy, mode, workspace, databases.
    pub(crate) setup: Setup,
    /// Provider.
    pub(crate) provider: String,
    /// Model.
    pub(crate) model: String,
    /// The rest of the route.
    #[serde(default)]
    pub(crate) fallbacks: Vec<ModelName>,
    /// The conversation file of the script provider.
    pub(crate) script: Option<String>,
    /// Wall time in seconds.
    pub(crate) wall: u64,
    /// What the session may cost by the command line, in US dollars.
    #[serde(default)]
    pub(crate) max_cost: Option<f64>,
    /// The user id that owns the session's tree, when the supervisor is root.
    pub(crate) uid: Option<u32>,
    /// The account that a root supervisor's session works for.
    #[serde(default)]
    pub(crate) account: Option<Account>,
    /// Hidden paths that were left out of the copy, at most 100.
    pub(crate) hidden: Vec<String>,
    /// Tools on offer; all if empty.
    pub(crate) tools: Vec<String>,
    /// How the session's changes are held.
    #[serde(default)]
    pub(crate) holding: Holding,
}

/// How a session's changes are held until they are applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Holding {
    /// In a copy of the workspace.
    #[default]
    Copy,
    /// In a layer above the workspace, whose files belong to this owner.
    Overlay(protocol::jail::Identity),
}

impl Holding {
    /// What a reader of the session's tree must know of it.
    pub(crate) fn tree(self) -> protocol::reader::TreeKind {
        match self {
            Self::Copy => protocol::reader::TreeKind::Copy,
            Self::Overlay(_) => protocol::reader::TreeKind::Upper,
        }
    }
}
