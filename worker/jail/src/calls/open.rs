//! The tables of situation B, where no namespace stands between a session and the host: what they
//! hold elsewhere is refused here, or held until the supervisor has carried it out itself.

use libc::{ENOPROTOOPT, ENOSYS, EPERM};
use protocol::jail::Doors;

use super::{NEWEST, REFUSED, boxed, only_if};
use crate::{
    domain::Kernel,
    filter::{Answer, Filter, Rule, equals, masked},
};

/// Calls of other processes' scheduling: any number but 0, which is the caller itself. Threads lose
/// each other by number too.
const SCHEDULING: [i64; 4] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// System V and POSIX message queues, semaphores and segments: the host's, by number or name.
const SHARED: [i64; 15] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
];

/// setxattrat, removexattrat and file_setattr, by number: newer than what is held, and with what
/// they do behind a pointer. Programs fall back to the older calls.
const NEWER_META: [i64; 3] = [463, 466, 469];

/// Requests that set a file's flags through a descriptor opened for reading: FS_IOC_SETFLAGS, its
/// 32-bit form and FS_IOC_FSSETXATTR.
const SET_FLAGS: [i32; 3] = [0x4008_6602, 0x4004_6602, 0x401c_5820];

const TCP_FASTOPEN_CONNECT: i32 = 30;

/// The calls on sockets that the supervisor carries out.
const SOCKETS: [i64; 3] = [libc::SYS_bind, libc::SYS_listen, libc::SYS_connect];

/// fchmodat2, by number.
const FCHMODAT2: i64 = 452;

/// The calls on a file's mode, owner, times and attributes that the supervisor carries out.
const META: [i64; 12] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

#[cfg(target_arch = "x86_64")]
const META_HERE: [i64; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const META_HERE: [i64; 0] = [];

/// The filter that holds calls; everything else goes on to the other filters.
pub(crate) fn held(doors: Doors) -> Filter {
    let mut numbers = Vec::new();
    if doors.sockets {
        numbers.extend(SOCKETS);
    }
    if doors.meta {
        numbers.extend(META);
        numbers.extend(META_HERE);
    }
    Filter {
        rules: numbers
            .into_iter()
            .map(|number| Rule::plain(number, Answer::Hold))
            .collect(),
        newest: NEWEST,
        unknown: Answer::Allow,
        otherwise: Answer::Allow,
    }
}

/// The base filter.
pub(super) fn base(doors: Doors, kernel: Kernel) -> Filter {
    let mut filter = boxed();
    let mut rules: Vec<Rule> = SCHEDULING
        .iter()
        .map(|&number| Rule::judged(number, only_if(vec![equals(0, 0)]), REFUSED))
        .collect();
    for (number, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        let own = vec![equals(0, process), equals(1, 0)];
        rules.push(Rule::judged(number, only_if(own), REFUSED));
    }
    rules.extend(SHARED.map(|number| Rule::plain(number, REFUSED)));
    rules.extend(NEWER_META.map(|number| Rule::plain(number, Answer::Refuse(ENOSYS))));
    let requests = super::TERMINAL.into_iter().chain(SET_FLAGS);
    let requests = requests.map(|code| (vec![equals(1, code)], REFUSED));
    rules.push(Rule::judged(
        libc::SYS_ioctl,
        requests.collect(),
        Answer::Allow,
    ));
    sockets(doors, &mut rules);
    if kernel.abi < 3 {
        truncation(&mut rules);
    }
    filter
        .rules
        .retain(|old| !rules.iter().any(|new| old.is_for(new.number())));
    filter.rules.extend(rules);
    filter
}

/// No socket at all but pairs; where the supervisor stands at the door, plain TCP. A pair of datagram
/// sockets is no pair: either end can be sent to any path of the host.
fn sockets(doors: Doors, rules: &mut Vec<Rule>) {
    let pairs = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET];
    let pairs = pairs.map(|kind| {
        let tests = vec![equals(0, libc::AF_UNIX), masked(1, 0xf, kind)];
        (tests, Answer::Allow)
    });
    rules.push(Rule::judged(libc::SYS_socketpair, pairs.into(), REFUSED));
    if !doors.sockets {
        rules.extend(SOCKETS.map(|number| Rule::plain(number, REFUSED)));
        rules.push(Rule::plain(libc::SYS_socket, REFUSED));
        return;
    }
    let mut clauses = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for protocol in [0, libc::IPPROTO_TCP] {
            let kind = masked(1, 0xf, libc::SOCK_STREAM);
            let tests = vec![equals(0, family), kind, equals(2, protocol)];
            clauses.push((tests, Answer::Allow));
        }
    }
    rules.push(Rule::judged(libc::SYS_socket, clauses, REFUSED));
    // A connection put off until the first byte would leave after its judgement; a port shared with
    // others of the account would not be the session's own.
    let options = vec![
        (
            vec![
                equals(1, libc::IPPROTO_TCP),
                equals(2, TCP_FASTOPEN_CONNECT),
            ],
            REFUSED,
        ),
        (
            vec![equals(1, libc::SOL_SOCKET), equals(2, libc::SO_REUSEPORT)],
            Answer::Refuse(ENOPROTOOPT),
        ),
    ];
    rules.push(Rule::judged(libc::SYS_setsockopt, options, Answer::Allow));
}

/// A Landlock that does not know truncation lets every readable file be emptied: by path, or by
/// opening it for reading. openat2 keeps its flags behind a pointer and does not exist then.
fn truncation(rules: &mut Vec<Rule>) {
    rules.push(Rule::plain(libc::SYS_truncate, Answer::Refuse(EPERM)));
    rules.push(Rule::plain(libc::SYS_openat2, Answer::Refuse(ENOSYS)));
    let emptied = |argument| {
        let flags = libc::O_ACCMODE | libc::O_TRUNC;
        vec![(
            vec![masked(argument, flags, libc::O_TRUNC)],
            Answer::Refuse(EPERM),
        )]
    };
    rules.push(Rule::judged(libc::SYS_openat, emptied(2), Answer::Allow));
    #[cfg(target_arch = "x86_64")]
    rules.push(Rule::judged(libc::SYS_open, emptied(1), Answer::Allow));
}

#[cfg(test)]
mod tests {
    use libc::{SECCOMP_RET_ALLOW as ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF as HELD};

    use super::*;
    use crate::filter::{compile, tests::judge};

    const REFUSAL: u32 = SECCOMP_RET_ERRNO | EPERM.unsigned_abs();

    fn doors(open: bool) -> Doors {
        Doors {
            sockets: open,
            meta: open,
        }
    }

    fn kernel(abi: u32) -> Kernel {
        Kernel { abi, errata: 0 }
    }

    fn args(given: &[i32]) -> [i32; 6] {
        let mut all = [0; 6];
        all[..given.len()].copy_from_slice(given);
        all
    }

    #[test]
    fn without_a_door_no_socket_but_a_pair_is_made() {
        let closed = base(doors(false), kernel(7));
        let opened = base(doors(true), kernel(7));
        let (unix, inet, inet6) = (libc::AF_UNIX, libc::AF_INET, libc::AF_INET6);
        let (stream, datagram) = (libc::SOCK_STREAM, libc::SOCK_DGRAM);
        for (given, with_door) in [
            ([unix, stream, 0], REFUSAL),
            ([inet, stream, 0], ALLOW),
            (
                [inet6, stream | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP],
                ALLOW,
            ),
            ([inet, stream, libc::IPPROTO_MPTCP], REFUSAL),
            ([inet, datagram, 0], REFUSAL),
            ([libc::AF_VSOCK, stream, 0], REFUSAL),
            ([libc::AF_NETLINK, libc::SOCK_RAW, 0], REFUSAL),
        ] {
            let socket = libc::SYS_socket;
            assert_eq!(judge(&closed, socket, args(&given)), REFUSAL, "{given:?}");
            assert_eq!(judge(&opened, socket, args(&given)), with_door, "{given:?}");
        }
        for filter in [&closed, &opened] {
            let pair = libc::SYS_socketpair;
            assert_eq!(judge(filter, pair, args(&[unix, stream, 0])), ALLOW);
            assert_eq!(judge(filter, pair, args(&[unix, datagram, 0])), REFUSAL);
        }
        let late = args(&[3, libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT]);
        assert_eq!(judge(&opened, libc::SYS_setsockopt, late), REFUSAL);
        let quick = args(&[3, 0, 0, libc::MSG_FASTOPEN]);
        assert_eq!(judge(&opened, libc::SYS_sendto, quick), REFUSAL);
    }

    #[test]
    fn nothing_reaches_others_of_the_account() {
        let filter = base(doors(true), kernel(7));
        for (number, given) in [
            (libc::SYS_prlimit64, args(&[77])),
            (libc::SYS_setpriority, args(&[0, 77])),
            (libc::SYS_setpriority, args(&[1, 0])),
            (libc::SYS_ioprio_set, args(&[1, 77])),
            (libc::SYS_sched_setaffinity, args(&[77])),
            (libc::SYS_sched_setattr, args(&[77])),
            (libc::SYS_shmget, args(&[])),
            (libc::SYS_ioctl, args(&[3, SET_FLAGS[0]])),
            (libc::SYS_ioctl, args(&[0, 0x5412])),
        ] {
            assert_eq!(judge(&filter, number, given), REFUSAL, "call {number}");
        }
        for (number, given) in [
            (libc::SYS_setpriority, args(&[0, 0])),
            (libc::SYS_ioprio_set, args(&[1, 0])),
            (libc::SYS_sched_setaffinity, args(&[0])),
            (libc::SYS_truncate, args(&[])),
        ] {
            assert_eq!(judge(&filter, number, given), ALLOW, "call {number}");
        }
    }

    #[test]
    fn an_old_landlock_does_not_let_readable_files_be_emptied() {
        let filter = base(doors(true), kernel(2));
        let emptied = args(&[-100, 0, libc::O_TRUNC]);
        assert_eq!(judge(&filter, libc::SYS_openat, emptied), REFUSAL);
        let written = args(&[-100, 0, libc::O_TRUNC | libc::O_WRONLY]);
        assert_eq!(judge(&filter, libc::SYS_openat, written), ALLOW);
        assert_eq!(judge(&filter, libc::SYS_truncate, args(&[])), REFUSAL);
    }

    #[test]
    fn what_the_supervisor_carries_out_is_held_and_the_rest_goes_on() {
        let filter = held(doors(true));
        for number in SOCKETS.into_iter().chain(META).chain(META_HERE) {
            assert_eq!(judge(&filter, number, [0; 6]), HELD, "call {number}");
        }
        assert_eq!(judge(&filter, libc::SYS_openat, [0; 6]), ALLOW);
        for filter in [held(doors(true)), base(doors(true), kernel(1))] {
            assert!(compile(&filter).expect("compiles").len() < 4_096);
        }
    }
}
