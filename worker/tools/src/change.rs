//! Works file changes out: what was read, what it becomes. Carrying them out is for hands.

use std::collections::BTreeMap;

use policies::{
    ViewPath,
    tools::{EditFile, NoEdit, WriteFile},
};
use protocol::{Digest, bounds, call::Prepared};

use crate::view::{Unreadable, View};

/// Why a change cannot be worked out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unprepared {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// It was not read in this session.
    #[error("`{0}` was not read yet; read it with read_file first, then change it")]
    NotRead(String),
    /// It is not what was read.
    #[error("`{0}` has changed since it was read; read it again, then change it")]
    Changed(String),
    /// Not text.
    #[error("`{0}` is not UTF-8 text; edit_file would damage it; change it with bash")]
    NotText(String),
    /// The text does not occur.
    #[error("`old_string` does not occur in `{path}`{hint}")]
    NoMatch {
        /// The file.
        path: String,
        /// Where something like it stands, and what to do.
        hint: String,
    },
    /// The text occurs more than once.
    #[error(
        "`old_string` occurs {times} times in `{path}` (lines {lines}); add surrounding lines to \
         make it unique, or set replace_all"
    )]
    Ambiguous {
        /// The file.
        path: String,
        /// How often.
        times: usize,
        /// The first lines where it does.
        lines: String,
    },
    /// Too large.
    #[error(
        "`{path}` would have {size} bytes, at most {} are written; change it with bash",
        bounds::FILE_CONTENT
    )]
    TooLarge {
        /// The file.
        path: String,
        /// Its new size.
        size: usize,
    },
}

impl From<Unreadable> for Unprepared {
    fn from(why: Unreadable) -> Self {
        Self::Unreadable(why.to_string())
    }
}

/// Works an edit out.
pub(crate) fn edit_file(
    view: &View,
    seen: &BTreeMap<ViewPath, Digest>,
    input: &EditFile,
) -> Result<Prepared, Unprepared> {
    let path = view.resolve(&input.file_path)?;
    let shown = view.shown(&path).to_owned();
    let bytes = view.read(&path, bounds::FILE_READ)?;
    let base = as_read(seen, &path, &shown, &bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| Unprepared::NotText(shown.clone()))?;
    let content = input.apply(&text).map_err(|why| match why {
        NoEdit::NoMatch => Unprepared::NoMatch {
            path: shown.clone(),
            hint: nearest(&text, &input.old_string),
        },
        NoEdit::Ambiguous(places) => {
            let lines = places
                .iter()
                .take(5)
                .map(|at| line_of(&text, *at).to_string());
            Unprepared::Ambiguous {
                path: shown.clone(),
                times: places.len(),
                lines: lines.collect::<Vec<_>>().join(", "),
            }
        }
        NoEdit::TooLarge(size) => Unprepared::TooLarge {
            path: shown.clone(),
            size,
        },
    })?;
    Ok(Prepared {
        base: Some(base),
        content,
    })
}

/// Works a write out.
pub(crate) fn write_file(
    view: &View,
    seen: &BTreeMap<ViewPath, Digest>,
    input: &WriteFile,
) -> Result<Prepared, Unprepared> {
    let path = view.resolve(&input.file_path)?;
    let content = input.content.clone();
    // A link to nowhere is something too: writing over it is not making a file.
    if std::fs::symlink_metadata(view.real(&path)).is_err() {
        return Ok(Prepared {
            base: None,
            content,
        });
    }
    let shown = view.shown(&path).to_owned();
    let bytes = view.read(&path, bounds::FILE_READ)?;
    let base = as_read(seen, &path, &shown, &bytes)?;
    Ok(Prepared {
        base: Some(base),
        content,
    })
}

/// The digest under which the file was read, if it is still that.
fn as_read(
    seen: &BTreeMap<ViewPath, Digest>,
    path: &ViewPath,
    shown: &str,
    bytes: &[u8],
) -> Result<Digest, Unprepared> {
    let read = seen
        .get(path)
        .ok_or_else(|| Unprepared::NotRead(shown.to_owned()))?;
    if *read != Digest::of(bytes) {
        return Err(Unprepared::Changed(shown.to_owned()));
    }
    Ok(read.clone())
}

/// Where the first line of what was sought stands, white space aside.
fn nearest(text: &str, old: &str) -> String {
    let read_again = "; read the part again and copy it exactly, without line numbers";
    let Some(first) = old.lines().map(str::trim).find(|line| line.len() > 3) else {
        return read_again.to_owned();
    };
    match text.lines().position(|line| line.trim() == first) {
        Some(at) => format!(
            "; its first line stands in line {} with other white space or other lines after \
             it{read_again}",
            at + 1
        ),
        None => read_again.to_owned(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}
