//! The roles jail and hands: builds the box, says hello, hands the handle over, raises the walls,
//! says ready, and from then on only carries out orders.

use std::{
    os::fd::{AsFd as _, BorrowedFd, IntoRawFd as _, OwnedFd},
    process::ExitCode,
};

use protocol::{Exit, ROLE_HANDS, jail::JailSpec};
use worker_jail::{Outside, Role, Unfit, View};

use crate::{BUG, FAULT, Serve, UNFIT, spec};

pub(crate) fn run(serve: Serve) -> ExitCode {
    // Without its three descriptors it was started by a person; nobody hears more than the code.
    let Ok([link, agent, descriptor]) = worker_jail::take_standard() else {
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

/// Pid 1, from the finished view to its end.
fn hands(view: View, spec: &JailSpec, link: OwnedFd, agent: OwnedFd, serve: Serve) -> ExitCode {
    crate::call_it(ROLE_HANDS);
    let greeted = view
        .pidfd()
        .and_then(|pidfd| worker_hands::greet(link.as_fd(), spec.session.clone(), pidfd.as_fd()));
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
