//! Situation B: no namespace and no mount of our own. The process that was started becomes
//! hands itself; what it sees is what Landlock grants of the places that are there already.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
};

use nix::{
    fcntl::OFlag,
    sys::{prctl, resource::Resource},
    unistd::{Pid, geteuid, pipe2},
};
use protocol::jail::{JailSpec, STEP_DOORS};

use crate::{
    calls, filter,
    jail::{View, die_with_parent, limit, take_identity},
    unfit::{Step as _, Unfit},
};

/// The supervisor's end of the pipe whose other end hands and every warden hold: at its end of file
/// the whole session is over. A warden leaves only when nothing is left below it.
const LIFE: &str = "life";
/// The listener of the calls that the supervisor carries out.
const DOORS: &str = "doors";

/// Situation B: beside everything else that runs on the host.
pub(crate) fn in_the_open(spec: &JailSpec, parent: Pid) -> Result<View, Unfit> {
    if let Some(identity) = spec.identity {
        take_identity(identity)?;
    }
    die_with_parent(parent)?;
    // Whatever outlives its own parent comes to hands, and nothing to the host's own pid 1.
    prctl::set_child_subreaper(true).step("become the reaper")?;
    // The count is the account's: what else runs under it is not the session's.
    let others = running();
    limit(
        Resource::RLIMIT_NPROC,
        spec.limits.processes.saturating_add(others),
    )?;
    limits(spec)?;
    let (ended, life) = pipe2(OFlag::O_CLOEXEC).step("make a pipe")?;
    let mut view = View::new(spec);
    view.life = Some(life);
    view.handles.push((LIFE, ended));
    open_doors(spec, &mut view)?;
    Ok(view)
}

fn limits(spec: &JailSpec) -> Result<(), Unfit> {
    limit(Resource::RLIMIT_NOFILE, spec.limits.open_files)?;
    limit(Resource::RLIMIT_FSIZE, spec.limits.file_size)
}

/// Installs the filter by which calls are held until the supervisor has answered. From here on they
/// work only as long as it does.
fn open_doors(spec: &JailSpec, view: &mut View) -> Result<(), Unfit> {
    if !spec.doors.any() {
        return Ok(());
    }
    let listener: OwnedFd = filter::listen(&calls::held(spec.doors))
        .map_err(|failure| Unfit::new(STEP_DOORS, failure.to_string()))?;
    view.handles.push((DOORS, listener));
    Ok(())
}

/// How many threads run under this account already, as far as this account can see.
fn running() -> u64 {
    let own = geteuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = |path: std::path::PathBuf| -> Option<u64> {
        let text = fs::read_to_string(path.join("stat")).ok()?;
        // The name stands in parentheses and may hold anything: fields are counted after the last.
        let (_, rest) = text.rsplit_once(") ")?;
        rest.split_ascii_whitespace().nth(17)?.parse().ok()
    };
    entries
        .filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
        })
        .filter(|entry| entry.metadata().is_ok_and(|facts| facts.uid() == own))
        .filter_map(|entry| threads(entry.path()))
        .sum()
}
