//! A value that runs out: fetched anew before it does, by one caller at a time.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::clock::now_s;
use crate::InferError;

/// How long before its end a value is due, at most; short-lived ones a tenth of their life before.
const MARGIN_S: u64 = 300;
/// A fetch that failed while the old value still holds is not tried again sooner.
const PAUSE_S: u64 = 30;

/// A value and when it runs out.
#[derive(Debug)]
pub(super) struct Timed<T> {
    pub(super) value: T,
    /// Seconds since 1970; `None` if nobody said.
    pub(super) expires_s: Option<u64>,
}

/// The value that is held, if any.
#[derive(Debug)]
pub(super) struct Fresh<T> {
    slot: Mutex<Slot<T>>,
}

#[derive(Debug)]
struct Slot<T> {
    held: Option<Held<T>>,
    failed_s: u64,
}

#[derive(Debug)]
struct Held<T> {
    value: Arc<T>,
    expires_s: u64,
    due_s: u64,
}

impl<T> Fresh<T> {
    pub(super) fn empty() -> Self {
        Self {
            slot: Mutex::new(Slot {
                held: None,
                failed_s: 0,
            }),
        }
    }

    /// The value, fetched if there is none or it is due. Who comes meanwhile waits and shares it.
    ///
    /// # Errors
    /// The fetch's, unless what is held has not run out yet.
    pub(super) async fn get(
        &self,
        fetch: impl Future<Output = Result<Timed<T>, InferError>>,
    ) -> Result<Arc<T>, InferError> {
        let mut slot = self.slot.lock().await;
        let now = now_s();
        let holds = slot.held.as_ref().filter(|held| now < held.expires_s);
        if let Some(held) = holds
            && (now < held.due_s || now < slot.failed_s.saturating_add(PAUSE_S))
        {
            return Ok(Arc::clone(&held.value));
        }
        match fetch.await {
            Ok(timed) => {
                let expires_s = timed.expires_s.unwrap_or(u64::MAX);
                let margin = MARGIN_S.min(expires_s.saturating_sub(now) / 10);
                let value = Arc::new(timed.value);
                *slot = Slot {
                    held: Some(Held {
                        value: Arc::clone(&value),
                        expires_s,
                        due_s: expires_s.saturating_sub(margin),
                    }),
                    failed_s: 0,
                };
                Ok(value)
            }
            Err(failure) => {
                slot.failed_s = now;
                let holds = slot.held.as_ref().filter(|held| now < held.expires_s);
                holds.map(|held| Arc::clone(&held.value)).ok_or(failure)
            }
        }
    }

    /// The provider did not take the value: it is not used again.
    pub(super) async fn spoil(&self) {
        self.slot.lock().await.held = None;
    }

    /// What is held now.
    pub(super) fn peek(&self) -> Option<Arc<T>> {
        let slot = self.slot.try_lock().ok()?;
        slot.held.as_ref().map(|held| Arc::clone(&held.value))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use super::*;
    use crate::Class;

    fn timed(value: u32, seconds: u64) -> Result<Timed<u32>, InferError> {
        Ok(Timed {
            value,
            expires_s: Some(now_s() + seconds),
        })
    }

    #[tokio::test]
    async fn many_who_ask_at_once_share_one_fetch() {
        let fresh = Arc::new(Fresh::empty());
        let fetches = Arc::new(AtomicU32::new(0));
        let tasks = (0..20).map(|_| {
            let (fresh, fetches) = (Arc::clone(&fresh), Arc::clone(&fetches));
            tokio::spawn(async move {
                let fetch = async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    timed(fetches.fetch_add(1, Ordering::SeqCst), 3_600)
                };
                *fresh.get(fetch).await.expect("a value")
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.expect("done"), 0);
        }
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_value_is_fetched_anew_before_it_runs_out_and_used_as_long_as_it_holds() {
        let fresh = Fresh::empty();
        assert_eq!(
            *fresh.get(async { timed(1, 3_600) }).await.expect("first"),
            1
        );
        // Held to the second: a margin of a tenth of its life has begun.
        fresh.slot.lock().await.held.as_mut().expect("held").due_s = now_s();
        assert_eq!(*fresh.get(async { timed(2, 3_600) }).await.expect("due"), 2);
        fresh.slot.lock().await.held.as_mut().expect("held").due_s = now_s();
        let fail = || async { Err(InferError::new(Class::Network, "down")) };
        assert_eq!(*fresh.get(fail()).await.expect("still holds"), 2);
        // The next caller does not knock again at once.
        assert_eq!(
            *fresh
                .get(async { timed(3, 3_600) })
                .await
                .expect("still holds"),
            2
        );
        fresh
            .slot
            .lock()
            .await
            .held
            .as_mut()
            .expect("held")
            .expires_s = now_s();
        assert!(fresh.get(fail()).await.is_err(), "it has run out");
        assert_eq!(
            *fresh.get(async { timed(4, 3_600) }).await.expect("anew"),
            4
        );
        fresh.spoil().await;
        assert!(fresh.get(fail()).await.is_err(), "it was not taken");
    }
}
