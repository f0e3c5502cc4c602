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
use crate::upper;
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

/// Compares the sealed tree with the manifest. `lower` is the workspace if the tree is the layer of an
/// overlay: what is not in it is as it was there.
pub(crate) fn compare(
    tree: &OwnedFd,
    manifest: BTreeMap<String, ManifestEntry>,
    hide: &Hide,
    lower: Option<&OwnedFd>,
) -> Result<Comparison, Trouble> {
    let mut eye = Eye {
        hide,
        lower,
        before: manifest,
        gone: Vec::new(),
        opaque: Vec::new(),
        changes: Vec::new(),
        skipped: Vec::new(),
        out: Vec::new(),
        entries: 0,
        bytes: 0,
    };
    walk::walk(tree, Tree::Sealed, &mut eye)?;
    eye.out.sort_unstable();
    let gone = if lower.is_some() {
        std::mem::take(&mut eye.gone)
    } else {
        std::mem::take(&mut eye.before).into_iter().collect()
    };
    for (path, entry) in gone {
        // What lies below a skipped place was not looked at, so nothing is said of it.
        if !is_below_any(&name::parse(&path)?, &eye.out) {
            let before = Some(eye.was(&path, &entry)?);
            eye.changes.push(Change {
                path,
                after: None,
                before,
                lines: None,
            });
        }
    }
    let Eye {
        mut changes,
        skipped,
        ..
    } = eye;
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
    /// The workspace, below an overlay's layer.
    lower: Option<&'a OwnedFd>,
    /// What of the manifest was not met yet.
    before: BTreeMap<String, ManifestEntry>,
    /// What of the manifest the layer says is gone.
    gone: Vec<(String, ManifestEntry)>,
    /// The open folders of the layer; those that hide what lies below have their path.
    opaque: Vec<Option<String>>,
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

    /// What an entry was when the session started.
    fn was(&mut self, path: &str, entry: &ManifestEntry) -> Result<Node, Trouble> {
        let Some(lower) = self.lower else {
            return Ok(manifest::node(entry));
        };
        if entry.kind == NodeKind::File {
            self.bytes = self.bytes.saturating_add(entry.size);
            if self.bytes > bounds::LIST_BYTES {
                return Err(self.full(path.as_bytes()));
            }
        }
        upper::was(lower, path, entry)
    }

    /// Everything below a path of the manifest is gone.
    fn drain(&mut self, path: &str) {
        let first = format!("{path}/");
        // The letter after the slash: the end of all paths below.
        let end = format!("{path}0");
        let below: Vec<String> = self
            .before
            .range(first..end)
            .map(|(path, _)| path.clone())
            .collect();
        for path in below {
            self.gone.extend(self.before.remove_entry(&path));
        }
    }

    fn met(
        &mut self,
        path: &[u8],
        look: impl FnOnce(Option<&Node>) -> Result<Node, Trouble>,
    ) -> Result<(), Trouble> {
        let path = name::escape(path);
        let before = match self.before.remove(&path) {
            Some(entry) => Some(self.was(&path, &entry)?),
            None => None,
        };
        let after = look(before.as_ref())?;
        let covers = |node: &Node| node.kind == NodeKind::Folder && after.kind != NodeKind::Folder;
        if self.lower.is_some() && before.as_ref().is_some_and(covers) {
            self.drain(&path);
        }
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

    fn enter(
        &mut self,
        spot: &Spot<'_>,
        folder: &OwnedFd,
        status: &Status,
    ) -> Result<bool, Trouble> {
        self.count(spot.path, 0)?;
        self.met(spot.path, |before| Ok(folder_node(status, before)))?;
        if self.lower.is_some() {
            let shown = || name::escape(spot.path);
            let opaque = upper::is_opaque(folder).at("cannot read the marks of", &shown())?;
            self.opaque.push(opaque.then(shown));
        }
        Ok(true)
    }

    fn leave(&mut self, _: &Status) -> Result<(), Trouble> {
        if let Some(Some(path)) = self.opaque.pop() {
            self.drain(&path);
        }
        Ok(())
    }

    fn whiteout(&mut self, path: &[u8]) {
        if self.lower.is_none() {
            return self.skip(path, "device");
        }
        let path = name::escape(path);
        self.gone.extend(self.before.remove_entry(&path));
        self.drain(&path);
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
