//! Carries out permitted model calls: one of the agent's at a time, and the classifier's beside it; each
//! can be cancelled.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use protocol::InferFailure;
use supervisor_core::{EffectOutcome, Infer, Message, Permit};
use supervisor_providers::{Providers, Vault};
use tokio::task::JoinHandle;

use super::links::Inbox;

/// The number of the call that runs, and its task.
type Running = (u64, JoinHandle<()>);

/// The provider side of a session.
#[derive(Debug, Clone)]
pub(crate) struct Models {
    providers: Rc<Providers>,
    vault: Rc<Vault>,
    inbox: Inbox,
    running: Rc<RefCell<Option<Running>>>,
    /// Questions to the classifier, by their permits.
    classifying: Rc<RefCell<BTreeMap<u64, JoinHandle<()>>>>,
}

impl Models {
    /// With its providers and the vault.
    pub(crate) fn new(providers: Providers, vault: Vault, inbox: Inbox) -> Self {
        Self {
            providers: Rc::new(providers),
            vault: Rc::new(vault),
            inbox,
            running: Rc::default(),
            classifying: Rc::default(),
        }
    }

    /// Asks a model; deltas and the outcome come as messages.
    pub(crate) fn infer(&self, permit: Permit<Infer>) {
        let this = self.clone();
        let id = permit.action().request.id;
        let task = tokio::task::spawn_local(async move {
            let secret = this.vault.lend(&permit);
            let inbox = this.inbox.clone();
            let mut on_delta = move |text: &str| {
                let text = text.to_owned();
                let _ = inbox.send(Message::Effect(EffectOutcome::Delta { id, text }));
            };
            let answer = this.providers.infer(permit, secret, &mut on_delta).await;
            let micro_usd = answer.as_ref().ok().and_then(|answer| this.price(answer));
            let result = answer.map(Box::new).map_err(|error| InferFailure {
                id,
                class: error.class.as_str().to_owned(),
                retryable: error.retryable,
                message: error.message,
                retry_after_ms: error.retry_after_ms,
            });
            let _ = this.inbox.send(Message::Effect(EffectOutcome::Infer {
                id,
                result,
                micro_usd,
            }));
            this.running.borrow_mut().take();
        });
        *self.running.borrow_mut() = Some((id, task));
    }

    /// Asks the classifier; its answer comes as a message. The session bounds the time.
    pub(crate) fn classify(&self, permit: Permit<Infer>) {
        let this = self.clone();
        let serial = permit.serial();
        let task = tokio::task::spawn_local(async move {
            let secret = this.vault.lend(&permit);
            let answer = this.providers.infer(permit, secret, &mut |_| {}).await;
            let micro_usd = answer.as_ref().ok().and_then(|answer| this.price(answer));
            let result = answer.map(Box::new).map_err(|error| InferFailure {
                id: 0,
                class: error.class.as_str().to_owned(),
                retryable: error.retryable,
                message: error.message,
                retry_after_ms: error.retry_after_ms,
            });
            this.classifying.borrow_mut().remove(&serial);
            let _ = this.inbox.send(Message::Effect(EffectOutcome::Classified {
                permit: serial,
                result,
                micro_usd,
            }));
        });
        self.classifying.borrow_mut().insert(serial, task);
    }

    /// Stops asking the classifier: nobody waits for the answer.
    pub(crate) fn cancel_classify(&self, permit: u64) {
        if let Some(task) = self.classifying.borrow_mut().remove(&permit) {
            task.abort();
        }
    }

    /// What an answer cost; nothing for a conversation file.
    fn price(&self, answer: &protocol::Inference) -> Option<u64> {
        if answer.provider == "script" {
            return Some(0);
        }
        let models = &self.providers.config().models;
        models.cost_micro_usd(&answer.provider, &answer.model, &answer.usage)
    }

    /// Stops asking: dropping the call closes its connection.
    pub(crate) fn cancel(&self) {
        let running = self.running.borrow_mut().take();
        let Some((id, task)) = running else { return };
        task.abort();
        let result = Err(InferFailure {
            id,
            class: "cancelled".to_owned(),
            retryable: false,
            message: "the call was cancelled".to_owned(),
            retry_after_ms: None,
        });
        let _ = self.inbox.send(Message::Effect(EffectOutcome::Infer {
            id,
            result,
            micro_usd: None,
        }));
    }
}
