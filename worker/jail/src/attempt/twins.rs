//! Twins: the neighbour of each attempt, which must work, or a process that can do nothing at all
//! would hold every right.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr as UnixAddress, UnixListener, UnixStream},
        },
    },
};

use nix::{
    sys::{
        resource::{Resource, getrlimit},
        signal::kill,
    },
    unistd::Pid,
};

use super::{Ground, make_and_remove, own};
use crate::sys;

/// Listing the workspace.
pub(crate) fn lists_workspace(ground: &Ground<'_>) -> bool {
    File::open(&ground.plan.workspace).is_ok()
}

/// Making a file in the private /tmp.
pub(crate) fn writes_tmp(ground: &Ground<'_>) -> bool {
    make_and_remove(&own(&ground.plan.tmp, "twin")).is_ok()
}

/// Changing the mode of a file in the private /tmp.
pub(crate) fn changes_own_mode(ground: &Ground<'_>) -> bool {
    let path = own(&ground.plan.tmp, "mode");
    let tried = File::create_new(&path)
        .and_then(|_| fs::set_permissions(&path, fs::Permissions::from_mode(0o640)));
    fs::remove_file(&path).is_ok() && tried.is_ok()
}

/// Talking over a socket pair.
pub(crate) fn talks_over_a_pair(_: &Ground<'_>) -> bool {
    let tried = || -> io::Result<bool> {
        let (mut one, mut other) = UnixStream::pair()?;
        one.write_all(b"x")?;
        let mut byte = [0; 1];
        other.read_exact(&mut byte)?;
        Ok(byte == *b"x")
    };
    tried().unwrap_or(false)
}

/// Where no socket with a name can be made at all, a pair is what must work.
fn only_pairs(ground: &Ground<'_>) -> bool {
    let made = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
    let errno = made.err().and_then(|error| error.raw_os_error());
    errno == Some(libc::EPERM) && talks_over_a_pair(ground)
}

/// A Unix socket of its own, by path.
pub(crate) fn talks_by_path(ground: &Ground<'_>) -> bool {
    if only_pairs(ground) {
        return true;
    }
    let path = own(&ground.plan.tmp, "socket");
    let tried = UnixListener::bind(&path).and_then(|_listener| UnixStream::connect(&path));
    fs::remove_file(&path).is_ok() && tried.is_ok()
}

/// An abstract Unix socket of its own.
pub(crate) fn talks_abstract(ground: &Ground<'_>) -> bool {
    if only_pairs(ground) {
        return true;
    }
    let name = format!("provost-twin-{}", std::process::id());
    let tried = UnixAddress::from_abstract_name(name).and_then(|address| {
        let _listener = UnixListener::bind_addr(&address)?;
        UnixStream::connect_addr(&address)
    });
    tried.is_ok()
}

/// Signalling itself.
pub(crate) fn signals_itself(_: &Ground<'_>) -> bool {
    kill(Pid::this(), None).is_ok()
}

/// Seeing itself; where no process is seen at all, the machine.
pub(crate) fn sees_itself(_: &Ground<'_>) -> bool {
    let opens = |path: &str| File::open(path).is_ok();
    opens("/proc/self/status") || opens("/proc/version")
}

/// Reading its own limits.
pub(crate) fn reads_own_limits(_: &Ground<'_>) -> bool {
    getrlimit(Resource::RLIMIT_NOFILE).is_ok()
}
