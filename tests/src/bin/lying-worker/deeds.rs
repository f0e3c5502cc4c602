//! A taken-over agent that does not ask: it tries the effect itself, behind its own walls.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    mem::MaybeUninit,
    os::fd::AsFd as _,
    path::Path,
};

use protocol::jail::ProbePlan;
use provost_tests::lies::OWNED;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::{
    agent::{greet, transition, turn_ended},
    unknown,
    wire::Wire,
};

/// Tries one deed; whoever survives it ends the turn with what the kernel answered.
pub(crate) fn run(wire: &mut Wire, deed: &str, plan: &ProbePlan) -> io::Result<()> {
    greet(wire)?;
    // In the record: it came to the deed, and what is missing after it was not said any more.
    wire.say(&transition("trying"))?;
    let answer = match attempt(wire, deed, plan)? {
        Ok(()) => "succeeded".to_owned(),
        Err(error) => error
            .raw_os_error()
            .map_or_else(|| error.to_string(), |errno| format!("errno {errno}")),
    };
    wire.say(&turn_ended(&format!("{deed}: {answer}")))
}

/// The outer error is a mistake of the test, the inner one the kernel's answer.
fn attempt(wire: &Wire, deed: &str, plan: &ProbePlan) -> io::Result<io::Result<()>> {
    let workspace = Path::new(&plan.workspace);
    Ok(match deed {
        "write" => File::create(workspace.join(OWNED)).and_then(|mut file| file.write_all(b"x")),
        "write_tmp" => File::create("/tmp/owned").map(drop),
        "truncate" => File::options()
            .write(true)
            .truncate(true)
            .open(workspace.join("readme"))
            .map(drop),
        // As a mapping needs it that would write to the file.
        "open_for_both" => File::options()
            .read(true)
            .write(true)
            .open(workspace.join("readme"))
            .map(drop),
        "make_folder" => std::fs::create_dir(workspace.join(OWNED)),
        "rename" => std::fs::rename(workspace.join("readme"), workspace.join(OWNED)),
        "remove" => std::fs::remove_file(workspace.join("readme")),
        "link" => std::fs::hard_link(workspace.join("readme"), workspace.join(OWNED)),
        "symlink" => std::os::unix::fs::symlink("/etc", workspace.join(OWNED)),
        "execute" => {
            let none: [&std::ffi::CStr; 0] = [];
            let Err(errno) = nix::unistd::execve(c"/bin/true", &[c"true"], &none);
            Err(errno.into())
        }
        "thread" => std::thread::Builder::new().spawn(|| {}).map(drop),
        "pair" => std::os::unix::net::UnixStream::pair().map(drop),
        "listen" => std::os::unix::net::UnixListener::bind(workspace.join(OWNED)).map(drop),
        "signal_parent" => {
            let parent = nix::unistd::getppid();
            nix::sys::signal::kill(parent, nix::sys::signal::Signal::SIGKILL).map_err(Into::into)
        }
        "pass_descriptor" => pass_descriptor(wire),
        _ => {
            let deed = match deed.strip_prefix("call_") {
                Some(call) => format!("call.{call}"),
                None => deed.replace('_', "-"),
            };
            let outcome = worker_jail::attack::run(&deed, plan, 1).ok_or_else(|| unknown(&deed))?;
            if outcome.refused {
                Err(io::Error::other(outcome.answer))
            } else {
                Ok(())
            }
        }
    })
}

/// Sends the workspace's folder up the link.
fn pass_descriptor(wire: &Wire) -> io::Result<()> {
    let folder = File::open("/")?;
    let handles = [folder.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&handles));
    let flags = SendFlags::NOSIGNAL;
    rustix::net::sendmsg(wire.link(), &[IoSlice::new(b"\0")], &mut control, flags)?;
    Ok(())
}
