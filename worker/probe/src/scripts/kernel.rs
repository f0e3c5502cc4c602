//! The kernel's own doors, by the programs and recipes that are known.

use super::{Script, kernels, ours};

pub(super) const TABLE: &[Script] = &[
    ours(
        "unshare",
        &[
            "scenario runtime: SYS_ADMIN",
            "sandbox escape: a namespace of its own",
        ],
        "become root in a user namespace of its own",
        "sh",
        r#"need unshare; unshare -Ur true 2>/dev/null && escaped unshared; refused unshare"#,
    ),
    kernels(
        "bubblewrap",
        &["bypass 7"],
        "build a box within the box",
        "sh",
        r#"need bwrap; bwrap --ro-bind / / --unshare-all true 2>/dev/null && escaped built; refused bwrap"#,
    ),
    kernels(
        "type-by-python",
        &["ES-017", "ES-018", "bypass 21"],
        "type into every terminal that it has",
        "python3",
        "import fcntl\nfor code in (0x5412, 0x541c):\n    for fd in (0, 1, 2):\n        try:\n            fcntl.ioctl(fd, code, b'x'); escaped('typed')\n        except OSError: pass\n\
         try:\n    f = os.open('/dev/tty', os.O_RDWR); fcntl.ioctl(f, 0x5412, b'x'); escaped('typed')\nexcept OSError as e: refused(e.strerror)",
    ),
    kernels(
        "console",
        &["ES-011"],
        "open a console or a terminal of the host",
        "sh",
        r#"for c in /dev/console /dev/tty0 /dev/tty1 /dev/ttyS0 /dev/pts/0 /dev/pts/1; do (: < $c) 2>/dev/null && escaped $c; done; refused none"#,
    ),
    kernels(
        "terminal-swap",
        &["ES-011"],
        "put a link in the place of a terminal",
        "sh",
        r#"ln -sfn /proc/sysrq-trigger /dev/pts/0 2>/dev/null && escaped swapped; refused ln"#,
    ),
    kernels(
        "mount",
        &["scenario runtime: SYS_ADMIN"],
        "mount memory with mount",
        "sh",
        r#"need mount; mkdir -p .m; mount -t tmpfs none .m 2>/dev/null && escaped mounted; refused mount"#,
    ),
    kernels(
        "bind-mount",
        &["scenario runtime: writable host mount"],
        "bind the root onto a folder",
        "sh",
        r#"need mount; mkdir -p .m; mount --bind / .m 2>/dev/null && escaped mounted; refused mount"#,
    ),
    kernels(
        "release-agent-recipe",
        &["scenario kernel: release_agent"],
        "let the kernel start a program when a cgroup empties",
        "sh",
        r#"need mount; mkdir -p .cg; for c in rdma memory misc; do
  mount -t cgroup -o $c cgroup .cg 2>/dev/null && { umount .cg; escaped "mounted $c"; }
done; refused mount"#,
    ),
    kernels(
        "load-module-recipe",
        &["scenario runtime: SYS_MODULE"],
        "load a module with modprobe",
        "sh",
        r#"PATH=$PATH:/sbin:/usr/sbin; need modprobe; modprobe dummy 2>/dev/null && escaped loaded; refused modprobe"#,
    ),
    kernels(
        "kernel-log-recipe",
        &["certificate"],
        "read the kernel's log with dmesg",
        "sh",
        r#"need dmesg; test -n "$(dmesg 2>/dev/null | head -1)" && escaped read; refused dmesg"#,
    ),
    kernels(
        "disk",
        &[
            "scenario runtime: privileged",
            "sandbox escape: the host's disk",
        ],
        "read a disk of the host",
        "sh",
        r#"for d in /dev/sd? /dev/vd? /dev/nvme?n? /dev/xvd? /dev/mapper/* /dev/loop?; do
  test -b "$d" && dd if="$d" of=/dev/null bs=512 count=1 2>/dev/null && escaped "$d"
done; refused none"#,
    ),
    kernels(
        "file-handles",
        &["scenario runtime: DAC_READ_SEARCH"],
        "open the root folder of the disk by its handle",
        "python3",
        "import ctypes, struct\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         handle = ctypes.create_string_buffer(struct.pack('IiQ', 8, 1, 2))\n\
         root = os.open('.', os.O_RDONLY)\n\
         fd = libc.syscall(304, root, handle, os.O_RDONLY)\n\
         refused(os.strerror(ctypes.get_errno())) if fd < 0 else escaped('opened')",
    ),
    kernels(
        "dirty-cow",
        &["scenario kernel: Dirty COW"],
        "race a write into a private page of a read-only file",
        "python3",
        "import mmap, threading, time\n\
         path = '.cow'; open(path, 'w').write('as it was' + ' ' * 4000); os.chmod(path, 0o444)\n\
         fd = os.open(path, os.O_RDONLY)\n\
         m = mmap.mmap(fd, 4000, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)\n\
         try: base = next(int(l.split('-')[0], 16) for l in open('/proc/self/maps') if l.rstrip().endswith('/.cow'))\n\
         except Exception as e: refused(e)\n\
         end = time.time() + 1\n\
         def drop():\n\
         \x20   while time.time() < end: m.madvise(mmap.MADV_DONTNEED)\n\
         def write():\n\
         \x20   try: f = os.open('/proc/self/mem', os.O_RDWR)\n\
         \x20   except OSError: return\n\
         \x20   while time.time() < end:\n\
         \x20       try: os.pwrite(f, b'CHANGED!!', base)\n\
         \x20       except OSError: pass\n\
         ts = [threading.Thread(target=t) for t in (drop, write)]\n\
         [t.start() for t in ts]; [t.join() for t in ts]\n\
         escaped('changed') if open(path).read(9) != 'as it was' else refused('the file is as it was')",
    ),
    kernels(
        "other-architecture",
        &["ES-018", "bypass 8"],
        "make a call of a 32-bit program",
        "python3",
        // mov eax,288 (keyctl); mov ebx,0; mov ecx,-2; xor edx,edx; int 0x80; the answer is the exit code.
        "import struct, subprocess, platform\n\
         if platform.machine() != 'x86_64': absent('x86-64')\n\
         code = bytes.fromhex('b820010000' '31db' 'b9feffffff' '31d2' 'cd80' '89c3' 'f7db' 'b801000000' 'cd80')\n\
         base = 0x08048000\n\
         head = b'\\x7fELF\\x01\\x01\\x01' + bytes(9) + struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 40, 0, 0)\n\
         head += struct.pack('<IIIIIIII', 1, 0, base, base, 84 + len(code), 84 + len(code), 5, 0x1000)\n\
         open('.elf32', 'wb').write(head + code); os.chmod('.elf32', 0o755)\n\
         try: code = subprocess.run(['./.elf32']).returncode\n\
         except OSError as e: refused(e.strerror)\n\
         refused(code) if code in (1, 38, -31) else escaped(code)",
    ),
    kernels(
        "core-pattern",
        &["scenario runtime: privileged"],
        "name a program for the kernel to start at a crash",
        "sh",
        r#"p=$(cat /proc/sys/kernel/core_pattern 2>/dev/null); (printf %s "$p" > /proc/sys/kernel/core_pattern) 2>/dev/null && escaped written; refused write"#,
    ),
    kernels(
        "binary-formats",
        &["scenario runtime: privileged"],
        "register a program for a format of binaries",
        "sh",
        r#"(: > /proc/sys/fs/binfmt_misc/register) 2>/dev/null && escaped opened; refused write"#,
    ),
    kernels(
        "capabilities",
        &["scenario runtime: privileged"],
        "find a capability in any of its sets",
        "sh",
        r#"grep -E '^Cap(Inh|Prm|Eff|Amb):' /proc/self/status 2>/dev/null | grep -qv '0000000000000000$' && escaped held; refused none"#,
    ),
    kernels(
        "capabilities-to-come",
        &["scenario runtime: privileged"],
        "find a capability that a program could gain",
        "sh",
        r#"cat /proc/self/status >/dev/null 2>&1 || refused "no /proc"
grep -q '^NoNewPrivs:.1' /proc/self/status && refused "no new privileges"
grep -E '^CapBnd:' /proc/self/status | grep -qv '0000000000000000$' && escaped bounding; refused none"#,
    ),
    kernels(
        "filter",
        &["ES-001", "ES-024", "bypass 24"],
        "find that no filter holds it",
        "sh",
        r#"cat /proc/self/status >/dev/null 2>&1 || refused "no /proc"
grep -q '^Seccomp:.2' /proc/self/status || escaped "no filter"; refused filtered"#,
    ),
    kernels(
        "kernel-files",
        &["scenario kernel: pid namespace exposure"],
        "read what the kernel tells about the machine",
        "sh",
        r#"for f in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /proc/kmsg /sys/firmware/dmi/tables/DMI /sys/kernel/security/lsm /proc/bus/pci/devices; do
  test -s "$f" && head -c 1 "$f" 2>/dev/null | grep -q . && escaped "$f"
done; refused masked"#,
    ),
];
