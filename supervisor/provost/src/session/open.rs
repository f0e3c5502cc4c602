//! Where a session's tree lies when nothing can be mounted: it is worked in by its own name, so every
//! folder on the way must be open to the session's account. For an ordinary account that is the
//! session's own folder. Root's sessions run under an unused uid, which root's folders are closed to:
//! their trees lie in a folder of their own, and the session's folder holds a link to it. Sessions that
//! root starts for an account always lie there, with everything that their readers write: readers are
//! that account.

use std::{
    fs, io,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
    },
    path::{Path, PathBuf},
};

use protocol::{SessionId, jail::Identity};
use supervisor_record::Places;
use supervisor_sandbox::ClaimedUid;

use crate::exit::{Failure, REFUSED_AT_START};

/// Of the system's own places, for root.
const TREES: &str = "/var/lib/provost-trees";
/// What readers write beside a tree, for an account that cannot make names there.
pub(crate) const WRITTEN: [&str; 3] = ["manifest.jsonl", "apply.jsonl", "session.patch"];
/// The capability without which root makes no namespaces either.
const CAP_SYS_ADMIN: u32 = 21;

/// A session's tree: by the link of its folder, if it has one.
pub(crate) fn tree_of(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    fs::read_link(&tree).unwrap_or(tree)
}

/// A file that a session's reader writes or reads beside its tree.
pub(crate) fn beside(folder: &Path, name: &str) -> PathBuf {
    tree_of(folder).with_file_name(name)
}

/// The account that a session works for, by the owner of its open tree, whose name only root can give
/// to another; `None` where readers work as the supervisor.
pub(crate) fn account_of(folder: &Path) -> Option<Identity> {
    let tree = folder.join("tree");
    if !tree.is_symlink() {
        return None;
    }
    let facts = fs::symlink_metadata(tree_of(folder)).ok()?;
    let unused = ClaimedUid::is_unused(facts.uid()) || facts.uid() == 0;
    (!unused).then(|| Identity {
        uid: facts.uid(),
        gid: facts.gid(),
    })
}

/// Makes a folder that only its owner opens, whatever the umask.
pub(super) fn closed(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

/// Gives a new folder to the account alone.
pub(super) fn give(folder: &Path, account: Identity) -> io::Result<()> {
    chown(folder, Some(account.uid), Some(account.gid))
}

/// Whether this process may make namespaces as far as it can know without trying.
pub(super) fn may_make_namespaces() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    // An ordinary account may have them without any capability: trying costs it nothing.
    !nix::unistd::geteuid().is_root()
        || effective.is_none_or(|bits| bits & (1 << CAP_SYS_ADMIN) != 0)
}

/// Makes the folder of a session's open tree and gives the tree's path in it, not yet made. Without
/// an identity that is the session's own folder.
pub(super) fn make(
    places: &Places,
    session: &SessionId,
    folder: &Path,
    identity: Option<Identity>,
    for_account: bool,
) -> Result<PathBuf, Failure> {
    let Some(identity) = identity else {
        return Ok(folder.join("tree"));
    };
    let refused = |why: String| {
        Failure::new(
            REFUSED_AT_START,
            format!("a session of another account than the supervisor's has no place: {why}"),
        )
        .help(format!(
            "let every account pass (not list) the folders above `{TREES}`, or name another state folder with PROVOST_STATE_DIR"
        ))
    };
    let mut beside = places.state().as_os_str().to_owned();
    beside.push("-trees");
    let candidates = [PathBuf::from(beside), PathBuf::from(TREES)];
    let trees = candidates
        .iter()
        .find(|trees| trees.ancestors().skip(1).all(is_open));
    let trees = trees.ok_or_else(|| refused("no folder is open to its account".to_owned()))?;
    let own = trees.join(session.as_str());
    let group = (!for_account).then_some(identity.gid);
    secure(trees, &own, group)
        .and_then(|()| {
            if for_account {
                reserve(&own, identity)
            } else {
                Ok(())
            }
        })
        .map_err(|error| refused(format!("`{}`: {error}", own.display())))?;
    let tree = own.join("tree");
    let link = folder.join("tree");
    // Left by a start that fell back on its way.
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&tree, &link)
        .map_err(|error| refused(format!("`{}`: {error}", link.display())))?;
    Ok(tree)
}

/// Whether every account may pass a folder.
fn is_open(folder: &Path) -> bool {
    folder
        .metadata()
        .is_ok_and(|facts| facts.is_dir() && facts.permissions().mode() & 0o001 != 0)
}

/// Makes what the readers of an account's session write: the names in the session's folder stay root's, so
/// that the account can put nothing else in their place.
fn reserve(own: &Path, account: Identity) -> io::Result<()> {
    for name in WRITTEN {
        let path = own.join(name);
        match fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
        {
            Ok(file) => std::os::unix::fs::fchown(&file, Some(account.uid), Some(account.gid))?,
            // Of a start that fell back on its way.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The folder of all trees, which all may pass and only root may list; in it the session's, which
/// only its own group passes. Without one all may pass it too: an account's group has others in it, and
/// what lies there is each closed to all but the account.
fn secure(trees: &Path, own: &Path, group: Option<u32>) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o711).create(trees) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let facts = fs::symlink_metadata(trees)?;
    let ours = facts.is_dir() && facts.uid() == nix::unistd::geteuid().as_raw();
    if !ours || facts.permissions().mode() & 0o022 != 0 {
        return Err(io::Error::other(
            "it is no folder of root's, or others may write there",
        ));
    }
    fs::set_permissions(trees, fs::Permissions::from_mode(0o711))?;
    match fs::DirBuilder::new().mode(0o700).create(own) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let Some(gid) = group else {
        return fs::set_permissions(own, fs::Permissions::from_mode(0o711));
    };
    // The group has the unused uid's number, and nobody else is in it.
    chown(own, None, Some(gid))?;
    fs::set_permissions(own, fs::Permissions::from_mode(0o710))
}

/// Makes the private HOME and the folder for temporary files beside a tree, empty.
pub(super) fn make_home(home: &Path, tmp: &Path, identity: Option<Identity>) -> io::Result<()> {
    for folder in [home, tmp] {
        fs::DirBuilder::new().mode(0o700).create(folder)?;
        if let Some(Identity { uid, gid }) = identity {
            chown(folder, Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

/// Removes what is left of an open tree's folder when the tree itself is gone, and the link to it.
pub(crate) fn leave(folder: &Path) {
    let link = folder.join("tree");
    if let Ok(tree) = fs::read_link(&link)
        && let Some(own) = tree.parent()
    {
        let _ = fs::remove_dir(&tree);
        for name in WRITTEN {
            let _ = fs::remove_file(own.join(name));
        }
        let _ = fs::remove_dir(own);
        // The last one's end leaves nothing.
        if let Some(trees) = own.parent() {
            let _ = fs::remove_dir(trees);
        }
        let _ = fs::remove_file(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_write_holds_no_trees() {
        let folder = tempfile::tempdir().expect("folder");
        let trees = folder.path().join("trees");
        let gid = nix::unistd::getegid().as_raw();
        secure(&trees, &trees.join("s-1"), Some(gid)).expect("made");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&trees), mode(&trees.join("s-1"))), (0o711, 0o710));
        fs::set_permissions(&trees, fs::Permissions::from_mode(0o777)).expect("mode");
        secure(&trees, &trees.join("s-2"), None).expect_err("refused");
        fs::remove_dir_all(&trees).expect("gone");
        std::os::unix::fs::symlink(folder.path(), &trees).expect("link");
        secure(&trees, &trees.join("s-3"), None).expect_err("a link");
    }

    #[test]
    fn a_tree_is_where_its_link_leads() {
        let folder = tempfile::tempdir().expect("folder");
        let folder = folder.path();
        assert_eq!(tree_of(folder), folder.join("tree"));
        let own = folder.join("trees/s-1");
        fs::create_dir_all(own.join("tree")).expect("made");
        std::os::unix::fs::symlink(own.join("tree"), folder.join("tree")).expect("link");
        assert_eq!(tree_of(folder), own.join("tree"));
        leave(folder);
        assert!(!folder.join("trees").exists() && !folder.join("tree").is_symlink());
    }
}
