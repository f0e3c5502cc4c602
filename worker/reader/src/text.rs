//! Lines of text and how they differ; what is not text is said to be so.

use std::time::Instant;

use protocol::bounds;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How far a zero byte is looked for: what git does, so that both call the same files text.
const LOOK: usize = 8_000;

/// Whether `content` is compared by lines.
pub(crate) fn is_text(content: &[u8]) -> bool {
    content.len() as u64 <= bounds::DIFF_FILE
        && !content
            .get(..LOOK.min(content.len()))
            .unwrap_or(content)
            .contains(&0)
}

/// The lines, each with its line feed; the last may have none.
pub(crate) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|b| *b == b'\n').collect()
}

/// The steps from one text to the other.
pub(crate) fn steps(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let deadline = Instant::now().checked_add(bounds::DIFF_TIME);
    capture_diff_slices_deadline(Algorithm::Myers, old, new, deadline)
}

/// Lines added and removed, if both are text.
pub(crate) fn count(old: &[u8], new: &[u8]) -> Option<(u64, u64)> {
    if !is_text(old) || !is_text(new) {
        return None;
    }
    let (mut added, mut removed) = (0_u64, 0_u64);
    for step in steps(&lines(old), &lines(new)) {
        if !matches!(step, DiffOp::Equal { .. }) {
            removed += step.old_range().len() as u64;
            added += step.new_range().len() as u64;
        }
    }
    Some((added, removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_for_text_only() {
        assert_eq!(count(b"", b"a\nb\n"), Some((2, 0)));
        assert_eq!(count(b"a\nb\nc\n", b"a\nB\nc\nd"), Some((2, 1)));
        assert_eq!(count(b"a\n", b"a"), Some((1, 1)));
        assert_eq!(count(b"same", b"same"), Some((0, 0)));
        assert_eq!(count(b"a\0", b"a"), None);
    }
}
