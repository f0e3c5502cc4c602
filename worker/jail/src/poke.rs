//! Kernel calls that are tried for their refusal alone, as data: what may be passed is proven here.

use libc::c_long;

/// A kernel call tried for its refusal alone. Every pointer argument is null, so that a kernel that
/// does not refuse it has nothing to read or write; what takes none is a query or names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poke {
    /// A limit of another process, asked with null for both old and new.
    Prlimit(i32),
    /// PTRACE_SEIZE: does not stop the other process and ends with this one.
    PtraceSeize(i32),
    /// Reading another process' memory, zero bytes.
    ProcessVmReadv(i32),
    /// A copy of one of another process' descriptors, from no pidfd.
    PidfdGetfd,
    /// A mount of nothing on nothing.
    Mount,
    /// A tree cloned from nothing.
    OpenTree,
    /// Attributes of no mount.
    MountSetattr,
    /// A new root that is nothing.
    PivotRoot,
    /// A new user namespace for this process.
    UnshareUser,
    /// A child in a new user namespace; it leaves at once.
    CloneUser,
    /// clone3 with no arguments.
    Clone3,
    /// Another namespace, from no descriptor.
    Setns,
    /// A BPF command that does not exist.
    Bpf,
    /// An io_uring of no entries.
    IoUring,
    /// This process' keyring, not made if it is absent.
    Keyctl,
    /// A userfaultfd with flags that do not exist.
    Userfaultfd,
    /// A performance counter of nothing.
    PerfEvent,
    /// A file by a handle that is nothing.
    OpenByHandle,
    /// A kernel module of no bytes.
    InitModule,
    /// A kernel image of no segments, with flags that do not exist.
    Kexec,
    /// The system's log, its size.
    Syslog,
    /// A request to the terminal on descriptor 0, with no argument.
    Terminal(c_long),
    /// A key of no type.
    AddKey,
    /// A private segment of shared memory of no bytes, which no kernel makes.
    Shmget,
}

impl Poke {
    /// The call's number and its registers. Every pointer parameter is null in each row: `sys::poke`
    /// rests on it.
    pub(crate) fn words(self) -> (c_long, [c_long; 6]) {
        match self {
            Poke::Prlimit(pid) => (
                libc::SYS_prlimit64,
                [pid.into(), libc::RLIMIT_NOFILE.into(), 0, 0, 0, 0],
            ),
            Poke::PtraceSeize(pid) => (
                libc::SYS_ptrace,
                [libc::PTRACE_SEIZE.into(), pid.into(), 0, 0, 0, 0],
            ),
            Poke::ProcessVmReadv(pid) => (libc::SYS_process_vm_readv, [pid.into(), 0, 0, 0, 0, 0]),
            Poke::PidfdGetfd => (libc::SYS_pidfd_getfd, [-1, -1, 0, 0, 0, 0]),
            Poke::Mount => (libc::SYS_mount, [0; 6]),
            Poke::OpenTree => (libc::SYS_open_tree, [-1, 0, 0, 0, 0, 0]),
            Poke::MountSetattr => (libc::SYS_mount_setattr, [-1, 0, 0, 0, 0, 0]),
            Poke::PivotRoot => (libc::SYS_pivot_root, [0; 6]),
            Poke::UnshareUser => (
                libc::SYS_unshare,
                [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0, 0],
            ),
            Poke::CloneUser => (
                libc::SYS_clone,
                [(libc::CLONE_NEWUSER | libc::SIGCHLD).into(), 0, 0, 0, 0, 0],
            ),
            Poke::Clone3 => (libc::SYS_clone3, [0; 6]),
            Poke::Setns => (libc::SYS_setns, [-1, 0, 0, 0, 0, 0]),
            Poke::Bpf => (libc::SYS_bpf, [-1, 0, 0, 0, 0, 0]),
            Poke::IoUring => (libc::SYS_io_uring_setup, [0; 6]),
            Poke::Keyctl => (libc::SYS_keyctl, [0, -2, 0, 0, 0, 0]),
            Poke::Userfaultfd => (libc::SYS_userfaultfd, [0x7fff_0000, 0, 0, 0, 0, 0]),
            Poke::PerfEvent => (libc::SYS_perf_event_open, [0, 0, -1, -1, 0, 0]),
            Poke::OpenByHandle => (libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0, 0]),
            Poke::InitModule => (libc::SYS_init_module, [0; 6]),
            Poke::Kexec => (libc::SYS_kexec_load, [0, 0, 0, 0x7fff, 0, 0]),
            Poke::Syslog => (libc::SYS_syslog, [10, 0, 0, 0, 0, 0]),
            Poke::Terminal(request) => (libc::SYS_ioctl, [0, request, 0, 0, 0, 0]),
            Poke::AddKey => (libc::SYS_add_key, [0, 0, 0, 0, -1, 0]),
            Poke::Shmget => (libc::SYS_shmget, [0; 6]),
        }
    }
}
