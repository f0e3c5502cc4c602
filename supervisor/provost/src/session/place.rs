//! A session's place: its id, folder, lock, record and worker; made before anything runs, cleaned after.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{
    Digest, SessionId,
    jail::JailSpec,
    reader::{Errand, Finding},
};
use supervisor_core::{Certificate, Entry};
use supervisor_record::{Masker, NewSession, Places, Record, SessionLock};
use supervisor_sandbox::{
    ClaimedUid, Host, SessionPlace, WorkerBinary, find_worker, free_uid, jail_spec,
};

use super::{Holding, Saved, Store, bait, heads::Heads, now_ms, queries};
use crate::exit::{BUG, CONFIG, Failure, REFUSED_AT_START};

/// A file in the folder of a session that the record does not know yet.
const STARTING: &str = "starting";

/// A session's tree, and the folder that the kernel keeps beside the layer of an overlay.
const LAYER: [&str; 2] = ["tree", "work"];

/// Removes a session's tree, whatever lies in it.
pub(super) fn remove_layer(
    worker: &WorkerBinary,
    session: &SessionId,
    folder: &Path,
) -> Result<(), String> {
    for name in LAYER {
        let place = folder.join(name);
        if !place.exists() {
            continue;
        }
        let errand = Errand::Remove {
            folder: place.display().to_string(),
        };
        match queries::one_errand(worker, session, errand)? {
            Finding::Removed => {}
            other => return Err(queries::why(&other)),
        }
        // Remove leaves the folder itself or not; an empty one goes here.
        let _ = std::fs::remove_dir(place);
    }
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
        if LAYER.iter().any(|name| lock.folder().join(name).exists()) {
            let Ok(worker) = find_worker() else { continue };
            if remove_layer(&worker, &session, lock.folder()).is_err() {
                continue;
            }
        }
        bait::sweep(&session);
        // Only files of our own are left in it.
        let _ = std::fs::remove_dir_all(lock.folder());
    }
    Ok(())
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
    /// A place for a new session, or for one that goes on (`uid` is then its tree's owner).
    pub(crate) fn new(
        places: Places,
        session: &SessionId,
        uid: Option<u32>,
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
        Self::with(places, lock, record, Arc::new(worker), uid)
    }

    /// From parts that are held already.
    pub(crate) fn with(
        places: Places,
        lock: SessionLock,
        record: Record,
        worker: Arc<WorkerBinary>,
        uid: Option<u32>,
    ) -> Result<Self, Failure> {
        worker.start_digest();
        let claim = nix::unistd::geteuid()
            .is_root()
            .then(|| free_uid(places.runtime(), uid))
            .transpose();
        let claim = claim.map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
        Ok(Self {
            places,
            lock,
            worker,
            record: Some(record),
            heads: None,
            claim,
        })
    }

    /// The session.
    pub(crate) fn session(&self) -> &SessionId {
        self.lock.session()
    }

    fn tree(&self) -> PathBuf {
        self.lock.folder().join("tree")
    }

    /// The jail's spec.
    pub(crate) fn spec(&self, saved: &Saved) -> Result<JailSpec, Failure> {
        let home =
            std::env::var_os("HOME").map_or_else(|| PathBuf::from("/home/agent"), PathBuf::from);
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
            settings: &saved.setup.policy.settings,
            identity: self.claim.as_ref().map(ClaimedUid::identity),
            home: &home,
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
    pub(crate) fn clean(&self) {
        // A socket of the probes that a crash left; everything else of the folder is kept for review.
        let _ = std::fs::remove_file(self.lock.folder().join("probe.sock"));
        bait::sweep(self.session());
    }
}

/// The spec of a box around an empty folder, for `doctor`.
pub(super) fn trial_spec(
    places: &Places,
    policy: &policies::Policy,
    identity: Option<protocol::jail::Identity>,
    folder: &std::path::Path,
) -> Result<JailSpec, Failure> {
    let session = session_id()?;
    let private = places.all().map(std::path::Path::to_owned);
    let place = SessionPlace {
        session: &session,
        workspace: std::path::Path::new("/srv/doctor"),
        tree: &folder.join("tree"),
        overlay: None,
        settings: &policy.settings,
        identity,
        home: std::path::Path::new("/home/agent"),
        private: &private,
    };
    jail_spec(&place, &Host::look()).map_err(|error| Failure::new(CONFIG, error.to_string()))
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
    super::setup::facts(
        &workspace.display().to_string(),
        &home,
        system.collect(),
        true,
    )
}

/// Digest of a list of changes: what was reviewed.
pub(crate) fn digest_of<T: serde::Serialize>(value: &T) -> Digest {
    Digest::of(&serde_json::to_vec(value).unwrap_or_default())
}
