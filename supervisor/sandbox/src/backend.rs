//! How the outer box is made: one trait, and what stands behind it is the caller's choice once.

use protocol::jail::JailSpec;

use crate::{
    launch::{Jail, LaunchError, launch},
    worker::WorkerBinary,
};

/// Makes boxes. Whatever the backend, the same worker plays the same roles over the same links.
pub trait Backend: std::fmt::Debug + Send + Sync {
    /// Starts a box from `spec` and waits, within bounds, until it stands.
    ///
    /// # Errors
    /// [`LaunchError`]; nothing of the box is left by then.
    fn launch(&self, spec: &JailSpec, worker: &WorkerBinary) -> Result<Jail, LaunchError>;
}

/// Boxes of the kernel's own means: namespaces where there are any, Landlock and seccomp.
#[derive(Debug, Clone, Copy)]
pub struct Landlock;

impl Backend for Landlock {
    fn launch(&self, spec: &JailSpec, worker: &WorkerBinary) -> Result<Jail, LaunchError> {
        launch(spec, worker)
    }
}
