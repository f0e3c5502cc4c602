//! A process that hands started, as hands' poll loop sees it, and the notes that a warden writes.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use protocol::{Exit, Failure, FailureClass};

use crate::jail::exit_of;

/// What became of a [`Child`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The program runs: `exec` was reached behind all walls.
    Started,
    /// It has left and nothing below it is left; the last news.
    Ended {
        /// How the leader left.
        exit: Exit,
        /// Processes that were still there when the leader had left and its grace was over.
        left_running: u32,
    },
    /// Nothing was started (walls, tripwire, exec), or the warden itself is lost
    /// ([`FailureClass::Unknown`]); the last news.
    Failed(Failure),
}

/// The agent, a probe, or a command under its warden.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    told_start: bool,
    /// What is started, for messages.
    program: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Started by hands itself: its pidfd.
    Direct(OwnedFd),
    /// Under a warden: the pipe that ends it, and the pipe of its notes.
    Warden {
        control: Option<OwnedFd>,
        notes: File,
    },
}

impl Child {
    pub(crate) fn direct(pid: i32, pidfd: OwnedFd, program: &str) -> Self {
        Self {
            pid,
            told_start: false,
            program: program.to_owned(),
            kind: Kind::Direct(pidfd),
        }
    }

    pub(crate) fn warden(
        pid: i32,
        control: OwnedFd,
        notes: OwnedFd,
        program: &str,
    ) -> io::Result<Self> {
        fcntl(&notes, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let kind = Kind::Warden {
            control: Some(control),
            notes: notes.into(),
        };
        Ok(Self {
            pid,
            told_start: false,
            program: program.to_owned(),
            kind,
        })
    }

    /// Readable when [`Child::news`] has something to tell.
    #[must_use]
    pub fn watch(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Direct(pidfd) => pidfd.as_fd(),
            Kind::Warden { notes, .. } => notes.as_fd(),
        }
    }

    /// The process id inside: of the process itself, or of its warden.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The next news, if there is one; never waits. Call it until it gives `None`, once before the
    /// first poll too; after `Ended` or `Failed`, drop the child.
    pub fn news(&mut self) -> Option<News> {
        match &mut self.kind {
            Kind::Direct(_) if !self.told_start => {
                self.told_start = true;
                Some(News::Started)
            }
            Kind::Direct(pidfd) => {
                let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
                match waitid(Id::PIDFd(pidfd.as_fd()), flags) {
                    Ok(status) => exit_of(status).map(|exit| News::Ended {
                        exit,
                        left_running: 0,
                    }),
                    Err(Errno::EINTR) => None,
                    Err(errno) => Some(News::Failed(lost(&self.program, errno.desc()))),
                }
            }
            Kind::Warden { notes, .. } => match read_note(notes) {
                Ok(Some(Note::Started)) => Some(News::Started),
                Ok(Some(Note::Ended { exit, left_running })) => {
                    reap(self.pid);
                    Some(News::Ended { exit, left_running })
                }
                Ok(Some(Note::Failed { stage, errno })) => {
                    reap(self.pid);
                    Some(News::Failed(stage.failure(errno, &self.program)))
                }
                Ok(None) => {
                    reap(self.pid);
                    Some(News::Failed(lost(&self.program, "its warden died")))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(error) => Some(News::Failed(lost(&self.program, &error.to_string()))),
            },
        }
    }

    /// Ends it and everything below it; the news follow. Twice is as once.
    pub fn end(&mut self) {
        match &mut self.kind {
            // Not reaped before `news` told so: the number is still its own.
            Kind::Direct(_) => drop(kill(Pid::from_raw(self.pid), Signal::SIGKILL)),
            Kind::Warden { control, .. } => drop(control.take()),
        }
    }
}

/// Waits for a warden that has written its last note: it leaves in the next instruction.
fn reap(pid: i32) {
    let _ = waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED);
}

fn lost(program: &str, why: &str) -> Failure {
    Failure {
        class: FailureClass::Unknown,
        message: format!("`{program}` is lost: {why}"),
    }
}

/// Reaps processes that came to hands (pid 1) as orphans, never one of the `known` children: those
/// are left for their own news. Gives the number reaped.
pub fn reap_strangers(known: &[i32]) -> usize {
    let mut reaped = 0;
    // Bounded by the session's processes; what comes later is met at the next call.
    while reaped < 4_096 {
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let Ok(status) = waitid(Id::All, look) else {
            break;
        };
        let Some(pid) = status.pid() else { break };
        if known.contains(&pid.as_raw()) {
            break;
        }
        if waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG).is_err() {
            break;
        }
        reaped += 1;
    }
    reaped
}

macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $text:literal;)*) => {
        /// Where a start failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Stage { $($(#[$doc])* $variant,)* }

        impl Stage {
            const ALL: &[Self] = &[$(Self::$variant),*];

            fn number(self) -> u8 {
                match self { $(Self::$variant => $number,)* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

stages! {
    /// The warden's own set-up.
    Warden = 1, "the warden could not be set up";
    /// The fork of the command.
    Fork = 2, "no process could be made";
    /// Descriptors, session, signals.
    Descriptors = 3, "its descriptors could not be placed";
    /// Resource limits.
    Limits = 4, "its limits could not be set";
    /// The working directory.
    Folder = 5, "its working directory cannot be entered";
    /// The Landlock domain.
    Domain = 6, "its landlock domain could not be entered";
    /// The tripwire: the seccomp filter.
    TripwireFilter = 7, "the tripwire found the seccomp filter missing";
    /// The tripwire: the Landlock domain.
    TripwireDomain = 8, "the tripwire found the landlock domain missing";
    /// The tripwire: the network.
    TripwireNetwork = 9, "the tripwire found a way to the network";
    /// The tripwire: what must succeed.
    TripwireTwin = 10, "the tripwire could not open /dev/null";
    /// The exec.
    Exec = 11, "it could not be executed";
}

impl Stage {
    fn failure(self, errno: i32, program: &str) -> Failure {
        let errno = Errno::from_raw(errno);
        let class = match (self, errno) {
            (
                Self::TripwireFilter
                | Self::TripwireDomain
                | Self::TripwireNetwork
                | Self::TripwireTwin,
                _,
            ) => FailureClass::Tripwire,
            (_, Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE) => {
                FailureClass::Exhausted
            }
            (Self::Exec | Self::Folder, Errno::ENOENT) => FailureClass::NotFound,
            (Self::Exec | Self::Folder, Errno::EACCES | Errno::EPERM) => FailureClass::Denied,
            (Self::Exec, Errno::E2BIG) => FailureClass::Limit,
            (Self::Exec, Errno::ENOEXEC) | (Self::Folder, Errno::ENOTDIR) => {
                FailureClass::WrongKind
            }
            _ => FailureClass::Other,
        };
        let why = if errno == Errno::UnknownErrno {
            "no errno"
        } else {
            errno.desc()
        };
        Failure {
            class,
            message: format!("`{program}`: {}: {why}", self.text()),
        }
    }
}

/// What a warden tells hands, in one atomic write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// The command runs.
    Started,
    /// All is over.
    Ended {
        /// The leader's exit.
        exit: Exit,
        /// Left after the grace.
        left_running: u32,
    },
    /// Nothing runs.
    Failed {
        /// Where it failed.
        stage: Stage,
        /// The errno, 0 if none.
        errno: i32,
    },
}

const NOTE: usize = 16;

impl Note {
    fn encode(self) -> [u8; NOTE] {
        let (tag, stage, has, code, signal, left) = match self {
            Self::Started => (1, 0, 0, 0, 0, 0),
            Self::Ended { exit, left_running } => {
                let has = u8::from(exit.code.is_some()) | u8::from(exit.signal.is_some()) << 1;
                let (code, signal) = (exit.code.unwrap_or(0), exit.signal.unwrap_or(0));
                (2, 0, has, code, signal, left_running)
            }
            Self::Failed { stage, errno } => (3, stage.number(), 0, errno, 0, 0),
        };
        let ([a, b, c, d], [e, f, g, h]) = (code.to_le_bytes(), signal.to_le_bytes());
        let [i, j, k, l] = left.to_le_bytes();
        [tag, stage, has, 0, a, b, c, d, e, f, g, h, i, j, k, l]
    }

    fn decode(bytes: [u8; NOTE]) -> Option<Self> {
        let [tag, stage, has, _, a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let code = i32::from_le_bytes([a, b, c, d]);
        let signal = i32::from_le_bytes([e, f, g, h]);
        let left_running = u32::from_le_bytes([i, j, k, l]);
        match tag {
            1 => Some(Self::Started),
            2 => {
                let exit = Exit {
                    code: (has & 1 != 0).then_some(code),
                    signal: (has & 2 != 0).then_some(signal),
                };
                Some(Self::Ended { exit, left_running })
            }
            3 => {
                let stage = Stage::ALL.iter().find(|known| known.number() == stage)?;
                Some(Self::Failed {
                    stage: *stage,
                    errno: code,
                })
            }
            _ => None,
        }
    }

    /// Writes it; a reader that is gone is no matter.
    pub(crate) fn send(self, to: &OwnedFd) {
        if let Ok(copy) = to.try_clone() {
            let _ = File::from(copy).write_all(&self.encode());
        }
    }
}

/// The next note; `None` at the end of the pipe.
pub(crate) fn read_note(from: &mut File) -> io::Result<Option<Note>> {
    let mut bytes = [0; NOTE];
    match from.read(&mut bytes)? {
        0 => Ok(None),
        NOTE => Note::decode(bytes)
            .map(Some)
            .ok_or_else(|| io::Error::other("not a note")),
        _ => Err(io::Error::other("a cut note")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were_sent() {
        let ended = |code, signal, left_running| Note::Ended {
            exit: Exit { code, signal },
            left_running,
        };
        let mut notes = vec![
            Note::Started,
            ended(Some(0), None, 3),
            ended(None, Some(9), 0),
        ];
        notes.push(ended(Some(-1), None, u32::MAX));
        notes.extend(
            Stage::ALL
                .iter()
                .map(|&stage| Note::Failed { stage, errno: 13 }),
        );
        for note in notes {
            assert_eq!(Note::decode(note.encode()), Some(note));
        }
        assert_eq!(Note::decode([9; NOTE]), None);
    }

    #[test]
    fn a_failed_start_says_what_and_of_which_kind() {
        let failure = Stage::Exec.failure(libc::ENOENT, "/bin/nothing");
        assert_eq!(failure.class, FailureClass::NotFound);
        assert!(
            failure.message.contains("/bin/nothing"),
            "{}",
            failure.message
        );
        assert_eq!(
            Stage::TripwireNetwork.failure(0, "x").class,
            FailureClass::Tripwire
        );
        assert_eq!(
            Stage::Fork.failure(libc::EAGAIN, "x").class,
            FailureClass::Exhausted
        );
    }
}
