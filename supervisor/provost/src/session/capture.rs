//! What a command writes, while it is read: counted, kept up to a bound, shown as head and tail.

use protocol::{bounds, call::Excerpt};

/// Bytes shown of each end when something is omitted. Twice this is well below
/// [`bounds::OUTPUT_TO_MODEL`], which the tool's formatting (JSON escapes) must keep.
const END: usize = 24 * 1024;

/// An output as it grows.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// The first [`bounds::OUTPUT_SPOOL`] bytes.
    kept: Vec<u8>,
    /// All bytes that came.
    total: u64,
    /// Where the last look ended, in `kept`.
    looked: usize,
}

impl Capture {
    /// Takes what came; false once the bound is crossed.
    pub(crate) fn push(&mut self, bytes: &[u8], bound: u64) -> bool {
        let bound = usize::try_from(bound.min(bounds::OUTPUT_SPOOL)).unwrap_or(usize::MAX);
        let room = bound.saturating_sub(self.kept.len());
        self.kept
            .extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        self.total = self.total.saturating_add(bytes.len() as u64);
        bytes.len() <= room
    }

    /// Everything that was kept.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Bytes that came so far.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Head and tail of everything.
    pub(crate) fn excerpt(&self) -> Excerpt {
        excerpt(&self.kept, self.total)
    }

    /// Head and tail of what came since the last look.
    pub(crate) fn look(&mut self) -> Excerpt {
        let new = self.kept.get(self.looked..).unwrap_or_default();
        // A character that is not whole yet is shown at the next look.
        let whole = match std::str::from_utf8(new) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => new.len(),
        };
        let new = new.get(..whole).unwrap_or_default();
        let shown = excerpt(new, new.len() as u64);
        self.looked += whole;
        shown
    }
}

fn excerpt(kept: &[u8], total: u64) -> Excerpt {
    let missing = total.saturating_sub(kept.len() as u64);
    if kept.len() <= END * 2 && missing == 0 {
        let head = String::from_utf8_lossy(kept).into_owned();
        return Excerpt {
            head,
            tail: String::new(),
            omitted: 0,
            total,
            spool: None,
        };
    }
    let head = floor(kept, END.min(kept.len()));
    let tail = if missing == 0 {
        ceil(kept, kept.len().saturating_sub(END))
    } else {
        kept.len()
    };
    let tail = tail.max(head);
    let omitted = (tail - head) as u64 + missing;
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    Excerpt {
        head: text(kept.get(..head)),
        tail: text(kept.get(tail..)),
        omitted,
        total,
        spool: None,
    }
}

/// Whether a byte continues a character.
fn continues(byte: Option<&u8>) -> bool {
    byte.is_some_and(|b| b & 0xc0 == 0x80)
}

/// The last character boundary at or before `at`; at most three steps.
fn floor(bytes: &[u8], at: usize) -> usize {
    (0..4)
        .map(|back| at.saturating_sub(back))
        .find(|&i| !continues(bytes.get(i)))
        .unwrap_or(at)
}

/// The first character boundary at or after `at`.
fn ceil(bytes: &[u8], at: usize) -> usize {
    (at..at + 4)
        .find(|&i| !continues(bytes.get(i)))
        .unwrap_or(at)
        .min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_shown_whole() {
        let mut capture = Capture::default();
        assert!(capture.push("grün\n".as_bytes(), bounds::OUTPUT_SPOOL));
        let shown = capture.excerpt();
        assert_eq!(
            (shown.head.as_str(), shown.omitted, shown.total),
            ("grün\n", 0, 6)
        );
    }

    #[test]
    fn a_long_output_keeps_both_ends_on_character_boundaries() {
        let mut capture = Capture::default();
        let text = "a".to_owned() + &"ü".repeat(100_000) + "end";
        assert!(capture.push(text.as_bytes(), bounds::OUTPUT_SPOOL));
        let shown = capture.excerpt();
        assert!(!shown.head.contains('\u{fffd}') && !shown.tail.contains('\u{fffd}'));
        assert!(shown.tail.ends_with("end"));
        assert_eq!(
            shown.head.len() as u64 + shown.tail.len() as u64 + shown.omitted,
            shown.total
        );
    }

    #[test]
    fn past_its_bound_bytes_are_counted_and_not_kept() {
        let mut capture = Capture::default();
        assert!(capture.push(b"12345", 8));
        assert!(!capture.push(b"67890", 8));
        assert_eq!((capture.kept(), capture.total()), (&b"12345678"[..], 10));
        assert_eq!(capture.excerpt().omitted, 2);
    }

    #[test]
    fn a_look_shows_only_what_is_new_and_never_half_a_character() {
        let mut capture = Capture::default();
        capture.push(b"a\xc3", 100);
        assert_eq!(capture.look().head, "a");
        capture.push(b"\xbc", 100);
        assert_eq!(capture.look().head, "ü");
        assert_eq!(capture.look().total, 0);
    }
}
