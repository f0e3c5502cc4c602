//! Floods, each within a bound of its own: also where nothing holds it, nothing is harmed.

use super::{Script, kernels, ours};

pub(super) const TABLE: &[Script] = &[
    ours(
        "huge-file",
        &["RS-014", "bypass 22"],
        "make a file larger than a disk",
        "sh",
        r#"need truncate; truncate -s 3T .huge 2>/dev/null && { rm -f .huge; escaped made; }; rm -f .huge; refused truncate"#,
    ),
    ours(
        "much-memory",
        &["RS-021", "bypass 22"],
        "ask for more memory than a session may have",
        "python3",
        "try:\n    x = bytearray(6 << 30); escaped(len(x))\nexcept MemoryError: refused('MemoryError')",
    ),
    kernels(
        "zombies",
        &["DK-005", "DK-006"],
        "leave two hundred dead processes behind",
        "sh",
        r#"i=0; while test $i -lt 200; do sh -c 'true & exit' & i=$((i + 1)); done; wait; sleep 1
n=$(grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l)
test "$n" -gt 20 && escaped "$n zombies"; refused "$n zombies""#,
    ),
    kernels(
        "many-names",
        &["bypass 22"],
        "make more files in the shared memory folder than it may hold",
        "sh",
        r#"d=/dev/shm/.escape-names-$$; mkdir $d 2>/dev/null || refused "not writable"
need python3
python3 - $d <<'E' && r=0 || r=1
import sys
try:
    for i in range(100000): open(sys.argv[1] + '/%d' % i, 'w').close()
except OSError: sys.exit(1)
E
rm -rf $d; test $r = 0 && escaped "100,000 files"; refused ENOSPC"#,
    ),
    kernels(
        "full-shared-memory",
        &["bypass 22"],
        "fill the shared memory folder",
        "sh",
        r#"f=/dev/shm/.escape-$$; dd if=/dev/zero of=$f bs=1M count=96 2>/dev/null && { rm -f $f; escaped "96 MiB"; }; rm -f $f; refused ENOSPC"#,
    ),
];
