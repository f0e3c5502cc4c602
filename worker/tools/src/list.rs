//! `list_directory`: one folder, sorted by name.

use std::os::unix::fs::DirEntryExt as _;

use policies::tools::ListDirectory;
use protocol::bounds;
use serde::Serialize;

use crate::{
    cut,
    view::{Unreadable, View},
};

/// Entries that are looked at before sorting; a folder with more is cut where the kernel stands.
const LOOKED_AT: usize = 50_000;

#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    path: String,
    entries: Vec<Entry>,
    truncated: bool,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// Lists a folder.
pub(crate) fn list_directory(view: &View, input: &ListDirectory) -> Result<Listing, Unreadable> {
    let path = view.resolve(&input.path)?;
    let folder =
        std::fs::read_dir(view.real(&path)).map_err(|error| view.explain(&path, &error))?;
    let mut found: Vec<std::fs::DirEntry> = Vec::new();
    let mut truncated = false;
    for entry in folder {
        let entry = entry.map_err(|error| view.explain(&path, &error))?;
        if found.len() >= LOOKED_AT {
            truncated = true;
            break;
        }
        found.push(entry);
    }
    found.sort_by_key(|entry| (entry.file_name(), entry.ino()));
    let mut left = bounds::OUTPUT_TO_MODEL - 1024;
    let mut entries = Vec::new();
    for entry in &found {
        let name = entry.file_name().to_string_lossy().into_owned();
        // 60: the words and figures around a name.
        let cost = cut::costs(&name) + 60;
        if entries.len() >= bounds::PATHS_SHOWN || cost > left {
            truncated = true;
            break;
        }
        left -= cost;
        let kind = entry.file_type().ok();
        let file = kind.is_some_and(|kind| kind.is_file());
        entries.push(Entry {
            name,
            kind: match kind {
                Some(kind) if kind.is_file() => "file",
                Some(kind) if kind.is_dir() => "folder",
                Some(kind) if kind.is_symlink() => "link",
                _ => "other",
            },
            bytes: file
                .then(|| entry.metadata().ok().map(|meta| meta.len()))
                .flatten(),
        });
    }
    Ok(Listing {
        path: view.shown(&path).to_owned(),
        entries,
        truncated,
    })
}
