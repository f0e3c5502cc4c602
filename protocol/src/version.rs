//! The greeting: version and build must be equal, because both halves ship together.

use serde::{Deserialize, Serialize};

use crate::SessionId;

/// Raised with each change that an older half would misread.
pub const PROTOCOL_VERSION: u32 = 1;

/// Package version and a hash over the treaty's sources: equal or refuse.
pub const BUILD: &str = env!("PROVOST_BUILD");

/// The agent's role word.
pub const ROLE_AGENT: &str = "agent";
/// The role word of hands.
pub const ROLE_HANDS: &str = "hands";
/// The reader's role word.
pub const ROLE_READER: &str = "reader";

/// What each side says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of the speaker.
    pub version: u32,
    /// [`BUILD`] of the speaker.
    pub build: String,
    /// The speaker's role word.
    pub role: String,
    /// The session that it believes to serve.
    pub session: SessionId,
}

/// Why a greeting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another protocol version or build.
    #[error(
        "the worker is build `{theirs}`, the supervisor is build `{ours}`: install both from one release"
    )]
    Build {
        /// Ours.
        ours: String,
        /// Theirs, cut to 80 characters.
        theirs: String,
    },
    /// Another role on this link.
    #[error("expected the role `{expected}` on this link, got `{got}`")]
    Role {
        /// The role that this link belongs to.
        expected: &'static str,
        /// What was said, cut to 80 characters.
        got: String,
    },
    /// Another session.
    #[error("the greeting names another session")]
    Session,
}

impl Hello {
    /// The greeting of this build in the given role.
    #[must_use]
    pub fn new(role: &str, session: SessionId) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            build: BUILD.to_owned(),
            role: role.to_owned(),
            session,
        }
    }

    /// Checks a peer's greeting.
    ///
    /// # Errors
    /// [`Mismatch`] names what differs.
    pub fn check(&self, role: &'static str, session: &SessionId) -> Result<(), Mismatch> {
        if self.version != PROTOCOL_VERSION || self.build != BUILD {
            return Err(Mismatch::Build {
                ours: BUILD.to_owned(),
                theirs: self.build.chars().take(80).collect(),
            });
        }
        if self.role != role {
            return Err(Mismatch::Role {
                expected: role,
                got: self.role.chars().take(80).collect(),
            });
        }
        if &self.session != session {
            return Err(Mismatch::Session);
        }
        Ok(())
    }
}
