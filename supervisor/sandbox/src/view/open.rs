//! The view of situation B: nothing is mounted, so that everything keeps the host's own name, and
//! what is not granted is refused instead of absent.
//!
//! The workspace is the session's copy where it lies, HOME and the folder for temporary files lie
//! beside it. The real `/tmp`, `/dev/shm` and `/proc` are granted to nobody, but for single files of
//! proc that tell of the machine and not of its processes.

use std::path::{Path, PathBuf};

use protocol::{
    BUILD, bounds,
    jail::{Domain, JailSpec, Mount, WORKER_ITSELF},
};

use super::{
    Host, SessionPlace, Situation, ViewError, below, checked_workspace, is_plain, session_limits,
    text,
};

/// Files of proc that programs read to learn what machine they run on.
const PROC: [&str; 9] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
];
/// Files by which programs name accounts and this very host. They are the host's own here.
const NAMES: [&str; 4] = [
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
];
/// Private places that a policy may name although they are elsewhere here.
const ELSEWHERE: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// HOME of a session, beside its tree.
pub const HOME: &str = "home";
/// The folder for temporary files, below HOME so that it is as private in every reading of the law.
pub const TMP: &str = "tmp";

/// The spec, from what was looked up.
pub(super) fn view(
    place: &SessionPlace<'_>,
    host: &Host,
    trees: &[(String, String)],
) -> Result<JailSpec, ViewError> {
    let workspace = checked_workspace(place)?;
    let tree = text(place.tree)?;
    let home = text(&place.tree.with_file_name(HOME))?;
    let tmp = format!("{home}/{TMP}");
    private_folders(place, &workspace)?;

    let mut view = Vec::new();
    let mut read = Vec::new();
    let mut exec = Vec::new();
    // The real workspace is not the session's: it holds what was left out of the copy.
    let kept = [PathBuf::from(&workspace)];
    let roots = host.trees.iter().cloned();
    let listed = trees.iter().map(|(real, _)| real.clone());
    for root in roots.chain(listed).filter(|root| !below(root, &workspace)) {
        exec.extend(without(&root, &kept)?);
        view.push(Mount::ReadOnly {
            source: root.clone(),
            target: root,
        });
    }
    for (name, real) in &host.etc {
        read.push(real.clone());
        view.push(Mount::ReadOnly {
            source: real.clone(),
            target: name.clone(),
        });
    }
    let links = host.links.iter().chain(&host.etc_links);
    view.extend(links.map(|(target, to)| Mount::Link {
        target: target.clone(),
        to: to.clone(),
    }));
    for name in NAMES.into_iter().chain(PROC) {
        read.push(name.to_owned());
        view.push(Mount::ReadOnly {
            source: name.to_owned(),
            target: name.to_owned(),
        });
    }
    for own in [&tree, &home] {
        view.push(Mount::Writable {
            source: own.clone(),
            target: own.clone(),
        });
    }
    let writable = vec![tree.clone(), home.clone()];
    exec.extend(writable.iter().cloned());
    exec.push(WORKER_ITSELF.to_owned());
    Ok(JailSpec {
        build: BUILD.to_owned(),
        session: place.session.clone(),
        situation: Situation::Landlock,
        identity: place.identity,
        own_reach: place.own_reach,
        view,
        agent_read: vec![tree.clone(), WORKER_ITSELF.to_owned()],
        ceiling: Domain {
            read,
            write: writable,
            exec,
        },
        workspace: tree,
        home,
        tmp,
        doors: place.doors,
        limits: session_limits(place.settings),
        pretend_abi: None,
    })
}

/// Private folders of the policy: those below the session's own are there, others would be mounts.
fn private_folders(place: &SessionPlace<'_>, workspace: &str) -> Result<(), ViewError> {
    for folder in &place.settings.filesystem.write {
        let own = ELSEWHERE.into_iter().chain([workspace]);
        let known = is_plain(Path::new(folder)) && own.into_iter().any(|own| below(folder, own));
        if !known {
            return Err(ViewError::NoMount(folder.clone()));
        }
    }
    Ok(())
}

/// What is granted of a tree so that nothing of `kept` is: the tree itself, or everything beside the
/// way to what is kept. Landlock cannot take a piece away again.
fn without(tree: &str, kept: &[PathBuf]) -> Result<Vec<String>, ViewError> {
    let root = Path::new(tree);
    let inside: Vec<&PathBuf> = kept.iter().filter(|path| path.starts_with(root)).collect();
    let Some(first) = inside.first() else {
        return Ok(vec![tree.to_owned()]);
    };
    let too_many = || ViewError::Siblings {
        tree: tree.to_owned(),
        kept: first.display().to_string(),
    };
    let mut granted = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        if inside.iter().any(|kept| folder.starts_with(kept)) {
            continue;
        }
        if !inside.iter().any(|kept| kept.starts_with(&folder)) {
            granted.push(text(&folder)?);
            if granted.len() > bounds::SIBLINGS {
                return Err(too_many());
            }
            continue;
        }
        let unlisted = || ViewError::Unlisted(folder.display().to_string());
        let entries = std::fs::read_dir(&folder).map_err(|_| unlisted())?;
        for entry in entries.take(bounds::SIBLINGS.saturating_mul(2)) {
            open.push(entry.map_err(|_| unlisted())?.path());
        }
        if open.len() > bounds::SIBLINGS {
            return Err(too_many());
        }
    }
    granted.sort();
    Ok(granted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_granted_whole_or_beside_what_must_stay_out() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
        for name in ["a/b/c", "a/b/secret/deep", "a/d", "e"] {
            std::fs::create_dir_all(root.join(name)).expect("made");
        }
        let tree = root.display().to_string();
        assert_eq!(
            without(&tree, &["/elsewhere".into()]),
            Ok(vec![tree.clone()])
        );
        let granted = without(&tree, &[root.join("a/b/secret")]).expect("granted");
        let wanted = ["a/b/c", "a/d", "e"].map(|name| root.join(name).display().to_string());
        assert_eq!(granted, wanted);
        for number in 0..=bounds::SIBLINGS {
            std::fs::write(root.join(format!("a/b/{number}")), "").expect("made");
        }
        let refused = without(&tree, &[root.join("a/b/secret")]);
        assert!(
            matches!(refused, Err(ViewError::Siblings { .. })),
            "{refused:?}"
        );
    }
}
