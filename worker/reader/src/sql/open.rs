//! Opens a database for reading only, in the one of its states that is read truly.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_node};
use nix::sys::stat::{Mode, lstat};
use rusqlite::{Connection, OpenFlags};

use crate::place::{self, Kind, Status};
use crate::sql::words::Words;

/// How long a writer's lock is waited for.
const BUSY: Duration = Duration::from_secs(2);

/// Bytes of the file's head that tell its journal mode.
const HEAD: u64 = 20;

/// An open database.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    /// Set when the file was opened as one that does not change.
    still: Option<Still>,
}

struct Still {
    path: PathBuf,
    file: Status,
}

impl Opened {
    /// Proves, after the query, that what was taken for unchanging did not change.
    pub(crate) fn settle(&self) -> Result<(), Words> {
        let Some(still) = &self.still else {
            return Ok(());
        };
        let (now, _) = look(&still.path)?;
        let same = now.identity == still.file.identity
            && now.size == still.file.size
            && now.mtime == still.file.mtime
            && beside(&still.path, "-wal")?.is_none_or(|size| size == 0);
        if same {
            return Ok(());
        }
        Err(Words::Operational(
            "the database changed while it was read; run the query again".into(),
        ))
    }
}

/// Opens `database` read-only; see the table of spike-findings for the three cases of a WAL file.
pub(crate) fn open(database: &str) -> Result<Opened, Words> {
    if !database.starts_with('/') || database.contains('\0') {
        return Err(unable("the path is not absolute"));
    }
    // The engine looks for the side files beside the real file, so we do.
    let path = std::fs::canonicalize(database).map_err(|source| unable(&source.to_string()))?;
    let (file, wal) = look(&path)?;
    let log = beside(&path, "-wal")?;
    let index = beside(&path, "-shm")?;
    let empty_log = log.is_none_or(|size| size == 0);
    let immutable = if !wal {
        false
    } else if index.is_none() && !empty_log {
        return Err(unable(
            "it was not closed: its log lies beside it without an index; open it once with SQLite, \
             or allow a snapshot",
        ));
    } else {
        index.is_none()
    };
    match connect(&path, immutable) {
        Ok(connection) => {
            let still = immutable.then_some(Still { path, file });
            Ok(Opened { connection, still })
        }
        // An index that cannot be used, with nothing in the log: the file itself is complete.
        Err(_) if wal && !immutable && empty_log => {
            let connection = connect(&path, true)?;
            Ok(Opened {
                connection,
                still: Some(Still { path, file }),
            })
        }
        Err(_) if !wal && beside(&path, "-journal")?.is_some_and(|size| size > 0) => Err(unable(
            "it was not closed: a journal to roll back lies beside it; open it once with SQLite",
        )),
        Err(error) => Err(error.into()),
    }
}

fn connect(path: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte));
            }
            // Writing to a String cannot fail.
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri.push_str(if immutable {
        "?mode=ro&immutable=1"
    } else {
        "?mode=ro"
    });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.busy_timeout(BUSY)?;
    // The first read: a file that is none, or a log that cannot be followed, says so here.
    connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// The file's status, and whether it is in WAL mode.
fn look(path: &Path) -> Result<(Status, bool), Words> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = open_node(path, flags, Mode::empty()).map_err(|errno| unable(errno.desc()))?;
    let status = place::status(&file).map_err(|errno| unable(errno.desc()))?;
    if status.kind != Kind::File {
        return Err(unable("it is not a file"));
    }
    let mut head = Vec::new();
    File::from(file)
        .take(HEAD)
        .read_to_end(&mut head)
        .map_err(|source| unable(&source.to_string()))?;
    // Bytes 18 and 19 are the write and the read version; 2 is the write-ahead log.
    let wal = head
        .get(18..20)
        .is_some_and(|versions| versions.contains(&2));
    Ok((status, wal))
}

/// Size of a side file, if there is one.
fn beside(path: &Path, suffix: &str) -> Result<Option<u64>, Words> {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    match lstat(Path::new(&name)) {
        Ok(stat) => Ok(Some(Status::from(stat).size)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(unable(errno.desc())),
    }
}

fn unable(why: &str) -> Words {
    Words::Operational(format!("unable to open database file: {why}"))
}
