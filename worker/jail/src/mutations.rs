//! Tests that leave one wall out, each in a process of its own, and expect to be told: a tripwire or
//! a probe that nothing can trip proves nothing.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
};

use nix::{
    fcntl::OFlag,
    mqueue::{MQ_OFlag, MqAttr, mq_close, mq_open, mq_unlink},
    sched::{CloneFlags, unshare},
    sys::{stat::Mode, wait::waitpid},
    unistd::{Pid, geteuid, getpid, pipe2},
};
use protocol::{
    Probe, ProbeDomain, Right,
    jail::{Domain, ProbePlan},
};

use crate::{
    agent, calls,
    child::Stage,
    command::{NOWHERE, tripwire},
    domain::{self, Kernel},
    filter,
    probe::{Raise, try_all},
    sys::{self, Fork},
};

/// Runs `act` in a process of its own, because walls stay, and gives what it said.
fn apart(act: impl FnOnce() -> String) -> String {
    let (read, write) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    match sys::fork().expect("a process") {
        Fork::Child => {
            drop(read);
            let said = act();
            let _ = File::from(write).write_all(said.as_bytes());
            sys::leave(0)
        }
        Fork::Parent(pid) => {
            drop(write);
            let mut said = String::new();
            File::from(read).read_to_string(&mut said).expect("text");
            waitpid(Pid::from_raw(pid), None).expect("an end");
            said
        }
    }
}

/// Which walls a process raises.
#[derive(Clone, Copy)]
struct Walls {
    network: bool,
    ipc: bool,
    landlock: bool,
    filter: bool,
    abi: u32,
}

const ALL: Walls = Walls {
    network: true,
    ipc: true,
    landlock: true,
    filter: true,
    abi: 10,
};

fn raise(walls: Walls, granted: &Domain) -> Kernel {
    let kernel = domain::kernel(Some(walls.abi)).expect("landlock");
    let mut own = CloneFlags::empty();
    own.set(CloneFlags::CLONE_NEWNET, walls.network);
    own.set(CloneFlags::CLONE_NEWIPC, walls.ipc);
    if !own.is_empty() {
        unshare(CloneFlags::CLONE_NEWUSER | own).expect("namespaces");
    }
    if walls.landlock {
        domain::enter(kernel, &domain::grants(granted)).expect("a domain");
    }
    if walls.filter {
        filter::install(&calls::boxed()).expect("a filter");
    }
    kernel
}

/// What the tripwire says behind some walls.
fn tripped(walls: Walls) -> String {
    let hands = getpid().as_raw();
    apart(|| {
        let granted = Domain {
            read: vec!["/usr".to_owned()],
            ..Domain::default()
        };
        let kernel = raise(walls, &granted);
        match tripwire(kernel, hands, &granted) {
            Ok(()) => "quiet".to_owned(),
            Err((stage, _)) => format!("{stage:?}"),
        }
    })
}

#[test]
fn the_tripwire_is_quiet_behind_all_walls_and_names_each_that_is_missing() {
    assert_eq!(tripped(ALL), "quiet");
    assert_eq!(
        tripped(Walls {
            filter: false,
            ..ALL
        }),
        format!("{:?}", Stage::TripwireFilter)
    );
    assert_eq!(
        tripped(Walls {
            landlock: false,
            ..ALL
        }),
        format!("{:?}", Stage::TripwireDomain)
    );
    assert_eq!(tripped(Walls { abi: 1, ..ALL }), "quiet");
    // Only a host that has a way out can show the third.
    let way_out = UdpSocket::bind("0.0.0.0:0")
        .and_then(|socket| socket.connect(NOWHERE))
        .is_ok();
    if way_out {
        let open = Walls {
            network: false,
            ipc: false,
            ..ALL
        };
        assert_eq!(tripped(open), format!("{:?}", Stage::TripwireNetwork));
    }
}

/// A host to probe against, and the probes behind some walls.
fn probed(walls: Walls) -> Vec<Probe> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["outside", "workspace", "tmp"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    std::fs::write(path("outside/secret"), "x").expect("a file");
    std::fs::write(path("workspace/.env"), "x").expect("a file");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let tcp_port = tcp.local_addr().expect("bound").port();
    let _unix = UnixListener::bind(path("outside/socket")).expect("a socket");
    let unix_abstract = format!("provost-mutation-{}-{tcp_port}", getpid());
    let name = SocketAddr::from_abstract_name(&unix_abstract).expect("a name");
    let _abstract = UnixListener::bind_addr(&name).expect("a socket");
    let queue = format!("/provost-mutation-{}-{tcp_port}", getpid());
    let made = MQ_OFlag::O_CREAT | MQ_OFlag::O_EXCL | MQ_OFlag::O_RDWR;
    let small = MqAttr::new(0, 1, 1, 0);
    let held = mq_open(queue.as_str(), made, Mode::S_IRWXU, Some(&small)).expect("a queue");
    let shared = format!("/dev/shm/provost-mutation-{}-{tcp_port}", getpid());
    std::fs::write(&shared, "x").expect("shared memory");
    let plan = ProbePlan {
        outside_file: path("outside/secret"),
        outside_folder: path("outside"),
        hidden: vec![".env".to_owned()],
        tcp_port,
        unix_path: path("outside/socket"),
        unix_abstract,
        queue: queue.clone(),
        ipc_namespace: fs::read_link("/proc/self/ns/ipc")
            .expect("a namespace")
            .display()
            .to_string(),
        shared_memory: shared.clone(),
        supervisor_pid: getpid().as_raw(),
        workspace: path("workspace"),
        tmp: path("tmp"),
    };
    let granted = Domain {
        read: vec![plan.workspace.clone(), "/proc".to_owned()],
        write: vec![plan.tmp.clone()],
        exec: Vec::new(),
    };
    let hands = getpid().as_raw();
    let said = apart(|| {
        raise(walls, &granted);
        match try_all(ProbeDomain::Command, hands, &plan, Raise::Nothing) {
            Ok(probes) => serde_json::to_string(&probes).expect("json"),
            Err(error) => error.to_string(),
        }
    });
    mq_unlink(queue.as_str()).expect("removed");
    mq_close(held).expect("closed");
    std::fs::remove_file(&shared).expect("removed");
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}

fn held(probes: &[Probe], case: &str) -> bool {
    let probe = probes
        .iter()
        .find(|probe| probe.case == case)
        .expect("a probe of that name");
    assert!(probe.twin, "the twin of {case} failed: {probe:?}");
    probe.held()
}

#[test]
fn a_missing_filter_is_seen_by_the_probes() {
    let with = probed(Walls {
        network: false,
        ipc: false,
        ..ALL
    });
    let without = probed(Walls {
        network: false,
        ipc: false,
        filter: false,
        ..ALL
    });
    let of_the_filter = [
        "limits.hands",
        "limits.supervisor",
        "call.mount",
        "call.unshare",
        "call.clone",
        "call.keyctl",
        "call.setns",
        "call.bpf",
        "descriptors.others",
        "family.netlink",
        "terminal.type",
        "ipc.keyring",
        "ipc.key",
    ];
    for case in of_the_filter {
        assert!(held(&with, case), "{case} with all walls");
        assert!(!held(&without, case), "{case} seems held without a filter");
    }
    assert!(held(&without, "read.outside"), "landlock alone holds files");
}

#[test]
fn a_missing_landlock_domain_is_seen_by_the_probes() {
    let with = probed(Walls {
        network: false,
        ipc: false,
        ..ALL
    });
    let without = probed(Walls {
        network: false,
        ipc: false,
        landlock: false,
        ..ALL
    });
    for case in [
        "read.outside",
        "list.outside",
        "write.outside",
        "append.outside",
        "signal.hands",
        "signal.supervisor",
        "tcp.host",
        "unix.abstract",
        "ipc.shared_memory",
        "device.open",
    ] {
        assert!(held(&with, case), "{case} with all walls");
        assert!(!held(&without, case), "{case} seems held without landlock");
    }
    assert!(held(&without, "call.mount"), "the filter alone holds calls");
    // What neither holds, and only the view does: a file's mode, a path socket, a hidden file.
    for case in ["chmod.outside", "unix.path", "hidden..env"] {
        assert!(!held(&with, case), "{case} seems held without a view");
    }
}

#[test]
fn a_missing_network_namespace_is_seen_by_the_probes() {
    // Without Landlock's TCP rules, only the namespace stands between.
    let old = Walls { abi: 3, ..ALL };
    assert!(held(&probed(old), "tcp.host"));
    assert!(!held(
        &probed(Walls {
            network: false,
            ipc: false,
            ..old
        }),
        "tcp.host"
    ));
    assert!(held(&probed(old), "unix.abstract"));
    assert!(!held(
        &probed(Walls {
            network: false,
            ipc: false,
            ..old
        }),
        "unix.abstract"
    ));
}

#[test]
fn a_missing_ipc_namespace_is_seen_by_the_probes() {
    let shared = Walls { ipc: false, ..ALL };
    assert!(held(&probed(ALL), "ipc.segments"));
    assert!(!held(&probed(shared), "ipc.segments"));
    // Landlock alone keeps message queues away; where it does not, the namespace does.
    let open = Walls {
        landlock: false,
        ..ALL
    };
    assert!(held(&probed(open), "ipc.queue"));
    assert!(!held(&probed(Walls { ipc: false, ..open }), "ipc.queue"));
}

#[test]
fn a_node_for_a_device_is_refused_to_whoever_lacks_the_capability() {
    let found = probed(ALL);
    assert!(held(&found, "device.make"));
    if geteuid().is_root() {
        // Root in the first user namespace may make nodes: only the namespace takes that away.
        let bare = Walls {
            network: false,
            ipc: false,
            landlock: false,
            ..ALL
        };
        assert!(!held(&probed(bare), "device.make"));
    }
}

#[test]
fn a_right_that_a_later_abi_brought_is_seen_to_be_missing() {
    let old = probed(Walls {
        network: false,
        ipc: false,
        abi: 5,
        ..ALL
    });
    assert!(
        !held(&old, "signal.hands"),
        "signals are scoped from ABI 6 on"
    );
    assert!(held(&old, "read.outside"));
    let rights = [Right::ProcSignal, Right::NetUnixAbstract];
    let seen = |right| {
        old.iter()
            .any(|probe| probe.right == right && !probe.held())
    };
    assert!(rights.into_iter().all(seen));
}

#[test]
fn the_agents_filter_kills_what_its_domain_alone_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display().to_string();
    let said = apart(|| {
        agent::enter_domain(std::slice::from_ref(&place), None).expect("a domain");
        let pid = match sys::fork() {
            Ok(Fork::Child) => {
                agent::enter_filter().expect("a filter");
                let _ = File::create(folder.path().join("x"));
                sys::leave(0)
            }
            Ok(Fork::Parent(pid)) => pid,
            Err(error) => return error.to_string(),
        };
        format!("{:?}", waitpid(Pid::from_raw(pid), None))
    });
    assert!(said.contains("SIGSYS"), "{said}");
}
