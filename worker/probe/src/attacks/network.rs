//! Roads out: every kind of socket, and the addresses that an agent would try first.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    time::Duration,
};

use protocol::escape::Ground;
use rustix::net::{AddressFamily, SocketType};
use worker_jail::Outcome;

use super::{kernels, ours};
use crate::{
    Own,
    outcome::{by_family, escaped, from, of, refused},
};

pub(super) const TABLE: &[Own] = &[
    ours(
        "send-udp-to-host",
        &["bypass 13", "sandbox exfiltration: datagrams"],
        "send a datagram to a server of this host",
        send_udp,
    ),
    ours(
        "connect-tcp-mapped",
        &["bypass 13"],
        "connect to this host in an IPv4-in-IPv6 form",
        mapped,
    ),
    kernels(
        "connect-tcp-other-loopback",
        &["bypass 13"],
        "connect to this host by its second loopback address",
        second_loopback,
    ),
    ours(
        "connect-tcp-any",
        &["bypass 13"],
        "connect to this host by the address of all",
        any_address,
    ),
    kernels(
        "metadata-service",
        &["scenario orchestration: cloud metadata", "bypass 13"],
        "connect to the cloud's metadata service",
        metadata,
    ),
    kernels(
        "cluster-api",
        &["scenario orchestration: cluster API"],
        "connect to a cluster's API server",
        cluster,
    ),
    kernels(
        "node-agent",
        &["scenario orchestration: node agent"],
        "connect to a cluster node's agent",
        kubelet,
    ),
    kernels(
        "docker-over-tcp",
        &["scenario runtime: docker socket", "DK-002"],
        "connect to a Docker engine's TCP ports",
        docker,
    ),
    kernels(
        "name-server",
        &["bypass 15", "sandbox exfiltration: names"],
        "send a name to the name servers that containers know",
        name_server,
    ),
    kernels(
        "packet-socket",
        &["scenario kernel: packet socket"],
        "open a packet socket",
        |_| by_family(socket(AddressFamily::PACKET, SocketType::RAW)),
    ),
    kernels(
        "packet-datagrams",
        &["scenario kernel: packet socket"],
        "open a packet socket without headers",
        |_| by_family(socket(AddressFamily::PACKET, SocketType::DGRAM)),
    ),
    kernels("raw-socket", &["bypass 13"], "open a raw socket", |_| {
        raw(SocketType::RAW)
    }),
    kernels(
        "ping-socket",
        &["bypass 13"],
        "open a socket for echo requests",
        ping,
    ),
    kernels(
        "netlink-datagrams",
        &["bypass 8"],
        "ask the kernel about the host's network",
        |_| by_family(socket(AddressFamily::NETLINK, SocketType::DGRAM)),
    ),
    kernels(
        "family-bluetooth",
        &["bypass 8"],
        "open a Bluetooth socket",
        |_| family(31),
    ),
    kernels("family-can", &["bypass 8"], "open a CAN bus socket", |_| {
        family(29)
    }),
    kernels("family-tipc", &["bypass 8"], "open a TIPC socket", |_| {
        family(30)
    }),
    kernels("family-rds", &["bypass 8"], "open an RDS socket", |_| {
        family(21)
    }),
    kernels("family-x25", &["bypass 8"], "open an X.25 socket", |_| {
        family(9)
    }),
    kernels(
        "family-ax25",
        &["bypass 8"],
        "open an amateur radio socket",
        |_| family(3),
    ),
    kernels("family-ipx", &["bypass 8"], "open an IPX socket", |_| {
        family(4)
    }),
    kernels(
        "family-appletalk",
        &["bypass 8"],
        "open an AppleTalk socket",
        |_| family(5),
    ),
    kernels("family-llc", &["bypass 8"], "open an LLC socket", |_| {
        family(26)
    }),
    kernels(
        "family-phonet",
        &["bypass 8"],
        "open a Phonet socket",
        |_| family(35),
    ),
    kernels(
        "family-rxrpc",
        &["bypass 8"],
        "open an RxRPC socket",
        |_| family(33),
    ),
    kernels(
        "family-key",
        &["bypass 8"],
        "open a key management socket",
        |_| family(15),
    ),
    kernels("family-nfc", &["bypass 8"], "open an NFC socket", |_| {
        family(39)
    }),
    kernels("family-kcm", &["bypass 8"], "open a KCM socket", |_| {
        family(41)
    }),
    kernels("family-qrtr", &["bypass 8"], "open a QRTR socket", |_| {
        family(42)
    }),
    kernels("family-smc", &["bypass 8"], "open an SMC socket", |_| {
        family(43)
    }),
    kernels("family-xdp", &["bypass 8"], "open an XDP socket", |_| {
        family(44)
    }),
    kernels("family-mctp", &["bypass 8"], "open an MCTP socket", |_| {
        family(45)
    }),
    kernels("sctp-socket", &["bypass 8"], "open an SCTP socket", |_| {
        protocol(132)
    }),
    kernels("dccp-socket", &["bypass 8"], "open a DCCP socket", |_| {
        protocol(33)
    }),
];

/// Only an answer counts: a datagram into a network of its own goes nowhere.
fn send_udp(ground: &Ground) -> Outcome {
    let tried = || -> io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.send_to(b"escape", ("127.0.0.1", ground.udp_port))?;
        socket.recv(&mut [0; 16]).map(drop)
    };
    of(tried())
}

/// How long a connection may take before it counts as on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

/// A connection that does not answer in time was routed: that is success enough.
fn dial(address: impl Into<SocketAddr>) -> Outcome {
    match TcpStream::connect_timeout(&address.into(), ON_ITS_WAY) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => escaped("routed"),
        other => of(other),
    }
}

/// The first that gets through, else the last refusal.
fn first(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut last = refused("nothing was tried");
    for outcome in outcomes {
        if !outcome.refused {
            return outcome;
        }
        last = outcome;
    }
    last
}

fn mapped(ground: &Ground) -> Outcome {
    let loopback = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    dial((loopback, ground.plan.tcp_port))
}

fn second_loopback(ground: &Ground) -> Outcome {
    dial((Ipv4Addr::new(127, 0, 0, 2), ground.plan.tcp_port))
}

fn any_address(ground: &Ground) -> Outcome {
    let port = ground.plan.tcp_port;
    first([
        dial((Ipv4Addr::UNSPECIFIED, port)),
        dial((Ipv6Addr::UNSPECIFIED, port)),
    ])
}

fn metadata(_: &Ground) -> Outcome {
    first([dial((Ipv4Addr::new(169, 254, 169, 254), 80))])
}

fn cluster(_: &Ground) -> Outcome {
    first([
        dial((Ipv4Addr::new(10, 96, 0, 1), 443)),
        dial((Ipv4Addr::new(10, 43, 0, 1), 443)),
    ])
}

/// On this host itself: its own loopback would take it, ours has nobody.
fn kubelet(_: &Ground) -> Outcome {
    first([
        dial((Ipv4Addr::LOCALHOST, 10_250)),
        dial((Ipv4Addr::LOCALHOST, 10_255)),
    ])
}

fn docker(_: &Ground) -> Outcome {
    let bridge = Ipv4Addr::new(172, 17, 0, 1);
    first([
        dial((Ipv4Addr::LOCALHOST, 2_375)),
        dial((bridge, 2_375)),
        dial((bridge, 2_376)),
    ])
}

/// Sending is enough: the name is gone then.
fn name_server(_: &Ground) -> Outcome {
    let query =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x04test\x00\x00\x01\x00\x01";
    // That of a container engine, and one of the addresses for documentation.
    let servers = [Ipv4Addr::new(127, 0, 0, 11), Ipv4Addr::new(192, 0, 2, 53)];
    first(servers.map(|server| {
        let tried = || -> io::Result<()> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect((server, 53))?;
            socket.send(query)?;
            // Within a network of its own even a loopback address takes what nobody hears.
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            if server.is_loopback() {
                socket.recv(&mut [0; 16])?;
            }
            Ok(())
        };
        of(tried())
    }))
}

fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd, rustix::io::Errno> {
    rustix::net::socket(family, kind, None)
}

fn raw(kind: SocketType) -> Outcome {
    from(socket(AddressFamily::INET, kind))
}

fn ping(_: &Ground) -> Outcome {
    let protocol = Some(rustix::net::ipproto::ICMP);
    from(rustix::net::socket(
        AddressFamily::INET,
        SocketType::DGRAM,
        protocol,
    ))
}

/// Every kind that a family may have.
fn family(number: u16) -> Outcome {
    let kinds = [
        SocketType::STREAM,
        SocketType::DGRAM,
        SocketType::SEQPACKET,
        SocketType::RAW,
    ];
    let family = AddressFamily::from_raw(number);
    first(kinds.map(|kind| by_family(socket(family, kind))))
}

fn protocol(number: u32) -> Outcome {
    let protocol = std::num::NonZeroU32::new(number).map(rustix::net::Protocol::from_raw);
    let kinds = [SocketType::STREAM, SocketType::SEQPACKET];
    first(kinds.map(|kind| by_family(rustix::net::socket(AddressFamily::INET, kind, protocol))))
}
