//! Attacks by name, for the conformance suite: each is tried inside a jail, where it must be
//! refused, and bare, where each whose layer is ours must succeed, or the case is broken.

use protocol::jail::ProbePlan;

use crate::{
    attempt::{self as at, Ground, Outcome},
    cases::CALLS,
    sys,
};

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// Whether a layer of ours refuses it: bare, as an ordinary account on an ordinary host, it
    /// succeeds. Where not, the kernel refuses it bare as well, or only on some hosts.
    pub ours: bool,
    run: fn(&Ground<'_>) -> Outcome,
}

const fn ours(name: &'static str, run: fn(&Ground<'_>) -> Outcome) -> Attack {
    Attack {
        name,
        ours: true,
        run,
    }
}

const fn kernels(name: &'static str, run: fn(&Ground<'_>) -> Outcome) -> Attack {
    Attack {
        name,
        ours: false,
        run,
    }
}

/// All attacks that are not single calls.
pub const ATTACKS: &[Attack] = &[
    ours("read-outside", at::read_outside),
    ours("list-outside", at::list_outside),
    ours("read-through-proc", at::read_through_proc),
    ours("write-outside", at::write_outside),
    ours("append-outside", at::append_outside),
    ours("chmod-outside", at::chmod_outside),
    ours("symlink-outside", at::symlink_outside),
    kernels("hardlink-outside", at::hardlink_outside),
    kernels("write-root", at::write_root),
    ours("write-proc", at::write_proc),
    ours("read-kernel", at::read_kernel),
    ours("connect-tcp", at::tcp_host),
    kernels("connect-away", at::tcp_nowhere),
    kernels("multipath-tcp", at::tcp_multipath),
    kernels("fast-open", at::tcp_fast_open),
    kernels("udp-away", at::udp_nowhere),
    kernels("vsock", at::vsock),
    ours("netlink", at::netlink),
    kernels("kernel-crypto", at::alg),
    ours("connect-unix", at::unix_path),
    ours("connect-abstract", at::unix_abstract),
    ours("signal-hands", at::signal_hands),
    ours("trace-hands", at::trace_hands),
    ours("limit-hands", at::limit_hands),
    ours("see-hands", at::see_hands),
    ours("read-memory-of-hands", at::memory_of_hands),
    ours("open-memory-of-hands", at::memory_file_of_hands),
    ours("signal-supervisor", at::signal_supervisor),
    ours("trace-supervisor", at::trace_supervisor),
    ours(
        "read-environment-of-supervisor",
        at::environment_of_supervisor,
    ),
    ours("see-supervisor", at::see_supervisor),
    ours("limit-supervisor", at::limit_supervisor),
    ours("copy-descriptors", at::descriptors_of_others),
    kernels("controlling-terminal", at::controlling_terminal),
    ours("type-into-terminal", at::type_into_terminal),
    ours("type-with-high-bits", |_| {
        at::call(crate::poke::Poke::Terminal(0x1_0000_5412))
    }),
    ours("add-key", at::add_key),
    ours("keyring", at::keyring),
    kernels("open-device", at::open_device),
    kernels("make-device", at::make_device),
];

/// The names of all attacks: [`ATTACKS`] and the single calls (`call.mount`, …), which are all ours.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ATTACKS
        .iter()
        .map(|attack| attack.name)
        .chain(CALLS.iter().map(|(name, _)| *name))
        .collect()
}

/// Runs one attack from where the current, single-threaded process stands; `None` if there is none
/// of that name. `hands` is hands' pid as seen from here. Some change the process (`call.unshare`):
/// one process, one attack.
#[must_use]
pub fn run(name: &str, plan: &ProbePlan, hands: i32) -> Option<Outcome> {
    let ground = Ground { plan, hands };
    if let Some(attack) = ATTACKS.iter().find(|attack| attack.name == name) {
        return Some((attack.run)(&ground));
    }
    let (_, poke) = CALLS.iter().find(|(known, _)| *known == name)?;
    Some(at::call(*poke))
}

/// Whether another process' limits can be asked for from here.
#[must_use]
pub fn limits_of(pid: i32) -> bool {
    sys::poke(crate::poke::Poke::Prlimit(pid)).is_ok()
}
