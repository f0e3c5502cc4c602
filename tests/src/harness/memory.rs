//! Looks for a secret where it must not be: in the memory, arguments, environment and files of others.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::FileExt as _,
    path::Path,
};

use base64::{Engine as _, engine::general_purpose};
use regex::bytes::Regex;

use super::must;

/// Bytes read at once; pieces overlap by the longest needle.
const PIECE: usize = 1024 * 1024;

/// A secret in every form in which it could travel.
#[derive(Debug, Clone)]
pub struct Needles {
    forms: Vec<(&'static str, String)>,
    any: Regex,
}

impl Needles {
    /// The forms of a secret: plain, base64 at each of the three alignments, hex, URL, JSON.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        let bytes = secret.as_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let url: String = bytes
            .iter()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    char::from(*byte).to_string()
                }
                _ => format!("%{byte:02X}"),
            })
            .collect();
        let mut forms = vec![
            ("plain", secret.to_owned()),
            ("hex", hex.clone()),
            ("hex", hex.to_uppercase()),
            ("url", url),
            ("json", secret.replace('/', "\\/")),
        ];
        for shift in 0..3_usize {
            // With other bytes before and after it, only the middle of the encoding is the secret's.
            let padded = [vec![b'x'; shift], bytes.to_vec()].concat();
            for engine in [
                &general_purpose::STANDARD_NO_PAD,
                &general_purpose::URL_SAFE_NO_PAD,
            ] {
                let text = engine.encode(&padded);
                let from = if shift == 0 { 0 } else { 4 };
                let whole = (padded.len() / 3) * 4;
                let middle = text.get(from..whole).unwrap_or_default();
                forms.push(("base64", middle.to_owned()));
            }
        }
        forms.retain(|(_, form)| form.len() >= 8);
        // One pass for all forms: memory is large, and tests are not optimised.
        let all: Vec<String> = forms.iter().map(|(_, form)| regex::escape(form)).collect();
        let any = must("the search", Regex::new(&all.join("|")));
        Self { forms, any }
    }

    /// Which form a text holds.
    #[must_use]
    pub fn within(&self, text: &[u8]) -> Option<&'static str> {
        let found = self.any.find(text)?;
        let is = |form: &&(&str, String)| form.1.as_bytes() == found.as_bytes();
        Some(
            self.forms
                .iter()
                .find(is)
                .map_or("some form", |form| form.0),
        )
    }

    fn longest(&self) -> usize {
        let lengths = self.forms.iter().map(|(_, form)| form.len());
        lengths.max().unwrap_or(0)
    }
}

/// Where a process holds it: `environ`, `cmdline`, a mapping. Root only. A process that is gone holds
/// nothing; how many bytes of memory were read is told as well, so that a blind search shows.
#[must_use]
pub fn find_in_process(pid: u32, needles: &Needles) -> (Option<String>, u64) {
    let folder = format!("/proc/{pid}");
    for name in ["environ", "cmdline"] {
        let text = fs::read(format!("{folder}/{name}")).unwrap_or_default();
        if let Some(form) = needles.within(&text) {
            return (Some(format!("{form} in {name}")), 0);
        }
    }
    let maps = fs::read_to_string(format!("{folder}/maps")).unwrap_or_default();
    let Ok(memory) = File::open(format!("{folder}/mem")) else {
        return (None, 0);
    };
    let mut read = 0_u64;
    for line in maps.lines() {
        let range = line
            .split_whitespace()
            .next()
            .and_then(|range| range.split_once('-'));
        let readable = line
            .split_whitespace()
            .nth(1)
            .is_some_and(|mode| mode.starts_with('r'));
        let Some((from, to)) = range.filter(|_| readable) else {
            continue;
        };
        let number = |word| u64::from_str_radix(word, 16).unwrap_or(0);
        let (mut at, to) = (number(from), number(to));
        let mut piece = vec![0_u8; PIECE];
        while at < to {
            let wanted = usize::try_from(to - at).unwrap_or(PIECE).min(PIECE);
            let Some(room) = piece.get_mut(..wanted) else {
                break;
            };
            let Ok(got @ 1..) = memory.read_at(room, at) else {
                break;
            };
            let bytes = piece.get(..got).unwrap_or_default();
            read = read.saturating_add(got as u64);
            if let Some(form) = needles.within(bytes) {
                return (Some(format!("{form} in memory: {line}")), read);
            }
            if at + got as u64 >= to {
                break;
            }
            let overlap = needles.longest().min(got - 1);
            at += (got - overlap) as u64;
        }
    }
    (None, read)
}

/// Which form a file holds.
#[must_use]
pub fn find_in_file(path: &Path, needles: &Needles) -> Option<&'static str> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.read_to_end(&mut bytes).ok()?;
    needles.within(&bytes)
}

/// Every file below a folder that holds it, `but` for those that may; with the number of files read.
#[must_use]
pub fn find_in_files(folder: &Path, but: &[&Path], needles: &Needles) -> (Vec<String>, usize) {
    let (mut found, mut read) = (Vec::new(), 0);
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                open.push(path);
            } else if kind.is_ok_and(|kind| kind.is_file()) && !but.contains(&path.as_path()) {
                read += 1;
                if let Some(form) = find_in_file(&path, needles) {
                    found.push(format!("{form} in {}", path.display()));
                }
            }
        }
    }
    (found, read)
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    use super::Needles;

    #[test]
    fn a_secret_is_found_in_each_form_and_at_each_alignment() {
        let secret = "sk-canary+7/x=90";
        let needles = Needles::of(secret);
        let forms = [
            secret.to_owned(),
            "736b2d63616e6172792b372f783d3930".to_owned(),
            "sk-canary%2B7%2Fx%3D90".to_owned(),
            "sk-canary+7\\/x=90".to_owned(),
            STANDARD.encode(format!("a{secret}b")),
            STANDARD.encode(format!("ab{secret}bc")),
            STANDARD.encode(format!("abc{secret}")),
        ];
        for form in forms {
            assert!(
                needles.within(format!("..{form}..").as_bytes()).is_some(),
                "{form}"
            );
        }
        assert_eq!(needles.within(b"sk-canary+7/x=9, and more"), None);
    }
}
