//! A session's place: its id, folder, lock, record and worker; made before anything runs, cleaned after.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{
    Digest, SessionId,
    jail::{Doors, Identity, JailSpec, Situation},
    reader::{Errand, Finding},
};
use supervisor_core::{Certificate, Entry};
use supervisor_record::{Masker, NewSession, Places, Record, SessionLock};
use supervisor_sandbox::{
    ClaimedUid, HOME, Host, SessionPlace, TMP, WorkerBinary, find_worker, free_uid, jail_spec,
};

use super::{
    Holding, RunsAs, Saved, Store, bait, heads::Heads, now_ms, open, queries, stand::Ground,
};
use crate::exit::{BUG, CONFIG, Failure, REFUSED_AT_START};

/// A file in the folder of a session that the record does not know yet.
const STARTING: &str = "starting";

/// Removes a session's tree, whatever lies in it.
pub(super) fn remove_layer(
    worker: &WorkerBinary,
    session: &SessionId,
    folder: &Path,
) -> Result<(), String> {
    let tree = open::tree_of(folder);
    let account = open::account_of(folder);
    let (home, work) = (tree.with_file_name(HOME), tree.with_file_name("work"));
    for place in [tree, work, home] {
        if !place.exists() {
            continue;
        }
        let errand = Errand::Remove {
            folder: place.display().to_string(),
        };
        match queries::one_errand(worker, session, account, errand)? {
            Finding::Removed => {}
            other => return Err(queries::why(&other)),
        }
        // Remove leaves the folder itself or not; an empty one goes here.
        let _ = std::fs::remove_dir(place);
    }
    open::leave(folder);
    Ok(())
}

/// Removes folders of sessions whose supervisor died before the record knew them. A folder without the
/// marker, or whose lock somebody holds, is left alone, so that no start and no session is disturbed.
///
/// # Errors
/// When the folder of all sessions cannot be read.
pub(crate) fn sweep_unentered(places: &Places, record: &Record) -> std::io::Result<()> {
    // Groups of sessions that nobody serves any more: a folder without a lock's holder is dead.
    supervisor_sandbox::sweep_groups(&|session| {
        places
            .state()
            .join("sessions")
            .join(session.as_str())
            .exists()
            && matches!(SessionLock::take(places, session), Ok(Some(_)))
    });
    let sessions = places.state().join("sessions");
    let folders = match std::fs::read_dir(&sessions) {
        Ok(folders) => folders,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for folder in folders {
        let folder = folder?;
        let name = folder.file_name();
        let session = name.to_str().and_then(|name| SessionId::parse(name).ok());
        let Some(session) = session.filter(|_| folder.path().join(STARTING).exists()) else {
            continue;
        };
        // What cannot be removed now is tried again at the next start.
        let Ok(Some(lock)) = SessionLock::take(places, &session) else {
            continue;
        };
        match record.session(&session) {
            Ok(None) => {}
            // It died right after the record had learned of it: its folder is kept.
            Ok(Some(_)) => {
                let _ = std::fs::remove_file(lock.folder().join(STARTING));
                continue;
            }
            Err(_) => continue,
        }
        if ["tree", "work", HOME]
            .iter()
            .any(|name| lock.folder().join(name).exists())
        {
            let Ok(worker) = find_worker() else { continue };
            if remove_layer(&worker, &session, lock.folder()).is_err() {
                continue;
            }
        }
        bait::sweep(&session);
        open::leave(lock.folder());
        // Only files of our own are left in it.
        let _ = std::fs::remove_dir_all(lock.folder());
    }
    Ok(())
}

/// Removes a folder of a session's account, by a reader; whether it is gone.
pub(super) fn remove(
    worker: &WorkerBinary,
    session: &SessionId,
    account: Option<Identity>,
    folder: &Path,
) -> bool {
    let errand = Errand::Remove {
        folder: folder.display().to_string(),
    };
    let found = queries::one_errand(worker, session, account, errand);
    let _ = std::fs::remove_dir(folder);
    matches!(found, Ok(Finding::Removed)) && !folder.exists()
}

/// Where a session lives.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) places: Places,
    pub(crate) lock: SessionLock,
    pub(crate) worker: Arc<WorkerBinary>,
    record: Option<Record>,
    /// Where the audit's heads are sent besides.
    pub(crate) heads: Option<Heads>,
    pub(super) claim: Option<ClaimedUid>,
    /// HOME of the account that the session works for.
    home: PathBuf,
}

/// Finds Provost's own places.
pub(crate) fn own_places() -> Result<Places, Failure> {
    Places::find().map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))
}

/// Opens the record.
pub(crate) fn open_record(places: &Places) -> Result<Record, Failure> {
    Record::open(places).map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))
}

/// Random bytes as hex.
pub(crate) fn random_hex(bytes: usize) -> Result<String, Failure> {
    let mut raw = vec![0_u8; bytes];
    getrandom::fill(&mut raw)
        .map_err(|error| Failure::new(BUG, format!("no randomness: {error}")))?;
    Ok(raw.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A new session's id: sorts by time, cannot be guessed.
pub(crate) fn session_id() -> Result<SessionId, Failure> {
    let seconds = now_ms() / 1_000;
    let word = format!("s-{seconds:x}-{}", random_hex(4)?);
    SessionId::parse(&word).map_err(|error| Failure::new(BUG, error.to_string()))
}

impl Place {
    /// A place for a new session, or for one that goes on.
    pub(crate) fn new(
        places: Places,
        session: &SessionId,
        runs_as: RunsAs<'_>,
    ) -> Result<Self, Failure> {
        let refused =
            |error: &dyn std::fmt::Display| Failure::new(REFUSED_AT_START, error.to_string());
        let worker = find_worker().map_err(|error| refused(&error))?;
        places
            .make_session_folder(session)
            .map_err(|error| refused(&error))?;
        let lock = SessionLock::take(&places, session).map_err(|error| refused(&error))?;
        let lock = lock.ok_or_else(|| {
            refused(&format!(
                "session {session} is busy: another supervisor serves it"
            ))
        })?;
        // From here on a death leaves a folder that the next start knows to be nobody's.
        let marker = lock.folder().join(STARTING);
        std::fs::write(&marker, "")
            .map_err(|error| refused(&format!("cannot write `{}`: {error}", marker.display())))?;
        let record = open_record(&places)?;
        Self::with(places, lock, record, Arc::new(worker), runs_as)
    }

    /// From parts that are held already.
    pub(crate) fn with(
        places: Places,
        lock: SessionLock,
        record: Record,
        worker: Arc<WorkerBinary>,
        runs_as: RunsAs<'_>,
    ) -> Result<Self, Failure> {
        worker.start_digest();
        let unused = |wanted| {
            let claim = nix::unistd::geteuid()
                .is_root()
                .then(|| free_uid(places.runtime(), wanted))
                .transpose();
            claim.map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))
        };
        let claim = match runs_as {
            RunsAs::Own => unused(None)?,
            RunsAs::Again(uid) => unused(uid)?,
            RunsAs::Account(account) => {
                account.still()?;
                Some(ClaimedUid::of_account(account.identity))
            }
        };
        let home = match runs_as {
            RunsAs::Account(account) => account.home.clone(),
            RunsAs::Own | RunsAs::Again(_) => {
                std::env::var_os("HOME").map_or_else(|| PathBuf::from("/home/agent"), PathBuf::from)
            }
        };
        Ok(Self {
            places,
            lock,
            worker,
            record: Some(record),
            heads: None,
            claim,
            home,
        })
    }

    /// The session.
    pub(crate) fn session(&self) -> &SessionId {
        self.lock.session()
    }

    /// The record, until the session is entered.
    pub(super) fn record(&self) -> Result<&Record, Failure> {
        self.record
            .as_ref()
            .ok_or_else(|| Failure::new(BUG, "the session was entered already"))
    }

    fn tree(&self) -> PathBuf {
        open::tree_of(self.lock.folder())
    }

    fn identity(&self) -> Option<Identity> {
        self.claim.as_ref().map(ClaimedUid::identity)
    }

    /// Makes the empty folder that becomes the session's tree: where its account can work in it by
    /// name, if it is plain already that nothing will be mounted.
    pub(super) fn make_tree(&self, saved: &Saved) -> Result<(), Failure> {
        if self.account().is_some() {
            return self.make_open_tree();
        }
        let confinement = &saved.setup.policy.settings.confinement;
        let docker = confinement.backend == policies::Backend::Docker;
        if !docker && (!confinement.namespaces || !open::may_make_namespaces()) {
            return self.make_open_tree();
        }
        let tree = self.tree();
        open::closed(&tree).map_err(|error| cannot("make", &tree, &error))
    }

    /// Makes an empty tree where its account can work in it by name.
    pub(super) fn make_open_tree(&self) -> Result<(), Failure> {
        let (folder, identity) = (self.lock.folder(), self.identity());
        let own = self.account().is_some();
        let tree = open::make(&self.places, self.session(), folder, identity, own)?;
        open::closed(&tree).map_err(|error| cannot("make", &tree, &error))?;
        let Some(account) = self.account() else {
            return Ok(());
        };
        open::give(&tree, account).map_err(|error| cannot("give away", &tree, &error))
    }

    /// The account that the session works for.
    pub(super) fn account(&self) -> Option<Identity> {
        let claim = self.claim.as_ref().filter(|claim| claim.is_account());
        claim.map(ClaimedUid::identity)
    }

    /// Whether the session's account can work in the tree where it lies.
    pub(super) fn is_open(&self) -> bool {
        self.identity().is_none() || self.lock.folder().join("tree").is_symlink()
    }

    /// Makes the private HOME of a box without mounts.
    pub(super) fn make_home(&self) -> Result<(), Failure> {
        let home = self.tree().with_file_name(HOME);
        if home.exists() {
            // Of a supervisor that died; its session's HOME is not kept.
            remove(&self.worker, self.session(), self.account(), &home);
        }
        open::make_home(&home, &home.join(TMP), self.identity())
            .map_err(|error| cannot("make", &home, &error))
    }

    /// The jail's spec.
    pub(super) fn spec(
        &self,
        saved: &Saved,
        situation: Situation,
        doors: Doors,
    ) -> Result<JailSpec, Failure> {
        let tree = self.tree();
        let private = [
            self.places.config().to_owned(),
            self.places.state().to_owned(),
            self.places.runtime().to_owned(),
        ];
        let place = SessionPlace {
            session: self.session(),
            workspace: &saved.setup.workspace,
            tree: &tree,
            overlay: match saved.holding {
                Holding::Overlay(owner) => Some(owner),
                Holding::Copy => None,
            },
            situation,
            doors,
            settings: &saved.setup.policy.settings,
            identity: self.identity(),
            own_reach: self.account().is_some(),
            home: &self.home,
            private: &private,
        };
        jail_spec(&place, &Host::look()).map_err(|error| Failure::new(CONFIG, error.to_string()))
    }

    /// Enters the session into the record: the certificate is the first link of its chain.
    pub(crate) fn enter(
        &mut self,
        saved: &Saved,
        task: Option<&str>,
        masker: Masker,
        certificate: &Certificate,
        resumed: bool,
    ) -> Result<Store, Failure> {
        let refused = |error: &dyn std::fmt::Display| {
            Failure::new(
                REFUSED_AT_START,
                format!("the record cannot be written: {error}"),
            )
        };
        let record = self
            .record
            .take()
            .ok_or_else(|| Failure::new(BUG, "a session is entered once"))?;
        let mut record = record.masked_by(masker);
        let mut entries = vec![Entry::Certificate(Box::new(certificate.clone()))];
        if resumed {
            entries.push(Entry::Resumed { after_crash: false });
        } else {
            let new = NewSession {
                task: task.unwrap_or_default().to_owned(),
                workspace: saved.setup.workspace.display().to_string(),
                policy: saved.setup.policy.name.clone(),
                mode: saved.setup.mode.as_str().to_owned(),
                model: format!("{}/{}", saved.provider, saved.model),
            };
            record
                .create_session(&self.lock, &new, now_ms())
                .map_err(|error| refused(&error))?;
            let setup = serde_json::to_value(saved)
                .map_err(|error| Failure::new(BUG, error.to_string()))?;
            entries.push(Entry::Started {
                task: new.task,
                workspace: new.workspace,
                policy: new.policy,
                policy_digest: saved.setup.policy.digest(),
                mode: new.mode,
                model: new.model,
                setup,
            });
        }
        let store = Store::new(record, self.session().clone(), self.heads.take());
        store.append(&entries).map_err(|error| refused(&error))?;
        // The record knows it now: whatever happens, its folder is kept for resume and review.
        let _ = std::fs::remove_file(self.lock.folder().join(STARTING));
        Ok(store)
    }

    /// Removes what only a running session needs.
    pub(crate) async fn clean(&self) {
        // A socket of the probes that a crash left; everything else of the folder is kept for review.
        let _ = std::fs::remove_file(self.lock.folder().join("probe.sock"));
        bait::sweep(self.session());
        let home = self.tree().with_file_name(HOME);
        if home.exists() {
            let (worker, session) = (Arc::clone(&self.worker), self.session().clone());
            // What cannot be removed now goes at resume, or with the layer.
            let account = self.account();
            let removing = move || remove(&worker, &session, account, &home);
            let _ = tokio::task::spawn_blocking(removing).await;
        }
    }
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot {verb} `{}`: {error}", path.display());
    Failure::new(REFUSED_AT_START, message)
}

/// A box around an empty folder, for `doctor`.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    pub(super) places: &'a Places,
    pub(super) session: SessionId,
    pub(super) policy: &'a policies::Policy,
    pub(super) identity: Option<Identity>,
    pub(super) folder: &'a Path,
}

impl Ground for Trial<'_> {
    fn spec(&self, situation: Situation, doors: Doors) -> Result<JailSpec, Failure> {
        let private = self.places.all().map(Path::to_owned);
        let place = SessionPlace {
            session: &self.session,
            workspace: Path::new("/srv/doctor"),
            tree: &open::tree_of(self.folder),
            overlay: None,
            situation,
            doors,
            settings: &self.policy.settings,
            identity: self.identity,
            own_reach: false,
            home: Path::new("/home/agent"),
            private: &private,
        };
        jail_spec(&place, &Host::look()).map_err(|error| Failure::new(CONFIG, error.to_string()))
    }

    async fn without_overlay(&mut self, _: &str) -> Result<bool, Failure> {
        Ok(false)
    }

    async fn lay_open(&mut self) -> Result<(), Failure> {
        let link = self.folder.join("tree");
        if self.identity.is_some() && !link.is_symlink() {
            std::fs::remove_dir(&link).map_err(|error| cannot("remove", &link, &error))?;
            let tree = open::make(
                self.places,
                &self.session,
                self.folder,
                self.identity,
                false,
            )?;
            let made = open::closed(&tree);
            made.and_then(|()| match self.identity {
                Some(Identity { uid, gid }) => {
                    std::os::unix::fs::chown(&tree, Some(uid), Some(gid))
                }
                None => Ok(()),
            })
            .map_err(|error| cannot("make", &tree, &error))?;
        }
        let home = open::tree_of(self.folder).with_file_name(HOME);
        if home.exists() {
            return Ok(());
        }
        open::make_home(&home, &home.join(TMP), self.identity)
            .map_err(|error| cannot("make", &home, &error))
    }
}

/// The facts of a session that would be started here now.
pub(crate) fn explained_facts(workspace: &std::path::Path) -> policies::Facts {
    let host = Host::look();
    let links = host
        .links
        .iter()
        .chain(&host.etc_links)
        .map(|(name, _)| name.clone());
    let etc = host.etc.iter().map(|(target, _)| target.clone());
    let system = host
        .trees
        .iter()
        .cloned()
        .chain(links)
        .chain(etc)
        .chain(["/proc".to_owned()]);
    let home = std::env::var("HOME").unwrap_or_else(|_| "/home/agent".to_owned());
    policies::Facts {
        workspace: workspace.display().to_string(),
        home,
        system: system.collect(),
        interactive: true,
        tree: None,
    }
}

/// Digest of a list of changes: what was reviewed.
pub(crate) fn digest_of<T: serde::Serialize>(value: &T) -> Digest {
    Digest::of(&serde_json::to_vec(value).unwrap_or_default())
}
