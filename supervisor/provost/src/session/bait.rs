//! What the probes must not reach: things of the host that are really there while they run. An
//! attempt that fails because nothing was there would prove nothing.

use std::{
    fs::File,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{OpenOptionsExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::PathBuf,
};

use nix::{
    mqueue::{MQ_OFlag, MqAttr, MqdT, mq_close, mq_open, mq_unlink},
    sys::stat::{Mode, fchmod},
};
use protocol::{SessionId, jail::ProbePlan};

use super::certify::Circumstances;

/// Listeners, a queue and a file; gone when dropped.
#[derive(Debug)]
pub(super) struct Bait {
    _tcp: TcpListener,
    _unix: UnixListener,
    _abstract: UnixListener,
    unix_path: PathBuf,
    queue: Option<(String, MqdT)>,
    shared_memory: Option<PathBuf>,
}

impl Bait {
    /// Lays everything out, with the plan that names it.
    pub(super) fn lay(at: &Circumstances<'_>) -> Result<(Self, ProbePlan), String> {
        let tcp = TcpListener::bind("127.0.0.1:0")
            .map_err(|e| format!("no listener for the probes: {e}"))?;
        let tcp_port = tcp
            .local_addr()
            .map_err(|e| format!("no listener for the probes: {e}"))?
            .port();
        let unix_path = at.folder.join("probe.sock");
        let _ = std::fs::remove_file(&unix_path);
        let session = &at.spec.session;
        sweep(session);
        let unix =
            UnixListener::bind(&unix_path).map_err(|e| format!("no socket for the probes: {e}"))?;
        let name = format!("provost-probe-{}", at.nonce);
        let address = SocketAddr::from_abstract_name(name.as_bytes())
            .map_err(|e| format!("no abstract socket for the probes: {e}"))?;
        let unix_abstract = UnixListener::bind_addr(&address)
            .map_err(|e| format!("no abstract socket for the probes: {e}"))?;
        let bait = Self {
            _tcp: tcp,
            _unix: unix,
            _abstract: unix_abstract,
            unix_path,
            // Hosts without them have nothing of the kind to reach.
            queue: queue(session),
            shared_memory: shared_memory(session),
        };
        let shown = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or_else(String::new, |path| path.display().to_string())
        };
        let plan = ProbePlan {
            outside_file: at.places.record_file().display().to_string(),
            outside_folder: at.places.state().display().to_string(),
            hidden: at.hidden.clone(),
            tcp_port,
            unix_path: bait.unix_path.display().to_string(),
            unix_abstract: name,
            queue: bait
                .queue
                .as_ref()
                .map_or_else(String::new, |(name, _)| name.clone()),
            ipc_namespace: std::fs::read_link("/proc/self/ns/ipc")
                .map_or_else(|_| String::new(), |link| link.display().to_string()),
            shared_memory: shown(&bait.shared_memory),
            supervisor_pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            workspace: at.spec.workspace.clone(),
            tmp: at.spec.tmp.clone(),
        };
        Ok((bait, plan))
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.unix_path);
        if let Some(path) = &self.shared_memory {
            let _ = std::fs::remove_file(path);
        }
        if let Some((name, queue)) = self.queue.take() {
            let _ = mq_unlink(name.as_str());
            let _ = mq_close(queue);
        }
    }
}

/// Removes what a supervisor that died among the probes of a session left.
pub(super) fn sweep(session: &SessionId) {
    let _ = mq_unlink(queue_name(session).as_str());
    let _ = std::fs::remove_file(shared_name(session));
}

fn queue_name(session: &SessionId) -> String {
    format!("/provost-probe-{session}")
}

fn shared_name(session: &SessionId) -> PathBuf {
    PathBuf::from(format!("/dev/shm/provost-probe-{session}"))
}

/// A message queue that everybody may open: only a wall stands before it.
fn queue(session: &SessionId) -> Option<(String, MqdT)> {
    let name = queue_name(session);
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDWR;
    let small = MqAttr::new(0, 1, 1, 0);
    let queue = mq_open(name.as_str(), flags, Mode::S_IRWXU, Some(&small)).ok()?;
    // The umask took what others may do.
    fchmod(&queue, Mode::from_bits_truncate(0o666)).ok()?;
    Some((name, queue))
}

/// A name in the host's shared memory that everybody may read.
fn shared_memory(session: &SessionId) -> Option<PathBuf> {
    let path = shared_name(session);
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&path)
        .ok()?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
        .ok()?;
    Some(path)
}
