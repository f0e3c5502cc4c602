//! Reads the files that people name: regular ones, within a bound, never held up by a FIFO.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The text of a file of at most `bound` bytes; `None` if it does not exist. A link as the last name is
/// refused where `strict`.
///
/// # Errors
/// Why it cannot be read, for people.
pub(crate) fn read(path: &Path, bound: u64, strict: bool) -> Result<Option<String>, String> {
    let Some(bytes) = read_bytes(path, bound, strict)? else {
        return Ok(None);
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| "it is not UTF-8".to_owned())
}

/// The bytes of such a file.
///
/// # Errors
/// Why it cannot be read, for people.
pub(crate) fn read_bytes(path: &Path, bound: u64, strict: bool) -> Result<Option<Vec<u8>>, String> {
    // A FIFO must not hold us: non-blocking, and only a regular file is read.
    let flags = nix::libc::O_NONBLOCK | if strict { nix::libc::O_NOFOLLOW } else { 0 };
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    // One byte more than the bound, so that a file that grows meanwhile is noticed.
    let read = file.take(bound.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bound {
        return Err(format!("it has more than {bound} bytes"));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_within_the_bound_is_read() {
        let folder = std::env::temp_dir().join(format!("provost-input-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        let fifo = folder.join("fifo");
        let _ = std::fs::remove_file(&fifo);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
        assert!(
            read(&fifo, 10, false).is_err(),
            "a FIFO neither blocks nor is read"
        );
        assert!(read(Path::new("/dev/zero"), 10, false).is_err());
        let file = folder.join("file");
        std::fs::write(&file, "0123456789").expect("write");
        assert_eq!(
            read(&file, 10, true).expect("fits").as_deref(),
            Some("0123456789")
        );
        assert!(read(&file, 9, true).is_err());
        assert_eq!(read(&folder.join("none"), 9, true).expect("absent"), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
