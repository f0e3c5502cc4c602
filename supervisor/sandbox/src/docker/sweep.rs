//! Removes what supervisors that died have left: containers whose owner is gone, and folders.

use std::{collections::BTreeSet, path::Path};

use protocol::SessionId;

use super::{
    engine::Engine,
    fault::EngineFault,
    owner::{Owner, Standing},
    settings, stage,
};

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Sessions whose containers were removed.
    pub removed: Vec<SessionId>,
    /// Sessions whose leavings could not be removed now, and why.
    pub kept: Vec<(SessionId, String)>,
}

/// Removes containers and folders of sessions that nobody serves. `folder` is Provost's own for running
/// containers; `is_free` says of one of its sessions that no supervisor holds its lock.
///
/// Another supervisor's container is left alone as long as that supervisor lives, or cannot be judged
/// from here.
///
/// # Errors
/// The engine does not answer.
pub fn sweep(
    engine: &Engine,
    folder: &Path,
    is_free: &dyn Fn(&SessionId) -> bool,
) -> Result<Swept, EngineFault> {
    let mut swept = Swept::default();
    let mine: BTreeSet<SessionId> = stage::left(folder)
        .unwrap_or_default()
        .into_iter()
        .collect();
    for found in engine.ours()? {
        let labels = found.labels.unwrap_or_default();
        // A label of that name that somebody else has set is not ours to judge.
        let Some((session, owner)) = Owner::read(&labels) else {
            continue;
        };
        let name = settings::name(&session);
        if !found
            .names
            .unwrap_or_default()
            .iter()
            .any(|known| known.trim_start_matches('/') == name)
        {
            continue;
        }
        let free = match owner.standing() {
            Standing::Gone => true,
            Standing::Lives => false,
            // Its lock tells, if it is one of this record's.
            Standing::Unknown => mine.contains(&session),
        };
        if !free || (mine.contains(&session) && !is_free(&session)) {
            continue;
        }
        match engine.remove(&name, super::LONGEST_CALL) {
            Ok(()) => swept.removed.push(session),
            Err(fault) => swept.kept.push((session, fault.to_string())),
        }
    }
    for session in mine {
        if swept.kept.iter().any(|(kept, _)| *kept == session) || !is_free(&session) {
            continue;
        }
        if let Err(error) = stage::clear(&folder.join(session.as_str())) {
            swept.kept.push((session, error.to_string()));
        }
    }
    Ok(swept)
}
