//! What this host can hold, found by trying: a real box in an empty folder.

use std::path::Path;

use policies::Settings;
use protocol::SessionId;

use crate::{
    claim::ClaimedUid,
    launch::{LaunchError, launch},
    view::{Host, SessionPlace, jail_spec},
    worker::WorkerBinary,
};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// Whether the full box stands here; else the cause and one remedy.
    pub namespaces: Result<(), String>,
    /// Landlock's ABI, if it is on.
    pub landlock_abi: Option<u32>,
    /// Landlock's errata bits.
    pub errata: Option<u32>,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name in this build.
    pub arch: &'static str,
    /// Whether this build has a table of calls for the processor.
    pub arch_ok: bool,
}

/// Builds a box around an empty folder and takes it down again.
///
/// `scratch` is an existing folder below the state folder; `settings` those of the policy in
/// question; a root supervisor passes the identity that it would give a session.
#[must_use]
pub fn situation(
    worker: &WorkerBinary,
    settings: &Settings,
    scratch: &Path,
    claim: Option<&ClaimedUid>,
) -> Situation {
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let arch = std::env::consts::ARCH;
    let mut found = Situation {
        namespaces: Ok(()),
        landlock_abi: None,
        errata: None,
        kernel,
        arch,
        arch_ok: arch == "x86_64",
    };
    let tried = (|| {
        let session = SessionId::parse("doctor").map_err(|error| error.to_string())?;
        let place = SessionPlace {
            session: &session,
            workspace: Path::new("/srv/doctor"),
            tree: scratch,
            settings,
            identity: claim.map(ClaimedUid::identity),
            home: Path::new("/home/agent"),
            private: &[],
        };
        let spec = jail_spec(&place, &Host::look()).map_err(|error| error.to_string())?;
        launch(&spec, worker).map_err(|error| match error {
            LaunchError::Unfit { step, message } => format!("{step}: {message}"),
            other => other.to_string(),
        })
    })();
    match tried {
        Ok(jail) => {
            found.landlock_abi = Some(jail.facts.abi);
            found.errata = Some(jail.facts.errata);
            if !jail.facts.namespaces {
                found.namespaces = Err("the policy turns namespaces off".to_owned());
            }
        }
        Err(cause) => found.namespaces = Err(cause),
    }
    found
}
