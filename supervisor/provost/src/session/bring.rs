//! Brings the workspace into a session: by a layer above it, or by a copy.

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::PathBuf, sync::Arc};

use policies::WorkspaceMode;
use protocol::{
    Floor, Right, bounds,
    jail::Identity,
    reader::{Errand, Finding, ReaderFailure},
};
use supervisor_sandbox::ClaimedUid;

use super::{Holding, Place, Saved, place::remove_layer, queries};
use crate::exit::{BUG, CONFIG, Failure, REFUSED_AT_START};

impl Place {
    /// Makes an empty folder of the session's own.
    fn make(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = super::beside(self.lock.folder(), name);
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| {
            let message = format!("cannot make `{}`: {error}", folder.display());
            Failure::new(REFUSED_AT_START, message)
        })?;
        Ok(folder)
    }

    /// Who owns what a reader makes, where it does not make it as the session's own account.
    fn owner(&self) -> Option<Identity> {
        let claim = self.claim.as_ref().filter(|claim| !claim.is_account());
        claim.map(ClaimedUid::identity)
    }

    /// Brings the workspace in as the policy says; if it says nothing, by an overlay where that works
    /// and else by a copy. Answers what the start line says.
    pub(crate) async fn bring_in(&mut self, saved: &mut Saved) -> Result<String, Failure> {
        saved.uid = self.owner().map(|owner| owner.uid);
        self.make_tree(saved)?;
        let confinement = &saved.setup.policy.settings.confinement;
        let own = confinement.namespaces && confinement.backend == policies::Backend::Landlock;
        // A layer on a disk is watched; only memory of a fixed size would hold a session to it.
        let bounded = confinement.rights.get(&Right::Disk) == Some(&Floor::Required);
        match confinement.workspace {
            Some(WorkspaceMode::Copy) => return self.copy_in(saved).await,
            None if !own || bounded => return self.copy_in(saved).await,
            Some(WorkspaceMode::Overlay) if !own || bounded => {
                let why = if own {
                    "disk = \"required\" is not held by an overlay whose layer lies on a disk"
                } else {
                    "an overlay needs the Landlock backend with namespaces of its own"
                };
                let message = format!("the policy wants workspace = \"overlay\": {why}");
                return Err(
                    Failure::new(REFUSED_AT_START, message).help("say workspace = \"copy\"")
                );
            }
            Some(WorkspaceMode::Overlay) | None => {}
            Some(WorkspaceMode::Direct) => {
                let message = "[confinement] workspace = \"direct\" is not built by this release";
                return Err(Failure::new(CONFIG, message));
            }
        }
        match self.lay_over(saved).await? {
            Ok(told) => Ok(told),
            Err(why) => self.copy_instead(saved, &why).await,
        }
    }

    /// Prepares an overlay on the workspace; the inner error is why it cannot be one.
    async fn lay_over(&mut self, saved: &mut Saved) -> Result<Result<String, String>, Failure> {
        let work = self.make("work")?;
        let owner = self.owner();
        if let Some(owner) = self.claim.as_ref().map(ClaimedUid::identity) {
            std::os::unix::fs::chown(&work, Some(owner.uid), Some(owner.gid)).map_err(|error| {
                let message = format!("cannot give `{}` away: {error}", work.display());
                Failure::new(REFUSED_AT_START, message)
            })?;
        }
        let errand = Errand::Prepare {
            workspace: saved.setup.workspace.display().to_string(),
            tree: self.inside("tree"),
            manifest: self.inside("manifest.jsonl"),
            hide: saved.setup.hide.clone(),
            max_entries: bounds::OVERLAY_ENTRIES,
            owner,
        };
        let refused = |why: &str| {
            let message = format!("cannot look through the workspace: {why}");
            Failure::new(REFUSED_AT_START, message)
        };
        match self.errand(errand).await?.map_err(|why| refused(&why))? {
            Finding::Prepared {
                entries,
                owner,
                hidden,
                skipped,
            } => {
                let mut text = format!(
                    "{} · an overlay of {entries} entries",
                    saved.setup.workspace.display()
                );
                if !hidden.is_empty() {
                    text.push_str(&format!(" · {} hidden", hidden.len()));
                }
                if !skipped.is_empty() {
                    text.push_str(&format!(
                        " · {} special or unreadable left out",
                        skipped.len()
                    ));
                }
                saved.hidden = hidden;
                saved.holding = Holding::Overlay(owner);
                Ok(Ok(text))
            }
            Finding::Failed {
                class: ReaderFailure::Unfit,
                message,
            } => Ok(Err(message)),
            // Where the layer's file system refuses the marks, an overlay cannot hide anything.
            Finding::Failed {
                class: ReaderFailure::Io,
                message,
            } if message.contains("in the layer") => Ok(Err(message)),
            other => Err(refused(&queries::why(&other))),
        }
    }

    /// Copies the workspace in where an overlay cannot be laid, unless the policy wants nothing else.
    pub(crate) async fn copy_instead(
        &mut self,
        saved: &mut Saved,
        why: &str,
    ) -> Result<String, Failure> {
        if saved.setup.policy.settings.confinement.workspace.is_some() {
            let message = format!("the policy wants workspace = \"overlay\": {why}");
            return Err(Failure::new(REFUSED_AT_START, message)
                .help("leave it out, and a copy is used where an overlay cannot be; or say workspace = \"copy\""));
        }
        remove_layer(&self.worker, self.session(), self.lock.folder()).map_err(|why| {
            Failure::new(REFUSED_AT_START, format!("cannot empty the layer: {why}"))
        })?;
        self.make_tree(saved)?;
        saved.holding = Holding::Copy;
        let told = self.copy_in(saved).await?;
        Ok(format!("{told} · no overlay: {why}"))
    }

    /// Brings the workspace in again, as a copy where the session's account can work in it by name.
    pub(super) async fn copy_in_the_open(&mut self, saved: &mut Saved) -> Result<String, Failure> {
        let overlay = Some(WorkspaceMode::Overlay);
        if saved.setup.policy.settings.confinement.workspace == overlay {
            let message = "the policy wants workspace = \"overlay\", which needs namespaces";
            return Err(Failure::new(REFUSED_AT_START, message).help("say workspace = \"copy\""));
        }
        remove_layer(&self.worker, self.session(), self.lock.folder()).map_err(|why| {
            Failure::new(REFUSED_AT_START, format!("cannot empty the layer: {why}"))
        })?;
        self.make_open_tree()?;
        saved.holding = Holding::Copy;
        self.copy_in(saved).await
    }

    /// Copies the workspace in; hidden files and declared databases stay out.
    async fn copy_in(&mut self, saved: &mut Saved) -> Result<String, Failure> {
        let errand = Errand::CopyIn {
            workspace: saved.setup.workspace.display().to_string(),
            tree: self.inside("tree"),
            manifest: self.inside("manifest.jsonl"),
            hide: saved.setup.hide.clone(),
            max_bytes: bounds::COPY_BYTES,
            max_entries: bounds::COPY_ENTRIES,
            owner: self.owner(),
        };
        let refused = |why: &str| {
            Failure::new(
                REFUSED_AT_START,
                format!("cannot copy the workspace: {why}"),
            )
        };
        match self.errand(errand).await?.map_err(|why| refused(&why))? {
            Finding::Copied {
                entries,
                bytes,
                hidden,
                ..
            } => {
                let mut text = format!(
                    "{} · a copy of {entries} entries, {} KiB",
                    saved.setup.workspace.display(),
                    bytes / 1024
                );
                if !hidden.is_empty() {
                    text.push_str(&format!(" · {} hidden left out", hidden.len()));
                }
                saved.hidden = hidden;
                Ok(text)
            }
            other => Err(refused(&queries::why(&other))),
        }
    }

    /// A name of the session's folder.
    fn inside(&self, name: &str) -> String {
        if name == "tree" {
            return super::tree_of(self.lock.folder()).display().to_string();
        }
        super::beside(self.lock.folder(), name)
            .display()
            .to_string()
    }

    /// Sends a reader, on a thread that may block.
    async fn errand(&self, errand: Errand) -> Result<Result<Finding, String>, Failure> {
        let (worker, session) = (Arc::clone(&self.worker), self.session().clone());
        let account = self.account();
        let asked = tokio::task::spawn_blocking(move || {
            queries::one_errand(&worker, &session, account, errand)
        });
        asked
            .await
            .map_err(|error| Failure::new(BUG, format!("the reader's thread failed: {error}")))
    }
}
