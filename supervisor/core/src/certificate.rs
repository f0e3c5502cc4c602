//! The certificate: which rights really held when a session started, by what, as its probes found.

use protocol::{Digest, Probe, Right};
use serde::{Deserialize, Serialize};

/// Which layers really held when the session started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The session's nonce, hex.
    pub nonce: String,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Unix time in milliseconds.
    pub time_ms: u64,
    /// Digest of the worker binary.
    pub worker: Digest,
    /// Digest of the policy.
    pub policy: Digest,
    /// Kernel release.
    pub kernel: String,
    /// Landlock ABI used.
    pub abi: u32,
    /// Landlock errata bits.
    pub errata: u32,
    /// `landlock` or `docker`.
    pub backend: String,
    /// `A` (namespaces), `B` (Landlock alone) or `C` (a container).
    pub situation: String,
    /// User id inside.
    pub uid: u32,
    /// Effective capabilities, hex.
    pub capabilities: String,
    /// The container, where an engine has made the box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Every right of the policy.
    pub rights: Vec<RightState>,
}

/// What the container engine said of a session's box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// The engine's version.
    pub engine: String,
    /// The OCI runtime.
    pub runtime: String,
    /// The image as it was asked for.
    pub image: String,
    /// The image's own id, a digest.
    pub image_id: String,
    /// What the engine may do on this host beyond what was asked of it.
    pub engine_access: String,
}

/// One right's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RightState {
    /// The right.
    pub right: Right,
    /// `required`, `preferred` or `off`.
    pub floor: protocol::Floor,
    /// Whether every probe of it held.
    pub held: bool,
    /// Whether the kernel enforces it, it is only watched, or nothing does.
    #[serde(default)]
    pub state: protocol::State,
    /// What enforces it here (`mount view + Landlock`).
    pub by: String,
    /// Its probes.
    pub probes: Vec<Probe>,
}

impl Certificate {
    /// Rights that are required and not held: not empty refuses the session.
    pub fn broken(&self) -> impl Iterator<Item = &RightState> {
        self.rights
            .iter()
            .filter(|state| state.floor == protocol::Floor::Required && !state.held)
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let wanted = self
            .rights
            .iter()
            .filter(|state| state.floor != protocol::Floor::Off);
        let (held, missing): (Vec<_>, Vec<_>) = wanted.partition(|state| state.held);
        let mut line = format!(
            "{} situation {} · Landlock ABI {} · uid {} · {} of {} rights held",
            self.backend,
            self.situation,
            self.abi,
            self.uid,
            held.len(),
            held.len() + missing.len()
        );
        if let Some(container) = &self.container {
            line.push_str(&format!(
                " · image {} ({}) · runtime {} · engine {}, access: {}",
                container.image,
                container.image_id,
                container.runtime,
                container.engine,
                container.engine_access
            ));
        }
        let (watched, missing): (Vec<_>, Vec<_>) = missing
            .into_iter()
            .partition(|state| state.state == protocol::State::Watched);
        for (word, states) in [("watched", watched), ("NOT held", missing)] {
            let names: Vec<_> = states.iter().map(|state| state.right.as_str()).collect();
            if !names.is_empty() {
                line.push_str(&format!(" · {word}: {}", names.join(", ")));
            }
        }
        line
    }
}
