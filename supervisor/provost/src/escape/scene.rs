//! What the attacks aim at, planted outside the jail by this process, and what became of it.

use std::{
    fs::Permissions,
    io,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use protocol::{
    escape::{Attack, Ground, Way},
    jail::ProbePlan,
};

use super::{
    Asked, play,
    report::{Attempt, Verdict},
};
use crate::session::random_hex;

/// The folder of the suite within its workspace.
pub(super) const FOLDER: &str = "./.escape";
/// What the planted secret says, before its marker.
const SECRET: &str = "the planted secret ";
/// What the planted shared memory says.
const SHARED: &str = "shared";
/// The argument of a program that outlives a command, if it can: it tells this run's from another's.
fn daemon() -> String {
    format!("9876{:07}", std::process::id())
}

/// The scene. Its listeners live as long as this process.
#[derive(Debug)]
pub(super) struct Scene {
    root: PathBuf,
    ground: Ground,
    reached: Arc<AtomicUsize>,
    priority: i32,
}

impl Scene {
    /// Plants everything.
    pub(super) fn plant() -> io::Result<Self> {
        let marker = random_hex(12).map_err(|failure| io::Error::other(failure.message))?;
        let short: String = marker.chars().take(8).collect();
        let root = std::env::temp_dir().join(format!("provost-selftest-{short}"));
        for (name, mode) in [("", 0o755), ("work", 0o755), ("outside", 0o777)] {
            folder(&root.join(name), mode)?;
        }
        let outside = root.join("outside");
        write(
            &outside.join("secret"),
            &format!("{SECRET}{marker}\n"),
            0o666,
        )?;
        write(&root.join("work/readme"), "as it was\n", 0o644)?;
        let reached = Arc::new(AtomicUsize::new(0));
        let tcp_port = listen_tcp(&reached)?;
        let udp_port = answer_udp(&reached)?;
        let unix_path = outside.join("socket");
        listen_unix(UnixListener::bind(&unix_path)?, &reached);
        std::fs::set_permissions(&unix_path, Permissions::from_mode(0o777))?;
        let unix_abstract = format!("provost-selftest-{short}");
        let name = SocketAddr::from_abstract_name(&unix_abstract)?;
        listen_unix(UnixListener::bind_addr(&name)?, &reached);
        let shm = format!("provost-selftest-{short}");
        // A host without shared memory has none to be reached.
        let _ = write(&Path::new("/dev/shm").join(&shm), SHARED, 0o666);
        let text = |path: &Path| path.display().to_string();
        let plan = ProbePlan {
            outside_file: text(&outside.join("secret")),
            outside_folder: text(&outside),
            hidden: Vec::new(),
            tcp_port,
            unix_path: text(&unix_path),
            unix_abstract,
            queue: queue(&short).unwrap_or_default(),
            ipc_namespace: std::fs::read_link("/proc/self/ns/ipc")
                .map(|link| text(&link))
                .unwrap_or_default(),
            shared_memory: format!("/dev/shm/{shm}"),
            supervisor_pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
            workspace: text(&root.join("work")),
            tmp: "/tmp".to_owned(),
        };
        let ground = Ground {
            plan,
            hands: 0,
            udp_port,
            shm,
            segment: segment(),
            marker,
        };
        Ok(Self {
            root,
            ground,
            reached,
            priority: priority(),
        })
    }

    /// The workspace.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The word of the secret.
    pub(super) fn marker(&self) -> &str {
        &self.ground.marker
    }

    /// The policy of the suite's session.
    pub(super) fn policy(&self, asked: &Asked<'_>) -> io::Result<PathBuf> {
        let mut text = format!(
            "version = 1\nname = \"selftest\"\nextends = \"default\"\nmode = \"never\"\n\
             [confinement]\nbackend = \"{}\"\nnamespaces = \"{}\"\n",
            asked.backend, asked.namespaces
        );
        if let Some(image) = asked.image {
            text.push_str(&format!("image = {}\n", serde_json::Value::from(image)));
        }
        let path = self.root.join("policy.toml");
        write(&path, &text, 0o600)?;
        Ok(path)
    }

    /// Puts the attacks into the workspace.
    pub(super) fn arm(&self, attacks: &[Attack], worker: &Path, hands: i32) -> io::Result<()> {
        let folder_of = self.work().join(FOLDER);
        folder(&folder_of, 0o755)?;
        let copy = |to: PathBuf, mode| -> io::Result<()> {
            std::fs::copy(worker, &to)?;
            std::fs::set_permissions(&to, Permissions::from_mode(mode))
        };
        copy(folder_of.join("probe"), 0o755)?;
        copy(self.root.join("outside/program"), 0o755)?;
        // As root this is root's own setuid file.
        copy(self.work().join("setuid"), 0o4755)?;
        let mut ground = self.ground.clone();
        ground.hands = hands;
        let text = serde_json::to_string(&ground)?;
        write(&folder_of.join("ground.json"), &text, 0o644)?;
        write(&folder_of.join("ground.sh"), &self.variables(), 0o644)?;
        write(&folder_of.join("run.sh"), RUNNER, 0o644)?;
        for (number, names) in play::batches(attacks).iter().enumerate() {
            let list = names.join("\n");
            write(&folder_of.join(format!("batch-{number}")), &list, 0o644)?;
        }
        for attack in attacks {
            let (with, text) = match &attack.way {
                Way::Probe => continue,
                Way::Script { with, text } => (with.as_str(), text),
                Way::Plant { text, .. } => ("plant", text),
            };
            write(&folder_of.join(format!("{}.x", attack.name)), text, 0o644)?;
            write(
                &folder_of.join(format!("{}.with", attack.name)),
                with,
                0o644,
            )?;
        }
        Ok(())
    }

    /// The ground for scripts. No value holds a quote: all are this process's own.
    fn variables(&self) -> String {
        let (ground, plan) = (&self.ground, &self.ground.plan);
        let segment = ground.segment.map(|id| id.to_string()).unwrap_or_default();
        let pairs = [
            ("OUTSIDE_FILE", plan.outside_file.clone()),
            ("OUTSIDE_FOLDER", plan.outside_folder.clone()),
            ("TCP", plan.tcp_port.to_string()),
            ("UDP", ground.udp_port.to_string()),
            ("UNIX", plan.unix_path.clone()),
            ("ABSTRACT", plan.unix_abstract.clone()),
            ("SUPERVISOR", plan.supervisor_pid.to_string()),
            ("SUPERVISOR_NAME", "provost".to_owned()),
            ("SHM", ground.shm.clone()),
            ("SEGMENT", segment),
            ("DAEMON", daemon()),
        ];
        let line = |(name, value): (&str, String)| format!("export ESCAPE_{name}='{value}'\n");
        pairs.into_iter().map(line).collect()
    }

    /// What became of everything that was planted, seen from outside.
    pub(super) fn canaries(&self) -> Vec<Attempt> {
        let outside = self.root.join("outside");
        let secret = std::fs::read_to_string(outside.join("secret")).unwrap_or_default();
        let whole = format!("{SECRET}{}\n", self.ground.marker);
        let shared = Path::new("/dev/shm").join(&self.ground.shm);
        let shared = std::fs::read_to_string(shared).unwrap_or_else(|_| SHARED.to_owned());
        let home = std::env::var_os("HOME")
            .map(PathBuf::from)
            .unwrap_or_default();
        let reached = self.reached.load(Ordering::SeqCst);
        let applied = self.work().join("plain-file").exists();
        let rows: [(&str, &str, &str, bool, String); 9] = [
            (
                "canary.listeners",
                "bypass 13",
                "nothing reached this host's listeners",
                reached == 0,
                format!("{reached} reached"),
            ),
            (
                "canary.secret",
                "certificate",
                "the planted secret is as it was",
                secret == whole,
                "read again".to_owned(),
            ),
            (
                "canary.outside",
                "certificate",
                "the folder outside holds what it held",
                names(&outside) == ["program", "secret", "socket"],
                names(&outside).join(" "),
            ),
            (
                "canary.shared-memory",
                "bypass 10",
                "the shared memory object is as it was",
                shared == SHARED,
                "read again".to_owned(),
            ),
            (
                "canary.home",
                "sandbox escape: write outside",
                "the account's own HOME has nothing new",
                !home.join(".escape-canary").exists(),
                "looked".to_owned(),
            ),
            (
                "canary.daemon",
                "RS-001",
                "no process outlives its session",
                !runs(&daemon()),
                "looked".to_owned(),
            ),
            (
                "canary.apply",
                "bypass 2",
                "what is plain was applied, so that what was not was left out",
                applied,
                "looked".to_owned(),
            ),
            (
                "canary.setuid",
                "certificate",
                "no setuid file was applied",
                !has_setuid(&self.work().join("planted-setuid")),
                "looked".to_owned(),
            ),
            (
                "canary.priority",
                "bypass 10",
                "the supervisor is as fast as it was",
                priority() == self.priority,
                format!("{}", priority()),
            ),
        ];
        let attempt =
            |(name, row, tries, held, answer): (&str, &str, &str, bool, String)| Attempt {
                name: name.to_owned(),
                rows: vec![row.to_owned()],
                tries: tries.to_owned(),
                way: "outside".to_owned(),
                ours: true,
                verdict: if held {
                    Verdict::Held
                } else {
                    Verdict::Escaped
                },
                answer,
            };
        rows.into_iter().map(attempt).collect()
    }

    /// Removes everything.
    pub(super) fn clear(self) {
        // Our own folders, which nobody else was told of; what stays is a temporary folder's.
        let _ = std::fs::remove_dir_all(&self.root);
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(&self.ground.shm));
        if !self.ground.plan.queue.is_empty() {
            let _ = nix::mqueue::mq_unlink(self.ground.plan.queue.as_str());
        }
        if let Some(id) = self.ground.segment {
            let _ = Command::new("ipcrm").arg("-m").arg(id.to_string()).output();
        }
    }
}

/// Runs the scripts of a batch: each within its own time, each answer between two lines that name it.
const RUNNER: &str = r#". ./.escape/ground.sh
within=
command -v timeout >/dev/null 2>&1 && within='timeout -k 2 30'
for name in $(cat "./.escape/batch-$1"); do
    with=$(cat "./.escape/$name.with")
    echo "@@ $name"
    case $with in
    plant) $within sh "./.escape/$name.x" 2>&1 && echo planted || echo "absent: the plant could not be made" ;;
    sh) $within sh "./.escape/$name.x" 2>&1 ;;
    *) if command -v "$with" >/dev/null 2>&1; then $within "$with" "./.escape/$name.x" 2>&1; else echo "absent: $with"; fi ;;
    esac
    echo "@@ end $?"
done
"#;

fn folder(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::create_dir(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn priority() -> i32 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    // Field 19 of the line, which is the 17th behind the name.
    let nice = rest.split_whitespace().nth(16);
    nice.and_then(|nice| nice.parse().ok()).unwrap_or(0)
}

/// Whether a process runs `sleep` with this argument.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let wanted = format!("sleep\0{argument}\0");
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| line == wanted.as_bytes())
}

fn has_setuid(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|facts| facts.permissions().mode() & 0o6000 != 0)
}

fn listen_tcp(reached: &Arc<AtomicUsize>) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let reached = Arc::clone(reached);
    std::thread::spawn(move || {
        while listener.accept().is_ok() {
            reached.fetch_add(1, Ordering::SeqCst);
        }
    });
    Ok(port)
}

fn listen_unix(listener: UnixListener, reached: &Arc<AtomicUsize>) {
    let reached = Arc::clone(reached);
    std::thread::spawn(move || {
        while listener.accept().is_ok() {
            reached.fetch_add(1, Ordering::SeqCst);
        }
    });
}

fn answer_udp(reached: &Arc<AtomicUsize>) -> io::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    let reached = Arc::clone(reached);
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut bytes) {
            reached.fetch_add(1, Ordering::SeqCst);
            // One that is gone hears nothing.
            let _ = socket.send_to(b"here", from);
        }
    });
    Ok(port)
}

/// A message queue that everybody may read, where the host has any.
fn queue(short: &str) -> Option<String> {
    use nix::{
        mqueue::{MQ_OFlag, mq_close, mq_open},
        sys::stat::{Mode, umask},
    };
    let name = format!("/provost-selftest-{short}");
    let before = umask(Mode::empty());
    let flags = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDWR;
    let made = mq_open(name.as_str(), flags, Mode::from_bits_truncate(0o666), None);
    umask(before);
    // Closed, not removed: it stays until the scene is cleared.
    made.ok().map(|queue| {
        let _ = mq_close(queue);
        name
    })
}

/// A System V segment that everybody may read, where the machine has the program that makes one.
fn segment() -> Option<u64> {
    let made = Command::new("ipcmk")
        .args(["-M", "4096", "-p", "0666"])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&made.stdout);
    said.split_whitespace().last()?.parse().ok()
}
