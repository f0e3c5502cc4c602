//! What a box is tried against: a host folder with a secret, listeners, a victim process, a spec.

use std::{
    fs,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{PermissionsExt as _, chown},
            net::{SocketAddr, UnixListener},
            process::CommandExt as _,
        },
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use nix::unistd::geteuid;
use protocol::{
    BUILD, SessionId, bounds,
    jail::{
        Domain, Doors, Identity, JailLimits, JailSpec, Mount, ProbePlan, Situation, WORKER_INSIDE,
        WORKER_ITSELF,
    },
};

/// An account that owns nothing.
pub(crate) const ACCOUNT: u32 = 61_234;

/// As whom a box is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    /// Root starts it and the session takes the account.
    RootForAccount,
    /// The account starts it itself.
    Account,
}

/// Both; without root only what this account can do itself.
pub(crate) fn ways() -> Vec<As> {
    if geteuid().is_root() {
        vec![As::RootForAccount, As::Account]
    } else {
        vec![As::Account]
    }
}

/// A host prepared for one test.
pub(crate) struct Scene {
    pub(crate) spec: JailSpec,
    pub(crate) plan: ProbePlan,
    way: As,
    victim: Child,
    folder: tempfile::TempDir,
    _listeners: (TcpListener, UnixListener, UnixListener),
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Scene {
    pub(crate) fn new(way: As) -> Result<Self, String> {
        Self::make(way).map_err(|error| format!("the scene could not be set: {error}"))
    }

    fn make(way: As) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("provost-walls-")
            .tempdir()?;
        let root = folder.path();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        let (outside, workspace) = (root.join("outside"), root.join("workspace"));
        fs::create_dir(&outside)?;
        fs::create_dir(&workspace)?;
        fs::write(outside.join("secret"), "the secret")?;
        fs::write(workspace.join("readme"), "hello")?;
        std::os::unix::fs::symlink(outside.join("secret"), workspace.join("out"))?;
        let (tcp, unix) = (
            TcpListener::bind("127.0.0.1:0")?,
            UnixListener::bind(outside.join("socket"))?,
        );
        let name = format!(
            "provost-walls-{}-{}",
            std::process::id(),
            tcp.local_addr()?.port()
        );
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        fs::set_permissions(outside.join("socket"), fs::Permissions::from_mode(0o777))?;
        let mut victim = Command::new("/bin/sleep");
        victim.arg("600").env_clear().stdout(Stdio::null());
        if geteuid().is_root() {
            for path in [
                &outside,
                &workspace,
                &outside.join("secret"),
                &workspace.join("readme"),
            ] {
                chown(path, Some(ACCOUNT), Some(ACCOUNT))?;
            }
            victim.uid(ACCOUNT).gid(ACCOUNT);
        }
        let plan = ProbePlan {
            outside_file: text(&outside.join("secret")),
            outside_folder: text(&outside),
            hidden: vec![".env".to_owned()],
            tcp_port: tcp.local_addr()?.port(),
            unix_path: text(&outside.join("socket")),
            unix_abstract: name,
            queue: String::new(),
            ipc_namespace: text(&fs::read_link("/proc/self/ns/ipc")?),
            shared_memory: String::new(),
            supervisor_pid: 0,
            workspace: "/workspace".to_owned(),
            tmp: "/tmp".to_owned(),
        };
        let victim = victim.spawn()?;
        let supervisor_pid = i32::try_from(victim.id()).map_err(std::io::Error::other)?;
        let session = SessionId::parse("walls-test").map_err(std::io::Error::other)?;
        let spec = spec(session, &workspace, way);
        let plan = ProbePlan {
            supervisor_pid,
            ..plan
        };
        Ok(Self {
            spec,
            plan,
            way,
            victim,
            folder,
            _listeners: (tcp, unix, hidden),
        })
    }

    /// The same host for a box without namespaces: its files where they lie, nothing mounted. The
    /// calls that a supervisor would carry out are left to the kernel: nobody attends here.
    pub(crate) fn in_the_open(way: As, pretend_abi: Option<u32>) -> Result<Self, String> {
        let mut scene = Self::new(way)?;
        scene
            .lay_open(pretend_abi)
            .map_err(|error| format!("the scene could not be set: {error}"))?;
        Ok(scene)
    }

    fn lay_open(&mut self, pretend_abi: Option<u32>) -> std::io::Result<()> {
        let root = self.folder.path();
        let (workspace, home) = (root.join("workspace"), root.join("home"));
        let tmp = home.join("tmp");
        for folder in [&home, &tmp] {
            fs::create_dir(folder)?;
            if geteuid().is_root() {
                chown(folder, Some(ACCOUNT), Some(ACCOUNT))?;
            }
        }
        let [workspace, home, tmp] = [workspace, home, tmp].map(|path| text(&path));
        let own = |paths: &[&str]| {
            paths
                .iter()
                .map(|&path| path.to_owned())
                .collect::<Vec<_>>()
        };
        self.spec.situation = Situation::Landlock;
        self.spec.view = Vec::new();
        self.spec.agent_read = own(&[&workspace, WORKER_ITSELF]);
        self.spec.ceiling = Domain {
            read: own(&["/etc/ld.so.cache", "/proc/version"]),
            write: own(&[&workspace, &home]),
            exec: own(&["/usr", "/bin", "/lib", "/lib64", &workspace]),
        };
        self.spec.pretend_abi = pretend_abi;
        self.plan.workspace.clone_from(&workspace);
        self.plan.tmp.clone_from(&tmp);
        self.spec.workspace = workspace;
        self.spec.home = home;
        self.spec.tmp = tmp;
        Ok(())
    }

    /// The command that starts this binary as a box (or as anything else), as whom it must be.
    pub(crate) fn this_binary(&self, words: &[&str]) -> Result<Command, String> {
        let me = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(me);
        command.args(words).env_clear().stdin(Stdio::null());
        if self.way == As::Account && geteuid().is_root() {
            command.uid(ACCOUNT).gid(ACCOUNT);
        }
        Ok(command)
    }

    /// A shell that starts a program as its child, as whom it must be.
    pub(crate) fn shell(&self, words: &[String]) -> Result<Command, String> {
        let mut command = Command::new("/bin/sh");
        // A line after the program, or the shell would become it.
        command
            .args(["-c", "\"$@\"; exit 1", "sh"])
            .args(words)
            .env_clear()
            .stdin(Stdio::null());
        if self.way == As::Account && geteuid().is_root() {
            command.uid(ACCOUNT).gid(ACCOUNT);
        }
        Ok(command)
    }

    /// Starts a box that plays `scenario`.
    pub(crate) fn enter(&self, scenario: &str) -> Result<Command, String> {
        let told = |error: serde_json::Error| error.to_string();
        let spec = serde_json::to_string(&self.spec).map_err(told)?;
        let plan = serde_json::to_string(&self.plan).map_err(told)?;
        self.this_binary(&["box", scenario, &spec, &plan])
    }

    /// Plays a scenario to its end and gives what it wrote.
    pub(crate) fn play(&self, scenario: &str) -> Result<String, String> {
        let output = self
            .enter(scenario)?
            .output()
            .map_err(|error| error.to_string())?;
        let Output {
            status,
            stdout,
            stderr,
        } = output;
        let (stdout, stderr) = (
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        );
        if status.success() {
            return Ok(stdout.into_owned());
        }
        Err(format!(
            "{:?}: `{scenario}` left with {status}: {stdout}{stderr}",
            self.way
        ))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// A spec like the supervisor's.
fn spec(session: SessionId, workspace: &Path, way: As) -> JailSpec {
    let own = |word: &str| word.to_owned();
    let tmpfs = |target: &str, mode| Mount::Tmpfs {
        target: own(target),
        bytes: 64 * bounds::MIB,
        inodes: 10_000,
        mode,
    };
    let link = |target: &str, to: &str| Mount::Link {
        target: own(target),
        to: own(to),
    };
    let mut view = vec![
        Mount::ReadOnly {
            source: own("/usr"),
            target: own("/usr"),
        },
        link("/bin", "usr/bin"),
        link("/lib", "usr/lib"),
        link("/lib64", "usr/lib64"),
        Mount::Proc,
        Mount::Terminals,
        tmpfs("/tmp", 0o1777),
        tmpfs("/dev/shm", 0o1777),
        tmpfs("/home/agent", 0o700),
        Mount::Writable {
            source: text(workspace),
            target: own("/workspace"),
        },
        Mount::File {
            target: own("/etc/passwd"),
            content: own("agent:x:1000:1000::/home/agent:/bin/sh\n"),
        },
        Mount::File {
            target: own("/home/agent/.gitconfig"),
            content: own("[user]\n"),
        },
        Mount::Worker,
    ];
    view.extend(
        ["null", "zero", "full", "random", "urandom"].map(|name| Mount::Device { name: own(name) }),
    );
    let list = |paths: &[&str]| paths.iter().map(|path| own(path)).collect::<Vec<_>>();
    JailSpec {
        build: BUILD.to_owned(),
        session,
        situation: Situation::Namespaces,
        identity: (way == As::RootForAccount).then_some(Identity {
            uid: ACCOUNT,
            gid: ACCOUNT,
        }),
        own_reach: false,
        view,
        workspace: own("/workspace"),
        home: own("/home/agent"),
        tmp: own("/tmp"),
        doors: Doors::default(),
        limits: JailLimits {
            processes: 128,
            open_files: 256,
            file_size: bounds::FILE_SIZE,
        },
        agent_read: list(&["/workspace", WORKER_INSIDE]),
        ceiling: Domain {
            read: list(&["/usr", "/etc", "/proc"]),
            write: list(&["/workspace", "/tmp", "/dev/shm", "/home/agent"]),
            exec: list(&["/usr"]),
        },
        pretend_abi: None,
    }
}
