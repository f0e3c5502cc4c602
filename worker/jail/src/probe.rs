//! The probes: for each right an attempt that must fail, beside a twin that must succeed, tried from
//! inside a domain.
//!
//! In the agent's domain many attempts are answered by death. The probe role enters the agent's
//! Landlock domain itself, then forks one child per deadly attempt, and each child installs the
//! agent's filter on itself: forking is not in the agent's list, so it must come before. Killed by
//! SIGSYS counts as refused. The children run side by side.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
};

use nix::{
    fcntl::OFlag,
    sys::{
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, pipe2},
};
use protocol::{Probe, ProbeDomain, Right, jail::ProbePlan};

use crate::{
    agent,
    attempt::{self as at, Ground, Outcome},
    descriptors,
    sys::{self, Fork, Poke},
};

/// What the probe role is charged with, beside the plan.
#[derive(Debug)]
pub(crate) struct Charge<'a> {
    /// In whose domain.
    pub(crate) domain: ProbeDomain,
    /// Hands, as seen inside.
    pub(crate) hands: i32,
    /// What the agent may read.
    pub(crate) read: &'a [String],
    /// The pretended ABI.
    pub(crate) pretend_abi: Option<u32>,
}

/// The role's argument.
pub(crate) fn encode(charge: &Charge<'_>, plan: &ProbePlan) -> io::Result<String> {
    let charge = (
        charge.domain,
        charge.hands,
        charge.read,
        charge.pretend_abi,
        plan,
    );
    serde_json::to_string(&charge).map_err(Into::into)
}

/// The probe role: raises the walls that its argument names, tries everything, and writes the
/// findings (one JSON [`protocol::Probe`] a line) to descriptor 3 in the agent's domain, to standard
/// output in a command's. Gives the exit code: 0, 70 if it could not try, 77 if a wall is missing.
#[must_use]
pub fn probe_role(argument: &str) -> u8 {
    type Told = (ProbeDomain, i32, Vec<String>, Option<u32>, ProbePlan);
    let Ok((domain, hands, read, pretend, plan)) = serde_json::from_str::<Told>(argument) else {
        return 70;
    };
    let out = match domain {
        ProbeDomain::Agent => descriptors::agent_link(),
        ProbeDomain::Command => sys::inherited(1),
    };
    let Ok(out) = out else { return 70 };
    if domain == ProbeDomain::Agent && agent::enter_domain(&read, pretend).is_err() {
        return 77;
    }
    let raise = match domain {
        ProbeDomain::Agent => Raise::AgentFilter,
        ProbeDomain::Command => Raise::Nothing,
    };
    match try_all(domain, hands, &plan, raise).and_then(|probes| write(&probes, out)) {
        Ok(()) => 0,
        Err(_) => 70,
    }
}

fn write(probes: &[Probe], out: OwnedFd) -> io::Result<()> {
    let mut text = Vec::new();
    for probe in probes {
        serde_json::to_writer(&mut text, probe)?;
        text.push(b'\n');
    }
    File::from(out).write_all(&text)
}

/// What each trying child does to itself first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raise {
    /// It stands behind its walls already.
    Nothing,
    /// The agent's seccomp filter.
    AgentFilter,
}

type Try = Box<dyn Fn(&Ground<'_>) -> Outcome>;
type Twin = fn(&Ground<'_>) -> bool;

struct Case {
    right: Right,
    name: String,
    /// Tried in a child of its own: it may die of it, or change what comes after.
    alone: bool,
    attempt: Try,
    twin: Twin,
}

fn case(
    right: Right,
    name: &str,
    alone: bool,
    attempt: impl Fn(&Ground<'_>) -> Outcome + 'static,
    twin: Twin,
) -> Case {
    Case {
        right,
        name: name.to_owned(),
        alone,
        attempt: Box::new(attempt),
        twin,
    }
}

/// Hidden paths that are tried; more are of the same kind.
const HIDDEN: usize = 16;

fn hidden(plan: &ProbePlan) -> Vec<Case> {
    let one = |path: &String| {
        let path = path.clone();
        let name = format!("hidden.{path}");
        let attempt = move |ground: &Ground<'_>| at::read_hidden(ground, &path);
        case(
            Right::FilesHidden,
            &name,
            false,
            attempt,
            at::lists_workspace,
        )
    };
    let mut cases: Vec<Case> = plan.hidden.iter().take(HIDDEN).map(one).collect();
    if cases.is_empty() {
        // A right with nothing to hold holds; the answer says why, so that nobody reads more in it.
        let nothing = |_: &Ground<'_>| Outcome {
            refused: true,
            answer: "nothing is hidden here".to_owned(),
        };
        cases.push(case(
            Right::FilesHidden,
            "hidden.none",
            false,
            nothing,
            at::lists_workspace,
        ));
    }
    cases
}

fn agent_cases(plan: &ProbePlan) -> Vec<Case> {
    let look = at::lists_workspace;
    let mut cases = vec![
        case(
            Right::FilesRead,
            "read.outside",
            false,
            at::read_outside,
            look,
        ),
        case(
            Right::FilesRead,
            "list.outside",
            false,
            at::list_outside,
            look,
        ),
        case(
            Right::FilesWrite,
            "write.outside",
            true,
            at::write_outside,
            look,
        ),
        case(
            Right::FilesWrite,
            "write.workspace",
            true,
            at::write_workspace,
            look,
        ),
        case(
            Right::FilesMeta,
            "chmod.outside",
            false,
            at::chmod_outside,
            look,
        ),
        case(Right::NetTcp, "tcp.host", true, at::tcp_host, look),
        case(Right::NetUdp, "udp.nowhere", true, at::udp_nowhere, look),
        case(Right::NetUnixPath, "unix.path", true, at::unix_path, look),
        case(
            Right::NetUnixAbstract,
            "unix.abstract",
            true,
            at::unix_abstract,
            look,
        ),
        case(
            Right::ProcSignal,
            "signal.hands",
            true,
            at::signal_hands,
            at::signals_itself,
        ),
        case(
            Right::ProcSignal,
            "signal.supervisor",
            true,
            at::signal_supervisor,
            at::signals_itself,
        ),
        case(Right::ProcTrace, "trace.hands", true, at::trace_hands, look),
        case(
            Right::ProcTrace,
            "mem.hands",
            false,
            at::memory_file_of_hands,
            look,
        ),
        case(Right::ProcSee, "see.hands", false, at::see_hands, look),
        case(
            Right::ProcSee,
            "see.supervisor",
            false,
            at::see_supervisor,
            look,
        ),
        case(
            Right::ProcLimits,
            "limits.hands",
            true,
            at::limit_hands,
            at::reads_own_limits,
        ),
        case(Right::Exec, "exec.worker", true, at::execute, look),
        case(
            Right::Terminal,
            "terminal.controlling",
            false,
            at::controlling_terminal,
            look,
        ),
        case(
            Right::Terminal,
            "terminal.type",
            false,
            |_| at::call(Poke::Tiocsti),
            look,
        ),
    ];
    let calls = [
        ("call.mount", Poke::Mount),
        ("call.unshare", Poke::UnshareUser),
        ("call.bpf", Poke::Bpf),
        ("call.io_uring", Poke::IoUring),
    ];
    for (name, poke) in calls {
        cases.push(case(
            Right::Syscalls,
            name,
            true,
            move |_| at::call(poke),
            look,
        ));
    }
    cases.extend(hidden(plan));
    cases
}

fn command_cases(plan: &ProbePlan) -> Vec<Case> {
    let look = at::lists_workspace;
    let mut cases = vec![
        case(
            Right::FilesRead,
            "read.outside",
            false,
            at::read_outside,
            look,
        ),
        case(
            Right::FilesRead,
            "list.outside",
            false,
            at::list_outside,
            look,
        ),
        case(
            Right::FilesRead,
            "read.through_proc",
            false,
            at::read_through_proc,
            look,
        ),
        case(
            Right::FilesRead,
            "read.kernel",
            false,
            at::read_kernel,
            look,
        ),
        case(
            Right::FilesWrite,
            "write.outside",
            false,
            at::write_outside,
            at::writes_tmp,
        ),
        case(
            Right::FilesWrite,
            "append.outside",
            false,
            at::append_outside,
            at::writes_tmp,
        ),
        case(
            Right::FilesWrite,
            "write.root",
            false,
            at::write_root,
            at::writes_tmp,
        ),
        case(
            Right::FilesMeta,
            "chmod.outside",
            false,
            at::chmod_outside,
            at::changes_own_mode,
        ),
        case(
            Right::NetTcp,
            "tcp.host",
            false,
            at::tcp_host,
            at::talks_over_a_pair,
        ),
        case(
            Right::NetTcp,
            "tcp.nowhere",
            false,
            at::tcp_nowhere,
            at::talks_over_a_pair,
        ),
        case(
            Right::NetTcp,
            "tcp.multipath",
            false,
            at::tcp_multipath,
            at::talks_over_a_pair,
        ),
        case(
            Right::NetTcp,
            "tcp.fast_open",
            false,
            at::tcp_fast_open,
            at::talks_over_a_pair,
        ),
        case(
            Right::NetUdp,
            "udp.nowhere",
            false,
            at::udp_nowhere,
            at::talks_over_a_pair,
        ),
        case(
            Right::NetUdp,
            "vsock",
            false,
            at::vsock,
            at::talks_over_a_pair,
        ),
        case(
            Right::NetUnixPath,
            "unix.path",
            false,
            at::unix_path,
            at::talks_by_path,
        ),
        case(
            Right::NetUnixAbstract,
            "unix.abstract",
            false,
            at::unix_abstract,
            at::talks_abstract,
        ),
        case(
            Right::ProcSignal,
            "signal.hands",
            false,
            at::signal_hands,
            at::signals_itself,
        ),
        case(
            Right::ProcSignal,
            "signal.supervisor",
            false,
            at::signal_supervisor,
            at::signals_itself,
        ),
        case(
            Right::ProcTrace,
            "trace.hands",
            false,
            at::trace_hands,
            at::sees_itself,
        ),
        case(
            Right::ProcTrace,
            "memory.hands",
            false,
            at::memory_of_hands,
            at::sees_itself,
        ),
        case(
            Right::ProcTrace,
            "mem.hands",
            false,
            at::memory_file_of_hands,
            at::sees_itself,
        ),
        case(
            Right::ProcTrace,
            "environ.supervisor",
            false,
            at::environment_of_supervisor,
            at::sees_itself,
        ),
        case(
            Right::ProcTrace,
            "descriptors.others",
            false,
            at::descriptors_of_others,
            at::sees_itself,
        ),
        case(
            Right::ProcSee,
            "see.hands",
            false,
            at::see_hands,
            at::sees_itself,
        ),
        case(
            Right::ProcSee,
            "see.supervisor",
            false,
            at::see_supervisor,
            at::sees_itself,
        ),
        case(
            Right::ProcLimits,
            "limits.hands",
            false,
            at::limit_hands,
            at::reads_own_limits,
        ),
        case(
            Right::ProcLimits,
            "limits.supervisor",
            false,
            at::limit_supervisor,
            at::reads_own_limits,
        ),
        case(
            Right::Terminal,
            "terminal.controlling",
            false,
            at::controlling_terminal,
            look,
        ),
        case(
            Right::Terminal,
            "terminal.type",
            false,
            |_| at::call(Poke::Tiocsti),
            look,
        ),
        case(
            Right::Syscalls,
            "family.netlink",
            false,
            at::netlink,
            at::talks_over_a_pair,
        ),
        case(
            Right::Syscalls,
            "family.alg",
            false,
            at::alg,
            at::talks_over_a_pair,
        ),
    ];
    for (name, poke) in CALLS {
        // Its own child: where nothing refuses it, this process would go on elsewhere.
        let alone = matches!(poke, Poke::UnshareUser);
        cases.push(case(
            Right::Syscalls,
            name,
            alone,
            move |_| at::call(poke),
            look,
        ));
    }
    cases.extend(hidden(plan));
    cases
}

/// The calls that a command's filter must answer itself.
pub(crate) const CALLS: [(&str, Poke); 18] = [
    ("call.mount", Poke::Mount),
    ("call.open_tree", Poke::OpenTree),
    ("call.mount_setattr", Poke::MountSetattr),
    ("call.pivot_root", Poke::PivotRoot),
    ("call.unshare", Poke::UnshareUser),
    ("call.clone", Poke::CloneUser),
    ("call.clone3", Poke::Clone3),
    ("call.setns", Poke::Setns),
    ("call.bpf", Poke::Bpf),
    ("call.io_uring", Poke::IoUring),
    ("call.keyctl", Poke::Keyctl),
    ("call.userfaultfd", Poke::Userfaultfd),
    ("call.perf_event_open", Poke::PerfEvent),
    ("call.open_by_handle_at", Poke::OpenByHandle),
    ("call.init_module", Poke::InitModule),
    ("call.kexec_load", Poke::Kexec),
    ("call.syslog", Poke::Syslog),
    ("call.tioclinux", Poke::Tioclinux),
];

/// Tries everything from the domain that the current process stands in. `hands` is hands' pid as
/// seen from here. The process must be single-threaded.
///
/// # Errors
/// The kernel refused a pipe or a fork.
pub fn try_all(
    domain: ProbeDomain,
    hands: i32,
    plan: &ProbePlan,
    raise: Raise,
) -> io::Result<Vec<Probe>> {
    let cases = match domain {
        ProbeDomain::Agent => agent_cases(plan),
        ProbeDomain::Command => command_cases(plan),
    };
    let ground = Ground { plan, hands };
    let (alone, together): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.alone);
    // All are started before the first is awaited: they run side by side.
    let mut running = Vec::new();
    for case in &alone {
        running.push((vec![*case], start(&[*case], &ground, raise)?));
    }
    let mut probes = Vec::new();
    let mut rest: &[&Case] = &together;
    // Each round ends at the group's end or at one case that killed its child.
    while !rest.is_empty() {
        let found = finish(rest, start(rest, &ground, raise)?, domain)?;
        let count = found.len().max(1);
        probes.extend(found);
        rest = rest.get(count..).unwrap_or_default();
    }
    for (cases, child) in running {
        probes.extend(finish(&cases, child, domain)?);
    }
    Ok(probes)
}

/// A trying child: its pid and its findings' pipe.
type Trying = (i32, File);

fn start(cases: &[&Case], ground: &Ground<'_>, raise: Raise) -> io::Result<Trying> {
    let (found, told) = pipe2(OFlag::O_CLOEXEC)?;
    match sys::fork()? {
        Fork::Child => {
            drop(found);
            let mut told = File::from(told);
            if raise == Raise::AgentFilter && agent::enter_filter().is_err() {
                sys::leave(77);
            }
            for case in cases {
                // The twin is told before the attempt: the attempt may be the end.
                let twin = (case.twin)(ground);
                if told.write_all(if twin { b"1" } else { b"0" }).is_err() {
                    sys::leave(70);
                }
                let Outcome { refused, answer } = (case.attempt)(ground);
                let line = format!("{} {answer}\n", u8::from(refused));
                if told.write_all(line.as_bytes()).is_err() {
                    sys::leave(70);
                }
            }
            sys::leave(0)
        }
        Fork::Parent(pid) => Ok((pid, found.into())),
    }
}

/// Reads what a child told. The case after its last whole line is answered by how it left.
fn finish(cases: &[&Case], child: Trying, domain: ProbeDomain) -> io::Result<Vec<Probe>> {
    let (pid, mut found) = child;
    let mut text = String::new();
    found.read_to_string(&mut text)?;
    let status = waitpid(Pid::from_raw(pid), None)?;
    let mut probes = Vec::new();
    let mut rest = text.as_str();
    for case in cases {
        let mut chars = rest.chars();
        let Some(twin) = chars.next() else { break };
        let (line, next, whole) = match chars.as_str().split_once('\n') {
            Some((line, next)) => (line, next, true),
            None => ("", "", false),
        };
        let (refused, answer) = match line.split_once(' ') {
            Some((refused, answer)) if whole => (refused == "1", answer.to_owned()),
            _ => by_death(status),
        };
        probes.push(Probe {
            right: case.right,
            case: case.name.clone(),
            domain,
            refused,
            twin: twin == '1',
            answer,
        });
        if !whole {
            break;
        }
        rest = next;
    }
    if probes.is_empty()
        && let Some(case) = cases.first()
    {
        // It never came to its twin.
        let (_, answer) = by_death(status);
        let (right, case) = (case.right, case.name.clone());
        probes.push(Probe {
            right,
            case,
            domain,
            refused: false,
            twin: false,
            answer,
        });
    }
    Ok(probes)
}

/// An attempt that was not survived: only the filter's own signal is a refusal.
fn by_death(status: WaitStatus) -> (bool, String) {
    match status {
        WaitStatus::Signaled(_, Signal::SIGSYS, _) => (true, "SIGSYS".to_owned()),
        WaitStatus::Signaled(_, signal, _) => (false, format!("died of {signal}")),
        _ => (false, "succeeded: another program ran".to_owned()),
    }
}
