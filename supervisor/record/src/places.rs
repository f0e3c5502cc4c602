//! Where an account's configuration, record and sockets lie, and that nobody else can write there.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use protocol::SessionId;

/// The three folders of an account. Made with mode 0700; never in any jail's view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    config: PathBuf,
    state: PathBuf,
    runtime: PathBuf,
}

/// Why the places are unfit; the remedy is in the sentence.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// No home directory and no override.
    #[error(
        "cannot tell where {what} belongs: HOME is not set to an absolute path, set {variable}"
    )]
    NoHome {
        /// `the record`, `the configuration`.
        what: &'static str,
        /// The override.
        variable: &'static str,
    },
    /// A variable holds a relative path.
    #[error("{variable} is `{value}`, which is not an absolute path: set it to one, or unset it")]
    Relative {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A folder cannot be made or looked at.
    #[error(
        "cannot use the folder `{path}`: {source}; make it writable for this account, or set {variable}"
    )]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The override.
        variable: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Somebody else's folder.
    #[error(
        "the folder `{path}` belongs to user id {owner}, this is user id {us}: set {variable} to a folder of this account"
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user id.
        us: u32,
        /// The override.
        variable: &'static str,
    },
    /// Others could write there.
    #[error(
        "the folder `{path}` has mode {mode:04o}, so others can write there: run `chmod 700 {path}`"
    )]
    Writable {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Not a folder.
    #[error("`{path}` is not a folder: move it away, or set {variable}")]
    NotAFolder {
        /// The path.
        path: PathBuf,
        /// The override.
        variable: &'static str,
    },
    /// WAL and locks do not work on it.
    #[error(
        "the folder `{path}` is on {kind}, where neither the record's log nor its locks can be relied on: set {variable} to a folder on a local disk"
    )]
    Network {
        /// The folder.
        path: PathBuf,
        /// The file system in words.
        kind: &'static str,
        /// The override.
        variable: &'static str,
    },
}

const CONFIG: &str = "PROVOST_CONFIG_DIR";
const STATE: &str = "PROVOST_STATE_DIR";
const RUNTIME: &str = "PROVOST_RUNTIME_DIR";

impl Places {
    /// Finds the places of this account from the environment, makes what is missing, and refuses
    /// what others could write or what lies on a network file system.
    ///
    /// # Errors
    /// [`PlaceError`], with its remedy.
    pub fn find() -> Result<Self, PlaceError> {
        Self::from_environment(|name| std::env::var_os(name))
    }

    /// The same, from any source of variables.
    ///
    /// # Errors
    /// [`PlaceError`], with its remedy.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PlaceError> {
        let absolute = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let override_of = |name: &'static str| match variable(name).map(PathBuf::from) {
            Some(path) if !path.as_os_str().is_empty() && !path.is_absolute() => {
                Err(PlaceError::Relative {
                    variable: name,
                    value: path.display().to_string(),
                })
            }
            Some(path) if path.is_absolute() => Ok(Some(path)),
            _ => Ok(None),
        };
        let below = |xdg: &str, home: &str| {
            let base = absolute(xdg).or_else(|| Some(absolute("HOME")?.join(home)));
            base.map(|base| base.join("provost"))
        };
        let us = nix::unistd::geteuid().as_raw();

        let config = override_of(CONFIG)?
            .or_else(|| below("XDG_CONFIG_HOME", ".config"))
            .ok_or(PlaceError::NoHome {
                what: "the configuration",
                variable: CONFIG,
            })?;
        let state = override_of(STATE)?
            .or_else(|| below("XDG_STATE_HOME", ".local/state"))
            .ok_or(PlaceError::NoHome {
                what: "the record",
                variable: STATE,
            })?;
        // XDG_RUNTIME_DIR may be another account's (sudo keeps it) or gone (su): then it is not used.
        let session_runtime = absolute("XDG_RUNTIME_DIR").filter(|folder| {
            std::fs::metadata(folder).is_ok_and(|meta| meta.is_dir() && meta.uid() == us)
        });
        let runtime = override_of(RUNTIME)?
            .or_else(|| session_runtime.map(|folder| folder.join("provost")))
            .unwrap_or_else(|| state.join("run"));

        let config = secure(&config, CONFIG, us)?;
        let state = local(secure(&state, STATE, us)?, STATE)?;
        let runtime = secure(&runtime, RUNTIME, us)?;
        secure(&state.join("sessions"), STATE, us)?;
        secure(&state.join("blobs"), STATE, us)?;
        Ok(Self {
            config,
            state,
            runtime,
        })
    }

    /// `policies/`, `providers.toml`, `models.toml`, `keys/`.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// `record.db`, `blobs/`, `sessions/`.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Sockets and locks.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// The database.
    #[must_use]
    pub fn record_file(&self) -> PathBuf {
        self.state.join("record.db")
    }

    /// Content by digest.
    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.state.join("blobs")
    }

    /// Where one session keeps its lock, its layer and its manifest. Made by [`Self::make_session_folder`].
    #[must_use]
    pub fn session_folder(&self, session: &SessionId) -> PathBuf {
        self.state.join("sessions").join(session.as_str())
    }

    /// Makes a session's folder (0700) if it is missing, and checks that it is ours alone.
    ///
    /// # Errors
    /// [`PlaceError`], with its remedy.
    pub fn make_session_folder(&self, session: &SessionId) -> Result<PathBuf, PlaceError> {
        secure(
            &self.session_folder(session),
            STATE,
            nix::unistd::geteuid().as_raw(),
        )
    }

    /// All folders that no session may see, read or write.
    #[must_use]
    pub fn all(&self) -> [&Path; 3] {
        [&self.config, &self.state, &self.runtime]
    }
}

/// Makes `path` with mode 0700 if it is missing; the answer is its real path, ours and closed to
/// other writers.
fn secure(path: &Path, variable: &'static str, us: u32) -> Result<PathBuf, PlaceError> {
    let unusable = |source| PlaceError::Unusable {
        path: path.to_owned(),
        variable,
        source,
    };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            parent_is_fit(path, variable, us)?;
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(unusable)?;
            std::fs::metadata(path).map_err(unusable)?
        }
        Err(error) => return Err(unusable(error)),
    };
    if !meta.is_dir() {
        return Err(PlaceError::NotAFolder {
            path: path.to_owned(),
            variable,
        });
    }
    if meta.uid() != us {
        return Err(PlaceError::NotOurs {
            path: path.to_owned(),
            owner: meta.uid(),
            us,
            variable,
        });
    }
    if meta.mode() & 0o022 != 0 {
        return Err(PlaceError::Writable {
            path: path.to_owned(),
            mode: meta.mode() & 0o7777,
        });
    }
    path.canonicalize().map_err(unusable)
}

/// A folder is made only below one that is ours, root's, or sticky: elsewhere its owner could
/// exchange it for another (root with a user's HOME, after `sudo -E`).
fn parent_is_fit(path: &Path, variable: &'static str, us: u32) -> Result<(), PlaceError> {
    let existing = path
        .ancestors()
        .skip(1)
        .find_map(|folder| std::fs::metadata(folder).ok().map(|meta| (folder, meta)));
    let fit = |meta: &Metadata| meta.uid() == us || meta.uid() == 0 || meta.mode() & 0o1000 != 0;
    match existing {
        Some((folder, meta)) if !fit(&meta) => Err(PlaceError::NotOurs {
            path: folder.to_owned(),
            owner: meta.uid(),
            us,
            variable,
        }),
        _ => Ok(()),
    }
}

/// Refuses network file systems.
fn local(path: PathBuf, variable: &'static str) -> Result<PathBuf, PlaceError> {
    let stat = nix::sys::statfs::statfs(&path).map_err(|errno| PlaceError::Unusable {
        path: path.clone(),
        variable,
        source: errno.into(),
    })?;
    match network_kind(i128::from(stat.filesystem_type().0)) {
        Some(kind) => Err(PlaceError::Network {
            path,
            kind,
            variable,
        }),
        None => Ok(path),
    }
}

/// The file systems whose locks or shared memory do not reach all who see the file, by statfs magic.
fn network_kind(magic: i128) -> Option<&'static str> {
    // Some kernels sign-extend magics with the top bit set.
    match magic & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("a Windows share (CIFS)"),
        0x6573_5546 => Some("a FUSE file system"),
        0x0102_1997 => Some("a 9p share"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x564c => Some("a NetWare share"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn find(variables: &[(&str, &Path)]) -> Result<Places, PlaceError> {
        let map: BTreeMap<String, OsString> = variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.as_os_str().to_owned()))
            .collect();
        Places::from_environment(|name| map.get(name).cloned())
    }

    #[test]
    fn the_places_follow_xdg_and_are_closed_to_others() {
        let home = tempfile::tempdir().expect("folder");
        let root = home.path().canonicalize().expect("real");
        let places = find(&[("HOME", &root)]).expect("found");
        assert_eq!(places.config(), root.join(".config/provost"));
        assert_eq!(places.state(), root.join(".local/state/provost"));
        assert_eq!(places.runtime(), root.join(".local/state/provost/run"));
        for folder in places.all() {
            let mode = std::fs::metadata(folder)
                .expect("made")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
        }
        let state = root.join("elsewhere");
        let places =
            find(&[("HOME", &root), ("XDG_RUNTIME_DIR", &root), (STATE, &state)]).expect("found");
        assert_eq!(places.state(), state);
        assert_eq!(places.runtime(), root.join("provost"));
        let session = SessionId::parse("s-1").expect("valid");
        let folder = places.make_session_folder(&session).expect("made");
        assert_eq!(folder, state.join("sessions/s-1"));
    }

    #[test]
    fn what_others_could_write_is_refused_with_the_remedy() {
        let home = tempfile::tempdir().expect("folder");
        let state = home.path().join("state");
        std::fs::create_dir(&state).expect("made");
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o770)).expect("mode");
        let error = find(&[("HOME", home.path()), (STATE, &state)]).expect_err("refused");
        assert!(
            matches!(error, PlaceError::Writable { mode: 0o770, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("chmod 700"), "{error}");

        std::fs::remove_dir(&state).expect("removed");
        std::fs::write(&state, "").expect("written");
        let error = find(&[("HOME", home.path()), (STATE, &state)]).expect_err("refused");
        assert!(matches!(error, PlaceError::NotAFolder { .. }), "{error}");
    }

    #[test]
    fn another_accounts_folder_is_refused() {
        let home = tempfile::tempdir().expect("folder");
        // The check itself, with another effective id: needs no second account.
        let error = secure(home.path(), STATE, 4_000_000_000).expect_err("refused");
        assert!(matches!(error, PlaceError::NotOurs { .. }), "{error}");
        let error = secure(&home.path().join("new"), STATE, 4_000_000_000);
        if nix::unistd::geteuid().is_root() {
            // Below root's folder anybody may make one; what was made is root's and not theirs.
            assert!(matches!(error, Err(PlaceError::NotOurs { .. })));
        } else {
            assert!(matches!(error, Err(PlaceError::NotOurs { .. })));
            assert!(!home.path().join("new").exists());
        }
    }

    #[test]
    fn relative_and_missing_places_are_refused() {
        let error = find(&[(STATE, Path::new("here")), ("HOME", Path::new("/tmp"))]);
        assert!(matches!(error, Err(PlaceError::Relative { .. })));
        let error = find(&[("HOME", Path::new("here"))]).expect_err("refused");
        assert!(matches!(error, PlaceError::NoHome { .. }), "{error}");
    }

    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(
            network_kind(i128::from(-11_317_950_i64)),
            Some("a Windows share (CIFS)")
        );
        assert_eq!(network_kind(0x6573_5546), Some("a FUSE file system"));
        assert_eq!(network_kind(0xef53), None, "ext4");
        assert_eq!(network_kind(0x0102_1994), None, "tmpfs");
        assert_eq!(network_kind(0x794c_7630), None, "overlay");
        let folder = tempfile::tempdir().expect("folder");
        assert!(local(folder.path().to_owned(), STATE).is_ok());
    }
}
