//! A lying hands before *ready*: each lie ends the launch.

use std::process::{Child, Command, Stdio};

use protocol::{
    Hello, SessionId,
    jail::{JailLimits, Situation},
};
use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
    process::{PidfdFlags, pidfd_open},
};

use super::*;

fn spec() -> JailSpec {
    JailSpec {
        build: protocol::BUILD.to_owned(),
        session: SessionId::parse("s-1").expect("valid"),
        situation: Situation::Namespaces,
        identity: None,
        own_reach: false,
        view: Vec::new(),
        workspace: "/w".to_owned(),
        home: "/h".to_owned(),
        tmp: "/tmp".to_owned(),
        doors: protocol::jail::Doors::default(),
        limits: JailLimits {
            processes: 1,
            open_files: 1,
            file_size: 1,
        },
        agent_read: Vec::new(),
        ceiling: protocol::jail::Domain::default(),
        pretend_abi: None,
    }
}

/// A child of this process, ended when dropped.
struct Stand(Child);

impl Stand {
    fn start() -> Self {
        let child = Command::new("/bin/cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("cat runs"))
    }

    fn pidfd(&self) -> OwnedFd {
        let pid = rustix::process::Pid::from_child(&self.0);
        pidfd_open(pid, PidfdFlags::empty()).expect("alive")
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(link: &UnixStream, report: &Report, handles: &[std::os::fd::BorrowedFd<'_>]) {
    let bytes = protocol::frame::encode(report, bounds::FRAME).expect("fits");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(handles)));
    }
    let parts = [io::IoSlice::new(&bytes)];
    rustix::net::sendmsg(link, &parts, &mut control, SendFlags::empty()).expect("sent");
}

fn hello() -> Report {
    Report::Hello(Hello::new(ROLE_HANDS, spec().session))
}

fn handles() -> Report {
    Report::Handles {
        names: vec!["pidfd".to_owned()],
    }
}

fn ready() -> Report {
    Report::Ready {
        abi: 7,
        errata: 0,
        uid: 1,
        capabilities: "0".to_owned(),
        situation: Situation::Namespaces,
    }
}

#[test]
fn an_honest_greeting_gives_the_facts_and_the_handle() {
    let stand = Stand::start();
    let (ours, theirs) = UnixStream::pair().expect("pair");
    say(&theirs, &hello(), &[]);
    say(&theirs, &handles(), &[stand.pidfd().as_fd()]);
    say(&theirs, &ready(), &[]);
    let (facts, handles) = greet(&ours, &spec(), stand.0.id()).expect("stands");
    assert_eq!(
        (facts.abi, facts.uid, facts.situation),
        (7, 1, Situation::Namespaces)
    );
    let flags = rustix::io::fcntl_getfd(&handles.pidfd).expect("flags");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}

/// Plays `lies` and gives the fault's words.
fn fault(lies: impl FnOnce(&UnixStream, &Stand)) -> String {
    let stand = Stand::start();
    let (ours, theirs) = UnixStream::pair().expect("pair");
    lies(&theirs, &stand);
    match greet(&ours, &spec(), stand.0.id()) {
        Err(LaunchError::Fault(why)) => why,
        other => panic!("a fault, not {other:?}"),
    }
}

#[test]
fn every_lie_before_ready_is_a_fault() {
    let early = fault(|link, _| say(link, &ready(), &[]));
    assert!(early.contains("phase"), "{early}");
    fault(|link, _| {
        say(link, &hello(), &[]);
        say(link, &hello(), &[]);
    });
    fault(|link, _| say(link, &Report::AgentStarted, &[]));
    let no_handle = fault(|link, _| {
        say(link, &hello(), &[]);
        say(link, &ready(), &[]);
    });
    assert!(no_handle.contains("without its handle"), "{no_handle}");
    fault(|link, _| {
        say(link, &hello(), &[]);
        say(link, &handles(), &[]);
    });
    fault(|link, stand| {
        say(link, &hello(), &[]);
        let pidfd = stand.pidfd();
        say(link, &handles(), &[pidfd.as_fd(), pidfd.as_fd()]);
    });
    fault(|link, stand| {
        say(link, &hello(), &[]);
        let names = vec!["pidfd".to_owned(), "pty".to_owned()];
        say(link, &Report::Handles { names }, &[stand.pidfd().as_fd()]);
    });
    fault(|link, stand| {
        say(link, &hello(), &[]);
        say(link, &handles(), &[stand.pidfd().as_fd()]);
        say(link, &handles(), &[stand.pidfd().as_fd()]);
    });
    fault(|link, stand| {
        say(link, &hello(), &[]);
        say(link, &handles(), &[stand.pidfd().as_fd()]);
        // A descriptor that rides on *ready* itself.
        say(link, &ready(), &[stand.pidfd().as_fd()]);
    });
    fault(|link, stand| {
        say(link, &hello(), &[]);
        let pidfd = stand.pidfd();
        let all: Vec<_> = (0..=bounds::SETUP_HANDLES).map(|_| pidfd.as_fd()).collect();
        say(link, &handles(), &all);
    });
}

#[test]
fn a_handle_that_is_no_process_of_this_box_is_never_used_to_kill() {
    let regular = File::open("/dev/null").expect("opens");
    let why = fault(|link, _| {
        say(link, &hello(), &[]);
        say(link, &handles(), &[regular.as_fd()]);
    });
    assert!(why.contains("pid 1"), "{why}");
    // This very process: neither what was started nor its child.
    let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).expect("alive");
    fault(|link, _| {
        say(link, &hello(), &[]);
        say(link, &handles(), &[own.as_fd()]);
    });
}

#[test]
fn garbage_another_session_and_oversize_are_faults() {
    use std::io::Write as _;
    fault(|mut link, _| link.write_all(b"\0\0\0\x02{}").expect("sent"));
    fault(|mut link, _| link.write_all(&u32::MAX.to_be_bytes()).expect("sent"));
    fault(|mut link, _| {
        link.write_all(b"\0\0\0\x1d{\"hello\":{\"version\":1},\"x\":1}")
            .expect("sent");
    });
    let other = SessionId::parse("s-2").expect("valid");
    let why = fault(|link, _| say(link, &Report::Hello(Hello::new(ROLE_HANDS, other)), &[]));
    assert!(why.contains("another session"), "{why}");
    let why = fault(|link, _| {
        say(
            link,
            &Report::Hello(Hello {
                build: "0+0".into(),
                ..Hello::new(ROLE_HANDS, spec().session)
            }),
            &[],
        );
    });
    assert!(why.contains("one release"), "{why}");
}

#[test]
fn leaving_unfit_and_silence_are_told_apart() {
    let stand = Stand::start();
    let (ours, theirs) = UnixStream::pair().expect("pair");
    drop(theirs);
    assert!(matches!(
        greet(&ours, &spec(), stand.0.id()),
        Err(LaunchError::Gone { .. })
    ));
    let (ours, theirs) = UnixStream::pair().expect("pair");
    say(
        &theirs,
        &Report::Unfit {
            step: "mount proc".into(),
            message: "EPERM".into(),
        },
        &[],
    );
    let unfit = greet(&ours, &spec(), stand.0.id()).expect_err("unfit");
    assert_eq!(
        unfit.to_string(),
        "cannot build the jail: mount proc: EPERM"
    );
    let (ours, _theirs) = UnixStream::pair().expect("pair");
    let start = Instant::now();
    assert!(matches!(
        greet(&ours, &spec(), stand.0.id()),
        Err(LaunchError::Late)
    ));
    assert!(start.elapsed() >= bounds::GREETING && start.elapsed() < bounds::GREETING * 2);
}
