//! Puts back what tools changed in a session's tree. The tree is sealed, so each step is a plain rename;
//! the contents come from the supervisor's store and are proven by digest.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, makedev, mknodat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, fsync, geteuid, unlinkat};
use protocol::reader::{Finding, Kept, Node, NodeKind, Step, TreeKind};
use protocol::{Digest, bounds};

use crate::failure::{At, Trouble};
use crate::manifest;
use crate::name;
use crate::place;
use crate::plan::Found;
use crate::sealed;
use crate::upper;

/// The name under which a file is written before it takes its place.
const TEMPORARY: &std::ffi::CStr = c".provost-put-undo";

/// Files named when something is not as a tool left it.
const NAMED: usize = 5;

/// What to put back, and where.
pub(crate) struct Order<'a> {
    pub(crate) tree: &'a str,
    pub(crate) kind: TreeKind,
    pub(crate) manifest: &'a str,
    pub(crate) steps: &'a [Step],
}

/// Puts back; a second time there is nothing left to do, and it says so with zero.
pub(crate) fn restore(order: &Order<'_>) -> Result<Finding, Trouble> {
    if order.steps.len() as u64 > bounds::KEPT_ENTRIES {
        let most = bounds::KEPT_ENTRIES;
        return Err(Trouble::Limit(format!("more than {most} files at once")));
    }
    let tree = sealed::open_root(order.tree)?;
    let below: BTreeSet<String> = match order.kind {
        TreeKind::Copy => BTreeSet::new(),
        TreeKind::Upper => manifest::read(order.manifest)?.into_keys().collect(),
    };
    let mut due = Vec::new();
    let mut other = Vec::new();
    for step in order.steps {
        let path = name::parse(&step.path)?;
        match stands(&tree, &path, step, order.kind)? {
            Stands::AsLeft => due.push((path, step)),
            Stands::AsBefore => {}
            Stands::Otherwise => other.push(format!("`{}`", name::shorten(&step.path))),
        }
    }
    if !other.is_empty() {
        let more = other.len().saturating_sub(NAMED);
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        other.truncate(NAMED);
        return Err(Trouble::Moved(format!(
            "something else than a tool changed {}{rest} since; nothing was undone; discard the \
             changes, or leave those calls with --to",
            other.join(", ")
        )));
    }
    for (path, step) in &due {
        match &step.before {
            Some(kept) => write(&tree, path, step, kept)?,
            None => remove(&tree, path, step, below.contains(&step.path))?,
        }
    }
    Ok(Finding::Restored {
        files: due.len() as u64,
    })
}

/// How a file stands beside what a tool left and what was before.
enum Stands {
    AsLeft,
    AsBefore,
    Otherwise,
}

fn stands(tree: &OwnedFd, path: &[u8], step: &Step, kind: TreeKind) -> Result<Stands, Trouble> {
    // Only the content is compared: the bits are not a tool's.
    let any = Node {
        kind: NodeKind::File,
        mode: 0o777,
        size: 0,
        digest: None,
    };
    let found = upper::look_in(tree, path, Some(&any), kind == TreeKind::Upper)
        .at("cannot read", &step.path)?;
    let before = step.before.as_ref().map(|kept| &kept.digest);
    Ok(match found {
        Found::Node(Node {
            kind: NodeKind::File,
            digest: Some(digest),
            ..
        }) => {
            if Some(&digest) == before {
                Stands::AsBefore
            } else if step.known.contains(&digest) {
                Stands::AsLeft
            } else {
                Stands::Otherwise
            }
        }
        // A layer that says nothing of a file has it as it was below, where a tool made none.
        Found::Nothing | Found::Behind | Found::Untouched if before.is_none() => Stands::AsBefore,
        _ => Stands::Otherwise,
    })
}

fn write(tree: &OwnedFd, path: &[u8], step: &Step, kept: &Kept) -> Result<(), Trouble> {
    let shown = &step.path;
    let (folder, last) = place::open_parent(tree, path).at("cannot open the folder of", shown)?;
    let status = place::status_at(&folder, &last).at("cannot read", shown)?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let from = open(kept.file.as_str(), flags, Mode::empty()).at("cannot open", &kept.file)?;
    let _ = unlinkat(&folder, TEMPORARY, UnlinkatFlags::NoRemoveDir);
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let bits = Mode::S_IRUSR | Mode::S_IWUSR;
    let to = openat(&folder, TEMPORARY, flags, bits).at("cannot write beside", shown)?;
    let made = copy(File::from(from), File::from(to), kept).and_then(|file| {
        if geteuid().is_root() {
            let (uid, gid) = status.owner;
            fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        fchmod(&file, place::mode(status.mode))?;
        fsync(&file)?;
        Ok(renameat(&folder, TEMPORARY, &folder, last.as_c_str())?)
    });
    if made.is_err() {
        let _ = unlinkat(&folder, TEMPORARY, UnlinkatFlags::NoRemoveDir);
    }
    made.at("cannot put back", shown)
}

fn copy(from: File, mut to: File, kept: &Kept) -> io::Result<File> {
    let mut content = Vec::new();
    from.take(bounds::BLOB.saturating_add(1))
        .read_to_end(&mut content)?;
    if Digest::of(&content) != kept.digest {
        return Err(io::Error::other(
            "what was kept of it does not have its digest",
        ));
    }
    to.write_all(&content)?;
    Ok(to)
}

/// Takes a file away that a tool made. Where the workspace has one below, the layer said that it was
/// gone, and says so again.
fn remove(tree: &OwnedFd, path: &[u8], step: &Step, below: bool) -> Result<(), Trouble> {
    let shown = &step.path;
    let (folder, last) = place::open_parent(tree, path).at("cannot open the folder of", shown)?;
    if !below {
        return unlinkat(&folder, last.as_c_str(), UnlinkatFlags::NoRemoveDir)
            .at("cannot remove", shown);
    }
    let (uid, gid) = place::status(&folder).at("cannot read", shown)?.owner;
    let _ = unlinkat(&folder, TEMPORARY, UnlinkatFlags::NoRemoveDir);
    let marked = mknodat(
        &folder,
        TEMPORARY,
        SFlag::S_IFCHR,
        Mode::empty(),
        makedev(0, 0),
    )
    .and_then(|()| {
        let flag = AtFlags::AT_SYMLINK_NOFOLLOW;
        match geteuid().is_root() {
            true => {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                fchownat(&folder, TEMPORARY, Some(uid), Some(gid), flag)
            }
            false => Ok(()),
        }
    })
    .and_then(|()| renameat(&folder, TEMPORARY, &folder, last.as_c_str()));
    match marked {
        Ok(()) => Ok(()),
        Err(errno) => {
            let _ = unlinkat(&folder, TEMPORARY, UnlinkatFlags::NoRemoveDir);
            Err::<(), Errno>(errno).at("cannot mark as gone", shown)
        }
    }
}
