//! What the probes try: for each right attempts that must fail, and the twins beside them.

use protocol::{
    Right::{
        self, Devices, Exec, FilesHidden, FilesMeta, FilesRead, FilesWrite, Ipc, NetTcp, NetUdp,
        NetUnixAbstract, NetUnixPath, ProcLimits, ProcSee, ProcSignal, ProcTrace, Syscalls,
        Terminal,
    },
    jail::ProbePlan,
};

use crate::{
    attempt::{self as at, Ground, Outcome},
    poke::Poke,
};

/// An attempt that must be refused.
pub(crate) type Attempt = fn(&Ground<'_>) -> Outcome;
/// Its neighbour, which must work.
pub(crate) type Twin = fn(&Ground<'_>) -> bool;

/// What a case does.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// An attempt of its own.
    Attempt(Attempt),
    /// A call that the filter must answer.
    Call(Poke),
    /// Opening a hidden path of the workspace.
    Hidden(String),
}

/// One probe.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) right: Right,
    /// Unique within its domain.
    pub(crate) name: String,
    /// Tried in a child of its own: it may die of it, or change what comes after.
    pub(crate) alone: bool,
    pub(crate) deed: Deed,
    pub(crate) twin: Twin,
}

impl Case {
    /// Tries it.
    pub(crate) fn attempt(&self, ground: &Ground<'_>) -> Outcome {
        match &self.deed {
            Deed::Attempt(attempt) => attempt(ground),
            Deed::Call(poke) => at::call(*poke),
            Deed::Hidden(path) => at::read_hidden(ground, path),
        }
    }
}

/// A row: right, name, attempt.
type Row = (Right, &'static str, Attempt);

fn rows(alone: bool, twin: Twin, rows: &[Row]) -> Vec<Case> {
    let case = |&(right, name, attempt): &Row| {
        let (name, deed) = (name.to_owned(), Deed::Attempt(attempt));
        Case {
            right,
            name,
            alone,
            deed,
            twin,
        }
    };
    rows.iter().map(case).collect()
}

fn calls(alone: bool, calls: &[(&str, Poke)]) -> Vec<Case> {
    let case = |&(name, poke): &(&str, Poke)| Case {
        right: Syscalls,
        name: name.to_owned(),
        // Where nothing refuses it, the process would go on elsewhere.
        alone: alone || poke == Poke::UnshareUser,
        deed: Deed::Call(poke),
        twin: at::lists_workspace,
    };
    calls.iter().map(case).collect()
}

/// Hidden paths that are tried; more are of the same kind.
const HIDDEN: usize = 16;

fn hidden(plan: &ProbePlan) -> Vec<Case> {
    let case = |name: String, deed| {
        let (right, twin) = (FilesHidden, at::lists_workspace as Twin);
        Case {
            right,
            name,
            alone: false,
            deed,
            twin,
        }
    };
    if plan.hidden.is_empty() {
        // A right with nothing to hold holds; the answer says why, so that nobody reads more in it.
        let nothing: Attempt = |_| Outcome {
            refused: true,
            answer: "nothing is hidden here".to_owned(),
        };
        return vec![case("hidden.none".to_owned(), Deed::Attempt(nothing))];
    }
    let one = |path: &String| case(format!("hidden.{path}"), Deed::Hidden(path.clone()));
    plan.hidden.iter().take(HIDDEN).map(one).collect()
}

/// Objects that the host made for the probes, where it could make them.
fn objects(plan: &ProbePlan, twin: Twin) -> Vec<Case> {
    let made: [(&str, Row); 2] = [
        (&plan.queue, (Ipc, "ipc.queue", at::queue_of_host)),
        (
            &plan.shared_memory,
            (Ipc, "ipc.shared_memory", at::shared_memory_of_host),
        ),
    ];
    made.iter()
        .filter(|(object, _)| !object.is_empty())
        .flat_map(|(_, row)| rows(false, twin, &[*row]))
        .collect()
}

/// What is tried in the agent's domain. What its filter answers with death is tried alone, and each
/// death costs a process at every start of a session: one deadly case for each kind of refusal.
pub(crate) fn agent(plan: &ProbePlan) -> Vec<Case> {
    let look = at::lists_workspace;
    let mut cases = rows(
        false,
        look,
        &[
            (FilesRead, "read.outside", at::read_outside),
            (FilesRead, "list.outside", at::list_outside),
            (FilesWrite, "make.outside", at::make_folder_outside),
            (FilesMeta, "chmod.outside", at::chmod_outside),
            (ProcTrace, "mem.hands", at::memory_file_of_hands),
            (ProcSee, "see.hands", at::see_hands),
            (ProcSee, "see.supervisor", at::see_supervisor),
            (Terminal, "terminal.controlling", at::controlling_terminal),
            (Terminal, "terminal.type", at::type_into_terminal),
            (Ipc, "ipc.segments", at::segments),
            (Devices, "device.open", at::open_device),
            (Devices, "device.make", at::make_device),
        ],
    );
    cases.extend(objects(plan, look));
    cases.extend(rows(
        true,
        look,
        &[
            (FilesWrite, "write.workspace", at::write_workspace),
            (NetTcp, "tcp.host", at::tcp_host),
            (NetUdp, "udp.nowhere", at::udp_nowhere),
            (NetUnixPath, "unix.path", at::unix_path),
            (NetUnixAbstract, "unix.abstract", at::unix_abstract),
            (Exec, "exec.worker", at::execute),
        ],
    ));
    let signal: Row = (ProcSignal, "signal.hands", at::signal_hands);
    cases.extend(rows(true, at::signals_itself, &[signal]));
    let limits: Row = (ProcLimits, "limits.hands", at::limit_hands);
    cases.extend(rows(true, at::reads_own_limits, &[limits]));
    cases.extend(calls(
        true,
        &[
            ("call.mount", Poke::Mount),
            ("call.unshare", Poke::UnshareUser),
        ],
    ));
    cases.extend(hidden(plan));
    cases
}

/// What is tried in a command's domain.
pub(crate) fn command(plan: &ProbePlan) -> Vec<Case> {
    let groups: [(Twin, &[Row]); 11] = [
        (
            at::lists_workspace,
            &[
                (FilesRead, "read.outside", at::read_outside),
                (FilesRead, "list.outside", at::list_outside),
                (FilesRead, "read.through_proc", at::read_through_proc),
                (FilesRead, "read.kernel", at::read_kernel),
                (Terminal, "terminal.controlling", at::controlling_terminal),
                (Terminal, "terminal.type", at::type_into_terminal),
            ],
        ),
        (
            at::writes_tmp,
            &[
                (FilesWrite, "write.outside", at::write_outside),
                (FilesWrite, "append.outside", at::append_outside),
                (FilesWrite, "write.root", at::write_root),
            ],
        ),
        (
            at::changes_own_mode,
            &[(FilesMeta, "chmod.outside", at::chmod_outside)],
        ),
        (
            at::talks_over_a_pair,
            &[
                (NetTcp, "tcp.host", at::tcp_host),
                (NetTcp, "tcp.nowhere", at::tcp_nowhere),
                (NetTcp, "tcp.multipath", at::tcp_multipath),
                (NetTcp, "tcp.fast_open", at::tcp_fast_open),
                (NetUdp, "udp.nowhere", at::udp_nowhere),
                (NetUdp, "vsock", at::vsock),
                (Syscalls, "family.netlink", at::netlink),
                (Syscalls, "family.alg", at::alg),
            ],
        ),
        (
            at::talks_by_path,
            &[(NetUnixPath, "unix.path", at::unix_path)],
        ),
        (
            at::talks_abstract,
            &[(NetUnixAbstract, "unix.abstract", at::unix_abstract)],
        ),
        (
            at::signals_itself,
            &[
                (ProcSignal, "signal.hands", at::signal_hands),
                (ProcSignal, "signal.supervisor", at::signal_supervisor),
            ],
        ),
        (
            at::sees_itself,
            &[
                (ProcTrace, "trace.hands", at::trace_hands),
                (ProcTrace, "memory.hands", at::memory_of_hands),
                (ProcTrace, "mem.hands", at::memory_file_of_hands),
                (
                    ProcTrace,
                    "environ.supervisor",
                    at::environment_of_supervisor,
                ),
                (ProcTrace, "descriptors.others", at::descriptors_of_others),
                (ProcSee, "see.hands", at::see_hands),
                (ProcSee, "see.supervisor", at::see_supervisor),
            ],
        ),
        (
            at::reads_own_limits,
            &[
                (ProcLimits, "limits.hands", at::limit_hands),
                (ProcLimits, "limits.supervisor", at::limit_supervisor),
            ],
        ),
        (
            at::opens_null,
            &[
                (Devices, "device.open", at::open_device),
                (Devices, "device.make", at::make_device),
            ],
        ),
        (
            at::talks_over_a_pair,
            &[
                (Ipc, "ipc.keyring", at::keyring),
                (Ipc, "ipc.key", at::add_key),
                (Ipc, "ipc.segments", at::segments),
            ],
        ),
    ];
    let mut cases: Vec<Case> = groups
        .into_iter()
        .flat_map(|(twin, list)| rows(false, twin, list))
        .collect();
    cases.extend(objects(plan, at::talks_over_a_pair));
    cases.extend(calls(false, &CALLS));
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
    ("call.tioclinux", Poke::Terminal(0x541c)),
];
