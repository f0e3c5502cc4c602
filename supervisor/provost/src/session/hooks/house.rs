//! The jail of the organisation's hooks: beside the session's and apart from it, without the workspace
//! and without a network; under a root supervisor it has an unused account of its own.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use policies::Settings;
use protocol::{
    CommandLimits, SessionId, bounds,
    jail::{Doors, Mount, Situation},
};
use supervisor_record::Places;
use supervisor_sandbox::{
    ClaimedUid, Host, Jail, SessionPlace, WorkerBinary, command_environment, free_uid, jail_spec,
    launch,
};
use tokio::sync::mpsc;

use super::Runner;
use crate::session::{commands::Frame, links::Hands};

/// Where its hooks stand, and have a folder in memory of their own.
const INSIDE: &str = "/srv/provost-hooks";

/// The jail, as long as the session lives.
#[derive(Debug)]
pub(crate) struct House {
    jail: Jail,
    _claim: Option<ClaimedUid>,
    /// Where its hands report what nobody waits for.
    _messages: mpsc::UnboundedReceiver<supervisor_core::Message>,
    /// How its hooks are started.
    pub(crate) runner: Runner,
}

impl House {
    /// Builds it.
    ///
    /// # Errors
    /// Why it does not stand: then no hook of the organisation runs.
    pub(crate) async fn build(
        places: &Places,
        session: &SessionId,
        worker: &Arc<WorkerBinary>,
    ) -> Result<Self, String> {
        let root = nix::unistd::geteuid().is_root();
        let claim = root.then(|| free_uid(places.runtime(), None)).transpose();
        let claim = claim.map_err(|error| error.to_string())?;
        let private = [
            places.config().to_owned(),
            places.state().to_owned(),
            places.runtime().to_owned(),
        ];
        let settings = Settings::default();
        let (folder, home) = (PathBuf::from(INSIDE), PathBuf::from("/home/agent"));
        let place = SessionPlace {
            session,
            workspace: &folder,
            tree: &folder,
            overlay: None,
            situation: Situation::Namespaces,
            doors: Doors::default(),
            settings: &settings,
            own_reach: false,
            identity: claim.as_ref().map(ClaimedUid::identity),
            home: &home,
            private: &private,
        };
        let mut spec = jail_spec(&place, &Host::look()).map_err(|error| error.to_string())?;
        for mount in &mut spec.view {
            if matches!(mount, Mount::Writable { target, .. } if target == INSIDE) {
                *mount = Mount::Tmpfs {
                    target: INSIDE.to_owned(),
                    bytes: bounds::SHM,
                    inodes: bounds::TMP_INODES,
                    mode: 0o700,
                };
            }
        }
        let (asked, binary) = (spec.clone(), Arc::clone(worker));
        let launched = tokio::task::spawn_blocking(move || launch(&asked, &binary)).await;
        let jail = launched
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        let (inbox, messages) = mpsc::unbounded_channel();
        let link = jail.hands.try_clone().map_err(|error| error.to_string())?;
        let hands = Hands::start(link, inbox, None).map_err(|error| error.to_string())?;
        let frame = Frame {
            cwd: INSIDE.to_owned(),
            env: command_environment(&spec),
            domain: spec.ceiling.clone(),
            limits: CommandLimits {
                cpu_seconds: bounds::HOOK_TIME_MAX.as_secs(),
                data: bounds::MEMORY,
                file_size: spec.limits.file_size,
                open_files: spec.limits.open_files,
            },
            output: 0,
            shell: None,
        };
        Ok(Self {
            jail,
            _claim: claim,
            _messages: messages,
            runner: Runner {
                hands,
                frame: Rc::new(frame),
            },
        })
    }

    /// Ends it, with whatever runs in it.
    pub(crate) async fn end(mut self) {
        // Kill waits within a bound of its own.
        let _ = tokio::task::spawn_blocking(move || self.jail.process.kill()).await;
    }
}
