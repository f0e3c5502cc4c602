//! The calls that a session's filter must answer itself, from a dynamic program: perl's own `syscall`.
//!
//! Every argument is zero, so that a kernel that lets the call through has nothing to read or do.

use nix::libc;
use protocol::escape::{Attack, Way};

/// Calls that the kernel refuses to an ordinary account anyway, or only on some hosts.
const KERNELS: &[(&str, i64)] = &[
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("move_mount", libc::SYS_move_mount),
    ("open_tree", libc::SYS_open_tree),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("setns", libc::SYS_setns),
    ("migrate_pages", libc::SYS_migrate_pages),
    ("bpf", libc::SYS_bpf),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    ("nfsservctl", libc::SYS_nfsservctl),
    ("vhangup", libc::SYS_vhangup),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("kexec_file_load", libc::SYS_kexec_file_load),
    ("reboot", libc::SYS_reboot),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl),
    ("syslog", libc::SYS_syslog),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("sethostname", libc::SYS_sethostname),
    ("setdomainname", libc::SYS_setdomainname),
    ("process_madvise", libc::SYS_process_madvise),
    ("kcmp", libc::SYS_kcmp),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
];

/// Calls that an ordinary account may make: only our filter answers.
const OURS: &[(&str, i64)] = &[
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("move_pages", libc::SYS_move_pages),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("clone3", libc::SYS_clone3),
];

#[cfg(target_arch = "x86_64")]
const HERE: &[(&str, i64)] = &[
    ("iopl", libc::SYS_iopl),
    ("ioperm", libc::SYS_ioperm),
    ("uselib", libc::SYS_uselib),
    ("_sysctl", libc::SYS__sysctl),
    ("sysfs", libc::SYS_sysfs),
    ("ustat", libc::SYS_ustat),
    ("create_module", 174),
    ("modify_ldt", libc::SYS_modify_ldt),
    // The table of another ABI: its getpid, its ptrace, its mount.
    ("x32.getpid", 0x4000_0027),
    ("x32.ptrace", 0x4000_0209),
    ("x32.mount", 0x4000_00a5),
    ("x32.execve", 0x4000_0208),
];
#[cfg(not(target_arch = "x86_64"))]
const HERE: &[(&str, i64)] = &[];

/// Numbers that no kernel has yet.
const FUTURE: &[(&str, i64)] = &[("future.470", 470), ("future.999", 999)];

pub(super) fn all() -> impl Iterator<Item = Attack> {
    let kernels = KERNELS.iter().chain(HERE).chain(FUTURE);
    let kernels = kernels.map(|(name, number)| (*name, *number, false));
    kernels
        .chain(OURS.iter().map(|(name, number)| (*name, *number, true)))
        .map(|(name, number, ours)| attack(name, number, ours))
}

fn attack(name: &str, number: i64, ours: bool) -> Attack {
    // EPERM and ENOSYS are the filter's own answers; any other means that the kernel looked.
    let text = format!(
        "my $answer = syscall({number}, 0, 0, 0, 0, 0, 0);\nmy $errno = $! + 0;\n\
         refused(\"errno $errno\") if $answer == -1 && ($errno == 1 || $errno == 38);\n\
         escaped(\"answer $answer, errno $errno\");\n"
    );
    let mut rows = vec!["bypass 8".to_owned()];
    if name.starts_with("x32") {
        rows.push("ES-018".to_owned());
    }
    Attack {
        name: format!("dynamic.{name}"),
        rows,
        tries: format!("make the call {name} from a dynamic program"),
        ours,
        way: Way::Script {
            with: "perl".to_owned(),
            text: super::whole("perl", &text),
        },
    }
}
