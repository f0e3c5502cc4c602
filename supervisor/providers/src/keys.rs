//! The vault: takes each provider's key from its file or its environment variable, once, and lends it
//! only against a permit. No error here holds what was read.

use std::{
    collections::BTreeMap,
    io::Read as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::libc;
use protocol::bounds;
use supervisor_core::{Infer, Masker, Permit, Secret};

use crate::{Auth, Row};

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A file of the configuration folder.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// The provider takes none.
    None,
}

/// Why there is no usable key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFailure {
    /// None is there.
    #[error(
        "no key for `{provider}`: put it into {file} (mode 0600), or set {variables}, or run without a \
         key by `--model script/conversation --script FILE`"
    )]
    Missing {
        /// The provider.
        provider: String,
        /// Where the file would be.
        file: String,
        /// Its variables.
        variables: String,
    },
    /// The file cannot be read.
    #[error("cannot read the key file {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not one that a key may lie in.
    #[error("the key file {file} {problem}")]
    Unfit {
        /// The file.
        file: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// What is there is no key.
    #[error("the key of `{provider}` from {from} {problem}")]
    NoKey {
        /// The provider.
        provider: String,
        /// File or variable.
        from: String,
        /// What is wrong, without any of it.
        problem: &'static str,
    },
}

/// The keys of this supervisor.
#[derive(Debug, Default)]
pub struct Vault {
    keys: BTreeMap<String, Secret>,
}

impl Vault {
    /// An empty vault.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the key of a provider: from `keys/PROVIDER` in `folder`, else from the first variable of
    /// its row that `environment` has. Answers where it came from.
    ///
    /// A key file that exists and is unfit is an error even if a variable is set: a person put it
    /// there, and silence would hide that it lies open.
    ///
    /// # Errors
    /// [`KeyFailure`]; with no key at all it names the ways to give one.
    pub fn take(
        &mut self,
        row: &Row,
        folder: Option<&Path>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<KeySource, KeyFailure> {
        if row.auth == Auth::None {
            return Ok(KeySource::None);
        }
        let file = folder.map(|folder| folder.join("keys").join(&row.name));
        if let Some(file) = &file
            && let Some(text) = read(file)?
        {
            self.keep(&row.name, &file.display().to_string(), text)?;
            return Ok(KeySource::File(file.clone()));
        }
        for variable in &row.key_env {
            if let Some(text) = environment(variable).filter(|text| !text.trim().is_empty()) {
                self.keep(&row.name, variable, text)?;
                return Ok(KeySource::Environment(variable.clone()));
            }
        }
        if row.key_optional || row.auth.has_other_sources() || row.is_local() {
            return Ok(KeySource::None);
        }
        let file = file.map_or_else(|| format!("keys/{}", row.name), |f| f.display().to_string());
        let variables = match row.key_env.as_slice() {
            [] => "`key_env` in providers.toml to a variable's name".to_owned(),
            names => names.join(" or "),
        };
        Err(KeyFailure::Missing {
            provider: row.name.clone(),
            file,
            variables,
        })
    }

    /// Takes a key that was handed over (a descriptor, a sealed memory file).
    ///
    /// # Errors
    /// [`KeyFailure::NoKey`] when it cannot be one.
    pub fn put(&mut self, provider: &str, key: String) -> Result<(), KeyFailure> {
        self.keep(provider, "a hand-over", key)
    }

    fn keep(&mut self, provider: &str, from: &str, text: String) -> Result<(), KeyFailure> {
        // The copy with its blanks is wiped when it is dropped.
        let text = Secret::new(text);
        let key = text.expose().trim();
        let fail = |problem| KeyFailure::NoKey {
            provider: provider.to_owned(),
            from: from.to_owned(),
            problem,
        };
        if key.is_empty() {
            return Err(fail("is empty"));
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(fail(
                "is not one line of printable characters without blanks",
            ));
        }
        if key.len() as u64 > bounds::KEY_FILE {
            return Err(fail("is longer than any key"));
        }
        self.keys
            .insert(provider.to_owned(), Secret::new(key.to_owned()));
        Ok(())
    }

    /// Lends the key that a permitted call needs.
    #[must_use]
    pub fn lend(&self, permit: &Permit<Infer>) -> Option<&Secret> {
        self.keys.get(&permit.action().provider)
    }

    /// Whether a provider's key is here.
    #[must_use]
    pub fn has(&self, provider: &str) -> bool {
        self.keys.contains_key(provider)
    }

    /// A masker of every key here, for what is about to be written.
    #[must_use]
    pub fn masker(&self) -> Masker {
        Masker::new(self.keys.values())
    }
}

/// Reads a key file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, KeyFailure> {
    let name = || path.display().to_string();
    let failed = |source| KeyFailure::Read {
        file: name(),
        source,
    };
    let unfit = |problem: String| KeyFailure::Unfit {
        file: name(),
        problem,
    };
    // Not through a link (its target may be anybody's), and never waiting on a FIFO.
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(unfit("is a symbolic link: put the key itself there".into()));
        }
        Err(error) => return Err(failed(error)),
    };
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(unfit("is not a regular file".into()));
    }
    if facts.uid() != nix::unistd::geteuid().as_raw() {
        return Err(unfit(format!(
            "belongs to user {}: chown it to yourself",
            facts.uid()
        )));
    }
    if facts.mode() & 0o077 != 0 {
        let mode = facts.mode() & 0o7777;
        return Err(unfit(format!(
            "has mode {mode:04o}, so others may read it: chmod 600 it"
        )));
    }
    if facts.len() > bounds::KEY_FILE {
        return Err(unfit("is larger than 4 KiB: it is no key".into()));
    }
    let mut text = Vec::new();
    file.take(bounds::KEY_FILE + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    match String::from_utf8(text) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(unfit("is not text".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::Dialect;

    fn row() -> Row {
        Row {
            key_env: vec!["FIRST".into(), "SECOND".into()],
            ..Row::new("anthropic", Dialect::Anthropic)
        }
    }

    fn place(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("keys")).expect("made");
        let file = folder.path().join("keys/anthropic");
        fs::write(&file, content).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
        (folder, file)
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn a_key_file_of_ones_own_is_taken_before_the_environment() {
        let (folder, file) = place(b"  sk-MARKER-1\n", 0o600);
        let mut vault = Vault::new();
        let from = vault.take(&row(), Some(folder.path()), &|_| Some("sk-env".into()));
        assert_eq!(from.expect("taken"), KeySource::File(file));
        assert_eq!(vault.keys["anthropic"].expose(), "sk-MARKER-1");
        assert!(!format!("{vault:?}").contains("MARKER"));
        assert_eq!(vault.masker().mask("x sk-MARKER-1 y"), "x masked-secret y");
    }

    #[test]
    fn the_first_variable_that_is_set_is_taken() {
        let mut vault = Vault::new();
        let environment = |name: &str| match name {
            "FIRST" => Some(" ".to_owned()),
            "SECOND" => Some("sk-2".to_owned()),
            _ => None,
        };
        let from = vault.take(&row(), None, &environment).expect("taken");
        assert_eq!(from, KeySource::Environment("SECOND".into()));
        assert!(vault.has("anthropic"));
        let free = Row {
            auth: Auth::None,
            ..row()
        };
        assert_eq!(
            vault.take(&free, None, &nothing).expect("none needed"),
            KeySource::None
        );
    }

    #[test]
    fn no_key_names_the_three_ways_to_give_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let failure = Vault::new()
            .take(&row(), Some(folder.path()), &nothing)
            .expect_err("none");
        let words = failure.to_string();
        for way in ["keys/anthropic", "0600", "FIRST or SECOND", "--script"] {
            assert!(words.contains(way), "{words}");
        }
    }

    #[test]
    fn a_file_that_lies_open_or_is_none_is_refused_without_its_content() {
        let modes = [0o640, 0o604, 0o660, 0o644];
        for mode in modes {
            let (folder, _keep) = place(b"sk-MARKER", mode);
            let failure = Vault::new().take(&row(), Some(folder.path()), &|_| Some("sk".into()));
            let words = failure.expect_err("open").to_string();
            assert!(
                words.contains(&format!("{mode:04o}")) && words.contains("chmod 600"),
                "{words}"
            );
            assert!(!words.contains("MARKER"));
        }
        let long = vec![b'x'; 5_000];
        for content in [
            &b""[..],
            b" \n",
            b"sk-MARKER two\n",
            b"sk-MARKER\nsk-b",
            b"\xff\xfe",
            &long,
        ] {
            let (folder, _keep) = place(content, 0o600);
            let failure = Vault::new().take(&row(), Some(folder.path()), &nothing);
            let words = failure.expect_err("no key").to_string();
            assert!(
                words.contains("anthropic") && !words.contains("MARKER"),
                "{words}"
            );
        }
        let (folder, file) = place(b"sk-MARKER", 0o600);
        let elsewhere = folder.path().join("real");
        fs::rename(&file, &elsewhere).expect("moved");
        std::os::unix::fs::symlink(&elsewhere, &file).expect("linked");
        let words = Vault::new()
            .take(&row(), Some(folder.path()), &nothing)
            .expect_err("link");
        assert!(words.to_string().contains("symbolic link"), "{words}");
        fs::remove_file(&file).expect("removed");
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("made");
        let words = Vault::new()
            .take(&row(), Some(folder.path()), &nothing)
            .expect_err("fifo");
        assert!(words.to_string().contains("regular"), "{words}");
    }
}
