//! Container clients: the command that runs inside the container.

use super::{
    Unwrapped,
    options::{Doubt, Flags, literal_word, operand},
};
use crate::shell::Word;

const GLOBAL: Flags = Flags {
    none: "D",
    value: "Hlc",
    attached: "",
    long: "debug tls tlsverify version help",
    long_value: "host log-level context config tlscacert tlscert tlskey",
};

const RUN: Flags = Flags {
    none: "dditPq",
    value: "aceuvwplmh",
    attached: "",
    long: "detach init interactive no-healthcheck oom-kill-disable privileged publish-all \
            quiet read-only rm sig-proxy tty replace",
    long_value: "add-host annotation attach cap-add cap-drop cgroup-parent cgroupns cidfile \
            cpu-shares cpus cpuset-cpus device dns entrypoint env env-file expose gpus \
            group-add hostname ip ipc label link log-driver log-opt memory memory-swap mount \
            name net network network-alias pid pids-limit platform publish pull restart \
            runtime security-opt shm-size stop-signal stop-timeout storage-opt sysctl tmpfs \
            ulimit user userns uts volume volumes-from workdir detach-keys index",
};

/// `docker run|exec [options] IMAGE COMMAND…`, also as `docker container …` and `docker compose …`.
pub(super) fn docker(program: &str, args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let found = GLOBAL.leading(args, program)?;
    let mut at = found.rest;
    let mut verb = operand(args, at, program)?;
    if matches!(verb.as_deref(), Some("container" | "compose")) {
        at += 1;
        verb = operand(args, at, program)?;
        if verb.as_deref().is_some_and(|text| text.starts_with('-')) {
            return Err(format!("options of `{program} compose` are not known"));
        }
    }
    match verb.as_deref() {
        Some("run" | "exec" | "create") => {}
        _ => return Ok(()),
    }
    let rest = args.get(at + 1..).unwrap_or_default();
    let found = RUN.leading(rest, program)?;
    // The image or container may be named at run time as long as it is one word.
    match rest.get(found.rest) {
        None => return Ok(()),
        Some(image) if crate::shell::word::may_split(image) => {
            return Err(super::options::undecided(program, image));
        }
        Some(_) => {}
    }
    let command = rest.get(found.rest + 1..).unwrap_or_default();
    match found.value(&["entrypoint"]) {
        Some(entry) => match entry.literal.as_deref() {
            Some(text) => {
                let mut words = vec![literal_word(text)];
                words.extend_from_slice(command);
                out.argv(&words);
            }
            None => return Err(super::options::undecided(program, entry)),
        },
        None => out.argv(command),
    }
    Ok(())
}

/// `kubectl exec … -- COMMAND…`.
pub(super) fn kubectl(args: &[Word], out: &mut Unwrapped) -> Result<(), Doubt> {
    let verb = |word: &Word| matches!(word.literal.as_deref(), Some("exec" | "debug" | "run"));
    if !args.iter().any(verb) {
        return Ok(());
    }
    let dashes = args
        .iter()
        .position(|word| word.literal.as_deref() == Some("--"));
    match dashes {
        Some(at) => {
            out.argv(args.get(at + 1..).unwrap_or_default());
            Ok(())
        }
        None => Err("`kubectl` runs a command that does not stand behind `--`".to_owned()),
    }
}
