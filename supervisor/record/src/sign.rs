//! The key that signs checkpoints: `audit.key` in the state folder (0600), and `audit.pub` beside it
//! with the public part of every key that this record was ever signed with.
//!
//! A signature proves to somebody who keeps the public key elsewhere that a checkpoint was made with
//! this key. Whoever can read the key file can sign: against the account itself it proves nothing.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags},
};
use protocol::Digest;
use zeroize::Zeroizing;

use crate::Places;

/// What stands before everything that is signed, so that a signature says one thing only.
const CONTEXT: &[u8] = b"provost checkpoint 1\0";
/// Longest key file: one key as hex, or a list of public ones.
const KEY_BYTES: u64 = 64 * 1024;

/// Why checkpoints cannot be signed or checked; a record without signatures is not opened.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A key file cannot be read or made.
    #[error("cannot use the audit key `{path}`: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others could read or write the private key.
    #[error(
        "the audit key `{path}` has mode {mode:04o} or another owner, so others could sign: run `chmod 600 {path}`, or move it away and a new one is made"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not a key.
    #[error(
        "`{path}` is not an audit key (64 hexadecimal digits): move it away and a new one is made"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

/// The private key of this record; zeroised on drop by its crate.
pub(crate) struct Key {
    key: SigningKey,
    public: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Key").field(&self.public).finish()
    }
}

impl Key {
    /// Reads the key of these places, making one at the first time. Of two that make it at once one
    /// wins and both use it.
    pub(crate) fn of(places: &Places) -> Result<Self, KeyError> {
        let path = places.state().join("audit.key");
        let failed = |source| KeyError::File {
            path: path.clone(),
            source,
        };
        let seed = match read_private(&path) {
            Err(KeyError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                make(&path).map_err(failed)?;
                read_private(&path)?
            }
            settled => settled?,
        };
        let key = SigningKey::from_bytes(&seed);
        let public = hex(key.verifying_key().as_bytes());
        publish(&places.state().join("audit.pub"), &public)?;
        Ok(Self { key, public })
    }

    /// Its public part, 64 hexadecimal digits.
    pub(crate) fn public(&self) -> &str {
        &self.public
    }

    /// Signs a checkpoint's hash; 128 hexadecimal digits.
    pub(crate) fn sign(&self, hash: &Digest) -> String {
        hex(&self.key.sign(&message(hash.as_str())).to_bytes())
    }
}

/// Whether `signature` of a checkpoint's hash was made with `public`; both as hex.
#[must_use]
pub(crate) fn signed_by(public: &str, hash: &str, signature: &str) -> bool {
    let parts = || {
        let key = VerifyingKey::from_bytes(&unhex::<32>(public)?).ok()?;
        let signature = Signature::from_bytes(&unhex::<64>(signature)?);
        key.verify_strict(&message(hash), &signature).ok()
    };
    parts().is_some()
}

/// The public keys in a text: one of 64 hexadecimal digits a line; `#` begins a comment.
#[must_use]
pub fn public_keys(text: &str) -> Vec<String> {
    let words = text.lines().filter_map(|line| line.split('#').next());
    words
        .map(str::trim)
        .filter(|word| unhex::<32>(word).is_some())
        .map(str::to_ascii_lowercase)
        .collect()
}

/// Public keys that this record was ever signed with.
pub(crate) fn known_keys(places: &Places) -> Vec<String> {
    let text = read_bounded(&places.state().join("audit.pub"));
    public_keys(&String::from_utf8_lossy(&text.unwrap_or_default()))
}

fn message(hash: &str) -> Vec<u8> {
    [CONTEXT, hash.as_bytes()].concat()
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
        .open(path)?;
    file.take(KEY_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn read_private(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let failed = |source| KeyError::File {
        path: path.to_owned(),
        source,
    };
    let facts = fs::symlink_metadata(path).map_err(failed)?;
    let mode = facts.mode() & 0o7777;
    if !facts.is_file() || mode & 0o077 != 0 || facts.uid() != nix::unistd::geteuid().as_raw() {
        return Err(KeyError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    let text = Zeroizing::new(read_bounded(path).map_err(failed)?);
    let seed = std::str::from_utf8(&text)
        .ok()
        .and_then(|text| unhex::<32>(text.trim()));
    seed.map(Zeroizing::new).ok_or_else(|| KeyError::Malformed {
        path: path.to_owned(),
    })
}

/// Makes the key without a name, then links it: it is there whole or not at all, and a death in
/// between leaves nothing.
fn make(path: &Path) -> io::Result<()> {
    let mut seed = Zeroizing::new([0_u8; 32]);
    getrandom::fill(seed.as_mut()).map_err(|error| io::Error::other(error.to_string()))?;
    let folder = path.parent().unwrap_or(path);
    let mut file = OpenOptions::new()
        .write(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_TMPFILE)
        .open(folder)?;
    let text = Zeroizing::new(format!("{}\n", hex(seed.as_ref())));
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    written?;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    match nix::unistd::linkat(
        AT_FDCWD,
        name.as_str(),
        AT_FDCWD,
        path,
        AtFlags::AT_SYMLINK_FOLLOW,
    ) {
        // Another supervisor made one at the same moment: that one is used.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Adds the public part to the list, once.
fn publish(path: &Path, public: &str) -> Result<(), KeyError> {
    let failed = |source| KeyError::File {
        path: path.to_owned(),
        source,
    };
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    if public_keys(&String::from_utf8_lossy(&text))
        .iter()
        .any(|known| known == public)
    {
        return Ok(());
    }
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
        .open(path)
        .map_err(failed)?;
    // In one write: what two supervisors add at once does not mix.
    file.write_all(format!("{public}\n").as_bytes())
        .map_err(failed)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(word: &str) -> Option<[u8; N]> {
    if word.len() != 2 * N || !word.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(word.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16)
            .ok()
            .filter(|_| !pair.starts_with('+'))?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn places(folder: &Path) -> Places {
        Places::from_environment(|name| {
            let word = name.strip_prefix("PROVOST_")?.strip_suffix("_DIR")?;
            Some(folder.join(word).into_os_string())
        })
        .expect("places")
    }

    #[test]
    fn a_signature_says_one_hash_by_one_key() {
        let home = tempfile::tempdir().expect("a folder");
        let places = places(home.path());
        let key = Key::of(&places).expect("made");
        let again = Key::of(&places).expect("read");
        assert_eq!(key.public(), again.public());
        assert_eq!(known_keys(&places), [key.public()]);
        let (hash, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let signature = key.sign(&hash);
        assert!(signed_by(key.public(), hash.as_str(), &signature));
        assert!(!signed_by(key.public(), other.as_str(), &signature));
        assert!(!signed_by(
            key.public(),
            hash.as_str(),
            &signature.replace(['0', '1'], "2")
        ));
        fs::remove_file(places.state().join("audit.key")).expect("removed");
        let second = Key::of(&places).expect("made anew");
        assert!(!signed_by(second.public(), hash.as_str(), &signature));
        assert_eq!(known_keys(&places), [key.public(), second.public()]);
        assert!(!format!("{key:?}").contains(&hex(key.key.as_bytes())));
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let places = places(home.path());
        let path = places.state().join("audit.key");
        Key::of(&places).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        assert!(matches!(
            Key::of(&places),
            Err(KeyError::Open { mode: 0o640, .. })
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        for text in [
            "",
            "xyz",
            &"0".repeat(63),
            &"g".repeat(64),
            &"+1".repeat(32),
        ] {
            fs::write(&path, text).expect("written");
            assert!(
                matches!(Key::of(&places), Err(KeyError::Malformed { .. })),
                "{text}"
            );
        }
    }
}
