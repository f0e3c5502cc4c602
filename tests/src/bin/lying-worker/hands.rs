//! Lying hands: honest until a command of the session makes the moment's file, then it says what no
//! hands may say, beside the answers that it owes.

use std::{
    io::{self, IoSlice, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::{Duration, Instant},
};

use protocol::{
    CommandId, Digest, Exit, Failure, FailureClass, Hello, PutDone, ROLE_HANDS, Report, Resolved,
    SessionId, jail::Situation,
};
use provost_tests::lies::MOMENT;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use worker_hands::ServeError;
use worker_jail::Hands;

use crate::{
    chosen, folder, unknown,
    wire::{frame_of, framed},
};

/// How long the moment may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// As the product's, with a liar beside it.
pub(crate) fn serve(
    hands: Hands,
    link: OwnedFd,
    agent: OwnedFd,
    workspace: &str,
) -> Result<(), ServeError> {
    let lie = chosen(&folder(workspace)).map(|chosen| chosen.lie);
    let lie = lie.and_then(|lie| Some(lie.strip_prefix("hands_")?.to_owned()));
    if let (Some(lie), Ok(copy)) = (lie, link.try_clone()) {
        let moment = Path::new(workspace).join(MOMENT);
        std::thread::spawn(move || {
            let until = Instant::now() + PATIENCE;
            while !moment.exists() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            // A lie without a name leaves a session that ends well, which the test does not expect.
            let _ = tell(UnixStream::from(copy), &lie);
        });
    }
    (provost_worker::Parts::OURS.serve)(hands, link, agent, workspace)
}

fn command(word: &str) -> io::Result<CommandId> {
    CommandId::parse(word).map_err(io::Error::other)
}

fn failed(order: Option<u64>) -> Report {
    Report::Failed {
        order,
        command: None,
        failure: Failure {
            class: FailureClass::Other,
            message: "as it were".to_owned(),
        },
    }
}

const ENDED: Exit = Exit {
    code: Some(0),
    signal: None,
};

fn tell(mut link: UnixStream, lie: &str) -> io::Result<()> {
    let report = match lie {
        "an_exit_of_nothing" => Report::Exited {
            command: command("c99")?,
            exit: ENDED,
            left_running: 0,
        },
        "a_start_of_nothing" => Report::Spawned {
            command: command("c99")?,
        },
        "a_start_twice" => Report::Spawned {
            command: command("c1")?,
        },
        "a_put_of_nothing" => Report::PutDone {
            order: 4_242,
            done: PutDone {
                created: true,
                digest: Digest::of(b""),
                before: None,
            },
        },
        "a_resolve_of_nothing" => Report::Resolved {
            order: 4_242,
            found: Resolved::Absent,
        },
        "a_failure_of_nothing" => failed(Some(4_242)),
        "a_failed_agent" => failed(None),
        "a_second_hello" => {
            let session = SessionId::parse("s-another").map_err(io::Error::other)?;
            Report::Hello(Hello::new(ROLE_HANDS, session))
        }
        "a_second_ready" => Report::Ready {
            abi: 99,
            errata: 0,
            uid: 0,
            capabilities: "000001ffffffffff".to_owned(),
            situation: Situation::Namespaces,
        },
        "late_handles" => Report::Handles {
            names: vec!["pidfd".to_owned()],
        },
        "late_unfit" => Report::Unfit {
            step: "x".to_owned(),
            message: "y".to_owned(),
        },
        "the_agents_end" => Report::AgentGone(ENDED),
        "an_oversize_frame" => return link.write_all(&0x8000_0000_u32.to_be_bytes()),
        "garbage" => return link.write_all(&framed(&[0xff; 64])),
        "an_unknown_tag" => return link.write_all(&framed(br#"{"grant_root":{}}"#)),
        "deep_nesting" => {
            let deep = [vec![b'{'; 100], vec![b'}'; 100]].concat();
            return link.write_all(&framed(&deep));
        }
        "a_descriptor" => return pass_descriptor(&mut link),
        "a_flood" => {
            let many = frame_of(&Report::AgentStarted)?.repeat(1_000);
            for _ in 0..500 {
                link.write_all(&many)?;
            }
            return Ok(());
        }
        _ => return Err(unknown(lie)),
    };
    link.write_all(&frame_of(&report)?)
}

/// Sends the write end of a pipe with a harmless report. The kernel must have closed it when the
/// report is read; then, and only then, the pipe ends, and what is said next names order 4242.
fn pass_descriptor(link: &mut UnixStream) -> io::Result<()> {
    let (mut read, write) = io::pipe()?;
    let bytes = frame_of(&Report::AgentStarted)?;
    {
        let handles = [write.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&handles));
        let parts = [IoSlice::new(&bytes)];
        rustix::net::sendmsg(&*link, &parts, &mut control, SendFlags::NOSIGNAL)?;
    }
    drop(write);
    // Without an end this waits until the session's own end, and nothing is said.
    let got = read.read(&mut [0; 1])?;
    let order = if got == 0 { 4_242 } else { 1 };
    link.write_all(&frame_of(&failed(Some(order)))?)
}
