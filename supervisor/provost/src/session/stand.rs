//! Makes a session's box stand: with namespaces where this machine has them, else without, and says
//! which. What was asked for and is not there is never left out in silence.

use std::sync::Arc;

use policies::Confinement;
use protocol::jail::{Doors, JailSpec, NAMESPACE_STEPS, OVERLAY, STEP_DOORS, Situation};
use supervisor_sandbox::{Attendant, Backend, Jail, LaunchError, WorkerBinary};

use super::{Holding, Saved, place::Place};
use crate::exit::{BUG, Failure, REFUSED_AT_START};

/// Both, where nothing else holds what they judge.
const ALL_DOORS: Doors = Doors {
    sockets: true,
    meta: true,
};

/// A box that stands.
#[derive(Debug)]
pub(super) struct Stands {
    pub(super) spec: JailSpec,
    pub(super) jail: Jail,
    /// At the doors of a box without namespaces, as long as it stands.
    pub(super) attendant: Option<Attendant>,
    /// What to tell the person.
    pub(super) told: Vec<String>,
}

/// What a box is built from: the spec of a situation, and what to do before its tree can lie open.
pub(super) trait Ground {
    /// The spec.
    fn spec(&self, situation: Situation, doors: Doors) -> Result<JailSpec, Failure>;
    /// Makes a copy where no overlay can be laid; `false` if there was none.
    async fn without_overlay(&mut self, why: &str) -> Result<bool, Failure>;
    /// Makes everything ready for a box without mounts.
    async fn lay_open(&mut self) -> Result<(), Failure>;
}

/// A session's own place, and what it copies.
#[derive(Debug)]
pub(super) struct SessionGround<'a> {
    pub(super) place: &'a mut Place,
    pub(super) saved: &'a mut Saved,
    /// What the start line says of the workspace.
    pub(super) brought: &'a mut String,
    pub(super) resumed: bool,
}

impl Ground for SessionGround<'_> {
    fn spec(&self, situation: Situation, doors: Doors) -> Result<JailSpec, Failure> {
        self.place.spec(self.saved, situation, doors)
    }

    async fn without_overlay(&mut self, why: &str) -> Result<bool, Failure> {
        if self.resumed {
            return Ok(false);
        }
        *self.brought = self.place.copy_instead(self.saved, why).await?;
        Ok(true)
    }

    async fn lay_open(&mut self) -> Result<(), Failure> {
        let copied = matches!(self.saved.holding, Holding::Copy);
        if !copied || !self.place.is_open() {
            if self.resumed {
                let message =
                    "this session's files lie where its account cannot work without namespaces";
                return Err(Failure::new(REFUSED_AT_START, message)
                    .help("go on with it where namespaces are available"));
            }
            *self.brought = self.place.copy_in_the_open(self.saved).await?;
        }
        self.place.make_home()
    }
}

/// Builds the box: `auto` tries namespaces first. Gives what to tell the person beside it.
pub(super) async fn stand(
    ground: &mut impl Ground,
    confinement: &Confinement,
    backend: &Arc<dyn Backend>,
    worker: &Arc<WorkerBinary>,
) -> Result<Stands, Failure> {
    let mut told = Vec::new();
    if confinement.backend == policies::Backend::Docker {
        let spec = ground.spec(Situation::Container, Doors::default())?;
        let launched = launch(&spec, backend, worker).await?;
        let jail = launched.map_err(|error| refused(&error))?;
        return Ok(Stands {
            spec,
            jail,
            attendant: None,
            told,
        });
    }
    if confinement.namespaces {
        let mut spec = ground.spec(Situation::Namespaces, Doors::default())?;
        let mut launched = launch(&spec, backend, worker).await?;
        if let Err(LaunchError::Unfit { step, message }) = &launched
            && step.contains(OVERLAY)
            && ground.without_overlay(message).await?
        {
            spec = ground.spec(Situation::Namespaces, Doors::default())?;
            launched = launch(&spec, backend, worker).await?;
        }
        match launched {
            Ok(jail) => {
                return Ok(Stands {
                    spec,
                    jail,
                    attendant: None,
                    told,
                });
            }
            Err(LaunchError::Unfit { step, message })
                if NAMESPACE_STEPS.contains(&step.as_str()) =>
            {
                told.push(format!(
                    "B: without namespaces, which are not available here ({step}: {message})"
                ));
            }
            Err(error) => return Err(refused(&error)),
        }
    } else {
        told.push("B: without namespaces, as the policy says".to_owned());
    }
    ground.lay_open().await?;
    let mut doors = ALL_DOORS;
    // Twice at most: what cannot be held here is left out once, and said.
    loop {
        let spec = ground.spec(Situation::Landlock, doors)?;
        match launch(&spec, backend, worker).await? {
            Ok(mut jail) => {
                let attendant = attend(&mut jail, &spec)?;
                return Ok(Stands {
                    spec,
                    jail,
                    attendant,
                    told,
                });
            }
            Err(LaunchError::Unfit { step, message }) if step == STEP_DOORS && doors.any() => {
                doors = Doors::default();
                told.push(format!("no call can be given to the supervisor here ({message}): no sockets inside, and files.meta is not held for files of this very account"));
            }
            Err(error) => return Err(refused(&error)),
        }
    }
}

/// Puts somebody to the doors, if there are any.
fn attend(jail: &mut Jail, spec: &JailSpec) -> Result<Option<Attendant>, Failure> {
    let Some(listener) = jail.doors.take() else {
        return Ok(None);
    };
    supervisor_sandbox::attend(listener, spec, supervisor_sandbox::no_network())
        .map(Some)
        .map_err(|error| {
            let message = format!("nobody attends the session's doors: {error}");
            Failure::new(REFUSED_AT_START, message)
        })
}

/// Starts the jail on a thread that may block.
async fn launch(
    spec: &JailSpec,
    backend: &Arc<dyn Backend>,
    worker: &Arc<WorkerBinary>,
) -> Result<Result<Jail, LaunchError>, Failure> {
    let (spec, backend, worker) = (spec.clone(), Arc::clone(backend), Arc::clone(worker));
    tokio::task::spawn_blocking(move || backend.launch(&spec, &worker))
        .await
        .map_err(|error| Failure::new(BUG, format!("the launch failed: {error}")))
}

fn refused(error: &LaunchError) -> Failure {
    Failure::new(REFUSED_AT_START, error.to_string())
        .help("`provost doctor` tells what this machine can hold and one remedy for each thing that it cannot")
}
