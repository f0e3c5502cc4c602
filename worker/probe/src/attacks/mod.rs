//! The attacks that the probe makes itself: those of the jail's library, and these, which need nothing
//! but safe calls. Each is one process' one deed, tried inside a session and bare.

mod files;
mod kernel;
mod network;
mod processes;
mod surroundings;

use protocol::escape::Ground;
use worker_jail::Outcome;

use crate::Own;

/// An attack that only a layer of ours refuses to an ordinary account.
const fn ours(
    name: &'static str,
    rows: &'static [&'static str],
    tries: &'static str,
    run: fn(&Ground) -> Outcome,
) -> Own {
    let ours = true;
    Own {
        name,
        rows,
        ours,
        tries,
        run,
    }
}

/// An attack that the kernel refuses to an ordinary account bare as well, or that only some hosts let
/// through.
const fn kernels(
    name: &'static str,
    rows: &'static [&'static str],
    tries: &'static str,
    run: fn(&Ground) -> Outcome,
) -> Own {
    Own {
        ours: false,
        ..ours(name, rows, tries, run)
    }
}

/// The attacks of this crate.
pub(crate) fn own() -> Vec<Own> {
    let tables = [
        files::TABLE,
        kernel::TABLE,
        network::TABLE,
        processes::TABLE,
        surroundings::TABLE,
    ];
    tables.concat()
}

/// Single calls of the jail's library that an ordinary account may make bare, so that only our filter
/// refuses them. The rest of its calls need rights that the account lacks anyway.
const CALLS_OF_ACCOUNTS: [&str; 5] = [
    "call.unshare",
    "call.clone",
    "call.clone3",
    "call.io_uring",
    "call.keyctl",
];

/// What the attacks of the jail's library stand for.
const ROWS: [(&str, &[&str]); 24] = [
    ("type-into-terminal", &["ES-017", "bypass 21"]),
    ("call.tioclinux", &["ES-018", "bypass 21"]),
    ("type-with-high-bits", &["ES-018", "bypass 21"]),
    ("controlling-terminal", &["ES-017"]),
    ("signal-supervisor", &["ES-022", "ES-021"]),
    (
        "trace-supervisor",
        &["ES-022", "sandbox escape: trace the parent"],
    ),
    (
        "read-environment-of-supervisor",
        &["ES-022", "sandbox secret: another process' environment"],
    ),
    ("read-memory-of-hands", &["ES-022"]),
    ("connect-abstract", &["ES-022", "ES-023", "bypass 9"]),
    ("connect-unix", &["ES-009", "DK-002", "bypass 9"]),
    (
        "connect-tcp",
        &["bypass 13", "sandbox exfiltration: a server on this host"],
    ),
    (
        "connect-away",
        &["bypass 13", "sandbox exfiltration: a server elsewhere"],
    ),
    (
        "udp-away",
        &["bypass 13", "bypass 15", "sandbox exfiltration: datagrams"],
    ),
    ("multipath-tcp", &["bypass 13"]),
    ("fast-open", &["bypass 13"]),
    ("vsock", &["bypass 8"]),
    ("netlink", &["bypass 8"]),
    ("kernel-crypto", &["bypass 8"]),
    ("call.io_uring", &["bypass 8"]),
    ("call.clone3", &["bypass 8"]),
    ("call.bpf", &["scenario kernel: eBPF"]),
    ("call.init_module", &["scenario runtime: SYS_MODULE"]),
    (
        "call.open_by_handle_at",
        &["scenario runtime: DAC_READ_SEARCH"],
    ),
    ("call.mount", &["scenario runtime: SYS_ADMIN"]),
];

/// What an attack of the jail's library stands for that has no row of its own: the rights that its
/// certificate names.
const RIGHTS: &[&str] = &["certificate"];

/// The attacks of the jail's library: their names, rows, and whether a layer of ours refuses them.
pub(crate) fn jails() -> impl Iterator<Item = (&'static str, &'static [&'static str], bool)> {
    use worker_jail::attack::{ATTACKS, names};
    names().into_iter().map(|name| {
        let known = ATTACKS.iter().find(|attack| attack.name == name);
        let ours = known.map_or_else(|| CALLS_OF_ACCOUNTS.contains(&name), |attack| attack.ours);
        let rows = ROWS.iter().find(|(of, _)| *of == name);
        (name, rows.map_or(RIGHTS, |(_, rows)| *rows), ours)
    })
}
