//! Wrappers of the shape `WRAPPER [options] [operands] COMMAND [arguments]`, as one table.

use super::{
    Inner, Unwrapped,
    options::{Doubt, Flags, literal_word, operand},
};
use crate::shell::Word;

/// What happens if no command follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bare {
    /// Nothing is started.
    Nothing,
    /// A shell that reads its input.
    Shell,
}

/// One wrapper.
#[derive(Debug)]
pub(super) struct Prefix {
    flags: Flags,
    /// Operands before the command.
    operands: usize,
    /// Whether `NAME=value` words come before the command.
    assigns: bool,
    /// Options that mean that no command follows.
    idle: &'static [&'static str],
    bare: Bare,
}

const NO_FLAGS: Flags = Flags {
    none: "",
    value: "",
    attached: "",
    long: "",
    long_value: "",
};
const PLAIN: Prefix = Prefix {
    flags: NO_FLAGS,
    operands: 0,
    assigns: false,
    idle: &[],
    bare: Bare::Nothing,
};

const ENV: Prefix = Prefix {
    flags: Flags {
        none: "i0v",
        value: "uCS",
        long: "ignore-environment null debug list-signal-handling",
        long_value: "unset chdir split-string",
        ..NO_FLAGS
    },
    assigns: true,
    ..PLAIN
};
const TIMEOUT: Prefix = Prefix {
    flags: Flags {
        none: "v",
        value: "ks",
        long: "preserve-status foreground verbose",
        long_value: "kill-after signal",
        ..NO_FLAGS
    },
    operands: 1,
    ..PLAIN
};
const NICE: Prefix = Prefix {
    flags: Flags {
        none: "0123456789",
        value: "n",
        long_value: "adjustment",
        ..NO_FLAGS
    },
    ..PLAIN
};
const IONICE: Prefix = Prefix {
    flags: Flags {
        none: "t",
        value: "cnpPu",
        long: "ignore",
        long_value: "class classdata pid pgid uid",
        ..NO_FLAGS
    },
    idle: &["p", "P", "u", "pid", "pgid", "uid"],
    ..PLAIN
};
const CHRT: Prefix = Prefix {
    flags: Flags {
        none: "abdfioRrv",
        value: "TPD",
        long: "all-tasks batch deadline fifo idle other rr verbose",
        long_value: "sched-runtime sched-period sched-deadline",
        ..NO_FLAGS
    },
    operands: 1,
    ..PLAIN
};
const SETSID: Prefix = Prefix {
    flags: Flags {
        none: "cfw",
        long: "ctty fork wait",
        ..NO_FLAGS
    },
    ..PLAIN
};
const STDBUF: Prefix = Prefix {
    flags: Flags {
        value: "ioe",
        long_value: "input output error",
        ..NO_FLAGS
    },
    ..PLAIN
};
const TIME: Prefix = Prefix {
    flags: Flags {
        none: "pvaq",
        value: "fo",
        long: "portability verbose append quiet",
        long_value: "format output",
        ..NO_FLAGS
    },
    ..PLAIN
};
const COMMAND: Prefix = Prefix {
    flags: Flags {
        none: "pvV",
        ..NO_FLAGS
    },
    idle: &["v", "V"],
    ..PLAIN
};
const EXEC: Prefix = Prefix {
    flags: Flags {
        none: "cl",
        value: "a",
        ..NO_FLAGS
    },
    ..PLAIN
};
const SUDO: Prefix = Prefix {
    flags: Flags {
        none: "AbBEHiKklNnPSsv",
        value: "CDgprRTtUu",
        long: "askpass background bell preserve-env set-home login non-interactive no-update \
            preserve-groups stdin shell reset-timestamp remove-timestamp validate list",
        long_value: "close-from chdir group host prompt role chroot type user other-user \
            command-timeout",
        ..NO_FLAGS
    },
    assigns: true,
    idle: &["l", "list", "v", "validate", "K", "remove-timestamp"],
    bare: Bare::Nothing,
    ..PLAIN
};
const DOAS: Prefix = Prefix {
    flags: Flags {
        none: "nLs",
        value: "Cua",
        ..NO_FLAGS
    },
    idle: &["L"],
    ..PLAIN
};
const UNSHARE: Prefix = Prefix {
    flags: Flags {
        none: "cfirmnupUCT",
        value: "SGRw",
        long: "fork ipc mount net uts pid user cgroup time map-root-user map-current-user \
            map-auto keep-caps mount-proc kill-child",
        long_value: "setuid setgid root wd propagation setgroups map-user map-group map-users \
            map-groups monotonic boottime",
        ..NO_FLAGS
    },
    bare: Bare::Shell,
    ..PLAIN
};
const NSENTER: Prefix = Prefix {
    flags: Flags {
        none: "aeFZ",
        value: "tSG",
        attached: "miunpUCTrw",
        long: "all mount ipc uts net pid user cgroup time root wd preserve-credentials no-fork \
            env",
        long_value: "target setuid setgid",
    },
    bare: Bare::Shell,
    ..PLAIN
};
const CHROOT: Prefix = Prefix {
    flags: Flags {
        long: "skip-chdir",
        long_value: "userspec groups",
        ..NO_FLAGS
    },
    operands: 1,
    bare: Bare::Shell,
    ..PLAIN
};
const FLOCK: Prefix = Prefix {
    flags: Flags {
        none: "sxenuoFv",
        value: "wE",
        long: "shared exclusive unlock nonblock nb close no-fork verbose",
        long_value: "wait timeout conflict-exit-code",
        ..NO_FLAGS
    },
    operands: 1,
    ..PLAIN
};
const STRACE: Prefix = Prefix {
    flags: Flags {
        none: "fFqrtTvxyYCcnwzZk",
        value: "eoPsSEuabIOXU",
        ..NO_FLAGS
    },
    ..PLAIN
};
const TASKSET: Prefix = Prefix {
    flags: Flags {
        none: "acp",
        long: "all-tasks cpu-list pid",
        ..NO_FLAGS
    },
    operands: 1,
    idle: &["p", "pid"],
    ..PLAIN
};
/// The dynamic loader, started as a program.
const LOADER: Prefix = Prefix {
    flags: Flags {
        long: "list verify inhibit-cache list-tunables list-diagnostics",
        long_value: "library-path audit preload argv0 inhibit-rpath glibc-hwcaps-prepend \
            glibc-hwcaps-mask",
        ..NO_FLAGS
    },
    ..PLAIN
};
const TINI: Prefix = Prefix {
    flags: Flags {
        none: "svwg",
        value: "pe",
        ..NO_FLAGS
    },
    ..PLAIN
};
const DUMB_INIT: Prefix = Prefix {
    flags: Flags {
        none: "cv",
        value: "r",
        long: "single-child verbose",
        long_value: "rewrite",
        ..NO_FLAGS
    },
    ..PLAIN
};
const CHRONIC: Prefix = Prefix {
    flags: Flags {
        none: "ev",
        ..NO_FLAGS
    },
    ..PLAIN
};
const FAKETIME: Prefix = Prefix {
    flags: Flags {
        none: "mf",
        long: "exclude-monotonic",
        ..NO_FLAGS
    },
    operands: 1,
    ..PLAIN
};

/// The wrapper of that name.
pub(super) fn find(program: &str) -> Option<&'static Prefix> {
    Some(match program {
        "env" | "genv" => &ENV,
        "timeout" | "gtimeout" => &TIMEOUT,
        "nice" => &NICE,
        "ionice" => &IONICE,
        "chrt" => &CHRT,
        "setsid" => &SETSID,
        "stdbuf" => &STDBUF,
        "time" | "gtime" => &TIME,
        "command" => &COMMAND,
        "exec" => &EXEC,
        "sudo" => &SUDO,
        "doas" => &DOAS,
        "unshare" => &UNSHARE,
        "nsenter" => &NSENTER,
        "chroot" => &CHROOT,
        "flock" => &FLOCK,
        "strace" | "ltrace" => &STRACE,
        "taskset" => &TASKSET,
        "tini" | "tini-static" | "docker-init" | "catatonit" => &TINI,
        "dumb-init" => &DUMB_INIT,
        "chronic" => &CHRONIC,
        "faketime" => &FAKETIME,
        _ if program.starts_with("ld-linux")
            || program.starts_with("ld-musl")
            || program.starts_with("ld64.so")
            || program.starts_with("ld.so")
            || (program.starts_with("ld-") && program.ends_with(".so")) =>
        {
            &LOADER
        }
        // Their options are not in a table: with any, the line is a doubt.
        "nohup" | "builtin" | "busybox" | "toybox" | "fakeroot" | "pkexec" | "unbuffer"
        | "xvfb-run" | "setarch" | "linux64" | "linux32" | "prlimit" | "numactl"
        | "systemd-run" | "dbus-run-session" | "torsocks" | "torify" | "proxychains"
        | "proxychains4" | "catchsegv" | "valgrind" | "rlwrap" | "bwrap" | "firejail"
        | "setpriv" | "capsh" | "setuidgid" | "softlimit" | "gosu" | "su-exec" | "script"
        | "npx" | "uvx" => &PLAIN,
        _ => return None,
    })
}

/// Takes it apart.
pub(super) fn unwrap(
    program: &str,
    wrapper: &Prefix,
    args: &[Word],
    out: &mut Unwrapped,
) -> Result<(), Doubt> {
    if only_asks(program, args) {
        return Ok(());
    }
    let found = wrapper.flags.leading(args, program)?;
    let mut at = found.rest;
    if program == "chrt" && found.has(&["p"]) || found.has(wrapper.idle) {
        return Ok(());
    }
    // `env - …` is `env -i …`.
    if wrapper.assigns
        && args
            .get(at)
            .is_some_and(|word| word.literal.as_deref() == Some("-"))
    {
        at += 1;
    }
    for _ in 0..wrapper.operands {
        if operand(args, at, program)?.is_some() {
            at += 1;
        }
    }
    if matches!(program, "setuidgid" | "gosu" | "su-exec" | "setarch") {
        at += 1;
    }
    let mut assignments = Vec::new();
    if wrapper.assigns {
        while let Some(word) = args.get(at) {
            // `A=$x cmd` of env: if the word is one word, the next is still the command.
            let Some((name, value)) = assignment(word, program)? else {
                break;
            };
            assignments.push((name, value));
            at += 1;
        }
    }
    if let Some(text) = found.value(&["S", "split-string"]) {
        let mut words = split(text, program)?;
        words.extend(args.get(at..).unwrap_or_default().iter().cloned());
        return unwrap_split(words, assignments, out);
    }
    let words = args.get(at..).unwrap_or_default();
    if program == "flock" {
        return flock(words, out);
    }
    if words.is_empty() {
        let shell = wrapper.bare == Bare::Shell
            || (found.has(&["s", "i", "shell", "login"]) && matches!(program, "sudo" | "doas"));
        if shell {
            out.inner.push(Inner::Input);
        }
        return Ok(());
    }
    if program == "script" {
        return Err("`script` starts a shell".to_owned());
    }
    out.inner.push(Inner::Argv {
        assignments,
        words: words.to_vec(),
    });
    Ok(())
}

/// `PROGRAM --version` and `PROGRAM --help` start nothing.
fn only_asks(program: &str, args: &[Word]) -> bool {
    let [only] = args else { return false };
    program != "builtin" && matches!(only.literal.as_deref(), Some("--version" | "--help"))
}

/// `NAME=value`, if the word is one.
fn assignment(word: &Word, program: &str) -> Result<Option<(String, Word)>, Doubt> {
    let text = word.literal.as_deref().unwrap_or(&word.text);
    let Some((name, value)) = text.split_once('=') else {
        return Ok(None);
    };
    if !crate::shell::word::is_name(name) {
        return Ok(None);
    }
    if word.literal.is_some() {
        return Ok(Some((name.to_owned(), literal_word(value))));
    }
    let value = Word {
        text: value.to_owned(),
        literal: None,
    };
    if crate::shell::word::may_split(&value) {
        return Err(super::options::undecided(program, word));
    }
    Ok(Some((name.to_owned(), value)))
}

/// The words of `env -S`, if it holds nothing but plain words.
fn split(text: &Word, program: &str) -> Result<Vec<Word>, Doubt> {
    let literal = text.literal.as_deref();
    let Some(literal) = literal.filter(|text| !text.contains(['"', '\'', '\\', '$', '#'])) else {
        return Err(super::options::undecided(program, text));
    };
    Ok(literal.split_ascii_whitespace().map(literal_word).collect())
}

/// `env -S 'A=1 cmd x' y`: what was split is read by env again.
fn unwrap_split(
    words: Vec<Word>,
    mut assignments: Vec<(String, Word)>,
    out: &mut Unwrapped,
) -> Result<(), Doubt> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word
            .literal
            .as_deref()
            .is_some_and(|text| text.starts_with('-'))
        {
            return Err("options inside `env -S` are not known".to_owned());
        }
        let Some(found) = assignment(word, "env")? else {
            break;
        };
        assignments.push(found);
        at += 1;
    }
    let words = words.get(at..).unwrap_or_default().to_vec();
    if !words.is_empty() {
        out.inner.push(Inner::Argv { assignments, words });
    }
    Ok(())
}

/// `flock FILE COMMAND…` or `flock FILE -c LINE`.
fn flock(words: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let Some(first) = words.first() else {
        return Ok(());
    };
    match first.literal.as_deref() {
        None => Err(super::options::undecided("flock", first)),
        Some("-c" | "--command") => match words {
            [_, line] => out.line(line, "flock"),
            _ => Err("`flock -c` takes one line".to_owned()),
        },
        Some(text) if text.starts_with('-') => {
            Err("options of `flock` behind its file are not known".to_owned())
        }
        Some(_) => {
            out.argv(words);
            Ok(())
        }
    }
}

/// `TOOL run|exec COMMAND…` of the tools that manage an environment; npm's `run` names a script of
/// the project, which stands for itself.
pub(super) fn runner(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let [verb, rest @ ..] = args else {
        return Ok(());
    };
    let scripts = matches!(program, "npm" | "pnpm" | "yarn" | "bun");
    match verb.literal.as_deref() {
        None => return Err(super::options::undecided(program, verb)),
        Some("exec" | "x" | "dlx") => {}
        Some("run") if !scripts => {}
        Some(_) => return Ok(()),
    }
    let found = NO_FLAGS.leading(rest, program)?;
    // direnv is told the folder first.
    let folder = usize::from(program == "direnv");
    out.argv(rest.get(found.rest + folder..).unwrap_or_default());
    Ok(())
}
