//! Lists what a session changed, in pages that fit a frame.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use protocol::bounds;
use protocol::reader::{Change, Finding, Node, NodeKind, TreeKind};

use crate::compare::{self, Comparison};
use crate::content;
use crate::failure::{At, Trouble};
use crate::hide::Hide;
use crate::manifest;
use crate::name;
use crate::place;
use crate::sealed;
use crate::text;
use crate::walk::Tree;

/// Time for counting lines, which is a courtesy: beyond it the counts are left out.
const COUNTING: Duration = Duration::from_secs(20);

/// What to compare.
pub(crate) struct Order<'a> {
    pub(crate) tree: &'a str,
    pub(crate) kind: TreeKind,
    pub(crate) manifest: &'a str,
    pub(crate) hide: &'a [String],
    pub(crate) workspace: Option<&'a str>,
}

/// Sends every change, page by page.
pub(crate) fn list(
    order: &Order<'_>,
    send: &mut dyn FnMut(Finding) -> io::Result<()>,
) -> Result<(), Trouble> {
    let before = manifest::read(order.manifest)?;
    let tree = sealed::open_root(order.tree)?;
    let workspace = order.workspace.map(place::open_root).transpose()?;
    let lower = below(order.kind, workspace.as_ref())?;
    let Comparison {
        mut changes,
        skipped,
    } = compare::compare(&tree, before, &Hide::new(order.hide)?, lower)?;
    let until = Instant::now().checked_add(COUNTING);
    for change in &mut changes {
        if until.is_none_or(|until| Instant::now() > until) {
            break;
        }
        change.lines = count(&tree, workspace.as_ref(), change)?;
    }
    let mut pages = pages(changes)?.into_iter().peekable();
    while let Some(changes) = pages.next() {
        let more = pages.peek().is_some();
        let skipped = if more { Vec::new() } else { skipped.clone() };
        send(Finding::Changes {
            changes,
            more,
            skipped,
        })
        .map_err(Trouble::Link)?;
    }
    Ok(())
}

/// The workspace as what lies below the tree, if the tree is the layer of an overlay.
pub(crate) fn below(
    kind: TreeKind,
    workspace: Option<&OwnedFd>,
) -> Result<Option<&OwnedFd>, Trouble> {
    match (kind, workspace) {
        (TreeKind::Copy, _) => Ok(None),
        (TreeKind::Upper, Some(workspace)) => Ok(Some(workspace)),
        (TreeKind::Upper, None) => Err(Trouble::Unfit(
            "an overlay's layer says nothing without its workspace".to_owned(),
        )),
    }
}

fn count(
    tree: &OwnedFd,
    workspace: Option<&OwnedFd>,
    change: &Change,
) -> Result<Option<(u64, u64)>, Trouble> {
    let file = |node: &Option<Node>| {
        node.as_ref()
            .filter(|node| node.kind == NodeKind::File)
            .cloned()
    };
    let (before, after) = (file(&change.before), file(&change.after));
    if before.is_none() && after.is_none() {
        return Ok(None);
    }
    let path = name::parse(&change.path)?;
    let side = |root: Option<&OwnedFd>, kind: Tree, node: Option<Node>| match (root, node) {
        (_, None) => Ok(Some(Vec::new())),
        (None, Some(_)) => Ok(None),
        (Some(root), Some(node)) => content::read(root, kind, &path, &node, bounds::DIFF_FILE),
    };
    // A file that may not be read, or has moved on, is listed all the same; it has no counts.
    let (Ok(Some(old)), Ok(Some(new))) = (
        side(workspace, Tree::Live, before),
        side(Some(tree), Tree::Sealed, after),
    ) else {
        return Ok(None);
    };
    Ok(text::count(&old, &new))
}

/// At least one page; no page is larger than a frame holds.
fn pages(changes: Vec<Change>) -> Result<Vec<Vec<Change>>, Trouble> {
    let mut pages = vec![Vec::new()];
    let mut bytes = 0_usize;
    for change in changes {
        let length = serde_json::to_vec(&change)
            .map_err(io::Error::from)
            .at("cannot tell", &change.path)?
            .len();
        let full = pages
            .last()
            .is_some_and(|page| page.len() >= bounds::CHANGES_PAGE);
        if full || bytes.saturating_add(length) > bounds::CHANGES_BYTES {
            pages.push(Vec::new());
            bytes = 0;
        }
        bytes = bytes.saturating_add(length);
        if let Some(page) = pages.last_mut() {
            page.push(change);
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded_in_number_and_in_bytes_and_lose_nothing() {
        let change = |n: usize, long: usize| Change {
            path: format!("{}{n:06}", "x".repeat(long)),
            after: None,
            before: None,
            lines: None,
        };
        assert_eq!(pages(Vec::new()).expect("pages").len(), 1);
        let usual = pages((0..1_201).map(|n| change(n, 3)).collect()).expect("pages");
        assert_eq!(
            usual.iter().map(Vec::len).collect::<Vec<_>>(),
            vec![500, 500, 201]
        );
        let long = pages((0..1_201).map(|n| change(n, 3_900)).collect()).expect("pages");
        assert_eq!(long.iter().map(Vec::len).sum::<usize>(), 1_201);
        for page in &long {
            assert!(serde_json::to_vec(page).expect("encodes").len() < bounds::FRAME);
        }
    }
}
