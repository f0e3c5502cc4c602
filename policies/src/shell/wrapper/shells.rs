//! Programs that read a line of shell: the line is read again, as the shell would.

use super::{
    Inner, Unwrapped,
    options::{Doubt, Flags, Found, operand, undecided},
};
use crate::shell::{
    Word,
    word::{listed, may_split},
};

const SHELL: Flags = Flags {
    none: "cleuxvnrspafhtmBCEPTib",
    value: "oO",
    attached: "",
    long: "login noprofile norc verbose version help restricted noediting",
    long_value: "",
};

/// Options of `set -o` and `shopt` that change neither how later lines are read nor what runs.
pub(super) const BENIGN: &str = "allexport braceexpand dotglob errexit errtrace failglob functrace globstar hashall \
    inherit_errexit lastpipe noclobber noexec noglob nocaseglob nocasematch notify nounset \
    nullglob physical pipefail verbose xtrace monitor";

/// `sh -c LINE`, `bash FILE`, `bash -s`.
pub(super) fn shell(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let mut found = Found::default();
    while let Some(word) = args.get(found.rest) {
        let Some(text) = word.literal.as_deref() else {
            return Err(undecided(program, word));
        };
        if text == "--" || text == "-" {
            found.rest += 1;
            break;
        }
        if !text.starts_with(['-', '+']) {
            break;
        }
        found.rest += 1;
        if text == "+" {
            return Err(format!("the option `+` of `{program}` is not known"));
        }
        let as_minus = text.replacen('+', "-", 1);
        SHELL.option(&as_minus, args, &mut found, program)?;
    }
    if found.has(&["version", "help"]) {
        return Ok(());
    }
    let mut set = found
        .seen
        .iter()
        .filter(|(name, _)| matches!(name.as_str(), "o" | "O"));
    let benign = set.all(|(_, value)| {
        let value = value.as_ref().and_then(|word| word.literal.as_deref());
        value.is_some_and(|value| listed(BENIGN, value))
    });
    if !benign {
        return Err(format!(
            "`{program}` is given an option that changes how it reads"
        ));
    }
    if found.has(&["i"]) {
        return Err(format!(
            "an interactive `{program}` reads aliases from files"
        ));
    }
    let rest = args.get(found.rest..).unwrap_or_default();
    if found.has(&["c"]) {
        let Some(line) = rest.first() else {
            return Err(format!("`{program} -c` has no line"));
        };
        out.line(line, program)?;
        let bash_like = matches!(program, "sh" | "bash" | "dash" | "ash" | "rbash");
        let plain = line.literal.as_deref().is_some_and(portable);
        if !bash_like && !plain {
            return Err(format!(
                "a line of `{program}`, whose grammar is not bash's"
            ));
        }
        return Ok(());
    }
    match rest.first() {
        None => out.inner.push(Inner::Input),
        Some(_) if found.has(&["s"]) => out.inner.push(Inner::Input),
        Some(file) => match file.literal.as_deref() {
            None => return Err(undecided(program, file)),
            Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => out.inner.push(Inner::Input),
            Some(path) if path.starts_with("/dev/fd/") || path.starts_with("/proc/") => {
                return Err(format!("`{program}` reads its commands from a descriptor"));
            }
            // A script file is a program by its own name; its content is not the line's.
            Some(_) => {}
        },
    }
    Ok(())
}

/// Whether every shell reads it as bash does: plain words, quotes and separators.
fn portable(line: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./,:@+%'\";&|\n".contains(c);
    line.chars().all(|c| plain(c) || c == '=') && !line.contains(" =") && !line.starts_with('=')
}

/// A shell with a grammar of its own: a script file is a program; any line of it is a doubt.
pub(super) fn foreign(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let Some(first) = args.first() else {
        out.inner.push(Inner::Input);
        return Ok(());
    };
    match first.literal.as_deref() {
        Some("--version" | "--help" | "-version" | "-help" | "-h" | "-v") if args.len() == 1 => {
            Ok(())
        }
        Some(text) if !text.starts_with('-') => Ok(()),
        Some(_) => Err(format!(
            "a line of `{program}`, whose grammar is not bash's"
        )),
        None => Err(undecided(program, first)),
    }
}

/// `at TIME`, `batch`: they read a line for the shell, unless they are asked about the queue.
pub(super) fn later(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    for word in args {
        match word.literal.as_deref() {
            None => return Err(undecided(program, word)),
            Some("-l" | "-d" | "-r" | "-c" | "-V") => return Ok(()),
            Some(text) if text.starts_with("-f") => {
                return Err(format!("`{program} -f` reads commands from a file"));
            }
            Some(_) => {}
        }
    }
    out.inner.push(Inner::Input);
    Ok(())
}

/// `crontab`: its table of commands is not read here.
pub(super) fn table(args: &[Word]) -> Result<(), Doubt> {
    let asks = |word: &Word| matches!(word.literal.as_deref(), Some("-l" | "-r" | "-V"));
    if args.iter().any(asks) {
        return Ok(());
    }
    Err("`crontab` takes a table of commands".to_owned())
}

/// `sg GROUP [-c] LINE`.
pub(super) fn group(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let dash = |word: &&Word| matches!(word.literal.as_deref(), Some("-" | "-c" | "--"));
    let words: Vec<&Word> = args.iter().filter(|word| !dash(word)).collect();
    match words.as_slice() {
        [] => Ok(()),
        [_] => {
            out.inner.push(Inner::Input);
            Ok(())
        }
        [_, line] => out.line(line, "sg"),
        _ => Err("`sg` takes one line".to_owned()),
    }
}

const SU: Flags = Flags {
    none: "lmpfP",
    value: "csgGw",
    attached: "",
    long: "login preserve-environment fast pty",
    long_value: "command session-command shell group supp-group whitelist-environment",
};

/// `su [options] [-] [user [arguments]]`: options may stand anywhere.
pub(super) fn su(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    line_of_user(args, "su", &SU, out)
}

fn line_of_user(
    args: &[Word],
    program: &str,
    flags: &Flags,
    out: &mut Unwrapped,
) -> Result<(), Doubt> {
    let mut found = Found::default();
    let mut operands = 0;
    while let Some(word) = args.get(found.rest) {
        let Some(text) = word.literal.as_deref() else {
            return Err(undecided(program, word));
        };
        found.rest += 1;
        if text.starts_with('-') && text != "-" && text != "--" {
            flags.option(text, args, &mut found, program)?;
        } else if text != "-" {
            operands += 1;
        }
    }
    if operands > 1 {
        return Err(format!("`{program}` hands arguments to a shell"));
    }
    match found.value(&["c", "command", "session-command"]) {
        Some(line) => out.line(line, program),
        None => {
            out.inner.push(Inner::Input);
            Ok(())
        }
    }
}

const RUNUSER: Flags = Flags {
    value: "u",
    long_value: "user",
    none: "lmpfP",
    attached: "",
    long: "login preserve-environment fast pty",
};

/// `runuser -u USER COMMAND…`, or as `su`.
pub(super) fn runuser(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let by_user = args.iter().filter_map(|word| word.literal.as_deref());
    if by_user
        .take(4)
        .any(|text| text == "-u" || text.starts_with("--user"))
    {
        let found = RUNUSER.leading(args, "runuser")?;
        out.argv(args.get(found.rest..).unwrap_or_default());
        return Ok(());
    }
    line_of_user(args, "runuser", &SU, out)
}

const SSH: Flags = Flags {
    none: "46AaCfGgKkMNnqsTtVvXxYy",
    value: "BbcDEeIiJLlmOopQRSWw",
    attached: "",
    long: "",
    long_value: "",
};
/// Options of `ssh -o` that start nothing here.
const SSH_OPTIONS: &str = "batchmode connecttimeout stricthostkeychecking userknownhostsfile loglevel port user \
    serveraliveinterval serveralivecountmax identitiesonly forwardagent \
    passwordauthentication preferredauthentications compression addressfamily";

/// `ssh [options] HOST [options] [LINE]`.
pub(super) fn ssh(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let before = SSH.leading(args, "ssh")?;
    let Some(host) = operand(args, before.rest, "ssh")? else {
        return Ok(());
    };
    if host.starts_with('-') {
        return Err("a host of `ssh` that looks like an option".to_owned());
    }
    let rest = args.get(before.rest + 1..).unwrap_or_default();
    let behind = SSH.leading(rest, "ssh")?;
    for (name, value) in before.seen.iter().chain(&behind.seen) {
        let value = value
            .as_ref()
            .and_then(|word| word.literal.as_deref())
            .unwrap_or_default();
        let key = value
            .split(['=', ' '])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if name == "o" && !listed(SSH_OPTIONS, &key) {
            return Err("an option of `ssh -o` that is not known".to_owned());
        }
    }
    let line = rest.get(behind.rest..).unwrap_or_default();
    if line.is_empty() {
        if !before.has(&["N", "V", "G", "O", "Q"]) && !behind.has(&["N"]) {
            out.inner.push(Inner::Input);
        }
        return Ok(());
    }
    out.joined(line, "ssh")
}

/// `eval LINE…`.
pub(super) fn eval(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let skip = usize::from(
        args.first()
            .is_some_and(|word| word.literal.as_deref() == Some("--")),
    );
    out.joined(args.get(skip..).unwrap_or_default(), "eval")
}

/// `trap LINE SIGNAL…`.
pub(super) fn trap(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let skip = usize::from(
        args.first()
            .is_some_and(|word| word.literal.as_deref() == Some("--")),
    );
    let args = args.get(skip..).unwrap_or_default();
    let [line, rest @ ..] = args else {
        return Ok(());
    };
    if matches!(line.literal.as_deref(), Some("-" | "" | "-p" | "-l" | "-P")) {
        return Ok(());
    }
    if rest.is_empty() && !may_split(line) {
        return Ok(());
    }
    out.line(line, "trap")
}

const WATCH: Flags = Flags {
    none: "bcCegprtwx",
    value: "nq",
    attached: "d",
    long: "beep color no-color errexit chgexit precise no-title no-wrap exec differences",
    long_value: "interval equexit",
};

/// `watch [options] LINE…`, or a program with `-x`.
pub(super) fn watch(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let found = WATCH.leading(args, "watch")?;
    let rest = args.get(found.rest..).unwrap_or_default();
    if found.has(&["x", "exec"]) {
        out.argv(rest);
        return Ok(());
    }
    out.joined(rest, "watch")
}

const PARALLEL: Flags = Flags {
    none: "0kmqtuvX",
    value: "adjnNLSs",
    attached: "",
    long: "bar dry-run keep-order line-buffer no-notice null progress verbose will-cite eta \
            tag ungroup",
    long_value: "arg-file delimiter jobs max-args delay timeout retries halt",
};

/// `parallel [options] LINE… ::: arguments`: a line for each argument.
pub(super) fn parallel(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let found = PARALLEL.leading(args, "parallel")?;
    if found.has(&["S"]) {
        return Err("`parallel -S` runs commands on other hosts".to_owned());
    }
    let rest = args.get(found.rest..).unwrap_or_default();
    let colons = |word: &Word| {
        word.literal
            .as_deref()
            .is_some_and(|text| text.starts_with(":::"))
    };
    let end = rest.iter().position(colons).unwrap_or(rest.len());
    let line = rest.get(..end).unwrap_or_default();
    if line.is_empty() {
        return Err("`parallel` without a command runs its arguments".to_owned());
    }
    let replaced = |word: &Word| {
        word.literal
            .as_deref()
            .is_some_and(|text| text.contains('{'))
    };
    if line.first().is_some_and(replaced) {
        return Err("`parallel` runs its arguments".to_owned());
    }
    let mut text = String::new();
    for word in line {
        let Some(literal) = &word.literal else {
            return Err(undecided("parallel", word));
        };
        text.push_str(literal);
        text.push(' ');
    }
    // An argument is quoted for the shell before it takes its place.
    let text = if text.contains("{}") && !text.contains(['"', '\'', '\\']) {
        text.replace("{}", ARGUMENT)
    } else {
        text + ARGUMENT
    };
    if text.contains('{') {
        return Err("a line of `parallel` with replacements that are not known".to_owned());
    }
    out.inner.push(Inner::Line(text));
    Ok(())
}

/// Stands for an argument that is known only at run time.
const ARGUMENT: &str = "\"$argument\"";
