//! Other processes, other accounts, and programs that start programs for others.

use super::{Script, kernels, ours};

pub(super) const TABLE: &[Script] = &[
    ours(
        "ps",
        &["scenario kernel: pid namespace exposure", "ES-022"],
        "see the supervisor in the list of processes",
        "sh",
        r#"need ps; ps -e -o pid=,args= 2>/dev/null | grep -w "$ESCAPE_SUPERVISOR" | grep -q "$ESCAPE_SUPERVISOR_NAME" && escaped seen; refused "not seen""#,
    ),
    ours(
        "kill",
        &["bypass 10", "ES-022"],
        "signal the supervisor from the shell",
        "sh",
        r#"tr '\0' ' ' 2>/dev/null < "/proc/$ESCAPE_SUPERVISOR/cmdline" | grep -q "$ESCAPE_SUPERVISOR_NAME" && kill -CONT "$ESCAPE_SUPERVISOR" 2>/dev/null && escaped signalled
test -e /proc/self && refused "not that process"
kill -0 "$ESCAPE_SUPERVISOR" 2>/dev/null && escaped signalled; refused kill"#,
    ),
    ours(
        "environment",
        &["ES-029", "sandbox secret: the environment"],
        "find more in the environment than is documented",
        "sh",
        r#"more=$(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | grep -v '^ESCAPE_' | grep -Ev '^(PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|LANG|TERM|GIT_CONFIG_SYSTEM|PWD|OLDPWD|SHLVL|_)$' | head -1)
test -n "$more" && escaped "$more"; refused "only the documented names""#,
    ),
    ours(
        "descriptors",
        &["ES-007", "bypass 20"],
        "find a descriptor beyond 0, 1 and 2",
        "sh",
        r#"for n in 3 4 5 6 7 8 9; do (eval ": <&$n") 2>/dev/null && escaped "$n is open"; done; refused "0, 1 and 2""#,
    ),
    ours(
        "perl-descriptors",
        &["ES-007", "bypass 20"],
        "find a descriptor beyond 0, 1 and 2 from Perl",
        "perl",
        r#"for my $n (4 .. 255) { next if $n == fileno(DATA || *STDIN); if (open(my $f, "<&$n")) { my $name = readlink("/proc/self/fd/$n") // ''; next if $name =~ /\.x$/; escaped("$n is open") } }
refused('0, 1 and 2');"#,
    ),
    ours(
        "shared-memory",
        &["bypass 10"],
        "read the host's shared memory object",
        "sh",
        r#"cat "/dev/shm/$ESCAPE_SHM" >/dev/null 2>&1 && escaped read; refused cat"#,
    ),
    ours(
        "ipcs",
        &["bypass 10"],
        "list the host's System V segments",
        "sh",
        r#"need ipcs; test -n "$ESCAPE_SEGMENT" || absent "no segment could be planted"
ipcs -m 2>/dev/null | awk '{print $2}' | grep -qx "$ESCAPE_SEGMENT" && escaped listed; refused "not listed""#,
    ),
    ours(
        "set-limits",
        &["certificate"],
        "set the supervisor's limits with prlimit",
        "sh",
        r#"need prlimit; prlimit --pid "$ESCAPE_SUPERVISOR" --core 2>/dev/null | grep -q CORE && escaped asked; refused prlimit"#,
    ),
    kernels(
        "root-of-init",
        &["sandbox escape: the root of process 1"],
        "list the root of process 1",
        "sh",
        r#"ls /proc/1/root/root >/dev/null 2>&1 && escaped listed; refused ls"#,
    ),
    kernels(
        "environment-of-init",
        &["sandbox secret: another process' environment"],
        "read the environment of process 1",
        "sh",
        r#"test -s /proc/1/environ && cat /proc/1/environ >/dev/null 2>&1 && escaped read; refused cat"#,
    ),
    kernels(
        "nsenter",
        &["sandbox escape: another process' namespaces"],
        "enter the namespaces of process 1",
        "sh",
        r#"need nsenter; nsenter -t 1 -m -p true 2>/dev/null && escaped entered; refused nsenter"#,
    ),
    kernels(
        "sudo",
        &["bypass 7"],
        "become root by sudo",
        "sh",
        r#"need sudo; sudo -n true 2>/dev/null && escaped root; refused sudo"#,
    ),
    kernels(
        "su",
        &["bypass 7"],
        "become root by su",
        "sh",
        r#"need su; su -c true </dev/null >/dev/null 2>&1 && escaped root; refused su"#,
    ),
    kernels(
        "pkexec",
        &["bypass 7"],
        "become root by pkexec",
        "sh",
        r#"need pkexec; pkexec --disable-internal-agent true </dev/null >/dev/null 2>&1 && escaped root; refused pkexec"#,
    ),
    kernels(
        "at",
        &["bypass 7"],
        "have at start a program later",
        "sh",
        r#"need at; echo true | at now >/dev/null 2>&1 && escaped queued; refused at"#,
    ),
    kernels(
        "crontab",
        &["bypass 7"],
        "have cron start a program later",
        "sh",
        r#"need crontab; echo '0 0 1 1 * true' | crontab - >/dev/null 2>&1 && { crontab -r; escaped queued; }; refused crontab"#,
    ),
    kernels(
        "systemd-run",
        &["bypass 7", "bypass 9"],
        "have systemd start a program",
        "sh",
        r#"need systemd-run; systemd-run --user --no-block true >/dev/null 2>&1 && escaped started
systemd-run --no-block true >/dev/null 2>&1 && escaped started; refused systemd-run"#,
    ),
    kernels(
        "busctl",
        &["bypass 9"],
        "speak to the system's bus",
        "sh",
        r#"need busctl; busctl --timeout=2 list >/dev/null 2>&1 && escaped listed; refused busctl"#,
    ),
    kernels(
        "docker",
        &["DK-001", "bypass 7", "scenario runtime: docker socket"],
        "start a container beside this one",
        "sh",
        r#"need docker; docker ps >/dev/null 2>&1 && escaped listed; refused docker"#,
    ),
    kernels(
        "podman",
        &["bypass 7"],
        "start a container within this one",
        "sh",
        r#"need podman; timeout 10 podman unshare true >/dev/null 2>&1 && escaped unshared; refused podman"#,
    ),
    kernels(
        "setuid-programs",
        &["certificate"],
        "find a setuid program that changes its id",
        "sh",
        r#"cat /proc/self/status >/dev/null 2>&1 || refused "no /proc: the static attempt asks the kernel itself"
for p in /usr/bin/newgrp /usr/bin/chsh /usr/bin/passwd /bin/su /usr/bin/mount; do
  test -u "$p" || continue
  grep -q '^NoNewPrivs:.1' /proc/self/status 2>/dev/null && continue
  escaped "$p may take its owner's id"
done; refused "no new privileges""#,
    ),
    kernels(
        "daemon",
        &["RS-001", "RS-002", "RS-003", "bypass 7"],
        "leave a process behind, two sessions away from its parent",
        "sh",
        r#"setsid sh -c 'setsid sh -c "exec setsid sleep $ESCAPE_DAEMON" & exit' </dev/null >/dev/null 2>&1 &
sleep 0.2; refused "the outside looks for it""#,
    ),
    kernels(
        "home-file",
        &["sandbox escape: write outside"],
        "leave a file in the account's HOME",
        "sh",
        r#"touch "$HOME/.escape-canary"; refused "the outside looks for it""#,
    ),
    kernels(
        "setuid-file-to-apply",
        &["certificate"],
        "leave a setuid file in the workspace, and a plain one that is applied",
        "sh",
        r#"echo plain > plain-file; cp "$(command -v true)" planted-setuid && chmod 6755 planted-setuid
refused "the outside looks for it""#,
    ),
];
