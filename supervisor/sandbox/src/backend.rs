//! How the outer box is made: one trait, and what stands behind it is the caller's choice once.

use std::sync::Arc;

use protocol::jail::JailSpec;

use crate::{
    cgroup::Group,
    launch::{Jail, LaunchError, launch_in},
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
#[derive(Debug, Clone)]
pub struct Landlock {
    /// The control groups that its boxes stand in.
    pub group: Arc<Group>,
}

impl Backend for Landlock {
    fn launch(&self, spec: &JailSpec, worker: &WorkerBinary) -> Result<Jail, LaunchError> {
        launch_in(spec, worker, Some(&self.group))
    }
}
