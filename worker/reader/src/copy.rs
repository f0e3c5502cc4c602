//! Copies a workspace into a session's tree: one walk through held handles, links as links, no
//! special files, no setuid, and a manifest of what was there.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, UtimensatFlags, fchmod, futimens, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, fchownat, symlinkat, unlinkat};
use protocol::Digest;
use protocol::jail::Identity;
use protocol::reader::{Finding, ManifestEntry, NodeKind};

use crate::failure::{At, Trouble, is_swap};
use crate::hide::Hide;
use crate::manifest;
use crate::name;
use crate::place::{self, Status};
use crate::walk::{self, Spot, Tree, Visit};
use crate::weigh::{self, Bounds};

/// Files up to this size go through one buffer that is also hashed; larger ones through the kernel.
const AT_ONCE: u64 = 1024 * 1024;

/// Names in a notice list.
pub(crate) const NOTICES: usize = 100;

/// What to copy, and where to.
pub(crate) struct Order<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) tree: &'a str,
    pub(crate) manifest: &'a str,
    pub(crate) hide: &'a [String],
    pub(crate) bounds: Bounds,
    pub(crate) owner: Option<Identity>,
}

/// Copies, and says what was copied and what was not.
pub(crate) fn copy_in(order: &Order<'_>) -> Result<Finding, Trouble> {
    let hide = Hide::new(order.hide)?;
    let source = place::open_root(order.workspace)?;
    let tree = place::open_root(order.tree)?;
    let rest = place::some_names(&tree, 1).at("cannot list", order.tree)?;
    if !rest.0.is_empty() {
        return Err(Trouble::Unfit(format!(
            "the session's tree `{}` is not empty",
            order.tree
        )));
    }
    weigh::weigh(&source, &hide, order.bounds)?;
    let status = place::status(&tree).at("cannot read", order.tree)?;
    let manifest = manifest::Writer::create(order.manifest)?;
    let mut copy = Copy {
        hide: &hide,
        bounds: order.bounds,
        owner: order
            .owner
            .map(|o| (Uid::from_raw(o.uid), Gid::from_raw(o.gid))),
        tree: status.identity,
        folders: vec![tree],
        manifest,
        buffer: Vec::new(),
        entries: 0,
        bytes: 0,
        hidden: Vec::new(),
        skipped: Vec::new(),
    };
    walk::walk(&source, Tree::Live, &mut copy)?;
    let status = place::status(&source).at("cannot read", order.workspace)?;
    // The session must be able to work at its own root.
    copy.close(&Status {
        mode: status.mode | 0o700,
        ..status
    })?;
    copy.manifest.finish()?;
    Ok(Finding::Copied {
        entries: copy.entries,
        bytes: copy.bytes,
        hidden: copy.hidden,
        skipped: copy.skipped,
    })
}

struct Copy<'a> {
    hide: &'a Hide,
    bounds: Bounds,
    owner: Option<(Uid, Gid)>,
    tree: (u64, u64),
    /// The copies of the folders from the root to the one that is being read.
    folders: Vec<OwnedFd>,
    manifest: manifest::Writer,
    buffer: Vec<u8>,
    entries: u64,
    bytes: u64,
    hidden: Vec<String>,
    skipped: Vec<String>,
}

impl Copy<'_> {
    fn here(&self) -> Result<&OwnedFd, Trouble> {
        self.folders
            .last()
            .ok_or_else(|| Trouble::Unfit("the copy has no folder open".into()))
    }

    fn count(&mut self, path: &[u8]) -> Result<(), Trouble> {
        self.entries += 1;
        if self.entries > self.bounds.entries {
            Err(self.full(path))
        } else {
            Ok(())
        }
    }

    fn note(
        &mut self,
        path: &[u8],
        status: &Status,
        kind: NodeKind,
        digest: Option<Digest>,
    ) -> Result<(), Trouble> {
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
            digest,
        })
    }

    /// Gives the innermost copied folder its times, owner and mode, last of all: writing into it
    /// would change the times, and its mode may forbid writing.
    fn close(&mut self, status: &Status) -> Result<(), Trouble> {
        let Some(folder) = self.folders.pop() else {
            return Ok(());
        };
        self.dress(&folder, status)
            .at("cannot finish a folder of", "the copy")
    }

    fn dress(&self, node: &OwnedFd, status: &Status) -> nix::Result<()> {
        let mtime = TimeSpec::new(status.mtime.0, status.mtime.1);
        futimens(node, &mtime, &mtime)?;
        if let Some((uid, gid)) = self.owner {
            fchown(node, Some(uid), Some(gid))?;
        }
        fchmod(node, place::mode(status.mode))
    }

    fn link(&mut self, spot: &Spot<'_>, status: &Status) -> Result<(), Trouble> {
        let target = match place::target(spot.folder, spot.name) {
            Ok(target) => target,
            // EINVAL: it is no longer a link.
            Err(errno) if is_swap(errno) || errno == Errno::EINVAL => {
                self.skip(spot.path, "changed while it was copied");
                return Ok(());
            }
            Err(errno) => return Err(errno).at("cannot read", &name::escape(spot.path)),
        };
        self.count(spot.path)?;
        let here = self.here()?;
        let made = symlinkat(target.as_os_str(), here, spot.name).and_then(|()| {
            let mtime = TimeSpec::new(status.mtime.0, status.mtime.1);
            let flag = UtimensatFlags::NoFollowSymlink;
            utimensat(here, spot.name, &mtime, &mtime, flag)?;
            let Some((uid, gid)) = self.owner else {
                return Ok(());
            };
            let flag = AtFlags::AT_SYMLINK_NOFOLLOW;
            fchownat(here, spot.name, Some(uid), Some(gid), flag)
        });
        made.at("cannot copy", &name::escape(spot.path))?;
        let digest = Digest::of(target.as_bytes());
        let status = Status {
            size: target.len() as u64,
            ..*status
        };
        self.note(spot.path, &status, NodeKind::Symlink, Some(digest))
    }

    fn file(&mut self, spot: &Spot<'_>) -> Result<(), Trouble> {
        let shown = || name::escape(spot.path);
        let mut steady = false;
        // Twice at most: a file that changes meanwhile is copied once more, then kept as it was read.
        for attempt in 0..2 {
            let (source, before) = match place::open_file(spot.folder, spot.name) {
                Ok(Some(open)) => open,
                Ok(None) => {
                    self.skip(spot.path, "changed while it was copied");
                    return Ok(());
                }
                Err(Errno::EACCES | Errno::EPERM) => {
                    self.skip(spot.path, "permission denied");
                    return Ok(());
                }
                Err(errno) if is_swap(errno) => {
                    self.skip(spot.path, "changed while it was copied");
                    return Ok(());
                }
                Err(errno) => return Err(errno).at("cannot open", &shown()),
            };
            if attempt > 0 {
                let flag = UnlinkatFlags::NoRemoveDir;
                unlinkat(self.here()?, spot.name, flag).at("cannot copy again", &shown())?;
            }
            let flags = OFlag::O_RDWR
                | OFlag::O_CREAT
                | OFlag::O_EXCL
                | OFlag::O_NOFOLLOW
                | OFlag::O_CLOEXEC;
            let copy = openat(
                self.here()?,
                spot.name,
                flags,
                Mode::S_IRUSR | Mode::S_IWUSR,
            )
            .at("cannot create in the copy", &shown())?;
            let left = self.bounds.bytes.saturating_sub(self.bytes);
            let source = File::from(source);
            let mut copy = File::from(copy);
            let moved = transfer(&source, &mut copy, &before, left, &mut self.buffer);
            let Some((digest, size)) = moved.at("cannot copy", &shown())? else {
                return Err(self.too_large(spot.path));
            };
            let after = place::status(&source).at("cannot read", &shown())?;
            steady = after.mtime == before.mtime
                && after.ctime_ns == before.ctime_ns
                && after.size == before.size
                && size == before.size;
            if !steady && attempt == 0 {
                continue;
            }
            self.count(spot.path)?;
            self.bytes = self.bytes.saturating_add(size);
            let copy = OwnedFd::from(copy);
            self.dress(&copy, &after).at("cannot finish", &shown())?;
            self.note(
                spot.path,
                &Status { size, ..after },
                NodeKind::File,
                Some(digest),
            )?;
            break;
        }
        if !steady {
            self.skip(spot.path, "kept as it was read: it changes all the time");
        }
        Ok(())
    }

    fn too_large(&self, path: &[u8]) -> Trouble {
        Trouble::Limit(format!(
            "the workspace grew beyond {} while it was copied, at `{}`; hide what is written there, \
             or try again when nothing writes",
            weigh::size(self.bounds.bytes),
            name::shorten(&name::escape(path))
        ))
    }
}

/// Copies what `source` holds and names it by digest; `None` if it is more than `left` bytes.
fn transfer(
    source: &File,
    copy: &mut File,
    status: &Status,
    left: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(Digest, u64)>> {
    if status.size > left {
        return Ok(None);
    }
    if status.size <= AT_ONCE {
        buffer.clear();
        let got = source
            .take(left.min(AT_ONCE).saturating_add(1))
            .read_to_end(buffer)? as u64;
        if got > left {
            return Ok(None);
        }
        if got <= AT_ONCE {
            copy.write_all(buffer)?;
            return Ok(Some((Digest::of(buffer), got)));
        }
        // It grew past the buffer: what was read is written, the rest follows below.
        copy.write_all(buffer)?;
    }
    // The standard library moves it by copy_file_range, which shares blocks where the file system
    // can, and by hand where the kernel refuses.
    let so_far = copy.stream_position()?;
    let most = left.saturating_sub(so_far).saturating_add(1);
    let more = io::copy(&mut source.take(most), copy)?;
    if so_far.saturating_add(more) > left {
        return Ok(None);
    }
    // Hashed from the copy, which nobody else can touch: the digest is of what the session gets.
    copy.seek(SeekFrom::Start(0))?;
    let (digest, size) = Digest::of_reader(copy)?;
    Ok((size <= left).then_some((digest, size)))
}

/// Adds a notice while there is room for one.
pub(crate) fn notice(list: &mut Vec<String>, path: &[u8], reason: Option<&str>) {
    if list.len() < NOTICES {
        let path = name::shorten(&name::escape(path));
        list.push(reason.map_or_else(|| path.clone(), |reason| format!("{path} ({reason})")));
    }
}

impl Visit for Copy<'_> {
    fn wants(&mut self, path: &[u8], is_folder: bool) -> bool {
        let hidden = self.hide.hides(path, is_folder);
        if hidden {
            notice(&mut self.hidden, path, None);
        }
        !hidden
    }

    fn enter(&mut self, spot: &Spot<'_>, _: &OwnedFd, status: &Status) -> Result<bool, Trouble> {
        if status.identity == self.tree {
            self.skip(spot.path, "the session's own tree");
            return Ok(false);
        }
        let shown = || name::escape(spot.path);
        self.count(spot.path)?;
        let here = self.here()?;
        mkdirat(here, spot.name, Mode::S_IRWXU).at("cannot copy", &shown())?;
        let folder = place::open_folder(here, spot.name).at("cannot open the copy of", &shown())?;
        self.folders.push(folder);
        self.note(spot.path, status, NodeKind::Folder, None)?;
        Ok(true)
    }

    fn leave(&mut self, status: &Status) -> Result<(), Trouble> {
        self.close(status)
    }

    fn leaf(&mut self, spot: &Spot<'_>, status: &Status) -> Result<(), Trouble> {
        if status.kind == place::Kind::Symlink {
            self.link(spot, status)
        } else {
            self.file(spot)
        }
    }

    fn skip(&mut self, path: &[u8], reason: &str) {
        notice(&mut self.skipped, path, Some(reason));
    }

    fn room(&self) -> u64 {
        self.bounds.entries
    }

    fn full(&self, path: &[u8]) -> Trouble {
        Trouble::Limit(format!(
            "the workspace grew beyond {} entries while it was copied, at `{}`; hide what is made \
             there, or try again when nothing writes",
            self.bounds.entries,
            name::shorten(&name::escape(path))
        ))
    }
}
