//! The base filter as a container engine's seccomp profile: the same table, in the engine's words.
//!
//! An engine's rule compares whole 64-bit registers, each at most once, and a rule whose action is the
//! profile's own default is dropped. So only refusals are written, and a rule that says what is
//! allowed is turned around: everything outside it, as masked comparisons and one "from here on".
//! Where a register's high half is set the profile may refuse what the filter lets through; never
//! the other way round.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    calls,
    filter::{Answer, Rule, Test},
};

macro_rules! names {
    ($($name:ident = $number:ident,)*) => {
        &[$((libc::$number, stringify!($name)),)*]
    };
}

/// The names of the calls that the base filter judges. A test holds both lists together.
const NAMES: &[(i64, &str)] = names![
    mount = SYS_mount,
    umount2 = SYS_umount2,
    pivot_root = SYS_pivot_root,
    chroot = SYS_chroot,
    fsopen = SYS_fsopen,
    fsconfig = SYS_fsconfig,
    fsmount = SYS_fsmount,
    fspick = SYS_fspick,
    move_mount = SYS_move_mount,
    open_tree = SYS_open_tree,
    mount_setattr = SYS_mount_setattr,
    setns = SYS_setns,
    ptrace = SYS_ptrace,
    process_vm_readv = SYS_process_vm_readv,
    process_vm_writev = SYS_process_vm_writev,
    process_madvise = SYS_process_madvise,
    pidfd_getfd = SYS_pidfd_getfd,
    kcmp = SYS_kcmp,
    move_pages = SYS_move_pages,
    migrate_pages = SYS_migrate_pages,
    bpf = SYS_bpf,
    io_uring_setup = SYS_io_uring_setup,
    io_uring_enter = SYS_io_uring_enter,
    io_uring_register = SYS_io_uring_register,
    userfaultfd = SYS_userfaultfd,
    perf_event_open = SYS_perf_event_open,
    fanotify_init = SYS_fanotify_init,
    add_key = SYS_add_key,
    request_key = SYS_request_key,
    keyctl = SYS_keyctl,
    lookup_dcookie = SYS_lookup_dcookie,
    nfsservctl = SYS_nfsservctl,
    vhangup = SYS_vhangup,
    open_by_handle_at = SYS_open_by_handle_at,
    name_to_handle_at = SYS_name_to_handle_at,
    init_module = SYS_init_module,
    finit_module = SYS_finit_module,
    delete_module = SYS_delete_module,
    kexec_load = SYS_kexec_load,
    kexec_file_load = SYS_kexec_file_load,
    reboot = SYS_reboot,
    swapon = SYS_swapon,
    swapoff = SYS_swapoff,
    acct = SYS_acct,
    quotactl = SYS_quotactl,
    quotactl_fd = SYS_quotactl_fd,
    syslog = SYS_syslog,
    settimeofday = SYS_settimeofday,
    clock_settime = SYS_clock_settime,
    sethostname = SYS_sethostname,
    setdomainname = SYS_setdomainname,
    clone3 = SYS_clone3,
    clone = SYS_clone,
    unshare = SYS_unshare,
    prlimit64 = SYS_prlimit64,
    sched_setaffinity = SYS_sched_setaffinity,
    sched_setscheduler = SYS_sched_setscheduler,
    sched_setparam = SYS_sched_setparam,
    sched_setattr = SYS_sched_setattr,
    setpriority = SYS_setpriority,
    ioprio_set = SYS_ioprio_set,
    personality = SYS_personality,
    ioctl = SYS_ioctl,
    socket = SYS_socket,
    socketpair = SYS_socketpair,
    sendto = SYS_sendto,
    sendmsg = SYS_sendmsg,
    sendmmsg = SYS_sendmmsg,
];

#[cfg(target_arch = "x86_64")]
const NAMES_HERE: &[(i64, &str)] = names![
    ioperm = SYS_ioperm,
    iopl = SYS_iopl,
    modify_ldt = SYS_modify_ldt,
    uselib = SYS_uselib,
    _sysctl = SYS__sysctl,
    sysfs = SYS_sysfs,
    ustat = SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const NAMES_HERE: &[(i64, &str)] = &[];

/// Names that `libc` has no numbers for: new calls, and calls that are gone. An engine that does not
/// know one of them leaves it out, and the filter inside refuses it nevertheless.
const NUMBERED: &[(i64, &str)] = &[
    (457, "listmount"),
    (458, "statmount"),
    (467, "open_tree_attr"),
    #[cfg(target_arch = "x86_64")]
    (174, "create_module"),
    #[cfg(target_arch = "x86_64")]
    (177, "get_kernel_syms"),
    #[cfg(target_arch = "x86_64")]
    (178, "query_module"),
];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "SCMP_ARCH_X86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "SCMP_ARCH_AARCH64";

/// One comparison of one register, in the engine's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    /// `(register & mask) == value`.
    Masked { mask: u32, value: u32 },
    /// The whole register is at least this.
    From(u64),
}

/// What must hold together for a refusal: at most one comparison a register.
type Region = Vec<(u8, Compare)>;

/// The base filter as a profile. It is a layer below the one that hands installs: everything in the
/// container has it from its first instruction on.
#[must_use]
pub fn profile() -> Value {
    let filter = calls::boxed();
    let mut rows: Vec<Value> = Vec::new();
    for rule in &filter.rules {
        let Some(name) = name_of(rule.number) else {
            // A test holds that every rule has a name.
            continue;
        };
        for (region, errno) in refusals(rule) {
            let args: Vec<Value> = region
                .iter()
                .map(|(at, compare)| arg(*at, *compare))
                .collect();
            rows.push(json!({
                "names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": args,
            }));
        }
    }
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [ARCHITECTURE],
        "syscalls": rows,
    })
}

fn name_of(number: i64) -> Option<&'static str> {
    let mut all = NAMES.iter().chain(NAMES_HERE).chain(NUMBERED);
    all.find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}

fn arg(at: u8, compare: Compare) -> Value {
    match compare {
        Compare::Masked { mask, value } => {
            json!({ "index": at, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" })
        }
        Compare::From(value) => json!({ "index": at, "value": value, "op": "SCMP_CMP_GE" }),
    }
}

/// Everything that a rule refuses, with its errno.
fn refusals(rule: &Rule) -> Vec<(Region, i32)> {
    let clauses: Vec<(&[Test], Answer)> = rule
        .clauses
        .iter()
        .map(|(tests, answer)| (tests.as_slice(), *answer))
        .collect();
    let mut found = Vec::new();
    divide(&clauses, rule.otherwise, 0, &mut Vec::new(), &mut found);
    found
}

/// Divides by one register after the other: for each value that the clauses name, and for whatever
/// is none of them. All tests of one register within a rule have one mask.
fn divide(
    clauses: &[(&[Test], Answer)],
    otherwise: Answer,
    at: u8,
    region: &mut Region,
    found: &mut Vec<(Region, i32)>,
) {
    let test_of = |tests: &[Test]| tests.iter().find(|test| test.argument == at).copied();
    let named: Vec<Test> = clauses
        .iter()
        .filter_map(|(tests, _)| test_of(tests))
        .collect();
    let Some(mask) = named.first().map(|test| test.mask) else {
        if at < 6 {
            return divide(clauses, otherwise, at + 1, region, found);
        }
        let answer = clauses.first().map_or(otherwise, |(_, answer)| *answer);
        if let Answer::Refuse(errno) = answer {
            found.push((region.clone(), errno));
        }
        return;
    };
    let values: BTreeSet<u32> = named.iter().map(|test| test.value).collect();
    let mut go = |compare, kept: &dyn Fn(Option<Test>) -> bool| {
        let rest: Vec<_> = clauses
            .iter()
            .filter(|(tests, _)| kept(test_of(tests)))
            .copied()
            .collect();
        region.push((at, compare));
        divide(&rest, otherwise, at + 1, region, found);
        region.pop();
    };
    for &value in &values {
        let is = |test: Option<Test>| test.is_none_or(|test| test.value == value);
        go(Compare::Masked { mask, value }, &is);
    }
    for compare in outside(mask, &values) {
        go(compare, &|test| test.is_none());
    }
}

/// Every masked value that is none of `values`. For whole small numbers one comparison stands for
/// all large ones, those with a high half among them.
fn outside(mask: u32, values: &BTreeSet<u32>) -> Vec<Compare> {
    let mut found = Vec::new();
    let mut mask = mask;
    if mask == u32::MAX {
        let bits = values.last().map_or(0, |value| 32 - value.leading_zeros());
        if bits < 32 {
            mask = (1 << bits) - 1;
            found.push(Compare::From(1 << bits));
        }
    }
    let all: Vec<u32> = values.iter().copied().collect();
    split(mask, 0, 0, &all, &mut found);
    found
}

/// Walks the bits of `mask` from the highest on; a prefix that no value has is one comparison.
fn split(rest: u32, fixed: u32, value: u32, values: &[u32], found: &mut Vec<Compare>) {
    if values.is_empty() {
        found.push(Compare::Masked { mask: fixed, value });
        return;
    }
    if rest == 0 {
        return;
    }
    let bit = 1 << (31 - rest.leading_zeros());
    for set in [0, bit] {
        let with: Vec<u32> = values
            .iter()
            .filter(|one| **one & bit == set)
            .copied()
            .collect();
        split(rest & !bit, fixed | bit, value | set, &with, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Filter, tests::judge};

    /// What the engine's library does with a profile: the first rule that holds answers.
    fn answer(profile: &Value, name: &str, args: [u64; 6]) -> Option<u64> {
        let rows = profile["syscalls"].as_array().expect("rows");
        let holds = |arg: &Value| {
            let register =
                args[usize::try_from(arg["index"].as_u64().expect("index")).expect("small")];
            let value = arg["value"].as_u64().expect("value");
            match arg["op"].as_str().expect("op") {
                "SCMP_CMP_MASKED_EQ" => register & value == arg["valueTwo"].as_u64().expect("two"),
                "SCMP_CMP_GE" => register >= value,
                other => panic!("{other}"),
            }
        };
        let row = rows.iter().find(|row| {
            row["names"][0] == name && row["args"].as_array().expect("args").iter().all(holds)
        });
        row.map(|row| row["errnoRet"].as_u64().expect("errno"))
    }

    /// Values that the rules name, their neighbours, and odd ones.
    fn interesting(rule: &Rule, at: u8) -> Vec<u32> {
        let tests = rule.clauses.iter().flat_map(|(tests, _)| tests);
        let named = tests.filter(|test| test.argument == at).flat_map(|test| {
            let near = [
                test.value,
                test.value.wrapping_add(1),
                test.value.wrapping_sub(1),
            ];
            let bits = [3, 7, 16, 31].map(|bit| test.value ^ (1 << bit));
            near.into_iter().chain(bits)
        });
        let mut all: Vec<u32> = named.chain([0, 1, 5, 40, u32::MAX]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn the_profile_answers_as_the_filter_does_for_every_call_and_register() {
        let (filter, profile) = (calls::boxed(), profile());
        let mut compared = 0;
        for rule in &filter.rules {
            let name =
                name_of(rule.number).unwrap_or_else(|| panic!("call {} has no name", rule.number));
            let columns: Vec<Vec<u32>> = (0..3).map(|at| interesting(rule, at)).collect();
            let flags = interesting(rule, 3);
            let alone = Filter {
                rules: vec![rule.clone()],
                ..filter.clone()
            };
            for &first in &columns[0] {
                for &second in &columns[1] {
                    for &third in &columns[2] {
                        for &fourth in &flags {
                            let narrow = [first, second, third, fourth, 0, 0];
                            let told = judge(&alone, rule.number, narrow.map(u32::cast_signed));
                            let wide = narrow.map(u64::from);
                            let refused = answer(&profile, name, wide);
                            let wanted = match told {
                                libc::SECCOMP_RET_ALLOW => None,
                                told => Some(u64::from(told & libc::SECCOMP_RET_DATA)),
                            };
                            assert_eq!(refused, wanted, "{name} with {narrow:x?}");
                            compared += 1;
                        }
                    }
                }
            }
        }
        assert!(compared > 10_000, "{compared}");
    }

    #[test]
    fn a_high_half_never_opens_what_the_filter_refuses() {
        let (filter, profile) = (calls::boxed(), profile());
        for (number, args) in [
            (libc::SYS_socket, [40_u32, 1, 0]),
            (libc::SYS_ioctl, [0, 0x5412, 0]),
            (libc::SYS_clone, [0x1000_0000, 0, 0]),
            (libc::SYS_prlimit64, [1, 0, 0]),
            (libc::SYS_setpriority, [0, 1, 0]),
            (libc::SYS_sched_setaffinity, [1, 0, 0]),
        ] {
            let name = name_of(number).expect("named");
            let narrow = [args[0], args[1], args[2], 0, 0, 0];
            assert_ne!(
                judge(&filter, number, narrow.map(u32::cast_signed)),
                libc::SECCOMP_RET_ALLOW
            );
            for at in 0..3 {
                let mut wide = narrow.map(u64::from);
                wide[at] |= 1 << 40;
                assert!(answer(&profile, name, wide).is_some(), "{name} {wide:x?}");
            }
        }
    }

    #[test]
    fn each_name_is_used_and_no_rule_compares_a_register_twice() {
        let filter = calls::boxed();
        for (number, name) in NAMES.iter().chain(NAMES_HERE).chain(NUMBERED) {
            assert!(
                filter.rules.iter().any(|rule| rule.is_for(*number)),
                "{name}"
            );
        }
        let profile = profile();
        let rows = profile["syscalls"].as_array().expect("rows");
        // More would not fit what an engine compiles.
        assert!((80..600).contains(&rows.len()), "{}", rows.len());
        for row in rows {
            let mut seen = BTreeSet::new();
            for arg in row["args"].as_array().expect("args") {
                assert!(seen.insert(arg["index"].as_u64()), "{row}");
            }
        }
    }
}
