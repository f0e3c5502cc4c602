//! Files of other programs that hold credentials: read whole, within a bound, never through a FIFO.

use std::{io::Read as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use nix::libc;
use protocol::bounds;
use supervisor_core::Secret;

use crate::keys::KeyFailure;

/// The text of a file; `None` if there is none. Its owner and mode are those of the program that wrote
/// it: links are followed, as that program follows them.
pub(super) fn foreign(path: &Path) -> Result<Option<Secret>, KeyFailure> {
    let name = path.display().to_string();
    let failed = |source| KeyFailure::Read {
        file: name.clone(),
        source,
    };
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(KeyFailure::unfit(&name, "is not a regular file"));
    }
    let mut text = String::new();
    let read = file
        .take(bounds::CREDENTIALS_FILE + 1)
        .read_to_string(&mut text);
    let text = Secret::new(text);
    read.map_err(failed)?;
    if text.expose().len() as u64 > bounds::CREDENTIALS_FILE {
        return Err(KeyFailure::unfit(
            &name,
            "is larger than 256 KiB: it holds no credentials",
        ));
    }
    Ok(Some(text))
}
