//! The tables: which calls a session's processes may not make, and which the agent may.

use libc::{ENOSYS, EPERM};

use protocol::jail::{JailSpec, Situation};

use crate::{
    domain::Kernel,
    filter::{Answer, Filter, Rule, Test, equals, masked},
};

mod open;

pub(crate) use open::held;

/// The newest call that these tables were written for (`file_setattr`, Linux 6.17).
const NEWEST: u32 = 469;

const REFUSED: Answer = Answer::Refuse(EPERM);
const ABSENT: Answer = Answer::Refuse(ENOSYS);

/// Flags of clone and unshare that make a namespace.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWTIME;

/// Refused to every process of a session, hands included: each of them reaches across a wall, opens
/// a part of the kernel with a history, or acts on the machine as a whole.
const NEVER: &[i64] = &[
    // Mounts: Landlock does not refuse all of them.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    // listmount, statmount and open_tree_attr, by number: new enough to lack names.
    457,
    458,
    467,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Parts of the kernel with a history.
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    // Files by handle, past every path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[i64] = &[
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_sysfs,
    libc::SYS_ustat,
    // create_module, get_kernel_syms and query_module: gone, and without names.
    174,
    177,
    178,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[i64] = &[];

const TIOCSTI: i32 = 0x5412;
const TIOCLINUX: i32 = 0x541c;
/// Requests that type into a terminal.
const TERMINAL: [i32; 2] = [TIOCSTI, TIOCLINUX];

/// The registers of `socket` and `socketpair` that pass: a Unix socket of any kind, and plain TCP
/// and UDP, which in a network of its own reach nothing but itself. No MPTCP (Landlock's TCP rules
/// do not see it), no raw, no other family.
fn sockets() -> Vec<(Vec<Test>, Answer)> {
    // SOCK_NONBLOCK and SOCK_CLOEXEC are flags beside the kind.
    let kind = |kind| masked(1, 0xf, kind);
    let mut clauses = vec![(vec![equals(0, libc::AF_UNIX)], Answer::Allow)];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (of, protocols) in [
            (libc::SOCK_STREAM, [0, libc::IPPROTO_TCP]),
            (libc::SOCK_DGRAM, [0, libc::IPPROTO_UDP]),
        ] {
            for protocol in protocols {
                let tests = vec![equals(0, family), kind(of), equals(2, protocol)];
                clauses.push((tests, Answer::Allow));
            }
        }
    }
    clauses
}

/// Allowed when all tests hold.
fn only_if(tests: Vec<Test>) -> Vec<(Vec<Test>, Answer)> {
    vec![(tests, Answer::Allow)]
}

/// How hands (pid 1) is scheduled: nothing else in the kernel stands between two of one account.
/// Threads name themselves and each other by number, so the rest stays open. A group or an account
/// would have hands among it, and is refused as a whole.
fn schedules() -> Vec<Rule> {
    let hands = |at| equals(at, 1);
    let plain = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ];
    let mut rules: Vec<Rule> = plain
        .iter()
        .map(|&number| Rule::judged(number, vec![(vec![hands(0)], REFUSED)], Answer::Allow))
        .collect();
    // PRIO_PROCESS and IOPRIO_WHO_PROCESS: the same word, two numbers.
    for (number, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        let clauses = vec![
            (vec![equals(0, process), hands(1)], REFUSED),
            (vec![equals(0, process)], Answer::Allow),
        ];
        rules.push(Rule::judged(number, clauses, REFUSED));
    }
    rules
}

/// The base filter: hands installs it, everything below inherits it.
pub(crate) fn base(spec: &JailSpec, kernel: Kernel) -> Filter {
    match spec.situation {
        Situation::Landlock => open::base(spec.doors, kernel),
        Situation::Namespaces | Situation::Container => boxed(),
    }
}

/// The base filter where namespaces, ours or a container's, hold the rest.
pub(crate) fn boxed() -> Filter {
    let mut rules: Vec<Rule> = NEVER
        .iter()
        .chain(NEVER_HERE)
        .map(|&number| Rule::plain(number, REFUSED))
        .collect();
    // clone3 keeps its flags behind a pointer; libc falls back to clone, whose flags are judged.
    rules.push(Rule::plain(libc::SYS_clone3, ABSENT));
    let plain_clone = only_if(vec![masked(0, NAMESPACES & !libc::CLONE_NEWTIME, 0)]);
    // In clone the lowest byte is the exit signal, and CLONE_NEWTIME lies in it: it cannot be asked.
    rules.push(Rule::judged(libc::SYS_clone, plain_clone, REFUSED));
    rules.push(Rule::judged(
        libc::SYS_unshare,
        only_if(vec![masked(0, NAMESPACES, 0)]),
        REFUSED,
    ));
    // Another process' limits: nothing else in the kernel stops it between two of one account.
    rules.push(Rule::judged(
        libc::SYS_prlimit64,
        only_if(vec![equals(0, 0)]),
        REFUSED,
    ));
    rules.extend(schedules());
    let personalities = [0, 0x8, 0x2_0000, 0x2_0008, -1];
    let personalities = personalities.map(|value| (vec![equals(0, value)], Answer::Allow));
    rules.push(Rule::judged(
        libc::SYS_personality,
        personalities.into(),
        REFUSED,
    ));
    let terminal = TERMINAL.map(|code| (vec![equals(1, code)], REFUSED));
    rules.push(Rule::judged(
        libc::SYS_ioctl,
        terminal.into(),
        Answer::Allow,
    ));
    rules.push(Rule::judged(libc::SYS_socket, sockets(), REFUSED));
    let pairs = only_if(vec![equals(0, libc::AF_UNIX)]);
    rules.push(Rule::judged(libc::SYS_socketpair, pairs, REFUSED));
    // Fast open connects without connect.
    for (number, flags) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        let slow = only_if(vec![masked(flags, libc::MSG_FASTOPEN, 0)]);
        rules.push(Rule::judged(number, slow, REFUSED));
    }
    Filter {
        rules,
        newest: NEWEST,
        unknown: ABSENT,
        otherwise: Answer::Allow,
    }
}

/// Where Landlock cannot scope signals: a command's filter on top of the base, which keeps hands,
/// its warden, the agent and the supervisor out of its reach. Registers only, so there is no race; other processes
/// of the session stay open, and the certificate says so.
pub(crate) fn unscoped(kept: &[i32]) -> Filter {
    let mut rules = Vec::new();
    for number in [
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
    ] {
        // A negative number names a group, and -1 everything.
        let mut clauses = vec![(vec![masked(0, i32::MIN, i32::MIN)], REFUSED)];
        if number == libc::SYS_tkill {
            // By a thread's number alone, which nobody could keep out.
            clauses.clear();
            rules.push(Rule::plain(number, REFUSED));
            continue;
        }
        for &pid in kept {
            clauses.push((vec![equals(0, pid)], REFUSED));
        }
        rules.push(Rule::judged(number, clauses, Answer::Allow));
    }
    Filter {
        rules,
        newest: NEWEST,
        unknown: ABSENT,
        otherwise: Answer::Allow,
    }
}

/// What the agent may call, whatever the arguments: its poll loop, reading, memory, time.
const AGENT: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_fadvise64,
    libc::SYS_dup,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The old names that x86-64 has beside them.
#[cfg(target_arch = "x86_64")]
const AGENT_HERE: &[i64] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_arch_prctl,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const AGENT_HERE: &[i64] = &[];

/// What in the agent can only mean that it was taken over; the base filter's own refusals too.
const TAKEOVER: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_unshare,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

/// Flags of open by which something could be written or made.
const OPEN_WRITES: i32 =
    libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// The agent's own filter, on top of the base: everything unlisted does not exist, and what can
/// only mean a takeover kills. `pid` is the agent's own.
pub(crate) fn agent(pid: i32) -> Filter {
    let plain = |numbers: &[i64], answer| -> Vec<Rule> {
        numbers
            .iter()
            .map(|&number| Rule::plain(number, answer))
            .collect()
    };
    let mut rules = plain(AGENT, Answer::Allow);
    rules.extend(plain(AGENT_HERE, Answer::Allow));
    rules.extend(plain(TAKEOVER, Answer::Kill));
    rules.extend(plain(NEVER, Answer::Kill));
    let judged = |number, tests| Rule::judged(number, only_if(tests), Answer::Kill);
    // Read-only, in the register; openat2 keeps its flags behind a pointer and does not exist.
    rules.push(judged(libc::SYS_openat, vec![masked(2, OPEN_WRITES, 0)]));
    #[cfg(target_arch = "x86_64")]
    rules.push(judged(libc::SYS_open, vec![masked(1, OPEN_WRITES, 0)]));
    // No code from data.
    rules.push(judged(libc::SYS_mmap, vec![masked(2, libc::PROT_EXEC, 0)]));
    rules.push(judged(
        libc::SYS_mprotect,
        vec![masked(2, libc::PROT_EXEC, 0)],
    ));
    rules.push(judged(libc::SYS_prlimit64, vec![equals(0, 0)]));
    // An abort signals itself.
    for number in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill] {
        rules.push(judged(number, vec![equals(0, pid)]));
    }
    // A connected socket only, and no fast open.
    rules.push(judged(
        libc::SYS_sendto,
        vec![masked(3, libc::MSG_FASTOPEN, 0), equals(4, 0)],
    ));
    let harmless = [
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETLK,
        libc::F_SETLK,
    ];
    // Never F_SETOWN or F_SETSIG: they send signals.
    let harmless = harmless.map(|code| (vec![equals(1, code)], Answer::Allow));
    rules.push(Rule::judged(libc::SYS_fcntl, harmless.into(), ABSENT));
    Filter {
        rules,
        newest: NEWEST,
        unknown: ABSENT,
        otherwise: ABSENT,
    }
}

/// A reader's filter: the base, and nothing that starts, connects or reaches another process.
pub(crate) fn reader(pid: i32) -> Filter {
    let mut filter = boxed();
    let replaced = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_clone,
        libc::SYS_unshare,
    ];
    filter
        .rules
        .retain(|rule| !replaced.iter().any(|&number| rule.is_for(number)));
    let mut refused = vec![
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_send_signal,
    ];
    refused.extend(replaced);
    #[cfg(target_arch = "x86_64")]
    refused.extend([libc::SYS_fork, libc::SYS_vfork]);
    filter.rules.extend(
        refused
            .into_iter()
            .map(|number| Rule::plain(number, REFUSED)),
    );
    for number in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill] {
        filter
            .rules
            .push(Rule::judged(number, only_if(vec![equals(0, pid)]), REFUSED));
    }
    filter
}

#[cfg(test)]
mod tests {
    use libc::{SECCOMP_RET_ALLOW as ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS as KILL};

    use super::*;
    use crate::filter::{compile, tests::judge};

    const EPERM_ANSWER: u32 = SECCOMP_RET_ERRNO | EPERM.unsigned_abs();
    const ENOSYS_ANSWER: u32 = SECCOMP_RET_ERRNO | ENOSYS.unsigned_abs();

    fn call(number: i64, args: &[i32]) -> (i64, [i32; 6]) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        (number, all)
    }

    #[test]
    fn the_base_refuses_what_crosses_walls_and_lets_tools_work() {
        let base = boxed();
        let mptcp = libc::IPPROTO_MPTCP;
        for (refused, (number, args)) in [
            (true, call(libc::SYS_mount, &[])),
            (true, call(libc::SYS_keyctl, &[])),
            (true, call(libc::SYS_prlimit64, &[1])),
            (false, call(libc::SYS_prlimit64, &[0])),
            (true, call(libc::SYS_setpriority, &[0, 1])),
            (false, call(libc::SYS_setpriority, &[0, 0])),
            (true, call(libc::SYS_setpriority, &[2, 0])),
            (true, call(libc::SYS_ioprio_set, &[1, 1])),
            (false, call(libc::SYS_ioprio_set, &[1, 0])),
            (true, call(libc::SYS_ioprio_set, &[3, 0])),
            (true, call(libc::SYS_sched_setaffinity, &[1])),
            (false, call(libc::SYS_sched_setaffinity, &[7])),
            (true, call(libc::SYS_sched_setscheduler, &[1])),
            (true, call(libc::SYS_unshare, &[libc::CLONE_NEWTIME])),
            (
                true,
                call(libc::SYS_unshare, &[libc::CLONE_NEWUSER | libc::CLONE_FS]),
            ),
            (false, call(libc::SYS_unshare, &[libc::CLONE_FS])),
            (
                true,
                call(libc::SYS_clone, &[libc::CLONE_NEWNET | libc::SIGCHLD]),
            ),
            (false, call(libc::SYS_clone, &[libc::SIGCHLD])),
            (
                false,
                call(libc::SYS_clone, &[libc::CLONE_VM | libc::CLONE_THREAD]),
            ),
            (true, call(libc::SYS_ioctl, &[0, TIOCSTI])),
            (true, call(libc::SYS_ioctl, &[0, TIOCLINUX])),
            (false, call(libc::SYS_ioctl, &[0, 0x5401])),
            (
                false,
                call(libc::SYS_socket, &[libc::AF_UNIX, libc::SOCK_STREAM, 0]),
            ),
            (
                false,
                call(libc::SYS_socket, &[libc::AF_INET, libc::SOCK_STREAM, 6]),
            ),
            (
                false,
                call(
                    libc::SYS_socket,
                    &[libc::AF_INET, libc::SOCK_STREAM | 0o2_004_000, 0],
                ),
            ),
            (
                true,
                call(libc::SYS_socket, &[libc::AF_INET, libc::SOCK_STREAM, mptcp]),
            ),
            (
                true,
                call(libc::SYS_socket, &[libc::AF_INET6, libc::SOCK_RAW, 1]),
            ),
            (
                true,
                call(libc::SYS_socket, &[libc::AF_INET, libc::SOCK_DGRAM, 1]),
            ),
            (
                true,
                call(libc::SYS_socket, &[libc::AF_VSOCK, libc::SOCK_STREAM, 0]),
            ),
            (
                true,
                call(libc::SYS_socket, &[libc::AF_ALG, libc::SOCK_SEQPACKET, 0]),
            ),
            (
                true,
                call(libc::SYS_socket, &[libc::AF_NETLINK, libc::SOCK_RAW, 0]),
            ),
            (true, call(libc::SYS_sendto, &[3, 0, 0, libc::MSG_FASTOPEN])),
            (
                false,
                call(libc::SYS_sendto, &[3, 0, 0, libc::MSG_NOSIGNAL]),
            ),
            (true, call(libc::SYS_personality, &[0x004_0000])),
            (false, call(libc::SYS_personality, &[-1])),
            (false, call(libc::SYS_execve, &[])),
        ] {
            let wanted = if refused { EPERM_ANSWER } else { ALLOW };
            assert_eq!(
                judge(&base, number, args),
                wanted,
                "call {number} with {args:?}"
            );
        }
        assert_eq!(judge(&base, libc::SYS_clone3, [0; 6]), ENOSYS_ANSWER);
        assert_eq!(judge(&base, i64::from(NEWEST) + 1, [0; 6]), ENOSYS_ANSWER);
    }

    #[test]
    fn the_agent_reads_and_nothing_else() {
        let agent = agent(42);
        for (wanted, (number, args)) in [
            (
                ALLOW,
                call(
                    libc::SYS_openat,
                    &[-100, 0, libc::O_RDONLY | libc::O_CLOEXEC],
                ),
            ),
            (ALLOW, call(libc::SYS_openat, &[-100, 0, libc::O_DIRECTORY])),
            (KILL, call(libc::SYS_openat, &[-100, 0, libc::O_WRONLY])),
            (KILL, call(libc::SYS_openat, &[-100, 0, libc::O_RDWR])),
            (KILL, call(libc::SYS_openat, &[-100, 0, libc::O_CREAT])),
            (KILL, call(libc::SYS_openat, &[-100, 0, libc::O_TMPFILE])),
            (ENOSYS_ANSWER, call(libc::SYS_openat2, &[])),
            (ENOSYS_ANSWER, call(libc::SYS_clone, &[libc::SIGCHLD])),
            (ENOSYS_ANSWER, call(libc::SYS_unlinkat, &[])),
            (KILL, call(libc::SYS_execve, &[])),
            (KILL, call(libc::SYS_socket, &[libc::AF_UNIX, 1, 0])),
            (KILL, call(libc::SYS_kill, &[1])),
            (ALLOW, call(libc::SYS_tgkill, &[42])),
            (KILL, call(libc::SYS_mprotect, &[0, 0, libc::PROT_EXEC])),
            (
                ALLOW,
                call(libc::SYS_mmap, &[0, 0, libc::PROT_READ | libc::PROT_WRITE]),
            ),
            (KILL, call(libc::SYS_sendto, &[3, 0, 0, 0, 1])),
            (ENOSYS_ANSWER, call(libc::SYS_fcntl, &[3, libc::F_SETOWN])),
            (KILL, call(libc::SYS_prlimit64, &[1])),
        ] {
            assert_eq!(
                judge(&agent, number, args),
                wanted,
                "call {number} with {args:?}"
            );
        }
        for number in NEVER {
            assert_eq!(judge(&agent, *number, [0; 6]), KILL, "call {number}");
        }
    }

    #[test]
    fn no_table_lists_a_call_twice_and_each_fits_the_kernel() {
        for filter in [boxed(), agent(1), reader(1), unscoped(&[1, 2, 3])] {
            let mut numbers: Vec<i64> = filter.rules.iter().map(|rule| rule.number()).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all);
            assert!(compile(&filter).expect("compiles").len() < 4_096);
            // Every row is found, by whatever way, and no number between rows hits one.
            for number in 0..=i64::from(NEWEST) {
                let alone = Filter {
                    rules: filter
                        .rules
                        .iter()
                        .filter(|rule| rule.is_for(number))
                        .cloned()
                        .collect(),
                    ..filter.clone()
                };
                for args in [[0; 6], [1; 6], [-1; 6]] {
                    assert_eq!(judge(&filter, number, args), judge(&alone, number, args));
                }
            }
        }
    }

    #[test]
    fn without_scopes_the_kept_ones_are_out_of_reach_by_number() {
        let filter = unscoped(&[1, 7]);
        for (wanted, pid) in [
            (EPERM_ANSWER, 1),
            (EPERM_ANSWER, -1),
            (EPERM_ANSWER, -7),
            (ALLOW, 8),
            (ALLOW, 0),
        ] {
            assert_eq!(
                judge(&filter, libc::SYS_kill, [pid, 9, 0, 0, 0, 0]),
                wanted,
                "{pid}"
            );
        }
        assert_eq!(
            judge(&filter, libc::SYS_pidfd_open, [7, 0, 0, 0, 0, 0]),
            EPERM_ANSWER
        );
    }

    #[test]
    fn a_reader_starts_nothing_and_connects_nowhere() {
        let reader = reader(42);
        for (number, args) in [
            call(libc::SYS_execve, &[]),
            call(libc::SYS_socket, &[libc::AF_UNIX, 1, 0]),
            call(libc::SYS_clone, &[libc::SIGCHLD]),
            call(libc::SYS_kill, &[1]),
            call(libc::SYS_mount, &[]),
        ] {
            assert_eq!(judge(&reader, number, args), EPERM_ANSWER, "call {number}");
        }
        assert_eq!(judge(&reader, libc::SYS_renameat2, [0; 6]), ALLOW);
        assert_eq!(judge(&reader, libc::SYS_kill, [42, 6, 0, 0, 0, 0]), ALLOW);
    }
}
