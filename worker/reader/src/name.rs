//! Relative paths as the treaty writes them: any bytes, one spelling each, never upwards.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::failure::Trouble;

/// Longest relative path in bytes; the kernel takes no longer one in a single call.
pub(crate) const LONGEST: usize = 4_000;

/// Characters of a path that a notice shows.
const NOTICE: usize = 600;

/// The one spelling of `raw`: `\xNN` for a byte that is not UTF-8, `\\` for a backslash.
pub(crate) fn escape(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '\\' {
                text.push('\\');
            }
            text.push(letter);
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The bytes of an escaped relative path, if it is spelled as [`escape`] spells it and stays below
/// its root.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>, Trouble> {
    let raw = unescape(text).filter(|raw| escape(raw) == text && is_below(raw));
    raw.ok_or_else(|| {
        Trouble::Unfit(format!(
            "`{}` is no relative path: no `..`, no empty part, bytes that are not UTF-8 as \\xNN",
            shorten(text)
        ))
    })
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut raw = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            raw.push(first);
            rest = after;
            continue;
        }
        match after {
            [b'\\', tail @ ..] => {
                raw.push(b'\\');
                rest = tail;
            }
            [b'x', high, low, tail @ ..] => {
                let digit = |b: u8| {
                    char::from(b)
                        .to_digit(16)
                        .and_then(|d| u8::try_from(d).ok())
                };
                raw.push(digit(*high)?.checked_mul(16)?.checked_add(digit(*low)?)?);
                rest = tail;
            }
            _ => return None,
        }
    }
    Some(raw)
}

fn is_below(raw: &[u8]) -> bool {
    !raw.is_empty()
        && raw.len() <= LONGEST
        && !raw.contains(&0)
        && raw
            .split(|b| *b == b'/')
            .all(|part| !matches!(part, b"" | b"." | b".."))
}

/// The folder of a relative path, empty for the root, and its last part.
pub(crate) fn split(raw: &[u8]) -> (&[u8], &[u8]) {
    match raw.iter().rposition(|b| *b == b'/') {
        Some(at) => {
            let (folder, rest) = raw.split_at(at);
            (folder, rest.get(1..).unwrap_or_default())
        }
        None => (&[], raw),
    }
}

/// Whether `raw` is `top` or lies below it.
pub(crate) fn is_within(raw: &[u8], top: &[u8]) -> bool {
    raw.strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The bytes as a path.
pub(crate) fn path(raw: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(raw))
}

/// A text that a frame can hold a hundred of, cut on a character's boundary.
pub(crate) fn shorten(text: &str) -> String {
    if text.chars().count() <= NOTICE {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(NOTICE).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_spelling_and_comes_back() {
        for raw in [
            &b"a"[..],
            b"src/main.rs",
            b"odd\xff\xfe name",
            b"back\\slash",
            b"\\x41",
            "größe/日本".as_bytes(),
            b"line\nbreak\ttab",
            b"-rf",
            b"...",
        ] {
            let text = escape(raw);
            assert_eq!(parse(&text).expect("parses"), raw, "{text}");
        }
        assert_eq!(escape(b"a\xffb\\c"), "a\\xffb\\\\c");
    }

    #[test]
    fn what_leaves_the_root_or_is_spelled_otherwise_is_refused() {
        for text in [
            "",
            "/etc/passwd",
            "a/../b",
            "..",
            "a//b",
            "a/",
            "./a",
            "\\x41",
            "\\q",
            "a\0b",
            "\\xFF",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(parse(&"a/".repeat(3_000)).is_err());
    }

    #[test]
    fn containment_goes_by_parts_not_by_letters() {
        assert!(is_within(b"app/x", b"app") && is_within(b"app", b"app"));
        assert!(!is_within(b"app-secret/k", b"app"));
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
    }
}
