//! The roles jail and hands: builds the box, says hello, hands the handles over, raises the walls,
//! says ready, and from then on only carries out orders.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, IntoRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::ExitCode,
};

use protocol::{
    Exit, ROLE_HANDS,
    jail::{CONTAINED, JailSpec, MEETING_INSIDE, MEETING_SOCKET, MEETING_SPEC},
};
use worker_jail::{Outside, Role, Unfit, View};

use crate::{BUG, FAULT, Serve, UNFIT, spec};

/// Starts as `argument` says: born with its links and its spec, or in a container where it finds them.
pub(crate) fn run(serve: Serve, argument: &str) -> ExitCode {
    let born = if argument == CONTAINED {
        meet()
    } else {
        worker_jail::take_standard()
    };
    // Without its three descriptors it was started by a person; nobody hears more than the code.
    let Ok([link, agent, descriptor]) = born else {
        return ExitCode::from(BUG);
    };
    let spec: JailSpec = match spec::read(descriptor) {
        Ok(spec) => spec,
        Err(error) => {
            return unfit(
                link.as_fd(),
                &Unfit::new("read the spec", error.to_string()),
            );
        }
    };
    match worker_jail::build(&spec, &[link.as_fd(), agent.as_fd()]) {
        Ok(Role::Outside(outside)) => {
            // `build` has closed them here: hands alone holds the links, its end is their end.
            let _ = (link.into_raw_fd(), agent.into_raw_fd());
            wait(outside)
        }
        Ok(Role::PidOne(view)) => hands(view, &spec, link, agent, serve),
        Err(error) => unfit(link.as_fd(), &error),
    }
}

/// The same three descriptors in a container, whose engine passes none: the links by connecting, the
/// hands link first, and the spec from a file. What the engine put on 0 to 2 leads to its log.
fn meet() -> io::Result<[OwnedFd; 3]> {
    worker_jail::null_standard()?;
    let folder = Path::new(MEETING_INSIDE);
    let spec = File::open(folder.join(MEETING_SPEC))?;
    let socket = folder.join(MEETING_SOCKET);
    let (hands, agent) = (UnixStream::connect(&socket)?, UnixStream::connect(&socket)?);
    Ok([hands.into(), agent.into(), spec.into()])
}

/// Hands, from the finished view to its end.
fn hands(mut view: View, spec: &JailSpec, link: OwnedFd, agent: OwnedFd, serve: Serve) -> ExitCode {
    crate::call_it(ROLE_HANDS);
    let greeted = view
        .handles()
        .and_then(|handles| worker_hands::greet(link.as_fd(), spec.session.clone(), &handles));
    if greeted.is_err() {
        return ExitCode::from(FAULT);
    }
    let hands = match view.confine_hands(&[link.as_fd(), agent.as_fd()]) {
        Ok(hands) => hands,
        Err(error) => return unfit(link.as_fd(), &error),
    };
    if worker_hands::say(link.as_fd(), &hands.standing().report()).is_err() {
        return ExitCode::from(FAULT);
    }
    match serve(hands, link, agent, &spec.workspace) {
        Ok(()) => ExitCode::SUCCESS,
        // The supervisor sees the link close; there is nobody else to tell.
        Err(_) => ExitCode::from(FAULT),
    }
}

fn unfit(link: BorrowedFd<'_>, why: &Unfit) -> ExitCode {
    // If the link is gone, so is whoever would read why.
    let _ = worker_hands::say(link, &why.report());
    ExitCode::from(UNFIT)
}

/// Leaves as pid 1 left.
fn wait(outside: Outside) -> ExitCode {
    match outside.wait() {
        Ok(Exit {
            code: Some(code), ..
        }) => ExitCode::from(u8::try_from(code).unwrap_or(BUG)),
        Ok(Exit {
            signal: Some(signal),
            ..
        }) => ExitCode::from(u8::try_from(signal.saturating_add(128)).unwrap_or(BUG)),
        Ok(Exit {
            code: None,
            signal: None,
        })
        | Err(_) => ExitCode::from(BUG),
    }
}
