//! Shows untrusted text to people: every character that could move a cursor, reorder or hide is escaped.

/// Escapes `text` for a terminal or a log. Newlines and tabs are kept when `lines` is set; everything
/// else that is not plainly visible becomes `\u{…}`.
#[must_use]
pub fn escape(text: &str, lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' if lines => shown.push(c),
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push_str("\\t"),
            '\r' => shown.push_str("\\r"),
            _ if is_plain(c) => shown.push(c),
            _ => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    shown
}

/// Cuts at a character boundary and says how much is missing.
#[must_use]
pub fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max)
        .rev()
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(0);
    format!(
        "{}… ({} more bytes)",
        text.get(..end).unwrap_or_default(),
        text.len() - end
    )
}

/// Whether a character shows as itself and nothing else: no control, no bidi, no zero width, no
/// private use, no tag, no variation selector, no odd blank.
#[must_use]
pub fn is_plain(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(u32::from(c),
            0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f
            | 0x200b..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x2800 | 0x3164
            | 0xe000..=0xf8ff | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
            | 0x1d173..=0x1d17a | 0xe0000..=0x10_ffff))
}

/// Whether a word has Latin letters and letters of an alphabet that looks like it (Greek, Cyrillic,
/// Armenian, Cherokee, full-width Latin): `аpt` with a Cyrillic а is not `apt`.
#[must_use]
pub fn mixes_alphabets(text: &str) -> bool {
    let alike = |c: char| {
        matches!(u32::from(c),
            0x370..=0x3ff | 0x400..=0x52f | 0x530..=0x58f | 0x13a0..=0x13ff | 0x1f00..=0x1fff
            | 0xab70..=0xabbf | 0xff21..=0xff5a)
    };
    let words = text.split(|c: char| !c.is_alphanumeric());
    let mut words = words.map(|word| {
        (
            word.chars().any(|c| c.is_ascii_alphabetic()),
            word.chars().any(alike),
        )
    });
    words.any(|(latin, other)| latin && other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_two_alphabets_is_noticed_and_plain_foreign_words_are_not() {
        assert!(mixes_alphabets("\u{430}pt install x"));
        assert!(mixes_alphabets("curl https://p\u{430}ypal.test"));
        for plain in [
            "apt install",
            "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} world",
            "naïve",
            "日本 apt",
        ] {
            assert!(!mixes_alphabets(plain), "{plain}");
        }
    }

    #[test]
    fn nothing_that_hides_or_moves_passes() {
        assert_eq!(
            escape("a\u{202e}b\u{1b}[2K\r\u{200b}c\n", false),
            r"a\u{202e}b\u{1b}[2K\r\u{200b}c\n"
        );
        assert_eq!(escape("grün 日本\n\tx", true), "grün 日本\n\tx");
        assert_eq!(escape("\u{a0}\u{e0041}", true), r"\u{a0}\u{e0041}");
    }

    #[test]
    fn a_cut_keeps_whole_characters() {
        assert_eq!(cut("aé", 2), "a… (2 more bytes)");
        assert_eq!(cut("aé", 3), "aé");
    }
}
