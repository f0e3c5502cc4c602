//! Opens what the session sees: regular files only, without ever waiting, with words that help.

use std::{
    borrow::Cow,
    fs::{File, Metadata, OpenOptions},
    io::{ErrorKind, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use policies::{Facts, Place, ViewPath};
use protocol::bounds;

/// The session's view, as paths.
#[derive(Debug)]
pub struct View {
    facts: Facts,
}

/// Why a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Not a path.
    #[error("`{0}` is not a path: it holds a NUL byte or is longer than 4096 bytes")]
    NoPath(String),
    /// Nothing is there.
    #[error("`{path}` does not exist; list_directory or glob shows what is there")]
    Missing { path: String },
    /// Nothing that this session sees.
    #[error("`{path}` is not in this session's view; the workspace is `{workspace}`")]
    Outside { path: String, workspace: String },
    /// A link to nowhere in the view.
    #[error("`{path}` is a link to `{target}`, which is not in this session's view")]
    LinkOutside { path: String, target: String },
    /// The kernel refused.
    #[error(
        "`{path}` is not open to the file tools: they see the workspace; use bash for the rest of the view"
    )]
    Denied { path: String },
    /// A folder where a file is wanted.
    #[error("`{path}` is a folder; list_directory shows what is in it")]
    Folder { path: String },
    /// A file where a folder is wanted.
    #[error("`{path}` is not a folder; read_file reads a file")]
    NotFolder { path: String },
    /// A FIFO, a socket or a device.
    #[error("`{path}` is a FIFO, a socket or a device; only regular files are read")]
    Special { path: String },
    /// Too large.
    #[error(
        "`{path}` has {size} bytes, at most {} are read; use grep, or bash with head, tail or sed",
        bounds::FILE_READ
    )]
    TooLarge { path: String, size: u64 },
    /// Not text.
    #[error(
        "`{path}` is not text (a NUL byte at offset {at}); look at it with bash (file, xxd, strings)"
    )]
    Binary { path: String, at: usize },
    /// Beyond its end.
    #[error("`{path}` has {lines} lines; offset {offset} is beyond its end")]
    BeyondEnd {
        path: String,
        lines: u64,
        offset: u64,
    },
    /// A pattern that is none.
    #[error("the pattern is not valid: {0}")]
    Pattern(String),
    /// Anything else.
    #[error("`{path}` cannot be read: {why}")]
    Other { path: String, why: String },
}

impl View {
    /// The view of a session with these facts.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        Self { facts }
    }

    /// A path as the session means it: relative ones from the workspace.
    #[must_use]
    pub fn path(&self, word: &str) -> Option<ViewPath> {
        let word = self.facts.named(word);
        ViewPath::new(&word, &self.facts.workspace, &self.facts.home)
    }

    /// Where a path is found on this machine: the workspace may lie elsewhere than its name says.
    pub(crate) fn real<'a>(&self, path: &'a ViewPath) -> Cow<'a, Path> {
        let there = self.facts.tree.as_deref();
        match there.zip(path.below(&self.facts.workspace)) {
            Some((tree, "")) => Cow::Owned(tree.into()),
            Some((tree, rest)) => Cow::Owned(Path::new(tree).join(rest)),
            None => Cow::Borrowed(Path::new(path.as_str())),
        }
    }

    pub(crate) fn resolve(&self, word: &str) -> Result<ViewPath, Unreadable> {
        self.path(word)
            .ok_or_else(|| Unreadable::NoPath(word.chars().take(80).collect()))
    }

    /// The workspace root.
    pub(crate) fn workspace(&self) -> &str {
        &self.facts.workspace
    }

    /// How a path is shown: from the workspace root if it is below, else absolute.
    pub(crate) fn shown<'a>(&self, path: &'a ViewPath) -> &'a str {
        match path.below(&self.facts.workspace) {
            Some("") => ".",
            Some(rest) => rest,
            None => path.as_str(),
        }
    }

    /// Opens a regular file. Never blocks: a FIFO is opened without waiting and then refused.
    pub(crate) fn open(&self, path: &ViewPath) -> Result<(File, Metadata), Unreadable> {
        let shown = || self.shown(path).to_owned();
        let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY | nix::libc::O_CLOEXEC;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(self.real(path))
            .map_err(|error| self.explain(path, &error))?;
        let meta = file
            .metadata()
            .map_err(|error| self.explain(path, &error))?;
        if meta.is_dir() {
            return Err(Unreadable::Folder { path: shown() });
        }
        if !meta.is_file() {
            return Err(Unreadable::Special { path: shown() });
        }
        Ok((file, meta))
    }

    /// Reads a whole regular file of at most `bound` bytes; it may grow while it is read.
    pub(crate) fn read(&self, path: &ViewPath, bound: u64) -> Result<Vec<u8>, Unreadable> {
        let (file, meta) = self.open(path)?;
        let too_large = |size| Unreadable::TooLarge {
            path: self.shown(path).to_owned(),
            size,
        };
        if meta.len() > bound {
            return Err(too_large(meta.len()));
        }
        let mut bytes = Vec::new();
        let taken = file.take(bound + 1).read_to_end(&mut bytes);
        let taken = taken.map_err(|error| self.explain(path, &error))? as u64;
        if taken > bound {
            Err(too_large(taken))
        } else {
            Ok(bytes)
        }
    }

    /// What an error of the kernel means for this path.
    pub(crate) fn explain(&self, path: &ViewPath, error: &std::io::Error) -> Unreadable {
        let shown = self.shown(path).to_owned();
        let outside = self.facts.place(path) == Place::Outside;
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                let link = std::fs::read_link(self.real(path));
                if let Ok(target) = link {
                    let target = target.to_string_lossy().into_owned();
                    return Unreadable::LinkOutside {
                        path: shown,
                        target,
                    };
                }
                if outside {
                    let workspace = self.facts.workspace.clone();
                    return Unreadable::Outside {
                        path: shown,
                        workspace,
                    };
                }
                if error.kind() == ErrorKind::NotFound {
                    Unreadable::Missing { path: shown }
                } else {
                    Unreadable::Denied { path: shown }
                }
            }
            ErrorKind::NotADirectory if self.real(path).symlink_metadata().is_ok() => {
                Unreadable::NotFolder { path: shown }
            }
            ErrorKind::NotADirectory => Unreadable::Missing { path: shown },
            // A socket cannot be opened, a FIFO or device without a driver neither.
            _ if error.raw_os_error() == Some(nix::libc::ENXIO) => {
                Unreadable::Special { path: shown }
            }
            _ => Unreadable::Other {
                path: shown,
                why: error.kind().to_string(),
            },
        }
    }
}
