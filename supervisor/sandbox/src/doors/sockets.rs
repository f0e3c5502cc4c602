//! TCP inside a session that shares the host's network: loopback between the session's own sockets,
//! and whatever else a [`Gate`] lets the supervisor dial.
//!
//! **Why a session reaches no port of the host's own.** (1) Its only sockets are plain TCP: every
//! other kind is refused by seccomp, and so is what connects without `connect`. (2) `bind`, `listen`
//! and `connect` of these are held and carried out here, on the supervisor's own copy of the address;
//! none is ever let through. (3) A socket is bound only here, by this thread, to a loopback address
//! and a port that the kernel chooses; right after, the kernel says which, and a descriptor of that
//! very socket is kept. (4) As long as it is kept the port is taken by that socket: nobody else can
//! bind it, for sharing needs SO_REUSEPORT on both and a session cannot set it. (5) A connection is
//! dialled to a kept port only, while it is kept. So what answers is a socket of this session. No
//! step asks who owned a port a moment ago.
//!
//! A port is given back when no process has its socket open any more: a client then meets a closed
//! port, as it would without us. That look is a courtesy; no wall rests on it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use protocol::bounds;
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt},
};

use super::{
    Gate,
    target::{Target, socket_of},
};
use crate::sys;

/// Longest address that is read.
const ADDRESS: u64 = 128;
/// Most connections that may wait for their other end at once; each waits in a thread.
const WAITING: usize = 16;
/// Longest queue of a listener.
const BACKLOG: i32 = 4_096;

/// A bound socket of the session, kept so that its port is nobody else's.
#[derive(Debug)]
struct Port {
    socket: OwnedFd,
    /// Its number as proc tells it.
    number: u64,
    at: SocketAddr,
    /// Where it was last seen open.
    seen: (u32, i32),
}

/// The sockets of a session.
pub(super) struct Sockets {
    ports: Vec<Port>,
    gate: Gate,
    waiting: Arc<AtomicUsize>,
}

impl Sockets {
    pub(super) fn new(gate: Gate) -> Self {
        Self {
            ports: Vec::new(),
            gate,
            waiting: Arc::default(),
        }
    }

    /// Binds to loopback, at a port of the kernel's choice. Any address means loopback here.
    pub(super) fn bind(&mut self, target: &Target) -> Result<i64, Errno> {
        let asked = address(target)?;
        let loopback = match asked.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip if is_loopback(ip) => ip,
            _ => return Err(Errno::ACCESS),
        };
        if asked.port() != 0 {
            // A known port of the host's loopback is one that its programs may trust.
            return Err(Errno::ACCESS);
        }
        if self.ports.len() >= bounds::PORTS {
            self.ports.retain_mut(Port::is_open);
        }
        if self.ports.len() >= bounds::PORTS {
            return Err(Errno::NOBUFS);
        }
        let number = target.number(0);
        let socket = Socket::of(target, number)?;
        rustix::net::bind(&socket.fd, &SocketAddr::new(loopback, 0))?;
        let at = rustix::net::getsockname(&socket.fd)?;
        let at = SocketAddr::try_from(at).map_err(|_| Errno::NOTSUP)?;
        socket.hand_in(target, number)?;
        self.ports.push(Port {
            number: rustix::fs::fstat(&socket.fd)?.st_ino,
            socket: socket.fd,
            at,
            seen: (target.held.thread, number),
        });
        Ok(0)
    }

    /// Listens, if the socket was bound here: without that the kernel would choose any address.
    pub(super) fn listen(&self, target: &Target) -> Result<i64, Errno> {
        let number = target.socket_number(target.number(0))?;
        let port = self.ports.iter().find(|port| port.number == number);
        let port = port.ok_or(Errno::ACCESS)?;
        rustix::net::listen(&port.socket, target.number(1).clamp(0, BACKLOG))?;
        Ok(0)
    }

    /// Connects to a port of the session's own, or to where the gate says. `None` if a thread waits
    /// for the other end and will answer.
    pub(super) fn connect(&mut self, target: &Target) -> Option<Result<i64, Errno>> {
        let dialled = || -> Result<Option<i64>, Errno> {
            let asked = address(target)?;
            let to = self.way(asked).ok_or(Errno::CONNREFUSED)?;
            let number = target.number(0);
            let socket = Socket::of(target, number)?;
            // An IPv6 socket reaches the older addresses by their mapped form.
            let to = match (to.ip(), socket.family) {
                (IpAddr::V4(ip), AddressFamily::INET6) => {
                    SocketAddr::V6(SocketAddrV6::new(ip.to_ipv6_mapped(), to.port(), 0, 0))
                }
                _ => to,
            };
            if socket.never_waits {
                let dialled = rustix::net::connect(&socket.fd, &to);
                if matches!(dialled, Ok(()) | Err(Errno::INPROGRESS)) {
                    socket.hand_in(target, number)?;
                }
                return dialled.map(|()| Some(0));
            }
            self.wait_for(target, socket, to)?;
            Ok(None)
        };
        let mut dialled = dialled;
        dialled().transpose()
    }

    /// Dials in a thread of its own: a caller that waits keeps nobody else waiting.
    fn wait_for(&self, target: &Target, socket: Socket, to: SocketAddr) -> Result<(), Errno> {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(Errno::AGAIN);
        }
        let (target, waiting) = (target.clone(), Arc::clone(&self.waiting));
        let body = move || {
            let dialled = rustix::net::connect(&socket.fd, &to)
                .and_then(|()| socket.hand_in(&target, target.number(0)));
            target.door.answer(target.held.id, dialled.map(|()| 0));
            waiting.fetch_sub(1, Ordering::AcqRel);
        };
        let started = std::thread::Builder::new()
            .name("doors-dial".to_owned())
            .spawn(body);
        if started.is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(Errno::AGAIN);
        }
        Ok(())
    }

    /// Where a connection goes.
    fn way(&mut self, asked: SocketAddr) -> Option<SocketAddr> {
        let ip = asked.ip().to_canonical();
        if let Some(at) = self
            .ports
            .iter()
            .position(|port| port.at.port() == asked.port() && port.at.ip().to_canonical() == ip)
        {
            if self.ports.get_mut(at).is_some_and(Port::is_open) {
                return Some(SocketAddr::new(ip, asked.port()));
            }
            self.ports.swap_remove(at);
            return None;
        }
        (self.gate)(SocketAddr::new(ip, asked.port()))
    }
}

impl Port {
    /// Whether some process still has it open: where it was last seen, or wherever it was handed to.
    fn is_open(&mut self) -> bool {
        let is_it = |link: &Path| {
            std::fs::read_link(link).is_ok_and(|link| socket_of(&link) == Some(self.number))
        };
        let (process, number) = self.seen;
        if is_it(Path::new(&format!("/proc/{process}/fd/{number}"))) {
            return true;
        }
        let own = std::process::id();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for pid in pids.filter(|pid| *pid != own) {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
            for entry in open.into_iter().flatten().flatten() {
                if is_it(&entry.path()) {
                    let number = entry.file_name().to_str().and_then(|n| n.parse().ok());
                    self.seen = (pid, number.unwrap_or(-1));
                    return true;
                }
            }
        }
        false
    }
}

/// A socket to carry a call out on: the caller's own, or where a container's filter keeps that from
/// us, a new one of its kind that takes its place.
#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    family: AddressFamily,
    never_waits: bool,
    /// Whether it must be put in the caller's place, and closes at exec there.
    new: Option<bool>,
}

impl Socket {
    fn of(target: &Target, number: i32) -> Result<Self, Errno> {
        let (never_waits, close_on_exec) = target.flags(number)?;
        let fd = match target.descriptor(number) {
            Ok(fd) => fd,
            Err(Errno::PERM | Errno::NOSYS | Errno::ACCESS) => {
                return Self::new_one(target, never_waits, close_on_exec);
            }
            Err(errno) => return Err(errno),
        };
        let family = sockopt::socket_domain(&fd)?;
        let plain = sockopt::socket_type(&fd)? == SocketType::STREAM
            && matches!(family, AddressFamily::INET | AddressFamily::INET6)
            && sockopt::socket_protocol(&fd)? == Some(rustix::net::ipproto::TCP);
        if !plain {
            return Err(Errno::ACCESS);
        }
        Ok(Self {
            fd,
            family,
            never_waits,
            new: None,
        })
    }

    /// A fresh one of the family that the address asks for. Options that the caller had set are lost.
    fn new_one(target: &Target, never_waits: bool, close_on_exec: bool) -> Result<Self, Errno> {
        target.socket_number(target.number(0))?;
        let family = match address(target)? {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, never_waits);
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        Ok(Self {
            fd,
            family,
            never_waits,
            new: Some(close_on_exec),
        })
    }

    /// Puts a new one in the caller's place.
    fn hand_in(&self, target: &Target, number: i32) -> Result<(), Errno> {
        let Some(close_on_exec) = self.new else {
            return Ok(());
        };
        let (door, id) = (target.door.listener.as_fd(), target.held.id);
        sys::place(
            door,
            id,
            self.fd.as_fd(),
            number.unsigned_abs(),
            close_on_exec,
        )
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// The address of a `bind` or `connect`, read once.
fn address(target: &Target) -> Result<SocketAddr, Errno> {
    let length = target.register(2) & u64::from(u32::MAX);
    if !(2..=ADDRESS).contains(&length) {
        return Err(Errno::INVAL);
    }
    let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
    parse(&target.memory(target.register(1), length)?)
}

/// A `sockaddr_in` or `sockaddr_in6`. AF_UNSPEC, which would undo a bind, is no address.
fn parse(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let family = bytes.first_chunk::<2>().ok_or(Errno::INVAL)?;
    let family = AddressFamily::from_raw(u16::from_ne_bytes(*family));
    let port = bytes
        .get(2..4)
        .and_then(|port| port.try_into().ok())
        .map(u16::from_be_bytes);
    let port = port.ok_or(Errno::INVAL)?;
    match family {
        AddressFamily::INET => {
            let ip: Option<[u8; 4]> = bytes.get(4..8).and_then(|ip| ip.try_into().ok());
            // The kernel insists on the whole structure.
            let ip = ip.filter(|_| bytes.len() >= 16).ok_or(Errno::INVAL)?;
            Ok(SocketAddr::new(ip.into(), port))
        }
        AddressFamily::INET6 => {
            let ip: Option<[u8; 16]> = bytes.get(8..24).and_then(|ip| ip.try_into().ok());
            let ip = ip.ok_or(Errno::INVAL)?;
            Ok(SocketAddr::new(ip.into(), port))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four(port: u16, ip: [u8; 4]) -> Vec<u8> {
        let mut bytes = AddressFamily::INET.as_raw().to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend(ip);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn an_address_is_read_whole_or_not_at_all() {
        let whole = four(8_080, [127, 0, 0, 1]);
        assert_eq!(parse(&whole), Ok(SocketAddr::from(([127, 0, 0, 1], 8_080))));
        assert_eq!(parse(&whole[..8]), Err(Errno::INVAL));
        assert_eq!(parse(&[0, 0]), Err(Errno::INVAL));
        let mut six = AddressFamily::INET6.as_raw().to_ne_bytes().to_vec();
        six.extend(80_u16.to_be_bytes());
        six.extend([0; 4]);
        six.extend(Ipv6Addr::LOCALHOST.octets());
        six.extend([0; 4]);
        assert_eq!(parse(&six), Ok((Ipv6Addr::LOCALHOST, 80).into()));
        assert_eq!(parse(&[0; 16]), Err(Errno::AFNOSUPPORT), "AF_UNSPEC");
        assert_eq!(parse(&[1; 16]), Err(Errno::AFNOSUPPORT));
    }

    #[test]
    fn only_kept_ports_and_what_the_gate_says_are_dialled() {
        let proxy: SocketAddr = ([127, 0, 0, 1], 1).into();
        let mut sockets = Sockets::new(Box::new(move |to| (to.port() == 443).then_some(proxy)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let at = listener.local_addr().expect("an address");
        assert_eq!(sockets.way(at), None, "a port of the host's own");
        let socket: OwnedFd = listener.into();
        let number = rustix::fs::fstat(&socket).expect("status").st_ino;
        // Another process that has it open: a child holds a copy as its standard input.
        let copy = socket.try_clone().expect("a copy");
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .stdin(copy)
            .spawn()
            .expect("a child");
        sockets.ports.push(Port {
            socket,
            number,
            at,
            seen: (child.id(), 7),
        });
        assert_eq!(sockets.way(at), Some(at));
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), at.port());
        assert_eq!(sockets.way(mapped), Some(at), "the mapped form is the same");
        let six = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), at.port());
        assert_eq!(sockets.way(six), None, "another address");
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert_eq!(sockets.way(at), None, "nobody has it open any more");
        assert!(sockets.ports.is_empty(), "and its port is given back");
        assert_eq!(sockets.way(([192, 0, 2, 1], 443).into()), Some(proxy));
    }
}
