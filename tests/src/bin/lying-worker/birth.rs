//! The lies of a jail that is not yet one: in place of building the box, it greets falsely.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use protocol::{
    Hello, ROLE_AGENT, ROLE_HANDS, Report,
    jail::{JailSpec, Mount, Situation},
};
use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
    process::{Pid, PidfdFlags, getpid, getppid, pidfd_open},
};

use crate::{
    chosen, unknown,
    wire::{frame_of, framed},
};

/// Lies if the session's tree asks for it; `None` goes on as the honest role.
pub(crate) fn run() -> Option<ExitCode> {
    // By another opening of it: the honest role reads the spec from its beginning.
    let spec: JailSpec = serde_json::from_reader(File::open("/proc/self/fd/2").ok()?).ok()?;
    let tree = spec.view.iter().find_map(|mount| match mount {
        Mount::Writable { source, target } if *target == spec.workspace => {
            Some(PathBuf::from(source))
        }
        // What a session starts from lies below.
        Mount::Overlay { lower, target, .. } if *target == spec.workspace => {
            Some(PathBuf::from(lower))
        }
        _ => None,
    })?;
    let lie = chosen(&[tree])?.lie;
    let lie = lie.strip_prefix("birth_")?;
    let [link, ..] = worker_jail::take_standard().ok()?;
    match tell(UnixStream::from(link), &spec, lie) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::from(99)),
    }
}

fn tell(mut link: UnixStream, spec: &JailSpec, lie: &str) -> io::Result<()> {
    let mut hello = Hello::new(ROLE_HANDS, spec.session.clone());
    let ready = Report::Ready {
        abi: 7,
        errata: 0,
        uid: 0,
        capabilities: "0000000000000000".to_owned(),
        situation: Situation::Namespaces,
    };
    let names = |names: &[&str]| Report::Handles {
        names: names.iter().map(|&name| name.to_owned()).collect(),
    };
    match lie {
        "never_greets" => std::thread::sleep(Duration::from_secs(30)),
        "closes_at_once" => return Ok(()),
        "garbage" => link.write_all(&framed(&[0xff; 16]))?,
        "an_oversize_frame" => link.write_all(&0x8000_0000_u32.to_be_bytes())?,
        "ready_first" => link.write_all(&frame_of(&ready)?)?,
        "of_another_build" => {
            hello.build = "0.0.0+0".to_owned();
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
        }
        "in_another_role" => {
            hello.role = ROLE_AGENT.to_owned();
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
        }
        "ready_without_a_handle" => {
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
            link.write_all(&frame_of(&ready)?)?;
        }
        "the_supervisors_own_pidfd" => {
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
            hand_over(&link, &names(&["pidfd"]), &[pidfd(getppid())?.as_fd()])?;
            link.write_all(&frame_of(&ready)?)?;
        }
        "a_handle_that_is_no_pidfd" => {
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
            let (read, _write) = io::pipe()?;
            hand_over(&link, &names(&["pidfd"]), &[read.as_fd()])?;
            link.write_all(&frame_of(&ready)?)?;
        }
        "two_handles" => {
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
            let own = pidfd(Some(getpid()))?;
            let (read, _write) = io::pipe()?;
            let both = [own.as_fd(), read.as_fd()];
            hand_over(&link, &names(&["pidfd", "more"]), &both)?;
            link.write_all(&frame_of(&ready)?)?;
        }
        // A box without walls that says it stands: only the probes can tell.
        "no_walls" => {
            link.write_all(&frame_of(&Report::Hello(hello))?)?;
            let own = pidfd(Some(getpid()))?;
            hand_over(&link, &names(&["pidfd"]), &[own.as_fd()])?;
            link.write_all(&frame_of(&ready)?)?;
        }
        _ => return Err(unknown(lie)),
    }
    // Long enough for the supervisor's answer; it kills.
    std::thread::sleep(Duration::from_secs(30));
    Ok(())
}

fn pidfd(pid: Option<Pid>) -> io::Result<OwnedFd> {
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn hand_over(link: &UnixStream, report: &Report, handles: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = frame_of(report)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(handles));
    let parts = [IoSlice::new(&bytes)];
    rustix::net::sendmsg(link, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
