//! The supervisor's end of an operator's socket.

use std::{
    fs::{File, Permissions},
    io,
    os::unix::{fs::PermissionsExt as _, net::UnixListener as Bound},
    path::PathBuf,
    sync::Arc,
};

use policies::Mode;
use protocol::{SessionId, bounds, call::Outcome, frame};
use supervisor_core::{By, EffectOutcome, Message, QuestionAnswer, Scope};
use supervisor_record::Places;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Board, FRAME, UNBORN, folder, fresh, short,
    words::{Ask, Said, Tell},
};
use crate::session::Inbox;

/// A session's open socket; dropping it removes the socket and ends its connections' task.
#[derive(Debug)]
pub(crate) struct Operator {
    path: PathBuf,
    task: JoinHandle<()>,
    /// Keeps the folder's short name alive.
    _folder: File,
}

impl Operator {
    /// Opens the socket of a session, on the thread of its local tasks.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn open(
        places: &Places,
        session: &SessionId,
        board: Board,
        inbox: Inbox,
    ) -> io::Result<Self> {
        let (path, handle) = folder(places)?;
        let random = getrandom::u32().map_err(|error| io::Error::other(error.to_string()))?;
        let name = fresh(session, random);
        // A listing takes a socket that refuses it for one that a death left, and between bind and
        // listen every socket does: it gets its name when it listens and has its mode.
        let unborn = short(&handle, &format!("{name}{UNBORN}"));
        let bound = Bound::bind(&unborn)?;
        std::fs::set_permissions(&unborn, Permissions::from_mode(0o600))?;
        std::fs::rename(&unborn, short(&handle, &name))?;
        bound.set_nonblocking(true)?;
        let listener = UnixListener::from_std(bound)?;
        let session = session.to_string();
        let task = tokio::task::spawn_local(accept(listener, session, board, inbox));
        Ok(Self {
            path: path.join(name),
            task,
            _folder: handle,
        })
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, session: String, board: Board, inbox: Inbox) {
    let places = Arc::new(Semaphore::new(bounds::OPERATORS));
    loop {
        // A refused accept (no descriptor left) is tried again when the next one comes.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(bounds::PROMPT_STANDS).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (session, board, inbox) = (session.clone(), board.clone(), inbox.clone());
        tokio::task::spawn_local(async move {
            // A peer that hangs, lies or leaves has only its own connection.
            let _ = converse(stream, &session, &board, &inbox).await;
            drop(place);
        });
    }
}

async fn converse(
    mut stream: UnixStream,
    session: &str,
    board: &Board,
    inbox: &Inbox,
) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer != nix::unistd::geteuid().as_raw() && peer != 0 {
        return Ok(());
    }
    let mut decoder = frame::Decoder::new(FRAME);
    let mut chunk = vec![0; 16 * 1024];
    // One deadline for a whole request: a peer that speaks a byte at a time holds its place no longer.
    let mut deadline = Instant::now() + bounds::OPERATOR_IDLE;
    loop {
        let asked = match decoder.next_message::<Ask>() {
            Ok(Some(asked)) => asked,
            Ok(None) => {
                let got = timeout_at(deadline, stream.read(&mut chunk)).await??;
                if got == 0 {
                    return Ok(());
                }
                decoder.push(chunk.get(..got).unwrap_or_default());
                continue;
            }
            Err(fault) => {
                let why = fault.to_string();
                return say(&mut stream, &Tell::Refused { why }).await;
            }
        };
        let told = match asked {
            Ask::List {} => Tell::Open {
                v: 1,
                session: session.to_owned(),
                questions: board.all(),
            },
            Ask::Mode { to: None, .. } => standing(board),
            Ask::Mode {
                to: Some(to),
                raise,
            } => match change(board, inbox, to, raise, peer) {
                Ok(()) => Tell::Taken {},
                Err(why) => Tell::Refused { why },
            },
            Ask::Answer {
                question,
                nonce,
                answer,
            } => match take(board, inbox, question, &nonce, answer) {
                Ok(()) => Tell::Taken {},
                Err(why) => Tell::Refused { why },
            },
        };
        say(&mut stream, &told).await?;
        deadline = Instant::now() + bounds::OPERATOR_IDLE;
    }
}

fn standing(board: &Board) -> Tell {
    let standing = board.standing();
    Tell::Mode {
        mode: standing.mode,
        planning: standing.planning,
    }
}

/// Passes a change of the mode on. The session decides; here it is told at once what it will not do.
fn change(board: &Board, inbox: &Inbox, to: Mode, raise: bool, uid: u32) -> Result<(), String> {
    let now = board.standing();
    if now.mode.is_raised_by(to) && !raise {
        return Err(format!(
            "from {} to {} is a raise: {}",
            now.mode.as_str(),
            to.as_str(),
            to.describe()
        ));
    }
    if !to.at_most(now.ceiling) {
        return Err(format!(
            "the organisation's or the workspace's policy bounds the mode to {}",
            now.ceiling.as_str()
        ));
    }
    let by = By::Person { uid };
    inbox
        .send(Message::Mode { to, by })
        .map_err(|_| "the session is ending".to_owned())
}

async fn say(stream: &mut UnixStream, told: &Tell) -> io::Result<()> {
    let bytes = frame::encode(told, FRAME).map_err(io::Error::other)?;
    timeout(bounds::OPERATOR_IDLE, stream.write_all(&bytes)).await?
}

/// Passes an answer on. The session checks number and nonce once more; here they decide what the
/// operator is told.
fn take(
    board: &Board,
    inbox: &Inbox,
    question: u64,
    nonce: &str,
    answer: Said,
) -> Result<(), String> {
    let (shown, words) = board.find(question, nonce).ok_or(
        "no open question has this number and nonce: it was answered, withdrawn, or its time is over",
    )?;
    let message = match (words, answer) {
        (Some(call), Said::Words { text }) => Message::Effect(EffectOutcome::Call {
            call,
            outcome: Box::new(Outcome::Answer { text }),
            before: None,
            spool: None,
        }),
        (Some(_), _) => {
            return Err("this is the agent's own question: answer it in words".to_owned());
        }
        (None, Said::Words { .. }) => {
            return Err("this is an approval: answer once, turn, session or deny".to_owned());
        }
        (None, answer) => {
            let answer = match answer {
                Said::Once {} => QuestionAnswer::Allow(Scope::Once),
                Said::Turn {} | Said::Session {} if shown.once_only => {
                    return Err("only `once` is on offer: the safety check asks".to_owned());
                }
                Said::Turn {} => QuestionAnswer::Allow(Scope::Turn),
                Said::Session {} => QuestionAnswer::Allow(Scope::Session),
                Said::Instead { input } => QuestionAnswer::Instead(input),
                Said::Deny { message } => QuestionAnswer::Deny(message),
                Said::Words { text } => QuestionAnswer::Deny(Some(text)),
            };
            let nonce = nonce.to_owned();
            Message::Answer {
                question,
                nonce,
                answer,
            }
        }
    };
    board.remove(question);
    inbox
        .send(message)
        .map_err(|_| "the session is ending".to_owned())
}
