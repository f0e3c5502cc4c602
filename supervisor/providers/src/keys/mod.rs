//! The vault: takes each provider's credentials from one place, once, and lends them only against a
//! permit. No error here holds what was read.

mod file;
mod seal;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use supervisor_core::{Infer, Masker, Permit, Secret};

pub use file::KeyFile;

use crate::{Auth, Lent, Row, auth, auth::Credential};

/// Longest key: real ones are half of that.
const KEY: usize = 4 * 1024;

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A descriptor or memory file that was handed over.
    HandOver,
    /// A file of the configuration folder.
    File(PathBuf),
    /// A credential that systemd has laid down.
    Systemd(PathBuf),
    /// An environment variable.
    Environment(String),
    /// What the provider's own programs use (a profile, a metadata service), in words.
    Elsewhere(String),
    /// A metadata service, which may not be there: it is asked when the first call is made.
    Guess(String),
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
    /// The file is sealed, and nobody gave the passphrase.
    #[error(
        "the key file {file} is sealed: give its passphrase by PROVOST_PASSPHRASE, by a systemd credential \
         named passphrase, or at the terminal"
    )]
    Sealed {
        /// The file.
        file: String,
    },
    /// Another place that was named holds nothing usable.
    #[error("{from} {problem}")]
    Place {
        /// Variable, profile or file.
        from: String,
        /// What is wrong and what to do.
        problem: String,
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

impl KeySource {
    /// Where it is, for people; `None` if there is none.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        match self {
            Self::HandOver => Some("a key that was handed over".to_owned()),
            Self::File(path) => Some(path.display().to_string()),
            Self::Systemd(path) => Some(format!("systemd's credential {}", path.display())),
            Self::Environment(variable) => Some(variable.clone()),
            Self::Elsewhere(words) => Some(words.clone()),
            Self::Guess(_) | Self::None => None,
        }
    }
}

/// Whether a text can be the content of a provider's key file.
///
/// # Errors
/// [`KeyFailure`], without any of it.
pub fn check_key(row: &Row, text: &Secret, file: &KeyFile) -> Result<(), KeyFailure> {
    let from = file.path().display().to_string();
    let copy = Secret::new(text.expose().to_owned());
    match auth::from_file(row, copy, file.clone(), &from)? {
        Credential::Key(text) => key(&row.name, "what was given", &text).map(drop),
        _ => Ok(()),
    }
}

impl KeyFailure {
    pub(crate) fn unfit(from: &str, problem: &str) -> Self {
        Self::Place {
            from: from.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// The keys of this supervisor.
#[derive(Debug, Default)]
pub struct Vault {
    keys: BTreeMap<String, Credential>,
    given: BTreeMap<String, Secret>,
    passphrase: Option<Arc<Secret>>,
}

impl Vault {
    /// An empty vault.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The passphrase that opens sealed key files, as a person typed it.
    pub fn unlock(&mut self, passphrase: Secret) {
        self.passphrase = Some(Arc::new(passphrase));
    }

    /// Takes the credentials of a provider, from the first place that has any: what was handed over
    /// ([`Vault::put`]), `keys/PROVIDER` in `folder`, systemd's credential `PROVIDER`, the variables of
    /// its row, and the places that its own programs use. Answers where they came from.
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
        if let Some(given) = self.given.remove(&row.name) {
            let key = key(&row.name, "a hand-over", &given)?;
            self.keys.insert(row.name.clone(), Credential::Key(key));
            return Ok(KeySource::HandOver);
        }
        let systemd = environment("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let passphrase = match &self.passphrase {
            Some(passphrase) => Some(Arc::clone(passphrase)),
            None => passphrase(systemd.as_deref(), environment)?.map(Arc::new),
        };
        let file = folder.map(|folder| KeyFile::own(folder, &row.name, passphrase.clone()));
        let laid = systemd.map(|folder| KeyFile::systemd(&folder, &row.name, passphrase));
        let own = |path: PathBuf| KeySource::File(path);
        for (file, source) in [
            (&file, own as fn(PathBuf) -> KeySource),
            (&laid, KeySource::Systemd),
        ] {
            let Some(file) = file else { continue };
            let Some(text) = file.read()? else { continue };
            let from = file.path().display().to_string();
            // Written by a sign-in or downloaded: JSON; everything else is one line.
            let credential = match auth::from_file(row, text, file.clone(), &from)? {
                Credential::Key(text) => Credential::Key(key(&row.name, &from, &text)?),
                other => other,
            };
            self.keys.insert(row.name.clone(), credential);
            return Ok(source(file.path().to_owned()));
        }
        for variable in &row.key_env {
            if let Some(text) = environment(variable).filter(|text| !text.trim().is_empty()) {
                let key = key(&row.name, variable, &Secret::new(text))?;
                self.keys.insert(row.name.clone(), Credential::Key(key));
                return Ok(KeySource::Environment(variable.clone()));
            }
        }
        if let Some((credential, from)) = auth::elsewhere(row, environment)? {
            let guess = credential.is_guess();
            self.keys.insert(row.name.clone(), credential);
            return Ok(match guess {
                true => KeySource::Guess(from),
                false => KeySource::Elsewhere(from),
            });
        }
        if row.key_optional || row.is_local() {
            return Ok(KeySource::None);
        }
        let file = file.map_or_else(
            || format!("keys/{}", row.name),
            |file| file.path().display().to_string(),
        );
        Err(KeyFailure::Missing {
            provider: row.name.clone(),
            file,
            variables: ways(row),
        })
    }

    /// Takes a key that was handed over (a descriptor, a sealed memory file); it comes before all
    /// other places.
    ///
    /// # Errors
    /// [`KeyFailure::NoKey`] when it cannot be one.
    pub fn put(&mut self, provider: &str, text: String) -> Result<(), KeyFailure> {
        let key = key(provider, "a hand-over", &Secret::new(text))?;
        let copy = Secret::new(key.expose().to_owned());
        self.given.insert(provider.to_owned(), copy);
        self.keys.insert(provider.to_owned(), Credential::Key(key));
        Ok(())
    }

    /// Lends the credentials that a permitted call needs: those of its route, and no others.
    #[must_use]
    pub fn lend(&self, permit: &Permit<Infer>) -> Lent<'_> {
        let providers = permit.action().route().map(|(provider, _)| provider);
        providers.fold(Lent::none(), |lent, provider| {
            lent.and(provider, self.keys.get(provider))
        })
    }

    #[cfg(test)]
    pub(crate) fn get(&self, provider: &str) -> Option<&Credential> {
        self.keys.get(provider)
    }

    /// Whether a provider's credentials are here.
    #[must_use]
    pub fn has(&self, provider: &str) -> bool {
        self.keys.contains_key(provider)
    }

    /// A masker of everything that is held here now, for what is about to be written.
    #[must_use]
    pub fn masker(&self) -> Masker {
        let mut copies = Vec::new();
        for credential in self.keys.values() {
            credential.secrets(&mut |secret| copies.push(Secret::new(secret.expose().to_owned())));
        }
        Masker::new(&copies)
    }
}

/// What to set, for a person who has no key.
fn ways(row: &Row) -> String {
    let variables = match row.key_env.as_slice() {
        [] => "`key_env` in providers.toml to a variable's name".to_owned(),
        names => names.join(" or "),
    };
    match row.auth {
        Auth::Aws => {
            format!("{variables}, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE")
        }
        Auth::Google => "GOOGLE_APPLICATION_CREDENTIALS to a service account's file".to_owned(),
        Auth::Azure => {
            format!("{variables}, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET")
        }
        Auth::Codex => format!("it up by `provost login {}`", row.name),
        Auth::XApiKey | Auth::XGoogApiKey | Auth::Bearer | Auth::None => variables,
    }
}

/// The passphrase of sealed files, where no person is asked.
fn passphrase(
    systemd: Option<&Path>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Secret>, KeyFailure> {
    if let Some(text) = environment("PROVOST_PASSPHRASE").filter(|text| !text.is_empty()) {
        return Ok(Some(Secret::new(text)));
    }
    let Some(folder) = systemd else {
        return Ok(None);
    };
    let text = KeyFile::systemd(folder, "passphrase", None).read()?;
    Ok(text.map(|text| Secret::new(text.expose().trim_end_matches('\n').to_owned())))
}

/// A text as a key: one line without blanks.
fn key(provider: &str, from: &str, text: &Secret) -> Result<Secret, KeyFailure> {
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
    if key.len() > KEY {
        return Err(fail("is longer than any key"));
    }
    Ok(Secret::new(key.to_owned()))
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
        let Credential::Key(key) = &vault.keys["anthropic"] else {
            panic!("a key");
        };
        assert_eq!(key.expose(), "sk-MARKER-1");
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
