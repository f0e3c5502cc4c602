//! One form in which a key may be written, and whether it is at a place of a text.

use crate::Secret;

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// Not the key.
    No,
    /// The text ends within what may be the key.
    Partial,
    /// The key, up to here.
    End(usize),
}

/// One form of one key.
#[derive(Debug)]
pub(super) enum Form {
    /// Character by character, each plain or escaped.
    Text(Secret),
    /// Lower-case hex; found in either case.
    Hex(Secret),
    /// Base64 without the characters that its neighbours share; found in either alphabet.
    Base64(Secret),
}

/// Longest escape of one character: percent signs escaped anew for each of its bytes, or five layers
/// of backslashes.
const ESCAPE: usize = 64;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Form {
    pub(super) fn all(key: &str) -> Vec<Self> {
        let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut forms = vec![
            Self::Text(Secret::new(key.to_owned())),
            Self::Hex(Secret::new(hex)),
        ];
        forms.extend((0..3).map(|shift| Self::Base64(Secret::new(base64_core(key, shift)))));
        forms
    }

    /// The key itself, if this is its plain form.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Text(key) => Some(key.expose()),
            Self::Hex(_) | Self::Base64(_) => None,
        }
    }

    pub(super) fn may_begin_with(&self, byte: u8) -> bool {
        match self {
            Self::Text(key) => {
                byte == b'\\'
                    || byte == b'%'
                    || key.expose().bytes().next() == Some(byte)
                    || (byte == b'+' && key.expose().starts_with(' '))
            }
            Self::Hex(hex) => hex.expose().bytes().next() == Some(byte.to_ascii_lowercase()),
            Self::Base64(core) => core.expose().bytes().next() == Some(standard(byte)),
        }
    }

    pub(super) fn at(&self, text: &[u8], at: usize) -> Match {
        match self {
            Self::Text(key) => text_at(text, at, key.expose()),
            Self::Hex(hex) => run_at(
                text,
                at,
                hex.expose(),
                |byte| byte.to_ascii_lowercase(),
                false,
            ),
            Self::Base64(core) => run_at(text, at, core.expose(), standard, true),
        }
    }
}

/// Base64 of a key that stands `shift` bytes after a group's border, without the first and last
/// characters that depend on what stands beside it.
fn base64_core(key: &str, shift: usize) -> String {
    let bits = |index: usize| -> Option<u8> {
        // Bit `index` of the key, counted from the group's border.
        let bit = index.checked_sub(shift * 8)?;
        let byte = key.as_bytes().get(bit / 8)?;
        Some(byte >> (7 - bit % 8) & 1)
    };
    let sextet = |number: usize| -> Option<char> {
        let mut value = 0;
        for bit in 0..6 {
            value = value << 1 | usize::from(bits(number * 6 + bit)?);
        }
        ALPHABET.get(value).map(|byte| char::from(*byte))
    };
    let last = ((shift + key.len()) * 8).div_ceil(6);
    (0..last).filter_map(sextet).collect()
}

/// The URL alphabet's characters as those of the standard one.
fn standard(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    }
}

/// A run of characters that are compared one by one after `fold`; line breaks between are skipped
/// where `wrapped`.
fn run_at(text: &[u8], at: usize, run: &str, fold: fn(u8) -> u8, wrapped: bool) -> Match {
    let mut pos = at;
    for (index, wanted) in run.bytes().enumerate() {
        if wrapped && index > 0 {
            pos += line_break(text, pos);
        }
        match text.get(pos) {
            None => return Match::Partial,
            // The escape of a line break may be cut after its backslashes.
            Some(b'\\') if wrapped && index > 0 && only_backslashes(text, pos) => {
                return Match::Partial;
            }
            Some(byte) if fold(*byte) == wanted => pos += 1,
            Some(_) => return Match::No,
        }
    }
    Match::End(pos)
}

fn only_backslashes(text: &[u8], pos: usize) -> bool {
    let rest = text.get(pos..).unwrap_or_default();
    rest.len() < ESCAPE && rest.iter().all(|byte| *byte == b'\\')
}

/// Bytes of the line breaks at `pos`, plain or escaped.
fn line_break(text: &[u8], pos: usize) -> usize {
    let rest = text.get(pos..).unwrap_or_default();
    let mut length = 0;
    loop {
        let after = rest.get(length..).unwrap_or_default();
        let slashes = after
            .iter()
            .take(ESCAPE)
            .take_while(|byte| **byte == b'\\')
            .count();
        match after.get(slashes) {
            Some(b'\n' | b'\r') if slashes == 0 => length += 1,
            Some(b'n' | b'r') if slashes > 0 => length += slashes + 1,
            _ => return length,
        }
    }
}

/// Follows every reading of the text at once: a character may be escaped in more than one way, and
/// which one it was shows only later (`%25` is a per cent sign, or the beginning of `%2541`).
fn text_at(text: &[u8], at: usize, key: &str) -> Match {
    let mut here = vec![at];
    let mut next = Vec::new();
    let mut cut = false;
    for wanted in key.chars() {
        next.clear();
        for pos in &here {
            cut |= one_at(text, *pos, wanted, &mut next);
        }
        next.sort_unstable();
        next.dedup();
        std::mem::swap(&mut here, &mut next);
        if here.is_empty() {
            return if cut { Match::Partial } else { Match::No };
        }
    }
    here.last().map_or(Match::No, |end| Match::End(*end))
}

/// One character of a key, plain or escaped: adds where it may end, and answers whether the text
/// ends within what may be it.
fn one_at(text: &[u8], pos: usize, wanted: char, ends: &mut Vec<usize>) -> bool {
    let rest = text.get(pos..).unwrap_or_default();
    let mut buffer = [0; 4];
    let plain = wanted.encode_utf8(&mut buffer).as_bytes();
    let slashes = rest
        .iter()
        .take(ESCAPE)
        .take_while(|byte| **byte == b'\\')
        .count();

    if wanted == '\\' {
        // Each layer of escaping doubles it.
        ends.extend((1..=slashes).map(|run| pos + run));
    } else if rest.starts_with(plain) {
        ends.push(pos + plain.len());
    }
    if slashes > 0 {
        ends.extend(backslash_escape(rest, slashes, wanted).map(|length| pos + length));
    }
    if wanted == '%' {
        // Each layer of encoding appends `25`.
        let pairs = rest
            .get(1..)
            .unwrap_or_default()
            .chunks_exact(2)
            .take(ESCAPE / 2);
        let layers = pairs
            .take_while(|pair| rest.starts_with(b"%") && pair == b"25")
            .count();
        ends.extend((1..=layers).map(|layer| pos + 1 + 2 * layer));
    } else {
        ends.extend(percent_escape(rest, plain).map(|length| pos + length));
    }
    if wanted == ' ' && rest.first() == Some(&b'+') {
        ends.push(pos + 1);
    }
    plain.starts_with(rest) || (rest.len() < ESCAPE && matches!(rest.first(), Some(b'\\' | b'%')))
}

/// Length of an escape that begins with `slashes` backslashes, if it stands for `wanted`.
fn backslash_escape(rest: &[u8], slashes: usize, wanted: char) -> Option<usize> {
    let after = rest.get(slashes..)?;
    let hex = |from: usize, digits: usize| {
        let word = std::str::from_utf8(after.get(from..from + digits)?).ok()?;
        u32::from_str_radix(word, 16).ok()
    };
    let code = u32::from(wanted);
    let length = match after.first()? {
        b'u' => {
            let first = hex(1, 4)?;
            if first == code {
                5
            } else {
                // A pair for a character beyond 16 bits; the second half has its own backslashes.
                let high = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
                let again = after
                    .get(5..)?
                    .iter()
                    .take_while(|byte| **byte == b'\\')
                    .count();
                let low = hex(5 + again + 1, 4)?.checked_sub(0xdc00)?;
                let joined = 0x10000 + (high << 10) + low;
                (again > 0 && joined == code).then_some(5 + again + 5)?
            }
        }
        b'x' if hex(1, 2) == Some(code) => 3,
        b'n' if wanted == '\n' => 1,
        b'r' if wanted == '\r' => 1,
        b't' if wanted == '\t' => 1,
        b'b' if wanted == '\u{8}' => 1,
        b'f' if wanted == '\u{c}' => 1,
        byte if wanted.is_ascii_punctuation() && u32::from(*byte) == code => 1,
        _ => return None,
    };
    Some(slashes + length)
}

/// Length of the percent escapes at the start of `rest`, if they stand for `bytes`, which are not `%`.
fn percent_escape(rest: &[u8], bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    for byte in bytes {
        if rest.get(length) != Some(&b'%') {
            return None;
        }
        length += 1;
        // `%2F` encoded again is `%252F`.
        while rest.get(length..length + 2) == Some(b"25") && length < ESCAPE {
            length += 2;
        }
        let word = std::str::from_utf8(rest.get(length..length + 2)?).ok()?;
        if u8::from_str_radix(word, 16).ok() != Some(*byte) {
            return None;
        }
        length += 2;
    }
    Some(length)
}
