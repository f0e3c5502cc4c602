//! From a policy to the backend that makes its boxes, and what earlier supervisors left with an engine.

use std::{path::PathBuf, sync::Arc};

use policies::Settings;
use protocol::SessionId;
use supervisor_record::{Places, SessionLock};
use supervisor_sandbox::{Backend, Docker, DockerPlan, Engine, Group, Landlock, Limits};

use crate::{
    exit::{CONFIG, Failure, REFUSED_AT_START},
    output,
};

/// The backend that the settings ask for; a Docker engine has answered when this returns.
/// With it the control groups of the session: an engine makes those of its containers itself.
pub(crate) fn of(
    places: &Places,
    settings: &Settings,
    session: &SessionId,
) -> Result<(Arc<dyn Backend>, Arc<Group>), Failure> {
    let confinement = &settings.confinement;
    if confinement.backend == policies::Backend::Landlock {
        let limits = Limits {
            memory: settings.limits.memory,
            processes: settings.limits.processes,
            cpu: settings.limits.cpu,
        };
        let group = Arc::new(Group::make(session, &limits));
        let landlock = Landlock {
            group: Arc::clone(&group),
        };
        return Ok((Arc::new(landlock), group));
    }
    let image = confinement.image.clone().ok_or_else(|| {
        Failure::new(CONFIG, "the backend docker needs an image")
            .help("name one that the engine has: --image NAME, or `image` in [confinement]")
    })?;
    let engine = Engine::find().map_err(|fault| refused(&fault))?;
    let plan = DockerPlan {
        image,
        runtime: confinement.runtime.clone(),
        memory: settings.limits.memory,
        cpu_millis: cpu_millis(settings),
        folder: folder(places),
    };
    // Read back as the engine was told, also where the policy leaves the processors to the machine.
    let limits = Limits {
        memory: plan.memory,
        processes: settings.limits.processes,
        #[expect(clippy::cast_precision_loss, reason = "thousandths of at most 4,096")]
        cpu: Some(plan.cpu_millis as f64 / 1_000.0),
    };
    let docker = Docker::new(Arc::new(engine), plan);
    Ok((Arc::new(docker), Arc::new(Group::of_engine(limits))))
}

/// Removes what supervisors that died have left with the engine. It is asked only when this start needs
/// it, or when something of ours says that there is something.
pub(crate) fn sweep(places: &Places, settings: &Settings) -> Result<(), Failure> {
    let wanted = settings.confinement.backend == policies::Backend::Docker;
    let folder = folder(places);
    let left = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
    if !wanted && !left {
        return Ok(());
    }
    let engine = match Engine::find() {
        Ok(engine) => engine,
        // Another start, with the engine back, will find it.
        Err(_) if !wanted => return Ok(()),
        Err(fault) => return Err(refused(&fault)),
    };
    let is_free = |session: &SessionId| !matches!(SessionLock::take(places, session), Ok(None));
    match supervisor_sandbox::sweep(&engine, &folder, &is_free) {
        Ok(swept) => {
            let removed = swept.removed.len();
            if removed > 0 {
                output::err(&format!(
                    "provost: removed {removed} container(s) of sessions whose supervisor is gone\n"
                ));
            }
            for (session, why) in swept.kept {
                output::err(&format!(
                    "provost: what session {session} left cannot be removed: {why}\n"
                ));
            }
            Ok(())
        }
        Err(_) if !wanted => Ok(()),
        Err(fault) => Err(refused(&fault)),
    }
}

/// Where running containers keep what only they need.
fn folder(places: &Places) -> PathBuf {
    places.runtime().join("containers")
}

/// Thousandths of a processor: the policy's, else all that this process may use.
fn cpu_millis(settings: &Settings) -> u64 {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let all = u64::try_from(all).unwrap_or(1).saturating_mul(1_000);
    let Some(cpus) = settings.limits.cpu else {
        return all;
    };
    // A policy's figure is checked at load; what an engine would refuse is bounded all the same.
    let wanted = std::time::Duration::try_from_secs_f64(cpus).unwrap_or_default();
    u64::try_from(wanted.as_millis())
        .unwrap_or(all)
        .clamp(10, all)
}

fn refused(fault: &dyn std::fmt::Display) -> Failure {
    Failure::new(REFUSED_AT_START, fault.to_string())
}
