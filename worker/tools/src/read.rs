//! `read_file`: text by lines.

use policies::{ViewPath, tools::ReadFile};
use protocol::{Digest, bounds};
use serde::Serialize;

use crate::{
    cut,
    view::{Unreadable, View},
};

/// Bytes of one line that are shown.
const LINE: usize = 2_000;
/// What the rest of the object may take.
const AROUND: usize = 6 * 1024;

/// What the model reads.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    path: String,
    first_line: u64,
    lines: u64,
    total_lines: u64,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    content: String,
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) path: ViewPath,
    /// Of the whole file, also when a part is shown.
    pub(crate) digest: Digest,
    pub(crate) shown: Shown,
}

/// Reads a part of a text file.
pub(crate) fn read_file(view: &View, input: &ReadFile) -> Result<Done, Unreadable> {
    let path = view.resolve(&input.file_path)?;
    let bytes = view.read(&path, bounds::FILE_READ)?;
    let shown = view.shown(&path).to_owned();
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Unreadable::Binary { path: shown, at });
    }
    let text = String::from_utf8_lossy(&bytes);
    let note = matches!(text, std::borrow::Cow::Owned(_)).then_some(
        "not UTF-8: unreadable bytes are shown as U+FFFD, and edit_file refuses this file",
    );
    // A mark that editors hide is not shown either; an edit keeps it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let total_lines = text.split_inclusive('\n').count() as u64;
    if input.offset > total_lines.max(1) {
        return Err(Unreadable::BeyondEnd {
            path: shown,
            lines: total_lines,
            offset: input.offset,
        });
    }
    let mut left = bounds::OUTPUT_TO_MODEL - AROUND;
    let (mut content, mut lines) = (String::new(), 0);
    let skip = usize::try_from(input.offset - 1).unwrap_or(usize::MAX);
    for line in text.split_inclusive('\n').skip(skip) {
        let (body, end) = line
            .strip_suffix('\n')
            .map_or((line, ""), |body| (body, "\n"));
        let line = cut::line(body, LINE) + end;
        let cost = cut::costs(&line);
        if lines >= input.limit || cost > left {
            break;
        }
        left -= cost;
        lines += 1;
        content.push_str(&line);
    }
    let truncated = input.offset - 1 + lines < total_lines;
    Ok(Done {
        digest: Digest::of(&bytes),
        path,
        shown: Shown {
            path: shown,
            first_line: input.offset,
            lines,
            total_lines,
            truncated,
            note,
            content,
        },
    })
}
