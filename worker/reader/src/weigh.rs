//! Weighs a workspace before it is copied, so that one that is too large is refused before the first
//! byte and by the names of what makes it large.

use std::os::fd::OwnedFd;

use crate::failure::Trouble;
use crate::hide::Hide;
use crate::name;
use crate::place::{self, Status};
use crate::walk::{self, Spot, Tree, Visit};

/// How far beyond the bound it is counted, to name the right folders.
const FURTHER: u64 = 4;

/// A child that holds this share of its parent's weight, in percent, is named instead of it.
const HEAVY: u64 = 80;

/// What may be copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Refuses a workspace that is beyond its bounds.
pub(crate) fn weigh(root: &OwnedFd, hide: &Hide, bounds: Bounds) -> Result<(), Trouble> {
    let mut scale = Scale {
        hide,
        bounds,
        open: vec![Load::default()],
        closed: Vec::new(),
    };
    let walked = walk::walk(root, Tree::Live, &mut scale);
    let all = scale.total();
    match walked {
        Ok(()) if all.entries <= bounds.entries && all.bytes <= bounds.bytes => Ok(()),
        Ok(()) | Err(Trouble::Limit(_)) => Err(scale.refusal()),
        Err(other) => Err(other),
    }
}

/// Counts bytes and entries of a tree that is being worked in, up to [`bounds::LIST_ENTRIES`]; a tree
/// with more is as heavy as can be.
pub(crate) fn measure(tree: &str) -> Result<(u64, u64), Trouble> {
    let root = place::open_root(tree)?;
    let mut sum = Sum::default();
    match walk::walk(&root, Tree::Live, &mut sum) {
        Ok(()) => Ok((sum.bytes, sum.entries)),
        Err(Trouble::Limit(_)) => Ok((u64::MAX, sum.entries)),
        Err(other) => Err(other),
    }
}

#[derive(Debug, Default)]
struct Sum {
    bytes: u64,
    entries: u64,
}

impl Sum {
    fn add(&mut self, status: &Status) {
        self.bytes = self.bytes.saturating_add(status.stored);
        self.entries = self.entries.saturating_add(1);
    }
}

impl Visit for Sum {
    fn wants(&mut self, _: &[u8], _: bool) -> bool {
        true
    }

    fn enter(&mut self, _: &Spot<'_>, _: &OwnedFd, status: &Status) -> Result<bool, Trouble> {
        self.add(status);
        Ok(true)
    }

    fn leave(&mut self, _: &Status) -> Result<(), Trouble> {
        Ok(())
    }

    fn leaf(&mut self, _: &Spot<'_>, status: &Status) -> Result<(), Trouble> {
        self.add(status);
        Ok(())
    }

    fn skip(&mut self, _: &[u8], _: &str) {}

    fn room(&self) -> u64 {
        protocol::bounds::LIST_ENTRIES.saturating_sub(self.entries)
    }

    fn full(&self, _: &[u8]) -> Trouble {
        Trouble::Limit(String::new())
    }
}

#[derive(Debug, Clone, Default)]
struct Load {
    path: Vec<u8>,
    bytes: u64,
    entries: u64,
}

struct Scale<'a> {
    hide: &'a Hide,
    bounds: Bounds,
    /// From the root to the folder that is being read.
    open: Vec<Load>,
    closed: Vec<Load>,
}

impl Scale<'_> {
    fn total(&self) -> Load {
        self.open.iter().fold(Load::default(), |mut sum, load| {
            sum.bytes = sum.bytes.saturating_add(load.bytes);
            sum.entries = sum.entries.saturating_add(load.entries);
            sum
        })
    }

    fn add(&mut self, bytes: u64) -> Result<(), Trouble> {
        if let Some(load) = self.open.last_mut() {
            load.bytes = load.bytes.saturating_add(bytes);
            load.entries = load.entries.saturating_add(1);
        }
        let seen = self.open.iter().map(|load| load.entries).sum::<u64>();
        if seen > self.bounds.entries.saturating_mul(FURTHER) {
            return Err(Trouble::Limit(String::new()));
        }
        Ok(())
    }

    fn refusal(mut self) -> Trouble {
        let all = self.total();
        // Stopped in the middle: what was read of the open folders counts for each of them.
        while self.open.len() > 1 {
            self.close();
        }
        let by_bytes = all.bytes > self.bounds.bytes;
        let weight = |load: &Load| if by_bytes { load.bytes } else { load.entries };
        let shown = |load: &Load| {
            let amount = if by_bytes {
                size(load.bytes)
            } else {
                format!("{}", load.entries)
            };
            format!("`{}` ({amount})", name::shorten(&name::escape(&load.path)))
        };
        let mut tops: Vec<&Load> = children(&self.closed, b"");
        tops.sort_by_key(|load| std::cmp::Reverse(weight(load)));
        let named: Vec<String> = tops
            .into_iter()
            .take(3)
            .map(|top| shown(heaviest(&self.closed, top, weight)))
            .collect();
        let (holds, most) = if by_bytes {
            (size(all.bytes), size(self.bounds.bytes))
        } else {
            (
                format!("{} entries", all.entries),
                format!("{}", self.bounds.entries),
            )
        };
        let largest = if named.is_empty() {
            "its own files".to_owned()
        } else {
            named.join(", ")
        };
        Trouble::Limit(format!(
            "the workspace holds {holds}, at most {most} are copied in; largest: {largest}; hide \
             what the session does not need, or name a smaller folder as the workspace"
        ))
    }

    fn close(&mut self) {
        let Some(done) = self.open.pop() else { return };
        if let Some(parent) = self.open.last_mut() {
            parent.bytes = parent.bytes.saturating_add(done.bytes);
            parent.entries = parent.entries.saturating_add(done.entries);
        }
        self.closed.push(done);
    }
}

fn children<'a>(loads: &'a [Load], path: &[u8]) -> Vec<&'a Load> {
    loads
        .iter()
        .filter(|load| !load.path.is_empty() && name::split(&load.path).0 == path)
        .collect()
}

/// Goes down while one child holds nearly everything: `web/node_modules` says more than `web`.
fn heaviest<'a>(loads: &'a [Load], top: &'a Load, weight: impl Fn(&Load) -> u64) -> &'a Load {
    let mut at = top;
    for _ in 0..3 {
        let child = children(loads, &at.path)
            .into_iter()
            .max_by_key(|load| weight(load));
        match child {
            Some(child)
                if weight(child).saturating_mul(100) >= weight(at).saturating_mul(HEAVY) =>
            {
                at = child;
            }
            _ => break,
        }
    }
    at
}

/// Bytes as people say them.
pub(crate) fn size(bytes: u64) -> String {
    for (unit, word) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit {
            return format!("{}.{} {word}", bytes / unit, bytes % unit * 10 / unit);
        }
    }
    format!("{bytes} bytes")
}

impl Visit for Scale<'_> {
    fn wants(&mut self, path: &[u8], is_folder: bool) -> bool {
        !self.hide.hides(path, is_folder)
    }

    fn enter(&mut self, spot: &Spot<'_>, _: &OwnedFd, _: &Status) -> Result<bool, Trouble> {
        self.add(0)?;
        self.open.push(Load {
            path: spot.path.to_owned(),
            ..Load::default()
        });
        Ok(true)
    }

    fn leave(&mut self, _: &Status) -> Result<(), Trouble> {
        self.close();
        Ok(())
    }

    fn leaf(&mut self, _: &Spot<'_>, status: &Status) -> Result<(), Trouble> {
        self.add(status.size)
    }

    fn skip(&mut self, _: &[u8], _: &str) {}

    fn room(&self) -> u64 {
        self.bounds.entries.saturating_mul(FURTHER)
    }

    fn full(&self, _: &[u8]) -> Trouble {
        Trouble::Limit(String::new())
    }
}
