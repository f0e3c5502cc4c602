//! First thing in the process: no core dumps, not dumpable, keys out of the environment.
//!
//! Keys that came by environment variables are read once; then `provost` executes itself anew without
//! them and hands them over in a sealed memory file, so that nothing that reads the environment of the
//! running supervisor (or of anything it starts) finds a key.

use std::{
    collections::BTreeMap,
    io::{Read as _, Seek as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    },
    process::Command,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, SealFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        memfd::{MFdFlags, memfd_create},
        resource::{Resource, setrlimit},
    },
};

use crate::exit::{self, Failure};

/// Name of the variable that carries the number of the sealed memory file.
const HANDOVER: &str = "PROVOST_KEYS_FD";
/// Names descriptors that hold keys: `PROVIDER=NUMBER`, with commas between.
const GIVEN: &str = "PROVOST_KEY_FDS";
/// More than any set of keys needs.
const MAX: u64 = 256 * 1024;
/// How long whoever hands a key over by a pipe may take.
const GIVEN_TIME: Duration = Duration::from_secs(5);

/// Keys by the name of the variable that they came in; of those that came by descriptor, `keys/PROVIDER`.
#[derive(Default)]
pub(crate) struct Keys(BTreeMap<String, String>);

impl Keys {
    /// A variable as it was at start: a key that was taken out of the environment, or what is there.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let taken = self.0.get(name).cloned();
        taken.or_else(|| std::env::var(name).ok())
    }

    /// The key that was handed over by descriptor for a provider.
    pub(crate) fn handed(&self, provider: &str) -> Option<String> {
        self.0.get(&format!("keys/{provider}")).cloned()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        for key in self.0.values_mut() {
            zeroize::Zeroize::zeroize(key);
        }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// Hardens the process and gives the keys that came by environment.
pub(crate) fn harden() -> Result<Keys, Failure> {
    let bug = |what: &str, error: &dyn std::fmt::Display| {
        Failure::new(
            exit::REFUSED_AT_START,
            format!("cannot harden the process: {what}: {error}"),
        )
    };
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|e| bug("core dumps off", &e))?;
    nix::sys::prctl::set_dumpable(false).map_err(|e| bug("not dumpable", &e))?;
    if let Some(handle) = std::env::var_os(HANDOVER) {
        let number = handle
            .to_str()
            .and_then(|text| text.parse::<i32>().ok())
            .filter(|n| *n > 2);
        let number = number.ok_or_else(|| bug(HANDOVER, &"not a descriptor"))?;
        let mut text = String::new();
        let path = format!("/proc/self/fd/{number}");
        let file = std::fs::File::open(path).map_err(|e| bug("open the handed-over keys", &e))?;
        file.take(MAX)
            .read_to_string(&mut text)
            .map_err(|e| bug("read the keys", &e))?;
        nix::unistd::close(number).map_err(|e| bug("close the keys", &e))?;
        let keys = serde_json::from_str(&text).map_err(|e| bug("decode the keys", &e))?;
        return Ok(Keys(keys));
    }
    let mut found: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_key(name))
        .collect();
    if let Some(list) = std::env::var_os(GIVEN) {
        let list = list.into_string();
        let list = list.map_err(|_| given_failure("it is no text"))?;
        given(&list, &mut found)?;
    }
    if found.is_empty() {
        return Ok(Keys::default());
    }
    Err(hand_over(&found)
        .err()
        .unwrap_or_else(|| bug("execute anew", &"returned")))
}

fn given_failure(why: &str) -> Failure {
    Failure::new(exit::CONFIG, format!("{GIVEN}: {why}"))
        .help("for example PROVOST_KEY_FDS=anthropic=3 with `3< FILE` behind the command")
}

/// Reads and closes the descriptors of a list.
fn given(list: &str, found: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let pair = item.split_once('=').and_then(|(provider, number)| {
            let number = number.parse::<i32>().ok().filter(|number| *number > 2)?;
            (!provider.is_empty()).then_some((provider, number))
        });
        let (provider, number) = pair.ok_or_else(|| given_failure("not PROVIDER=NUMBER"))?;
        let key = drain(number).map_err(|error| {
            given_failure(&format!(
                "cannot read descriptor {number} for {provider}: {error}"
            ))
        })?;
        nix::unistd::close(number).map_err(|error| {
            given_failure(&format!("cannot close descriptor {number}: {error}"))
        })?;
        found.insert(format!("keys/{provider}"), key);
    }
    Ok(())
}

/// What a descriptor holds, to its end.
fn drain(number: i32) -> std::io::Result<String> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(format!("/proc/self/fd/{number}"))?;
    let began = Instant::now();
    let mut bytes = Vec::with_capacity(4_096);
    let mut file = file.take(MAX);
    loop {
        match file.read_to_end(&mut bytes) {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let left = GIVEN_TIME.saturating_sub(began.elapsed());
                let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
                let mut polled = [PollFd::new(file.get_ref().as_fd(), PollFlags::POLLIN)];
                if poll(&mut polled, wait)? == 0 {
                    return Err(std::io::Error::other("nobody wrote to it within 5 s"));
                }
            }
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is no text"))
}

/// Whether a variable holds a key: the usual endings, so that no list of providers can miss one.
fn is_key(name: &str) -> bool {
    let ends = [
        "_KEY",
        "_TOKEN",
        "_SECRET",
        "_PASSWORD",
        "_PASSPHRASE",
        "_TOKEN_BEDROCK",
    ];
    // What a collector wants to see of us is a key as often as not.
    let headers = name.starts_with("OTEL_EXPORTER_OTLP_") && name.ends_with("HEADERS");
    headers || ends.iter().any(|end| name.ends_with(end))
}

/// Executes this program anew without the keys in its environment. Returns only on failure.
fn hand_over(found: &BTreeMap<String, String>) -> Result<std::convert::Infallible, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(
            exit::REFUSED_AT_START,
            format!("cannot take keys out of the environment: {error}"),
        )
        .help("put the key into a file of mode 0600 below the configuration folder's keys/")
    };
    let handle =
        memfd_create(c"provost-keys", MFdFlags::MFD_ALLOW_SEALING).map_err(|e| failed(&e))?;
    let mut file = std::fs::File::from(handle);
    let text = serde_json::to_vec(found).map_err(|e| failed(&e))?;
    file.write_all(&text)
        .and_then(|()| file.rewind())
        .map_err(|e| failed(&e))?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(|e| failed(&e))?;
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|e| failed(&e))?;
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1));
    for name in found.keys() {
        command.env_remove(name);
    }
    command.env_remove(GIVEN);
    command.env(HANDOVER, file.as_raw_fd().to_string());
    Err(failed(&command.exec()))
}

#[cfg(test)]
mod tests {
    use super::is_key;

    #[test]
    fn variables_that_hold_keys_are_known_by_their_ending() {
        for name in [
            "AWS_BEARER_TOKEN_BEDROCK",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "AZURE_CLIENT_SECRET",
            "PROVOST_PASSPHRASE",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "NEW_PROVIDER_API_KEY",
        ] {
            assert!(is_key(name), "{name}");
        }
        for name in [
            "HOME",
            "PATH",
            "PROVOST_STATE_DIR",
            "KEYBOARD",
            "API_KEY_FILE",
        ] {
            assert!(!is_key(name), "{name}");
        }
    }
}
