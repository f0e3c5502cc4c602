//! What a dead session's tree holds beside its manifest: every difference by digest, and apart from
//! these what can never be applied.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use protocol::Digest;
use protocol::bounds;
use protocol::reader::{Change, ManifestEntry, Node, NodeKind};

use crate::copy::notice;
use crate::failure::{At, Trouble};
use crate::hide::Hide;
use crate::manifest;
use crate::name;
use crate::place::{self, Kind, Status};
use crate::walk::{self, Spot, Tree, Visit};
use crate::weigh;

/// Write permission of group and others: a session never gives it to what did not have it.
const OTHERS_WRITE: u32 = 0o022;

/// The outcome of a comparison.
pub(crate) struct Comparison {
    /// Sorted by path.
    pub(crate) changes: Vec<Change>,
    /// What is never applied, with the reason in brackets.
    pub(crate) skipped: Vec<String>,
}

/// Compares the sealed tree with the manifest.
pub(crate) fn compare(
    tree: &OwnedFd,
    manifest: BTreeMap<String, ManifestEntry>,
    hide: &Hide,
) -> Result<Comparison, Trouble> {
    let mut eye = Eye {
        hide,
        before: manifest,
        changes: Vec::new(),
        skipped: Vec::new(),
        out: Vec::new(),
        entries: 0,
        bytes: 0,
    };
    walk::walk(tree, Tree::Sealed, &mut eye)?;
    let Eye {
        before,
        mut changes,
        skipped,
        mut out,
        ..
    } = eye;
    out.sort_unstable();
    for (path, entry) in before {
        // What lies below a skipped place was not looked at, so nothing is said of it.
        if !is_below_any(&name::parse(&path)?, &out) {
            let before = Some(manifest::node(&entry));
            changes.push(Change {
                path,
                after: None,
                before,
                lines: None,
            });
        }
    }
    changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(Comparison { changes, skipped })
}

fn is_below_any(path: &[u8], tops: &[Vec<u8>]) -> bool {
    let mut end = path.len();
    loop {
        let Some(top) = path.get(..end) else {
            return false;
        };
        if tops.binary_search_by(|t| t.as_slice().cmp(top)).is_ok() {
            return true;
        }
        match top.iter().rposition(|b| *b == b'/') {
            Some(at) => end = at,
            None => return false,
        }
    }
}

/// The permission bits that cross the edge.
pub(crate) fn crossing(mode: u32, before: Option<&Node>) -> u32 {
    mode & !(OTHERS_WRITE & !before.map_or(0, |node| node.mode))
}

/// A file of a sealed tree as a change tells it.
pub(crate) fn file_node(
    file: OwnedFd,
    status: &Status,
    before: Option<&Node>,
) -> std::io::Result<Node> {
    let (digest, size) = Digest::of_reader(&mut File::from(file))?;
    let mode = crossing(status.mode, before);
    Ok(Node {
        kind: NodeKind::File,
        mode,
        size,
        digest: Some(digest),
    })
}

/// A link as a change tells it.
pub(crate) fn link_node(target: &[u8]) -> Node {
    Node {
        kind: NodeKind::Symlink,
        mode: 0o777,
        size: 0,
        digest: Some(Digest::of(target)),
    }
}

/// A folder as a change tells it.
pub(crate) fn folder_node(status: &Status, before: Option<&Node>) -> Node {
    Node {
        kind: NodeKind::Folder,
        mode: crossing(status.mode, before),
        size: 0,
        digest: None,
    }
}

struct Eye<'a> {
    hide: &'a Hide,
    /// What of the manifest was not met yet.
    before: BTreeMap<String, ManifestEntry>,
    changes: Vec<Change>,
    skipped: Vec<String>,
    /// Every path that was skipped.
    out: Vec<Vec<u8>>,
    entries: u64,
    bytes: u64,
}

impl Eye<'_> {
    fn count(&mut self, path: &[u8], bytes: u64) -> Result<(), Trouble> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.entries > bounds::LIST_ENTRIES || self.bytes > bounds::LIST_BYTES {
            return Err(self.full(path));
        }
        Ok(())
    }

    fn met(
        &mut self,
        path: &[u8],
        look: impl FnOnce(Option<&Node>) -> Result<Node, Trouble>,
    ) -> Result<(), Trouble> {
        let path = name::escape(path);
        let before = self
            .before
            .remove(&path)
            .map(|entry| manifest::node(&entry));
        let after = look(before.as_ref())?;
        if before.as_ref() != Some(&after) {
            self.changes.push(Change {
                path,
                after: Some(after),
                before,
                lines: None,
            });
        }
        Ok(())
    }
}

impl Visit for Eye<'_> {
    fn wants(&mut self, path: &[u8], is_folder: bool) -> bool {
        let hidden = self.hide.hides(path, is_folder);
        if hidden {
            self.skip(path, "hidden name");
        }
        !hidden
    }

    fn enter(&mut self, spot: &Spot<'_>, status: &Status) -> Result<bool, Trouble> {
        self.count(spot.path, 0)?;
        self.met(spot.path, |before| Ok(folder_node(status, before)))?;
        Ok(true)
    }

    fn leave(&mut self, _: &Status) -> Result<(), Trouble> {
        Ok(())
    }

    fn leaf(&mut self, spot: &Spot<'_>, status: &Status) -> Result<(), Trouble> {
        let shown = || name::escape(spot.path);
        if status.kind == Kind::Symlink {
            self.count(spot.path, 0)?;
            let target = place::target(spot.folder, spot.name).at("cannot read", &shown())?;
            return self.met(spot.path, |_| Ok(link_node(target.as_bytes())));
        }
        self.count(spot.path, status.size)?;
        let file = Tree::Sealed
            .open_file(spot.folder, spot.name)
            .at("cannot open", &shown())?;
        let Some((file, status)) = file else {
            return Err(Trouble::Hostile(format!(
                "`{}` changed although its session is over; end every process of the session first",
                name::shorten(&shown())
            )));
        };
        self.met(spot.path, |before| {
            file_node(file, &status, before).at("cannot read", &name::escape(spot.path))
        })
    }

    fn skip(&mut self, path: &[u8], reason: &str) {
        notice(&mut self.skipped, path, Some(reason));
        self.out.push(path.to_owned());
    }

    fn room(&self) -> u64 {
        bounds::LIST_ENTRIES
    }

    fn full(&self, path: &[u8]) -> Trouble {
        Trouble::Limit(format!(
            "the session's tree holds more than {} entries or {} to compare, at `{}`; resume the \
             session to clear it away, or discard it",
            bounds::LIST_ENTRIES,
            weigh::size(bounds::LIST_BYTES),
            name::shorten(&name::escape(path))
        ))
    }
}
