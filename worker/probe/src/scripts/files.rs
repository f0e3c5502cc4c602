//! Files outside, by the programs that an agent would ask.

use super::{Script, kernels, ours};

const READ: &str = "sandbox secret: a planted file";

pub(super) const TABLE: &[Script] = &[
    ours(
        "cat",
        &[READ, "bypass 6"],
        "read a file outside with cat",
        "sh",
        r#"cat "$ESCAPE_OUTSIDE_FILE" 2>/dev/null && escaped read; refused cat"#,
    ),
    ours(
        "dd",
        &[READ],
        "read a file outside with dd",
        "sh",
        r#"need dd; dd if="$ESCAPE_OUTSIDE_FILE" bs=1 count=1 >/dev/null 2>&1 && escaped read; refused dd"#,
    ),
    ours(
        "awk",
        &[READ, "bypass 6"],
        "read a file outside with awk's own getline",
        "sh",
        r#"need awk; awk -v f="$ESCAPE_OUTSIDE_FILE" 'BEGIN { exit !((getline line < f) > 0) }' && escaped read; refused awk"#,
    ),
    ours(
        "python-read",
        &[READ],
        "read a file outside with Python",
        "python3",
        "try:\n    open(ground('OUTSIDE_FILE')).read(1); escaped('read')\nexcept OSError as e: refused(e.strerror)",
    ),
    ours(
        "perl-read",
        &[READ],
        "read a file outside with Perl",
        "perl",
        r#"open(my $f, '<', $ENV{ESCAPE_OUTSIDE_FILE}) ? escaped('read') : refused("$!");"#,
    ),
    ours(
        "loader",
        &["bypass 6", "bypass 19"],
        "read a file outside through the dynamic loader",
        "sh",
        r#"for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do
  test -x $l && $l "$(command -v cat)" "$ESCAPE_OUTSIDE_FILE" 2>/dev/null && escaped read
done; refused loader"#,
    ),
    ours(
        "substitution",
        &["bypass 6"],
        "read a file outside in a process substitution",
        "bash",
        r#"cat <(cat "$ESCAPE_OUTSIDE_FILE" 2>/dev/null) | grep -q . && escaped read; refused empty"#,
    ),
    ours(
        "background",
        &["bypass 6"],
        "read a file outside in the background",
        "sh",
        r#"cat "$ESCAPE_OUTSIDE_FILE" > .bg 2>/dev/null & wait; test -s .bg && escaped read; refused empty"#,
    ),
    ours(
        "find",
        &[READ],
        "find the secret by walking the root",
        "sh",
        r#"need find; found=$(find / -maxdepth 6 \( -path /proc -o -path /sys -o -path /usr \) -prune -o -path "$ESCAPE_OUTSIDE_FILE" -print 2>/dev/null | head -1)
test -n "$found" && escaped "$found"; refused "not found""#,
    ),
    ours(
        "link-to-root",
        &["bypass 3", "sandbox escape: a link out"],
        "read a file outside through a link to the root",
        "sh",
        r#"ln -sfn / .root; cat ".root$ESCAPE_OUTSIDE_FILE" 2>/dev/null && { rm .root; escaped read; }; rm .root; refused link"#,
    ),
    ours(
        "climb-by-cwd",
        &["ES-030", "ES-007"],
        "climb from its working folder's name in proc",
        "sh",
        r#"cat "/proc/self/cwd/../../../../../../../../../../..$ESCAPE_OUTSIDE_FILE" 2>/dev/null && escaped read; refused climb"#,
    ),
    ours(
        "climb-by-task",
        &["ES-030"],
        "read a file outside through the root of its own task",
        "sh",
        r#"cat "/proc/$$/task/$$/root$ESCAPE_OUTSIDE_FILE" 2>/dev/null && escaped read; refused climb"#,
    ),
    ours(
        "write-outside-by-shell",
        &["sandbox escape: write outside"],
        "write a file outside by redirection",
        "sh",
        r#"f="$ESCAPE_OUTSIDE_FOLDER/owned-sh"; (echo x > "$f") 2>/dev/null && { rm -f "$f"; escaped wrote; }; refused write"#,
    ),
    ours(
        "tar-outside",
        &["bypass 3"],
        "unpack an archive outside",
        "sh",
        r#"need tar; echo x > owned-tar; tar -cf .a.tar owned-tar && tar -C "$ESCAPE_OUTSIDE_FOLDER" -xf .a.tar 2>/dev/null && { rm -f "$ESCAPE_OUTSIDE_FOLDER/owned-tar"; escaped wrote; }; refused tar"#,
    ),
    ours(
        "tar-climbing",
        &["bypass 3"],
        "unpack names that climb out of the workspace",
        "python3",
        "import tarfile, io\nname = '../' * 12 + ground('OUTSIDE_FOLDER').lstrip('/') + '/owned-climb'\n\
         try:\n    with open(name, 'w') as f: f.write('x')\n    os.remove(name); escaped('wrote')\nexcept OSError as e: refused(e.strerror)",
    ),
    ours(
        "touch-times",
        &["certificate"],
        "set the times of a file outside with touch",
        "sh",
        r#"touch -c "$ESCAPE_OUTSIDE_FILE" 2>/dev/null && test -e "$ESCAPE_OUTSIDE_FILE" && escaped touched; refused touch"#,
    ),
    ours(
        "git-outside",
        &["bypass 2"],
        "make a repository outside",
        "sh",
        r#"need git; test -d "$ESCAPE_OUTSIDE_FOLDER" || refused "not in the view"
git init -q "$ESCAPE_OUTSIDE_FOLDER/repo" 2>/dev/null && { rm -rf "$ESCAPE_OUTSIDE_FOLDER/repo"; escaped made; }; refused git"#,
    ),
    kernels(
        "hard-link",
        &["bypass 3"],
        "give a file outside a name inside",
        "sh",
        r#"ln "$ESCAPE_OUTSIDE_FILE" .hard 2>/dev/null && { rm .hard; escaped linked; }; refused ln"#,
    ),
    kernels(
        "read-shadow",
        &["sandbox secret: system files"],
        "read the password file",
        "sh",
        "cat /etc/shadow 2>/dev/null && escaped read; refused cat",
    ),
    kernels(
        "kernel-addresses",
        &["scenario kernel: pid namespace exposure"],
        "read the kernel's addresses",
        "sh",
        r#"grep -m1 -qv '^0000000000000000' /proc/kallsyms 2>/dev/null && escaped addresses; refused masked"#,
    ),
    kernels(
        "host-mounts",
        &["scenario runtime: writable host mount"],
        "find a mount of a host disk that it may write",
        "sh",
        r#"while read -r _ _ _ _ target options _; do
  case $options in *rw*) ;; *) continue ;; esac
  case $target in "$PWD"*|/tmp|/dev/*|/dev|/proc|"$HOME"*|/) continue ;; esac
  test -d "$target" && (: > "$target/.escape-mount") 2>/dev/null && { rm -f "$target/.escape-mount"; escaped "$target"; }
done < /proc/self/mountinfo 2>/dev/null; refused none"#,
    ),
    kernels(
        "write-system",
        &["scenario runtime: writable host mount"],
        "write a system folder",
        "sh",
        r#"for d in /usr/bin /usr/local/bin /etc /lib /sbin /opt /var/spool/cron /root /boot /srv; do
  test "$d" = "$HOME" && continue
  test -d $d && (: > $d/.escape-system) 2>/dev/null && { rm -f $d/.escape-system; escaped $d; }
done; refused none"#,
    ),
];
