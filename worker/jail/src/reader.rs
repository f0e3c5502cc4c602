//! A reader's walls: it touches what it was sent to, and reaches nothing else.

use std::path::Path;

use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        resource::{Resource, setrlimit},
    },
    unistd::{Gid, Pid, Uid, geteuid, setgroups, setresgid, setresuid},
};

use protocol::jail::Identity;

use crate::{Unfit, calls, capabilities, domain, filter, unfit::Step as _};

/// Becomes an account for good, before anything of its is opened: what the reader then reaches is what
/// the account reaches. Root's empty network is taken along where the kernel gives one.
///
/// # Errors
/// [`Unfit`] names the step; nothing may be opened then.
pub fn become_account(account: Identity) -> Result<(), Unfit> {
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    if uid.is_root() || gid.as_raw() == 0 {
        let why = "it is root's: leave it out";
        return Err(Unfit::new("take the account", why));
    }
    // The wall behind the refused sockets, as below; refused inside some containers.
    let _ = unshare(CloneFlags::CLONE_NEWNET);
    setgroups(&[]).step("drop supplementary groups")?;
    setresgid(gid, gid, gid).step("take the group")?;
    setresuid(uid, uid, uid).step("take the account")
}

/// Raises a reader's walls around the current, single-threaded process: only `write` paths may be
/// changed and only these and `read` paths read; below `layer` the marks of an overlay may be made too; no socket, no exec, no fork, no other process. An
/// ordinary account keeps no capability; root keeps those by which owners stay right (chown,
/// dac_override, dac_read_search, fowner) and gets an empty network.
///
/// # Errors
/// [`Unfit`] names the wall that could not be raised.
pub fn confine_reader(write: &[&Path], read: &[&Path], layer: &[&Path]) -> Result<(), Unfit> {
    fn text<'a>(paths: &[&'a Path]) -> Result<Vec<&'a str>, Unfit> {
        let utf8 = |path: &&'a Path| {
            let told = format!("`{}` is not UTF-8 and cannot be granted", path.display());
            path.to_str()
                .ok_or_else(|| Unfit::new("confine the reader", told))
        };
        paths.iter().map(utf8).collect()
    }
    let (write, read, layer) = (text(write)?, text(read)?, text(layer)?);
    prctl::set_no_new_privs().step("set no_new_privs")?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).step("limit core dumps")?;
    let root = geteuid().is_root();
    if root {
        // A second wall behind the refused sockets, where it costs no user namespace (in which
        // owners other than one's own would be nobody). Refused inside some containers.
        let _ = unshare(CloneFlags::CLONE_NEWNET);
    }
    capabilities::drop_all_but(if root { capabilities::OWNERS } else { 0 })?;
    let kernel = domain::kernel(None)?;
    let mut grants = domain::write(&write);
    grants.extend(domain::read(&read));
    grants.extend(domain::layer(&layer));
    let unfit = |failure: String| Unfit::new("confine the reader", failure);
    domain::enter(kernel, &grants).map_err(|failure| unfit(failure.to_string()))?;
    filter::install(&calls::reader(Pid::this().as_raw()))
        .map_err(|failure| unfit(failure.to_string()))
}
