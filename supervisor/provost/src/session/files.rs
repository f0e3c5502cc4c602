//! Carries out a permitted file change: its pre-image is kept first, then hands gets the order.

use std::{
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
};

use protocol::{Digest, Failure, FailureClass, Put, bounds, call::Outcome};
use supervisor_core::{EffectOutcome, Message, Permit, PutFile};

use super::{
    links::{Hands, Inbox},
    store::Store,
};

/// Writes one file; the outcome comes as a message.
pub(crate) fn put(hands: &Hands, inbox: &Inbox, store: &Store, permit: Permit<PutFile>) {
    let (hands, inbox, store) = (hands.clone(), inbox.clone(), store.clone());
    tokio::task::spawn_local(async move {
        let put = permit.spend();
        let (call, path) = (put.call.clone(), put.path.clone());
        let bytes = put.content.len() as u64;
        let (outcome, before) = match carry_out(&hands, &store, put).await {
            Ok((done, before)) => {
                let (created, digest) = (done.created, done.digest);
                (
                    Outcome::Written {
                        path,
                        created,
                        bytes,
                        digest,
                    },
                    before,
                )
            }
            Err(failure) => (
                Outcome::Failed {
                    class: failure.class,
                    message: failure.message,
                },
                None,
            ),
        };
        let outcome = EffectOutcome::Call {
            call,
            outcome: Box::new(outcome),
            before,
            spool: None,
        };
        let _ = inbox.send(Message::Effect(outcome));
    });
}

async fn carry_out(
    hands: &Hands,
    store: &Store,
    put: PutFile,
) -> Result<(protocol::PutDone, Option<Digest>), Failure> {
    let wanted = Digest::of(put.content.as_bytes());
    // What undo needs is on the disk before anything is changed, or nothing is changed.
    let kept = match &put.expected {
        Some(expected) => {
            let before = before(hands, &put, expected).await?;
            check_edit(&put, &before)?;
            Some(keep(store, &put, &before)?)
        }
        None if put.edit.is_some() => return Err(not_the_edit(&put)),
        None => None,
    };
    let (reading, write) = drain()?;
    let order = Put {
        order: 0,
        path: put.relative,
        expected: put.expected,
        content: put.content,
        make_parents: true,
    };
    let done = hands.put(order, write.as_fd()).await;
    drop(write);
    let came_out = reading.await.ok().flatten();
    let done = done?;
    if done.digest != wanted {
        return Err(other(
            "hands reports another content than was ordered".to_owned(),
        ));
    }
    // hands' word explains; what came out must be what was kept, or undo would restore another.
    let came_out = came_out.map(|content| Digest::of(&content));
    if kept.is_some() && came_out != kept {
        return Err(Failure {
            class: FailureClass::Unknown,
            message: "the old content that came out is not the one that was read: the outcome is not known; read the file again".to_owned(),
        });
    }
    Ok((done, kept))
}

fn other(message: String) -> Failure {
    Failure {
        class: FailureClass::Other,
        message,
    }
}

/// What comes out of a pipe; nothing if it was too much or broke.
type Reading = tokio::task::JoinHandle<Option<Vec<u8>>>;

/// A pipe whose reading end is emptied on a thread of its own, because a pipe holds less than a file.
/// The thread ends when hands closes its end, at the latest when hands ends.
fn drain() -> Result<(Reading, OwnedFd), Failure> {
    let (read, write) =
        supervisor_sandbox::pipe_pair().map_err(|error| other(format!("no pipe: {error}")))?;
    let reading = tokio::task::spawn_blocking(move || {
        let mut content = Vec::new();
        let bound = bounds::FILE_READ + 1;
        let read = std::fs::File::from(read)
            .take(bound)
            .read_to_end(&mut content);
        read.ok()
            .filter(|_| content.len() as u64 <= bounds::FILE_READ)
            .map(|_| content)
    });
    Ok((reading, write))
}

/// The content that the file has now; it must be the one that the agent read.
async fn before(hands: &Hands, put: &PutFile, expected: &Digest) -> Result<Vec<u8>, Failure> {
    let (reading, write) = drain()?;
    let found = hands.read(put.relative.clone(), write.as_fd()).await;
    drop(write);
    let content = reading.await.ok().flatten();
    found?;
    // The digest decides: a content that has it is the one, whoever brings it.
    content
        .filter(|content| Digest::of(content) == *expected)
        .ok_or_else(|| Failure {
            class: FailureClass::Changed,
            message: format!(
                "`{}`: its content is not what was read: read it again before writing",
                put.relative
            ),
        })
}

/// What was judged is what is written: an edit's content must be what its own words make of the file.
fn check_edit(put: &PutFile, before: &[u8]) -> Result<(), Failure> {
    let Some(edit) = &put.edit else {
        return Ok(());
    };
    let made = std::str::from_utf8(before)
        .ok()
        .and_then(|text| edit.apply(text).ok());
    if made.as_deref() == Some(put.content.as_str()) {
        Ok(())
    } else {
        Err(not_the_edit(put))
    }
}

fn not_the_edit(put: &PutFile) -> Failure {
    Failure {
        class: FailureClass::Denied,
        message: format!(
            "`{}`: the content is not what the edit makes of the file: nothing was changed",
            put.relative
        ),
    }
}

/// Keeps the old content for undo, within the session's quota.
fn keep(store: &Store, put: &PutFile, before: &[u8]) -> Result<Digest, Failure> {
    store.keep(before).map_err(|why| Failure {
        class: FailureClass::Limit,
        message: format!(
            "`{}`: its old content cannot be kept for undo, so it is not changed: {why}",
            put.relative
        ),
    })
}
