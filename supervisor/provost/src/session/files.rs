//! Carries out a permitted file change: the order to hands, and the pre-image that comes back.

use std::{io::Read as _, os::fd::AsFd as _};

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
    let other = |message: String| Failure {
        class: FailureClass::Other,
        message,
    };
    let wanted = Digest::of(put.content.as_bytes());
    let (read, write) =
        supervisor_sandbox::pipe_pair().map_err(|error| other(format!("no pipe: {error}")))?;
    // The pre-image is read while hands writes it: a pipe holds less than a file. The thread ends
    // when hands closes its end, at the latest when hands ends.
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
    let order = Put {
        order: 0,
        path: put.relative,
        expected: put.expected,
        content: put.content,
        make_parents: true,
    };
    let done = hands.put(order, write.as_fd()).await;
    drop(write);
    let content = reading.await.ok().flatten();
    let done = done?;
    if done.digest != wanted {
        return Err(other(
            "hands reports another content than was ordered".to_owned(),
        ));
    }
    let Some((digest, _)) = &done.before else {
        return Ok((done, None));
    };
    // hands' word explains; the pre-image itself is what counts.
    let kept = content.filter(|content| Digest::of(content) == *digest);
    let before = kept.and_then(|content| store.keep(&content));
    Ok((done, before))
}
