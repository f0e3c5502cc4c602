//! Watches how much a session's tree takes while commands run, and ends them where it is too much.
//!
//! A real file system has no limit for one tree. The free space of the whole file system is cheap to
//! ask for and says when to count; a reader counts, since nobody else walks what a session wrote.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use protocol::{
    SessionId,
    call::EndedBy,
    reader::{Errand, Finding},
};
use supervisor_sandbox::WorkerBinary;

use super::{commands::Commands, queries};

/// How often the free space is asked for.
const LOOK: Duration = Duration::from_millis(100);
/// How often the tree is counted at most, and at least while commands run.
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(5);
/// A count waits this many times as long as the last one took: a twentieth of one processor.
const REST: u32 = 20;

/// What to watch.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) worker: Arc<WorkerBinary>,
    pub(super) session: SessionId,
    /// The session's folder, which is our own; the tree lies in it.
    pub(super) folder: PathBuf,
    /// Bytes.
    pub(super) limit: u64,
}

impl Watch {
    /// Watches until the runtime ends.
    pub(super) async fn run(self, commands: Commands) {
        let mut counted = Instant::now();
        let mut pause = OFTEN;
        // Room that was free, and was left to the session, when it was counted.
        let (mut free, mut room) = (self.free(), self.limit);
        loop {
            tokio::time::sleep(LOOK).await;
            if !commands.busy() {
                continue;
            }
            let since = counted.elapsed();
            let gone = free.saturating_sub(self.free());
            let due = since >= SELDOM.max(pause) || (since >= pause && gone > room / 2);
            if !due {
                continue;
            }
            let began = Instant::now();
            let Some(bytes) = self.count().await else {
                continue;
            };
            if bytes > self.limit {
                commands.end_all(EndedBy::DiskLimit);
            }
            pause = (began.elapsed() * REST).max(OFTEN);
            counted = Instant::now();
            free = self.free();
            room = self.limit.saturating_sub(bytes);
        }
    }

    /// Bytes free on the file system of the session's folder.
    fn free(&self) -> u64 {
        nix::sys::statvfs::statvfs(&self.folder).map_or(0, |facts| {
            facts
                .blocks_available()
                .saturating_mul(facts.fragment_size())
        })
    }

    async fn count(&self) -> Option<u64> {
        let (worker, session) = (Arc::clone(&self.worker), self.session.clone());
        let tree = super::tree_of(&self.folder).display().to_string();
        let account = super::account_of(&self.folder);
        let errand = Errand::Measure { tree };
        let found = tokio::task::spawn_blocking(move || {
            queries::one_errand(&worker, &session, account, errand)
        })
        .await;
        match found {
            Ok(Ok(Finding::Measured { bytes, .. })) => Some(bytes),
            // A tree that changes too fast to be read is counted at the next look.
            _ => None,
        }
    }
}
