//! What a session sees: the pieces of its view in the order of mounting, its ceiling, its limits.
//!
//! [`Host::look`] reads what this machine's root folder and `/etc` are like; [`jail_spec`] checks the
//! policy's extra trees on it; `view` itself is pure. What is not listed here is not in the view:
//! no `/sys`, no `/run`, no `/var`, no `/root`, no other HOME, nothing of `/etc` but what programs
//! need to start, and none of Provost's own places.

use std::path::{Component, Path, PathBuf};

use policies::{Backend, Settings};
use protocol::{
    BUILD, SessionId, bounds,
    jail::{Domain, Doors, Identity, JailLimits, JailSpec, Mount, Situation, WORKER_INSIDE},
};

use crate::git;

mod account;

use account::account_files;

/// Folders of the root that hold programs and libraries; links where `/usr` is merged.
const PROGRAM_FOLDERS: [&str; 8] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
];
/// Device nodes.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// HOME where the account's own would lie over the workspace.
const HOME_ELSEWHERE: [&str; 2] = ["/home/agent", "/run/home"];
/// Places of the view that nothing of the host may be mounted on or above.
const RESERVED: [&str; 5] = ["/proc", "/dev", "/sys", "/run", "/etc"];

/// What the root folder of this machine is like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Real folders that hold programs.
    pub trees: Vec<String>,
    /// Links of the root folder: name and what they say.
    pub links: Vec<(String, String)>,
    /// Files and folders of `/etc`: what to mount from where.
    pub etc: Vec<(String, String)>,
    /// Links of `/etc` that lead into a tree: name and what they say.
    pub etc_links: Vec<(String, String)>,
}

/// Where a session's pieces lie.
#[derive(Debug, Clone)]
pub struct SessionPlace<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The workspace on the host, absolute; it has the same name inside.
    pub workspace: &'a Path,
    /// The session's own tree, which is mounted there; in situation B it is worked in where it lies,
    /// with the private HOME beside it.
    pub tree: &'a Path,
    /// The tree is the layer of an overlay on the workspace, whose files belong to this owner. The
    /// kernel's own folder is `work`, beside the tree.
    pub overlay: Option<Identity>,
    /// What shall hold the box together.
    pub situation: Situation,
    /// What the supervisor carries out itself, in situation B.
    pub doors: Doors,
    /// The policy's settings.
    pub settings: &'a Settings,
    /// The identity to take when the supervisor is root.
    pub identity: Option<Identity>,
    /// The identity is an account's, which reaches its places by itself.
    pub own_reach: bool,
    /// The account's HOME, whose name the private HOME gets.
    pub home: &'a Path,
    /// Provost's own places (configuration, state, runtime): never in a view.
    pub private: &'a [PathBuf],
}

/// Why no view can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The workspace cannot be one.
    #[error("`{path}` cannot be a workspace: {why}")]
    Workspace {
        /// The path.
        path: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A tree of the policy cannot be in a view.
    #[error("`filesystem.{list}` names `{path}`: {why}")]
    Tree {
        /// `read` or `write`.
        list: &'static str,
        /// The path.
        path: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A policy's private folder that needs a mount.
    #[error(
        "`filesystem.write` names `{0}`: without namespaces nothing can be laid there: use a folder below the workspace, HOME or $TMPDIR"
    )]
    NoMount(String),
    /// More entries beside a path that must stay out than are granted one by one.
    #[error("`{tree}` cannot be read without namespaces: `{kept}` lies in it, and more than {bound} entries lie beside that; name smaller folders in `filesystem.read`", bound = bounds::SIBLINGS)]
    Siblings {
        /// The tree.
        tree: String,
        /// What must stay out of it.
        kept: String,
    },
    /// A folder on the way to what must stay out cannot be listed.
    #[error("`{0}` cannot be listed, which is needed to grant it without what must stay out")]
    Unlisted(String),
    /// A path is not UTF-8.
    #[error("`{0}` is not UTF-8: rename it")]
    NotUtf8(String),
}

/// Writes the spec of a session's box.
///
/// A tree of `filesystem.read` that this machine does not have is left out: less is in the view.
///
/// # Errors
/// [`ViewError`] names the path and what to do.
pub fn jail_spec(place: &SessionPlace<'_>, host: &Host) -> Result<JailSpec, ViewError> {
    let mut trees = Vec::new();
    for tree in &place.settings.filesystem.read {
        let wrong = |why| ViewError::Tree {
            list: "read",
            path: tree.clone(),
            why,
        };
        if !is_plain(Path::new(tree)) {
            return Err(wrong("it must be absolute, without `.` and `..`"));
        }
        let Ok(real) = std::fs::canonicalize(tree) else {
            continue;
        };
        let private = place.private.iter().any(|own| {
            let own = std::fs::canonicalize(own).unwrap_or_else(|_| own.clone());
            own.starts_with(&real) || real.starts_with(&own)
        });
        if private {
            return Err(wrong("Provost's own places lie there and are in no view"));
        }
        let real = text(&real)?;
        // Pieces of /etc may be added; sockets of /run and the kernel's own trees never.
        let kept = RESERVED.iter().filter(|kept| **kept != "/etc");
        let names = [real.as_str(), tree.as_str()];
        if names.iter().any(|name| {
            kept.clone()
                .any(|kept| below(name, kept) || below(kept, name))
        }) {
            return Err(wrong(
                "the view has its own there: name a folder below or elsewhere",
            ));
        }
        trees.push((real, tree.clone()));
    }
    if place.situation == Situation::Landlock {
        return open::view(place, host, &trees);
    }
    let mut spec = view(place, host, &trees)?;
    spec.view.push(git::configuration(place.home));
    Ok(spec)
}

/// The spec, from what was looked up; pure.
fn view(
    place: &SessionPlace<'_>,
    host: &Host,
    trees: &[(String, String)],
) -> Result<JailSpec, ViewError> {
    let workspace = checked_workspace(place)?;
    let home = home_inside(&workspace, place.home);
    // A container's programs are its image's; nothing of this host's stands for them.
    let contained = place.settings.confinement.backend == Backend::Docker;
    let image = Host {
        trees: PROGRAM_FOLDERS.map(str::to_owned).into(),
        ..Host::default()
    };
    let empty = Host::default();
    let (host, taken) = if contained {
        (&empty, &image)
    } else {
        (host, host)
    };
    let filesystem = &place.settings.filesystem;

    let mut mounts = Vec::new();
    let read_only = |source: &str, target: &str| Mount::ReadOnly {
        source: source.into(),
        target: target.into(),
    };
    let link = |target: &str, to: &str| Mount::Link {
        target: target.into(),
        to: to.into(),
    };
    // They are memory, and the session's has to do for its processes too.
    let share = place.settings.limits.memory / 4;
    let tmpfs = |target: &str, bytes: u64, mode| Mount::Tmpfs {
        target: target.into(),
        bytes: bytes.min(share),
        inodes: bounds::TMP_INODES,
        mode,
    };
    mounts.extend(host.trees.iter().map(|tree| read_only(tree, tree)));
    mounts.extend(host.links.iter().map(|(target, to)| link(target, to)));
    mounts.extend(
        host.etc
            .iter()
            .map(|(target, source)| read_only(source, target)),
    );
    mounts.extend(host.etc_links.iter().map(|(target, to)| link(target, to)));
    mounts.extend(account_files(place, &home));
    mounts.extend(
        DEVICES
            .iter()
            .map(|&name| Mount::Device { name: name.into() }),
    );
    mounts.push(Mount::Terminals);
    mounts.push(tmpfs("/dev/shm", bounds::SHM, 0o1777));
    mounts.push(Mount::Proc);
    mounts.push(tmpfs("/tmp", bounds::TMP, 0o1777));
    if !contained {
        mounts.push(link("/var/tmp", "/tmp"));
    }
    // HOME before everything that may lie below it.
    mounts.push(tmpfs(&home, bounds::TMP, 0o700));
    let mut writable = vec![workspace.clone(), "/tmp".to_owned(), home.clone()];
    for folder in &filesystem.write {
        let wrong = |why| ViewError::Tree {
            list: "write",
            path: folder.clone(),
            why,
        };
        if !is_plain(Path::new(folder)) {
            return Err(wrong("it must be absolute, without `.` and `..`"));
        }
        if writable.iter().any(|place| below(folder, place)) {
            // Already writable, and private but for the workspace.
            continue;
        }
        let taken = taken.trees.iter().map(String::as_str).chain(RESERVED);
        if taken.into_iter().any(|kept| below(folder, kept)) || below(&workspace, folder) {
            return Err(wrong(
                "the view has something else there: choose a folder of its own",
            ));
        }
        mounts.push(tmpfs(folder, bounds::TMP, 0o700));
        writable.push(folder.clone());
    }
    // A tree that holds the workspace comes before it; one inside it is part of the session's copy.
    let outside = trees
        .iter()
        .filter(|(_, target)| !below(target, &workspace));
    let listed: Vec<_> = outside.collect();
    mounts.extend(
        listed
            .iter()
            .map(|(source, target)| read_only(source, target)),
    );
    mounts.push(match place.overlay {
        Some(owner) => Mount::Overlay {
            lower: workspace.clone(),
            upper: text(place.tree)?,
            work: text(&place.tree.with_file_name("work"))?,
            target: workspace.clone(),
            owner: place.identity.filter(|_| !place.own_reach).map(|_| owner),
        },
        None => Mount::Writable {
            source: text(place.tree)?,
            target: workspace.clone(),
        },
    });
    mounts.push(Mount::Worker);

    let mut exec = host.trees.clone();
    if contained {
        // Programs of an image lie wherever it has put them.
        exec.push("/".to_owned());
    }
    exec.extend(listed.iter().map(|(_, target)| target.clone()));
    exec.extend(writable.iter().cloned());
    exec.push(WORKER_INSIDE.to_owned());
    // The harmless nodes every command has; terminals of the session are devices too.
    writable.extend(["/dev/shm", "/dev/pts", "/dev/ptmx"].map(str::to_owned));
    Ok(JailSpec {
        build: BUILD.to_owned(),
        session: place.session.clone(),
        situation: if contained {
            Situation::Container
        } else {
            place.situation
        },
        identity: place.identity,
        own_reach: place.own_reach,
        view: mounts,
        agent_read: vec![workspace.clone(), WORKER_INSIDE.to_owned()],
        // What must not be read is not in the view, so that all of it may be.
        ceiling: Domain {
            read: vec!["/".to_owned()],
            write: writable,
            exec,
        },
        workspace,
        home,
        tmp: "/tmp".to_owned(),
        doors: Doors::default(),
        limits: session_limits(place.settings),
        pretend_abi: None,
    })
}

fn session_limits(settings: &Settings) -> JailLimits {
    JailLimits {
        processes: settings.limits.processes,
        open_files: bounds::OPEN_FILES,
        file_size: bounds::FILE_SIZE.min(settings.limits.disk),
    }
}

/// The workspace's name inside, if it can be one.
fn checked_workspace(place: &SessionPlace<'_>) -> Result<String, ViewError> {
    let workspace = text(place.workspace)?;
    let wrong = |why| ViewError::Workspace {
        path: workspace.clone(),
        why,
    };
    if !is_plain(place.workspace) {
        return Err(wrong("it must be absolute, without `.` and `..`"));
    }
    if place
        .private
        .iter()
        .any(|own| own.starts_with(place.workspace))
    {
        return Err(wrong("Provost's own places lie in it: name a folder below"));
    }
    if place
        .private
        .iter()
        .any(|own| place.workspace.starts_with(own))
    {
        return Err(wrong(
            "it lies in one of Provost's own places: name another folder",
        ));
    }
    let kept = PROGRAM_FOLDERS.iter().chain(&RESERVED).chain(&["/tmp"]);
    if workspace == "/" || kept.into_iter().any(|kept| below(kept, &workspace)) {
        return Err(wrong("the view needs its own there: name a folder below"));
    }
    if RESERVED.iter().any(|kept| below(&workspace, kept)) {
        return Err(wrong("the view has its own there: name another folder"));
    }
    Ok(workspace)
}

/// The private HOME's name: the account's, unless the workspace is that very folder or above it.
fn home_inside(workspace: &str, home: &Path) -> String {
    let own = home.to_str().filter(|own| {
        let system = PROGRAM_FOLDERS.iter().chain(&RESERVED);
        is_plain(home) && *own != "/" && !system.into_iter().any(|kept| below(own, kept))
    });
    let names = own.into_iter().chain(HOME_ELSEWHERE);
    let fits = |name: &&str| !below(name, workspace) && !below("/tmp", name);
    names
        .into_iter()
        .find(fits)
        .unwrap_or("/run/home")
        .to_owned()
}

/// The environment of a command, from nothing.
#[must_use]
pub fn command_environment(spec: &JailSpec) -> Vec<(String, String)> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    // Without mounts the host's own would be found there, and refused.
    let git_configuration = match spec.situation {
        Situation::Landlock => "/dev/null",
        Situation::Namespaces | Situation::Container => git::PLACE,
    };
    vec![
        pair(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        pair("HOME", &spec.home),
        pair("USER", "agent"),
        pair("LOGNAME", "agent"),
        pair("SHELL", "/bin/sh"),
        pair("TMPDIR", &spec.tmp),
        pair("LANG", "C.UTF-8"),
        pair("TERM", "dumb"),
        // Wherever this machine's git looks for it by itself.
        pair("GIT_CONFIG_SYSTEM", git_configuration),
    ]
}

/// Whether `path` is `tree` or lies below it, by components.
fn below(path: &str, tree: &str) -> bool {
    Path::new(path).starts_with(tree)
}

/// Absolute, and nothing but names.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && path
            .to_str()
            .is_some_and(|text| !text.contains('\0') && text.len() <= 4096)
}

fn text(path: &Path) -> Result<String, ViewError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| ViewError::NotUtf8(path.to_string_lossy().into_owned()))
}

mod host;
mod open;

pub use open::{HOME, TMP};

#[cfg(test)]
mod tests;
