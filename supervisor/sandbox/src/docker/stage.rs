//! A running container's own folder on the host, and what the engine mounts from it.
//!
//! ```text
//! FOLDER/SESSION/   0700
//!   link/           0700 of the session's account: the meeting
//!   files/N         small files of the view, read-only
//!   stage/N         root only: what was opened, mounted here until the container has its own mounts
//! ```
//!
//! It is never removed recursively: a stage that could not be unmounted leads to somebody's files.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use protocol::{
    SessionId,
    jail::{JailSpec, MEETING_INSIDE, Mount, WORKER_INSIDE},
};
use rustix::{
    fs::{CWD, FileType},
    mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree},
};

use crate::{launch::LaunchError, worker::WorkerBinary};

/// What the folder holds.
const PARTS: [&str; 3] = ["link", "files", "stage"];
/// Mounts on one name that are taken off; more were never there.
const LAYERS: usize = 8;

/// One bind mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    /// Path on the host, as the engine gets it.
    pub(super) source: String,
    /// Path inside.
    pub(super) target: String,
    /// Whether nothing may be written through it.
    pub(super) read_only: bool,
}

/// The folder. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    link: PathBuf,
}

impl Folder {
    /// Makes it, empty.
    pub(super) fn make(base: &Path, session: &SessionId) -> Result<Self, LaunchError> {
        let root = base.join(session.as_str());
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true).create(base)?;
        builder.recursive(false);
        match builder.create(&root) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The session's lock is ours, so nobody uses what an earlier supervisor left.
                clear(&root)?;
                builder.create(&root)?;
            }
            other => other?,
        }
        let made = Self {
            link: root.join("link"),
            root,
        };
        for part in PARTS {
            builder.create(made.root.join(part))?;
        }
        Ok(made)
    }

    /// The folder of the meeting.
    pub(super) fn link(&self) -> &Path {
        &self.link
    }

    /// Readies what the container mounts. Where this process is root each source is opened here, once,
    /// and the engine gets a name below this folder; else it gets the source's own.
    pub(super) fn stage(
        &mut self,
        spec: &JailSpec,
        worker: &WorkerBinary,
        root: bool,
    ) -> Result<Vec<Bind>, LaunchError> {
        let mut binds = vec![Bind {
            source: text(&self.link)?,
            target: MEETING_INSIDE.to_owned(),
            read_only: true,
        }];
        for (number, mount) in spec.view.iter().enumerate() {
            let (source, target, read_only) = match mount {
                Mount::ReadOnly { source, target } => (PathBuf::from(source), target, true),
                Mount::Writable { source, target } => (PathBuf::from(source), target, false),
                Mount::Worker if root => (worker.program(), &WORKER_INSIDE.to_owned(), true),
                Mount::Worker => (worker.path().to_owned(), &WORKER_INSIDE.to_owned(), true),
                Mount::File { target, content } => {
                    let path = self.root.join("files").join(number.to_string());
                    write(&path, content)?;
                    binds.push(Bind {
                        source: text(&path)?,
                        target: target.clone(),
                        read_only: true,
                    });
                    continue;
                }
                // The engine makes its own of each.
                Mount::Tmpfs { .. } | Mount::Device { .. } | Mount::Terminals | Mount::Proc => {
                    continue;
                }
                Mount::Overlay { target, .. } => {
                    return Err(LaunchError::Fault(format!(
                        "a container works in a copy, and `{target}` is an overlay"
                    )));
                }
                Mount::Link { target, .. } => {
                    return Err(LaunchError::Fault(format!(
                        "a container's view has no links, and `{target}` is one"
                    )));
                }
            };
            let source = if root {
                self.hold(&source, number, read_only)
                    .map_err(|error| LaunchError::Unfit {
                        step: format!("stage `{}`", source.display()),
                        message: error.to_string(),
                    })?
            } else {
                source
            };
            binds.push(Bind {
                source: text(&source)?,
                target: target.clone(),
                read_only,
            });
        }
        Ok(binds)
    }

    /// Opens a source and mounts what was opened below this folder: the engine resolves no name that
    /// another account can change.
    fn hold(&self, source: &Path, number: usize, read_only: bool) -> io::Result<PathBuf> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, source, flags)?;
        let place = self.root.join("stage").join(number.to_string());
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode);
        match kind {
            FileType::Directory => fs::create_dir(&place)?,
            FileType::RegularFile => drop(File::create_new(&place)?),
            _ => return Err(io::Error::other("it is neither a folder nor a file")),
        }
        move_mount(
            &tree,
            "",
            CWD,
            &place,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?;
        let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
        if read_only {
            flags |= MountFlags::RDONLY;
        }
        rustix::mount::mount_remount(&place, flags, "")?;
        Ok(place)
    }

    /// Takes the stages down: the container has mounts of its own by now.
    pub(super) fn unstage(&self) -> io::Result<()> {
        clear_part(&self.root.join("stage"), true)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is found by the next start.
        let _ = clear(&self.root);
    }
}

/// Removes a folder of this shape; absent is removed.
pub(super) fn clear(root: &Path) -> io::Result<()> {
    for part in PARTS {
        let path = root.join(part);
        clear_part(&path, part == "stage")?;
        gone(fs::remove_dir(&path))?;
    }
    gone(fs::remove_dir(root))
}

fn clear_part(part: &Path, staged: bool) -> io::Result<()> {
    let entries = match fs::read_dir(part) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if staged {
            take_down(&path)?;
        }
        // A folder that is still a mount point is busy, one that leads elsewhere is not empty.
        match fs::remove_file(&path) {
            Err(error) if error.raw_os_error() == Some(21) => gone(fs::remove_dir(&path))?,
            other => gone(other)?,
        }
    }
    Ok(())
}

fn take_down(path: &Path) -> io::Result<()> {
    for _ in 0..LAYERS {
        match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // No mount is left on it.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Sessions whose folders were left below `base`.
pub(super) fn left(base: &Path) -> io::Result<Vec<SessionId>> {
    let entries = match fs::read_dir(base) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    Ok(names
        .filter_map(|name| SessionId::parse(OsStr::to_str(&name)?).ok())
        .collect())
}

fn write(path: &Path, content: &str) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o444)
        .open(path)?;
    file.write_all(content.as_bytes())
}

fn text(path: &Path) -> Result<String, LaunchError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| LaunchError::Fault(format!("`{}` is not UTF-8: rename it", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_what_belongs_in_it_and_nothing_else() {
        let base = tempfile::tempdir().expect("folder");
        let base = base.path().join("containers");
        let session = SessionId::parse("s-1-ab").expect("valid");
        let folder = Folder::make(&base, &session).expect("made");
        write(&folder.root.join("files/1"), "x").expect("written");
        assert_eq!(left(&base).expect("listed"), std::slice::from_ref(&session));
        // A supervisor that died left it: the next one takes its place.
        std::mem::forget(folder);
        let folder = Folder::make(&base, &session).expect("made anew");
        let foreign = folder.root.join("stage/0/deep");
        fs::create_dir_all(&foreign).expect("made");
        assert!(
            clear(&folder.root).is_err(),
            "a full folder is not ours to empty"
        );
        assert!(foreign.exists());
        fs::remove_dir(&foreign).expect("emptied");
        drop(folder);
        assert_eq!(left(&base).expect("listed"), []);
    }

    #[test]
    fn a_stage_shows_what_was_opened_and_is_taken_down_without_touching_it() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().expect("folder");
        let source = place.path().join("source");
        fs::create_dir(&source).expect("made");
        fs::write(source.join("kept"), "kept").expect("written");
        let session = SessionId::parse("s-1-ab").expect("valid");
        let folder = Folder::make(&place.path().join("base"), &session).expect("made");
        let staged = folder.hold(&source, 3, true).expect("staged");
        // The name now leads elsewhere; what is staged is still what was opened.
        fs::rename(&source, place.path().join("moved")).expect("moved");
        fs::create_dir(&source).expect("a decoy");
        assert_eq!(
            fs::read_to_string(staged.join("kept")).expect("read"),
            "kept"
        );
        assert!(fs::write(staged.join("new"), "").is_err(), "read-only");
        drop(folder);
        assert!(!staged.exists());
        assert!(place.path().join("moved/kept").exists());
    }
}
