//! Prepares an overlay: one walk over the workspace for the manifest, and the layer above with a mark
//! on every name that a session must not see. Nothing is read but names and states.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fchmod, futimens, makedev, mkdirat, mknodat};
use nix::sys::time::TimeSpec;
use nix::unistd::{AccessFlags, Gid, Uid, faccessat, fchown, fchownat, getegid, geteuid};
use protocol::jail::Identity;
use protocol::reader::{Finding, ManifestEntry, NodeKind};

use crate::copy::notice;
use crate::failure::{At, Trouble};
use crate::hide::Hide;
use crate::manifest;
use crate::name;
use crate::place::{self, Kind, Status};
use crate::walk::{self, Spot, Tree, Visit};

/// What to prepare, and where.
pub(crate) struct Order<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) tree: &'a str,
    pub(crate) manifest: &'a str,
    pub(crate) hide: &'a [String],
    pub(crate) max_entries: u64,
    pub(crate) owner: Option<Identity>,
}

/// Prepares, and says what is hidden.
pub(crate) fn prepare(order: &Order<'_>) -> Result<Finding, Trouble> {
    let hide = Hide::new(order.hide)?;
    let source = place::open_root(order.workspace)?;
    let tree = place::open_root(order.tree)?;
    let rest = place::some_names(&tree, 1).at("cannot list", order.tree)?;
    if !rest.0.is_empty() {
        let tree = order.tree;
        return Err(Trouble::Unfit(format!(
            "the session's layer `{tree}` is not empty"
        )));
    }
    // The kernel keeps its marks as attributes of the account.
    let (name, no) = ("user.provost", rustix::fs::XattrFlags::empty());
    let kept = rustix::fs::fsetxattr(&tree, name, b"y", no)
        .and_then(|()| rustix::fs::fremovexattr(&tree, name));
    if let Err(errno) = kept {
        return Err(Trouble::Unfit(format!(
            "the file system of the sessions' folder keeps no attributes of accounts ({errno})"
        )));
    }
    let status = place::status(&source).at("cannot read", order.workspace)?;
    // A layer shows one owner: under root the workspace's, else the account itself.
    let owner = match order.owner {
        Some(_) => status.owner,
        None => (geteuid().as_raw(), getegid().as_raw()),
    };
    let mut look = Look {
        hide: &hide,
        most: order.max_entries,
        owner,
        is_root: geteuid().is_root(),
        device: status.identity.0,
        manifest: manifest::Writer::create(order.manifest)?,
        entries: 0,
        marks: Vec::new(),
        hidden: Vec::new(),
        skipped: Vec::new(),
    };
    look.one_owner(b".", &status)?;
    walk::walk(&source, Tree::Live, &mut look)?;
    let Look {
        manifest,
        entries,
        mut marks,
        hidden,
        skipped,
        ..
    } = look;
    manifest.finish()?;
    marks.sort_unstable();
    let layer = Layer {
        source: &source,
        tree: &tree,
        owner: order
            .owner
            .map(|owner| (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid))),
    };
    layer.mark(&marks)?;
    // The session must be able to work at its own root.
    let mode = status.mode | 0o700;
    layer
        .dress(&tree, &Status { mode, ..status })
        .at("cannot finish", order.tree)?;
    Ok(Finding::Prepared {
        entries,
        owner: Identity {
            uid: owner.0,
            gid: owner.1,
        },
        hidden,
        skipped,
    })
}

struct Look<'a> {
    hide: &'a Hide,
    most: u64,
    owner: (u32, u32),
    is_root: bool,
    device: u64,
    manifest: manifest::Writer,
    entries: u64,
    /// What must not be seen.
    marks: Vec<Vec<u8>>,
    hidden: Vec<String>,
    skipped: Vec<String>,
}

impl Look<'_> {
    /// Inside one account stands for one account: what belongs to another cannot be changed there.
    fn one_owner(&self, path: &[u8], status: &Status) -> Result<(), Trouble> {
        if status.owner == self.owner {
            return Ok(());
        }
        let (uid, gid) = status.owner;
        Err(Trouble::Unfit(format!(
            "`{}` belongs to user {uid}, group {gid}, and the rest to user {}, group {}: an overlay \
             shows one owner; use workspace = \"copy\"",
            name::shorten(&name::escape(path)),
            self.owner.0,
            self.owner.1
        )))
    }

    fn add(&mut self, path: &[u8], status: &Status, kind: NodeKind) -> Result<(), Trouble> {
        self.one_owner(path, status)?;
        self.entries += 1;
        if self.entries > self.most {
            return Err(self.full(path));
        }
        self.manifest.add(&ManifestEntry {
            path: name::escape(path),
            kind,
            mode: if kind == NodeKind::Symlink {
                0o777
            } else {
                status.mode
            },
            size: status.size,
            identity: status.identity,
            ctime_ns: status.ctime_ns,
            digest: None,
        })
    }
}

impl Visit for Look<'_> {
    fn wants(&mut self, path: &[u8], is_folder: bool) -> bool {
        let hidden = self.hide.hides(path, is_folder);
        if hidden {
            notice(&mut self.hidden, path, None);
            self.marks.push(path.to_owned());
        }
        !hidden
    }

    fn enter(&mut self, spot: &Spot<'_>, _: &OwnedFd, status: &Status) -> Result<bool, Trouble> {
        if status.identity.0 != self.device {
            return Err(Trouble::Unfit(format!(
                "`{}` lies on another file system, which an overlay would not show; use \
                 workspace = \"copy\"",
                name::shorten(&name::escape(spot.path))
            )));
        }
        self.add(spot.path, status, NodeKind::Folder)?;
        Ok(true)
    }

    fn leave(&mut self, _: &Status) -> Result<(), Trouble> {
        Ok(())
    }

    fn leaf(&mut self, spot: &Spot<'_>, status: &Status) -> Result<(), Trouble> {
        if status.kind == Kind::Symlink {
            return self.add(spot.path, status, NodeKind::Symlink);
        }
        if !self.is_root && status.mode & 0o400 == 0 {
            let access = AccessFlags::R_OK;
            if faccessat(spot.folder, spot.name, access, AtFlags::AT_EACCESS).is_err() {
                self.skip(spot.path, "permission denied");
                return Ok(());
            }
        }
        self.add(spot.path, status, NodeKind::File)
    }

    fn skip(&mut self, path: &[u8], reason: &str) {
        notice(&mut self.skipped, path, Some(reason));
        self.marks.push(path.to_owned());
    }

    fn room(&self) -> u64 {
        self.most
    }

    fn full(&self, path: &[u8]) -> Trouble {
        Trouble::Limit(format!(
            "the workspace holds more than {} entries, counted up to `{}`; hide what need not be \
             seen, or name a folder below",
            self.most,
            name::shorten(&name::escape(path))
        ))
    }
}

/// The layer while it is prepared: nobody else can reach it.
struct Layer<'a> {
    source: &'a OwnedFd,
    tree: &'a OwnedFd,
    owner: Option<(Uid, Gid)>,
}

impl Layer<'_> {
    /// Puts a mark on each path; the folders above are made as the workspace has them.
    fn mark(&self, paths: &[Vec<u8>]) -> Result<(), Trouble> {
        let mut made: Vec<Vec<u8>> = Vec::new();
        for path in paths {
            let shown = || name::shorten(&name::escape(path));
            let (folder, last) = name::split(path);
            self.folders(folder, &mut made)
                .at("cannot hide in the layer", &shown())?;
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            let marked = place::open_beneath(self.tree, folder, flags).and_then(|folder| {
                let last = name::path(last);
                mknodat(&folder, last, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0))?;
                let flag = AtFlags::AT_SYMLINK_NOFOLLOW;
                match self.owner {
                    Some((uid, gid)) => fchownat(&folder, last, Some(uid), Some(gid), flag),
                    None => Ok(()),
                }
            });
            marked.at("cannot hide in the layer", &shown())?;
        }
        // Last of all and from the leaves up: a folder's own bits may forbid to go on in it.
        for path in made.iter().rev() {
            let finished = place::open_beneath(self.tree, path, OFlag::O_RDONLY).and_then(|copy| {
                let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
                let status = place::status(place::open_beneath(self.source, path, flags)?)?;
                self.dress(&copy, &status)
            });
            match finished {
                // Gone since it was listed: then nothing of it is shown either.
                Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
                Err(errno) => return Err(errno).at("cannot finish", &name::escape(path)),
            }
        }
        Ok(())
    }

    fn folders(&self, path: &[u8], made: &mut Vec<Vec<u8>>) -> nix::Result<()> {
        let ends = path
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let part = path.get(..end).unwrap_or(path);
            if part.is_empty() || made.last().is_some_and(|last| last == part) {
                continue;
            }
            let (above, last) = name::split(part);
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            let above = place::open_beneath(self.tree, above, flags)?;
            match mkdirat(&above, name::path(last), Mode::S_IRWXU) {
                Ok(()) => made.push(part.to_vec()),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// A folder of the layer is shown in place of the workspace's: with its bits and times.
    fn dress(&self, folder: &OwnedFd, status: &Status) -> nix::Result<()> {
        let mtime = TimeSpec::new(status.mtime.0, status.mtime.1);
        futimens(folder, &mtime, &mtime)?;
        if let Some((uid, gid)) = self.owner {
            fchown(folder, Some(uid), Some(gid))?;
        }
        fchmod(folder, place::mode(status.mode))
    }
}
