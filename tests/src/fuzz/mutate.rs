//! Makes new inputs out of known ones: as bytes, as text with words of its own language, and as JSON.

use serde_json::{Map, Value};

use super::random::Random;

/// Numbers at the edges of what programs count with.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-0.0",
];

/// Words that upset parsers.
const WORDS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b"\xff\xfe",
    b"\xf0\x9f\xa6\x80",
    b"\xe2\x80\xae",
    b"\0",
    b"\n",
    b"..",
    b"/",
    b"'",
    b"$(",
    b"`",
    b";",
    b"\x7f\xff\xff\xff",
];

/// Bytes that one mutation may insert.
const CHUNK: usize = 64;

/// What mutations draw from, beside the input itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Material<'a> {
    /// Another known input.
    pub(super) other: &'a [u8],
    /// Words of the target's own language.
    pub(super) words: &'a [Vec<u8>],
    /// Bytes that an input may have.
    pub(super) longest: usize,
}

/// A new input from a known one: a few mutations, one on top of the other.
#[must_use]
pub(super) fn mutate(known: &[u8], material: Material<'_>, random: &mut Random) -> Vec<u8> {
    let mut input = known.to_vec();
    // Half of the rounds keep the structure, so that what lies behind a parser is reached as well.
    if random.once_in(2)
        && let Some(changed) = structured(&input, material, random)
    {
        input = changed;
        if random.once_in(2) {
            input.truncate(material.longest);
            return input;
        }
    }
    for _ in 0..=random.below(4) {
        once(&mut input, material, random);
    }
    input.truncate(material.longest);
    input
}

fn once(input: &mut Vec<u8>, material: Material<'_>, random: &mut Random) {
    let length = input.len();
    match random.below(12) {
        0 => {
            let at = random.below(length);
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            let (at, value) = (random.below(length), byte(random));
            if let Some(place) = input.get_mut(at) {
                *place = value;
            }
        }
        2 => {
            let new: Vec<u8> = (0..=random.below(CHUNK)).map(|_| byte(random)).collect();
            put(input, random.below(length.saturating_add(1)), 0, &new);
        }
        3 => {
            let range = random.range(length, length);
            put(input, range.start, range.len(), b"");
        }
        4 => repeat(input, random),
        5 => {
            let range = random.range(material.other.len(), material.other.len());
            let part = material.other.get(range).unwrap_or_default().to_vec();
            put(input, random.below(length.saturating_add(1)), 0, &part);
        }
        6 => input.truncate(random.below(length)),
        7 => number(input, random),
        8 => {
            // Wrapped deeper than any reader follows.
            let levels = 1 << random.below(11);
            let (open, close): (&[u8], &[u8]) = if random.once_in(2) {
                (b"[", b"]")
            } else {
                (b"{\"a\":", b"}")
            };
            let mut deep = open.repeat(levels);
            deep.extend_from_slice(input);
            deep.extend(close.repeat(levels));
            *input = deep;
        }
        9 => {
            // The length in front of a frame, right or nearly so.
            let body = u32::try_from(length.saturating_sub(4)).unwrap_or(u32::MAX);
            let told = match random.below(4) {
                0 => body.wrapping_add(1),
                1 => body.wrapping_sub(1),
                _ => body,
            };
            put(input, 0, length.min(4), &told.to_be_bytes());
        }
        _ => {
            let word = word(material, random);
            let range = random.range(length, word.len());
            put(input, range.start, range.len(), &word);
        }
    }
}

fn byte(random: &mut Random) -> u8 {
    u8::try_from(random.below(256)).unwrap_or(0)
}

fn word(material: Material<'_>, random: &mut Random) -> Vec<u8> {
    if random.once_in(3) || material.words.is_empty() {
        return random
            .pick(&WORDS)
            .map(|word| word.to_vec())
            .unwrap_or_default();
    }
    random.pick(material.words).cloned().unwrap_or_default()
}

/// Puts `new` in the place of `length` bytes at `at`.
fn put(input: &mut Vec<u8>, at: usize, length: usize, new: &[u8]) {
    let at = at.min(input.len());
    let end = at.saturating_add(length).min(input.len());
    input.splice(at..end, new.iter().copied());
}

/// A part of the input again and again.
fn repeat(input: &mut Vec<u8>, random: &mut Random) {
    let range = random.range(input.len(), CHUNK);
    let part = input.get(range.clone()).unwrap_or_default();
    let times = 1 << random.below(8);
    let again = part.repeat(times);
    put(input, range.end, 0, &again);
}

/// Another number in the place of one.
fn number(input: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(input.len());
    let found = input.iter().skip(from).position(u8::is_ascii_digit);
    let Some(start) = found.map(|found| from.saturating_add(found)) else {
        return;
    };
    let rest = input.iter().skip(start);
    let digits = rest.take_while(|byte| byte.is_ascii_digit()).count();
    let new = random.pick(&NUMBERS).copied().unwrap_or_default();
    put(input, start, digits, new.as_bytes());
}

/// The input with one place of its JSON changed; behind a frame's length too. `None` if it has none.
fn structured(input: &[u8], material: Material<'_>, random: &mut Random) -> Option<Vec<u8>> {
    let framed = input.first() == Some(&0);
    let text = if framed { input.get(4..)? } else { input };
    let mut value: Value = serde_json::from_slice(text).ok()?;
    let mut places = count(&value);
    let mut at = random.below(places);
    change(&mut value, &mut at, material, random);
    // Sometimes a second place: what only two wrongs reach together.
    if random.once_in(4) {
        places = count(&value);
        at = random.below(places);
        change(&mut value, &mut at, material, random);
    }
    let text = serde_json::to_vec(&value).ok()?;
    if !framed {
        return Some(text);
    }
    let length = u32::try_from(text.len()).ok()?;
    Some([&length.to_be_bytes()[..], &text].concat())
}

fn count(value: &Value) -> usize {
    let below: usize = match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    };
    below.saturating_add(1)
}

/// Changes the place that `at` counts down to.
fn change(value: &mut Value, at: &mut usize, material: Material<'_>, random: &mut Random) -> bool {
    if *at == 0 {
        alter(value, material, random);
        return true;
    }
    *at = at.saturating_sub(1);
    match value {
        Value::Array(items) => items
            .iter_mut()
            .any(|item| change(item, at, material, random)),
        Value::Object(fields) => fields
            .values_mut()
            .any(|field| change(field, at, material, random)),
        _ => false,
    }
}

fn alter(value: &mut Value, material: Material<'_>, random: &mut Random) {
    let text = String::from_utf8_lossy(&word(material, random)).into_owned();
    let fresh = match random.below(8) {
        0 => Value::Null,
        1 => Value::Bool(random.once_in(2)),
        2 => {
            let number = random.pick(&NUMBERS).copied().unwrap_or_default();
            serde_json::from_str(number).unwrap_or(Value::Null)
        }
        3 => Value::from(random.next()),
        4 => Value::String(text.clone()),
        5 => Value::String(text.repeat(1 << random.below(8))),
        6 => Value::Array(Vec::new()),
        _ => Value::Object(Map::new()),
    };
    match value {
        Value::Object(fields) if !random.once_in(4) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = random.pick(&names).cloned().unwrap_or_default();
            match random.below(4) {
                0 => {
                    fields.remove(&name);
                }
                1 => {
                    fields.insert(text, fresh);
                }
                2 => {
                    if let Some(moved) = fields.remove(&name) {
                        fields.insert(text, moved);
                    }
                }
                _ => {
                    fields.insert(name, fresh);
                }
            }
        }
        Value::Array(items) if !random.once_in(4) => match random.below(3) {
            0 => {
                items.pop();
            }
            1 => items.push(fresh),
            _ => {
                let copy = random.pick(items).cloned();
                items.extend(copy);
            }
        },
        Value::String(old) if !random.once_in(3) => {
            let at = random.below(old.len().saturating_add(1));
            if old.is_char_boundary(at) {
                old.insert_str(at, &text);
            } else {
                old.push_str(&text);
            }
        }
        other => *other = fresh,
    }
}

/// The words of some inputs: what stands between quotes or blanks.
#[must_use]
pub(super) fn words(inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut words = std::collections::BTreeSet::new();
    for input in inputs {
        let parts = input.split(|byte| {
            byte.is_ascii_whitespace() || matches!(byte, b'"' | b'{' | b'}' | b'[' | b']')
        });
        let parts = parts.filter(|part| (2..=CHUNK).contains(&part.len()));
        words.extend(parts.map(<[u8]>::to_vec));
    }
    words.into_iter().take(WORDS_KEPT).collect()
}

/// Words of a target that are kept.
const WORDS_KEPT: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_stay_within_their_bound_and_repeat() {
        let known = br#"{"a":[1,2,{"b":"text"}],"c":null}"#.to_vec();
        let words = words(std::slice::from_ref(&known));
        let material = Material {
            other: b"other",
            words: &words,
            longest: 500,
        };
        let made = |seed| {
            let mut random = Random::new(seed);
            let rounds = (0..2_000).map(|_| mutate(&known, material, &mut random));
            rounds.collect::<Vec<_>>()
        };
        let all = made(3);
        assert!(all.iter().all(|input| input.len() <= 500));
        assert_eq!(all, made(3));
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert!(distinct.len() > 1_000, "{}", distinct.len());
        let parses = all
            .iter()
            .filter(|input| serde_json::from_slice::<Value>(input).is_ok());
        assert!(parses.count() > 300, "the structure is kept often enough");
    }

    #[test]
    fn a_frame_keeps_a_true_length_when_its_content_changes() {
        let framed = [&7_u32.to_be_bytes()[..], br#"{"a":1}"#].concat();
        let material = Material {
            other: b"",
            words: &[],
            longest: 4_096,
        };
        let changed = structured(&framed, material, &mut Random::new(1)).expect("a frame");
        let (length, text) = changed.split_first_chunk::<4>().expect("a length");
        assert_eq!(u32::from_be_bytes(*length) as usize, text.len());
    }
}
