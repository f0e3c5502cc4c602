//! The journal of an apply: one line before and one after each deed, so that a second apply knows
//! what the first one did and what it left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

use crate::failure::{At, Trouble};

/// What one line says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    /// The path is about to be changed, maybe by way of a temporary name beside it.
    Begin,
    /// The new content is in, by exchange or under a free name.
    Put,
    /// The new content is in; the file system refused the exchange, so the old one was linked aside
    /// and renamed over.
    PutAside,
    /// The old node is gone.
    Removed,
    /// The folder still holds what is not part of the change, so it stays.
    Kept,
    /// The folder is made.
    Folder,
    /// The folder has its permission bits.
    Mode,
    /// The workspace already has it.
    Already,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: String,
    deed: Deed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temporary: Option<String>,
}

/// What earlier applies of the same session wrote.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// Temporary names that were announced and whose deed was not: path by name.
    pub(crate) left: BTreeMap<String, String>,
    /// Paths that were about to be changed: what is found there may be half done.
    pub(crate) begun: BTreeSet<String>,
}

/// The journal, open for appending.
pub(crate) struct Journal {
    file: File,
    place: String,
}

impl Journal {
    /// Reads what is there and opens it for more.
    pub(crate) fn open(path: &str) -> Result<(Self, Past), Trouble> {
        let flags = OFlag::O_RDWR
            | OFlag::O_CREAT
            | OFlag::O_APPEND
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC;
        let file = open(path, flags, Mode::S_IRUSR | Mode::S_IWUSR).at("cannot open", path)?;
        let mut journal = Self {
            file: File::from(file),
            place: path.to_owned(),
        };
        let past = journal.past()?;
        Ok((journal, past))
    }

    fn past(&mut self) -> Result<Past, Trouble> {
        let mut past = Past::default();
        let mut whole = true;
        for line in BufReader::new(&self.file).split(b'\n') {
            let line = line.at("cannot read", &self.place)?;
            // A line cut short by a crash was written before its deed, so nothing is lost with it.
            let Ok(line) = serde_json::from_slice::<Line>(&line) else {
                whole = line.is_empty();
                continue;
            };
            if line.deed == Deed::Begin {
                if let Some(temporary) = line.temporary {
                    past.left.insert(temporary, line.path.clone());
                }
                past.begun.insert(line.path);
                continue;
            }
            past.left.retain(|_, path| *path != line.path);
        }
        if !whole {
            self.file.write_all(b"\n").at("cannot write", &self.place)?;
        }
        Ok(past)
    }

    /// Says that `path` is about to be changed, by way of the path `temporary` if there is one.
    pub(crate) fn begin(&mut self, path: &str, temporary: Option<String>) -> Result<(), Trouble> {
        self.line(&Line {
            path: path.to_owned(),
            deed: Deed::Begin,
            temporary,
        })
    }

    /// Says what was done.
    pub(crate) fn done(&mut self, path: &str, deed: Deed) -> Result<(), Trouble> {
        self.line(&Line {
            path: path.to_owned(),
            deed,
            temporary: None,
        })
    }

    fn line(&mut self, line: &Line) -> Result<(), Trouble> {
        let mut text = serde_json::to_vec(line)
            .map_err(std::io::Error::from)
            .at("cannot write", &self.place)?;
        text.push(b'\n');
        // One write a line: a crash leaves whole lines and at most one that is cut short.
        self.file.write_all(&text).at("cannot write", &self.place)
    }

    /// Makes it durable.
    pub(crate) fn finish(&self) -> Result<(), Trouble> {
        self.file.sync_data().at("cannot write", &self.place)
    }
}
