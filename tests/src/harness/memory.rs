//! Looks for a secret where it must not be: in the memory, arguments, environment and files of others.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::FileExt as _,
    path::Path,
};

use base64::{Engine as _, engine::general_purpose};

/// Bytes read at once; pieces overlap by the longest needle.
const PIECE: usize = 1024 * 1024;

/// A secret in every form in which it could travel.
#[derive(Debug, Clone)]
pub struct Needles(Vec<(&'static str, Vec<u8>)>);

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
        let json = serde_json::Value::from(secret).to_string();
        let json = json.trim_matches('"').replace('/', "\\/");
        let mut needles = vec![
            ("plain", bytes.to_vec()),
            ("hex", hex.clone().into_bytes()),
            ("HEX", hex.to_uppercase().into_bytes()),
            ("url", url.into_bytes()),
            ("json", json.into_bytes()),
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
                needles.push(("base64", middle.as_bytes().to_vec()));
            }
        }
        needles.retain(|(_, needle)| needle.len() >= 8);
        needles.dedup_by(|a, b| a.1 == b.1);
        Self(needles)
    }

    /// Which form a text holds.
    #[must_use]
    pub fn within(&self, text: &[u8]) -> Option<&'static str> {
        let found = self
            .0
            .iter()
            .find(|(_, needle)| super::residue::holds(text, needle));
        found.map(|(form, _)| *form)
    }

    fn longest(&self) -> usize {
        self.0
            .iter()
            .map(|(_, needle)| needle.len())
            .max()
            .unwrap_or(0)
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
