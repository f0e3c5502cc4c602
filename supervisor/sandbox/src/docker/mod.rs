//! Boxes of a Docker engine: one container a session, in which the same worker plays the same roles.
//!
//! ```text
//! launch: profile from the worker ─ image, runtime ─ folder, staged mounts ─ create ─ start
//!         ─ accept hands, accept agent (peer checked) ─ hello, pidfd, ready ─ unstage, unlink
//! ```
//!
//! What the engine is asked for stands in `settings`, pure. Every call has a bound, every fault is a
//! sentence with one remedy, and whatever was made is removed when a start fails.
//!
//! The engine acts as root on the host: whoever may speak to it is root already. Under a root
//! supervisor no name of an account is handed to it: what it mounts was opened here first and staged
//! below a folder of root's. Under an account it resolves names anew, and the certificate says so.

mod container;
mod engine;
mod fault;
mod meeting;
mod owner;
mod profile;
mod settings;
mod stage;
mod sweep;

use std::{path::PathBuf, sync::Arc};

use protocol::{bounds, jail::JailSpec};
use rustix::process::{getegid, geteuid};

pub use container::Explainer;
pub use engine::{Engine, EngineLook};
pub use fault::EngineFault;
pub use sweep::{Swept, sweep};

use crate::{
    backend::Backend,
    launch::{Jail, LaunchError, greet},
    process::Process,
    worker::WorkerBinary,
};
pub(crate) use container::Container;
use meeting::Meeting;
use owner::Owner;
use settings::Asked;
use stage::Folder;

/// What the certificate tells of a container, as the engine said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerFacts {
    /// The engine's version.
    pub engine: String,
    /// The OCI runtime.
    pub runtime: String,
    /// The image as it was asked for.
    pub image: String,
    /// The image's own id: a digest of its configuration, and with it of all its layers.
    pub image_id: String,
    /// What the engine may do on this host beyond what was asked of it, for people.
    pub access: String,
    /// What the engine said that it cannot hold.
    pub warnings: Vec<String>,
}

/// What boxes of this engine are made of.
#[derive(Debug, Clone)]
pub struct DockerPlan {
    /// The image, by name or digest. It is never pulled.
    pub image: String,
    /// The OCI runtime; `None` takes the engine's own.
    pub runtime: Option<String>,
    /// Bytes of memory of a whole session.
    pub memory: u64,
    /// Processors of a whole session, in thousandths.
    pub cpu_millis: u64,
    /// Folder of Provost's own for what only a running container needs; below the runtime folder.
    pub folder: PathBuf,
}

/// The backend.
#[derive(Debug)]
pub struct Docker {
    engine: Arc<Engine>,
    plan: DockerPlan,
}

impl Docker {
    /// Boxes as planned, of an engine that answered.
    #[must_use]
    pub fn new(engine: Arc<Engine>, plan: DockerPlan) -> Self {
        Self { engine, plan }
    }
}

impl Backend for Docker {
    fn launch(&self, spec: &JailSpec, worker: &WorkerBinary) -> Result<Jail, LaunchError> {
        let root = geteuid().is_root();
        let profile = profile::of(worker)?;
        let look = self.engine.look()?;
        let runtime = look.runtime(self.plan.runtime.as_deref())?;
        let image = self.engine.image(&self.plan.image)?;

        // From here on what was made is taken back by its owner's drop.
        let owner = Owner::of_this_process()?;
        let mut folder = Folder::make(&self.plan.folder, &spec.session)?;
        let outside = spec.identity.map_or_else(
            || (geteuid().as_raw(), getegid().as_raw()),
            |identity| (identity.uid, identity.gid),
        );
        let meeting = Meeting::open(folder.link(), spec, outside)?;
        let mounts = folder.stage(spec, worker, root)?;
        let asked = Asked {
            spec,
            plan: &self.plan,
            image: &image.id,
            runtime: self.plan.runtime.as_deref(),
            // A rootless engine maps its own account to 0 inside.
            user: if look.rootless { (0, 0) } else { outside },
            own_ids: look.remapped,
            profile: &profile,
            mounts: &mounts,
            labels: owner.labels(&spec.session),
        };
        let name = settings::name(&spec.session);
        let container = Container::new(Arc::clone(&self.engine), name.clone(), folder);
        let mut warnings = self.engine.create(&name, settings::body(&asked))?;
        warnings.extend(look.runtime_too_old(&runtime));
        self.engine.start(&name)?;
        container.watch();

        let [hands, agent] = meeting.accept(outside.0, || container.has_left())?;
        let pid = self.engine.pid(&name)?;
        for link in [&hands, &agent] {
            meeting::check_peer(link, pid)?;
        }
        match greet(&hands, spec, pid) {
            Ok((mut facts, handles)) => {
                let pidfd = handles.pidfd;
                container.settle(&pidfd, pid)?;
                facts.container = Some(ContainerFacts {
                    engine: look.version.clone(),
                    runtime,
                    image: self.plan.image.clone(),
                    image_id: image.id,
                    access: access(root, look.rootless).to_owned(),
                    warnings,
                });
                Ok(Jail {
                    agent,
                    hands,
                    facts,
                    process: Process::contained(container, pid, pidfd),
                    doors: None,
                })
            }
            Err(LaunchError::Gone { .. }) => Err(LaunchError::Gone {
                how: container
                    .explain()
                    .unwrap_or_else(|| "nobody knows how".to_owned()),
            }),
            Err(error) => Err(error),
        }
    }
}

/// What the engine's socket gives to whoever holds it.
fn access(root: bool, rootless: bool) -> &'static str {
    match (root, rootless) {
        (_, true) => "the account's own (rootless engine)",
        (true, false) => "root, sources staged by handle",
        (false, false) => "root, sources by name",
    }
}

/// Longest that a whole start may take: the engine's calls, and the greeting.
pub(crate) const LONGEST_CALL: std::time::Duration = bounds::ENGINE_CALL;
