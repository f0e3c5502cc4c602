//! What crosses a jail's edge: copies a workspace in, lists and applies what a dead session changed,
//! writes it as a patch, queries a declared database, removes what is left.
//!
//! A reader runs as the asking account, confined to the paths of its one errand by the runtime's
//! `reader` role before it gets here. It opens every tree once and walks it through held handles;
//! a session's tree is hostile, a workspace may change at any moment, and nothing that either of
//! them does makes a reader follow a link, wait for a FIFO, or run out of stack or descriptors.
//!
//! What is absent: no policy (the law has judged the errand), no network, no program is started.

mod apply;
mod compare;
mod content;
mod copy;
mod failure;
mod git85;
mod hide;
mod journal;
mod list;
mod manifest;
mod name;
mod patch;
mod place;
mod plan;
mod prepare;
mod put;
mod restore;
mod sealed;
mod sql;
mod text;
mod upper;
mod walk;
mod weigh;

use std::io;

use protocol::reader::{Errand, Finding};

use crate::failure::Trouble;
use crate::put::Means;

/// Does one errand and sends what came of it, in one finding or, for a list, in several.
///
/// # Errors
/// Only what `send` answers: everything else is told as [`Finding::Failed`].
pub fn run(errand: &Errand, send: &mut dyn FnMut(Finding) -> io::Result<()>) -> io::Result<()> {
    match perform(errand, send) {
        Ok(Some(finding)) => send(finding),
        Ok(None) => Ok(()),
        Err(trouble) => send(trouble.finding()?),
    }
}

fn perform(
    errand: &Errand,
    send: &mut dyn FnMut(Finding) -> io::Result<()>,
) -> Result<Option<Finding>, Trouble> {
    match errand {
        Errand::CopyIn {
            workspace,
            tree,
            manifest,
            hide,
            max_bytes,
            max_entries,
            owner,
        } => {
            let bounds = weigh::Bounds {
                bytes: *max_bytes,
                entries: *max_entries,
            };
            let order = copy::Order {
                workspace,
                tree,
                manifest,
                hide,
                bounds,
                owner: *owner,
            };
            copy::copy_in(&order).map(Some)
        }
        Errand::Prepare {
            workspace,
            tree,
            manifest,
            hide,
            max_entries,
            owner,
        } => prepare::prepare(&prepare::Order {
            workspace,
            tree,
            manifest,
            hide,
            max_entries: *max_entries,
            owner: *owner,
        })
        .map(Some),
        Errand::List {
            tree,
            kind,
            manifest,
            hide,
            workspace,
        } => {
            let order = list::Order {
                tree,
                kind: *kind,
                manifest,
                hide,
                workspace: workspace.as_deref(),
            };
            list::list(&order, send).map(|()| None)
        }
        Errand::Patch {
            tree,
            kind,
            manifest,
            workspace,
            out,
            hide,
            skip,
        } => patch::patch(&patch::Order {
            tree,
            kind: *kind,
            manifest,
            workspace,
            out,
            hide,
            skip,
        })
        .map(Some),
        Errand::Apply {
            tree,
            kind,
            manifest,
            workspace,
            journal,
            changes,
        } => {
            let order = apply::Order {
                tree,
                kind: *kind,
                manifest,
                workspace,
                journal,
                changes,
            };
            apply::apply(&order, Means::Exchange).map(Some)
        }
        Errand::Restore {
            tree,
            kind,
            manifest,
            steps,
        } => restore::restore(&restore::Order {
            tree,
            kind: *kind,
            manifest,
            steps,
        })
        .map(Some),
        Errand::Query {
            database,
            query,
            max_rows,
            tables,
        } => Ok(Some(Finding::Rows(sql::query(
            database, query, *max_rows, tables,
        )))),
        Errand::Tables {
            name,
            database,
            tables,
        } => sql::tables(name, database, tables).map(|tables| Some(Finding::Tables { tables })),
        Errand::Measure { tree } => {
            weigh::measure(tree).map(|(bytes, entries)| Some(Finding::Measured { bytes, entries }))
        }
        Errand::Remove { folder } => sealed::remove(folder).map(|()| Some(Finding::Removed)),
    }
}
