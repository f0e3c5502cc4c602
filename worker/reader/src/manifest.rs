//! The manifest: what the workspace held when it was copied, one JSON line an entry.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use protocol::reader::{ManifestEntry, Node, NodeKind};

use crate::failure::{At, Trouble};
use crate::name;

/// Longest line: a path of the longest length, each byte escaped, and its numbers.
const LINE: u64 = 32 * 1024;

/// Writes a manifest.
pub(crate) struct Writer {
    out: BufWriter<File>,
    place: String,
}

impl Writer {
    /// Makes the file, which must not lie behind a link.
    pub(crate) fn create(path: &str) -> Result<Self, Trouble> {
        let out = BufWriter::new(create(path, Mode::S_IRUSR | Mode::S_IWUSR)?);
        Ok(Self {
            out,
            place: path.to_owned(),
        })
    }

    /// Adds one entry.
    pub(crate) fn add(&mut self, entry: &ManifestEntry) -> Result<(), Trouble> {
        let mut line = serde_json::to_vec(entry).map_err(std::io::Error::from);
        if let Ok(line) = &mut line {
            line.push(b'\n');
        }
        line.and_then(|line| self.out.write_all(&line))
            .at("cannot write", &self.place)
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<(), Trouble> {
        let file = self
            .out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_data())
            .at("cannot write", &self.place)
    }
}

/// Makes a file of ours, or empties it, for writing and reading back.
pub(crate) fn create(path: &str, mode: Mode) -> Result<File, Trouble> {
    let flags = OFlag::O_RDWR
        | OFlag::O_CREAT
        | OFlag::O_TRUNC
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_CLOEXEC;
    let file = open(path, flags, mode).at("cannot create", path)?;
    Ok(File::from(file))
}

/// Reads a whole manifest, sorted by path.
pub(crate) fn read(path: &str) -> Result<BTreeMap<String, ManifestEntry>, Trouble> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = open(path, flags, Mode::empty()).at("cannot open", path)?;
    let mut reader = BufReader::new(File::from(file));
    let mut entries = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let got = (&mut reader)
            .take(LINE)
            .read_until(b'\n', &mut line)
            .at("cannot read", path)?;
        if got == 0 {
            return Ok(entries);
        }
        let broken = |why: &str| {
            let number = entries.len() + 1;
            Trouble::Unfit(format!(
                "line {number} of the manifest `{path}` is broken: {why}"
            ))
        };
        if line.pop() != Some(b'\n') {
            return Err(broken("it is cut short or too long"));
        }
        let entry: ManifestEntry =
            serde_json::from_slice(&line).map_err(|source| broken(&source.to_string()))?;
        name::parse(&entry.path)?;
        if entries.contains_key(&entry.path) {
            return Err(broken("its path comes twice"));
        }
        entries.insert(entry.path.clone(), entry);
    }
}

/// What an entry was, as a change tells it.
pub(crate) fn node(entry: &ManifestEntry) -> Node {
    let size = if entry.kind == NodeKind::File {
        entry.size
    } else {
        0
    };
    Node {
        kind: entry.kind,
        mode: entry.mode,
        size,
        digest: entry.digest.clone(),
    }
}

#[cfg(test)]
mod tests {
    use protocol::Digest;

    use super::*;

    #[test]
    fn a_manifest_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m").to_string_lossy().into_owned();
        let entry = ManifestEntry {
            path: "odd\\xff/größe".into(),
            kind: NodeKind::File,
            mode: 0o755,
            size: 3,
            identity: (1, u64::MAX),
            ctime_ns: 1_790_000_000_123_456_789,
            digest: Some(Digest::of(b"abc")),
        };
        let mut writer = Writer::create(&path).expect("creates");
        writer.add(&entry).expect("adds");
        writer.finish().expect("finishes");
        let back = read(&path).expect("reads");
        assert_eq!(back.into_values().collect::<Vec<_>>(), vec![entry]);
    }

    #[test]
    fn a_broken_manifest_is_refused_and_names_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m").to_string_lossy().into_owned();
        let good = r#"{"path":"a","kind":"folder","mode":493,"size":0,"identity":[1,2],"ctime_ns":3,"digest":null}"#;
        for (text, words) in [
            (format!("{good}\n{good}\n"), "line 2"),
            (format!("{good}\n{good}"), "line 2"),
            ("{}\n".to_owned(), "line 1"),
            (good.replace("\"a\"", "\"../a\"") + "\n", "`../a`"),
        ] {
            std::fs::write(&path, text).expect("writes");
            let said = read(&path).expect_err("refused").to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
