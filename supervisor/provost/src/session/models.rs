//! Carries out permitted model calls: one of the agent's at a time, and the classifier's beside it; each
//! can be cancelled.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use protocol::InferFailure;
use supervisor_core::{Bill, EffectOutcome, Infer, Message, Permit};
use supervisor_providers::{Heard, Providers, Vault};
use tokio::task::JoinHandle;

use super::{
    links::Inbox,
    purse::{Meter, Purse},
};

/// The number of the call that runs, what it has used, and its task.
type Running = (u64, Meter, JoinHandle<()>);

/// The provider side of a session.
#[derive(Debug, Clone)]
pub(crate) struct Models {
    providers: Rc<Providers>,
    vault: Rc<Vault>,
    purse: Purse,
    inbox: Inbox,
    running: Rc<RefCell<Option<Running>>>,
    /// Questions to the classifier, by their permits.
    classifying: Rc<RefCell<BTreeMap<u64, JoinHandle<()>>>>,
}

impl Models {
    /// With its providers, the vault and the purse.
    pub(crate) fn new(providers: Providers, vault: Vault, purse: Purse, inbox: Inbox) -> Self {
        Self {
            providers: Rc::new(providers),
            vault: Rc::new(vault),
            purse,
            inbox,
            running: Rc::default(),
            classifying: Rc::default(),
        }
    }

    /// Asks a model; deltas and the outcome come as messages.
    pub(crate) fn infer(&self, permit: Permit<Infer>) {
        let this = self.clone();
        let id = permit.action().request.id;
        let (permit, input) = match self.purse.hold(&self.providers, permit) {
            Ok(held) => held,
            Err(why) => return self.ended(id, Err(failure(id, "budget", why)), Bill::default()),
        };
        let meter = Meter::new(input);
        let metered = meter.clone();
        let task = tokio::task::spawn_local(async move {
            let lent = this.vault.lend(&permit);
            let (inbox, meter) = (this.inbox.clone(), metered.clone());
            let mut on_heard = move |heard: Heard<'_>| {
                let outcome = match heard {
                    Heard::Text(text) => EffectOutcome::Delta {
                        id,
                        text: text.to_owned(),
                    },
                    Heard::Tried(attempt) => {
                        meter.broke_off();
                        EffectOutcome::Tried { id, attempt }
                    }
                    Heard::Breaker(change) => EffectOutcome::Breaker {
                        provider: change.provider,
                        from: change.from,
                        to: change.to,
                    },
                    Heard::SoFar {
                        provider,
                        model,
                        so_far,
                    } => return meter.so_far(provider, model, so_far),
                };
                let _ = inbox.send(Message::Effect(outcome));
            };
            let answer = this.providers.infer(permit, &lent, &mut on_heard).await;
            let bill = metered.bill(&this.providers, answer.as_ref().ok());
            let result = answer.map(Box::new).map_err(|error| error.report(id));
            this.ended(id, result, bill);
            this.running.borrow_mut().take();
        });
        *self.running.borrow_mut() = Some((id, meter, task));
    }

    fn ended(&self, id: u64, result: Result<Box<protocol::Inference>, InferFailure>, bill: Bill) {
        let outcome = EffectOutcome::Infer { id, result, bill };
        let _ = self.inbox.send(Message::Effect(outcome));
    }

    /// Asks the classifier; its answer comes as a message. The session bounds the time.
    pub(crate) fn classify(&self, permit: Permit<Infer>) {
        let this = self.clone();
        let serial = permit.serial();
        let task = tokio::task::spawn_local(async move {
            let lent = this.vault.lend(&permit);
            let answer = this.providers.infer(permit, &lent, &mut |_| {}).await;
            let bill = Meter::new(0).bill(&this.providers, answer.as_ref().ok());
            let micro_usd = bill.micro_usd.filter(|_| answer.is_ok());
            let result = answer.map(Box::new).map_err(|error| error.report(0));
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

    /// Stops asking: dropping the call closes its connection.
    pub(crate) fn cancel(&self) {
        let running = self.running.borrow_mut().take();
        let Some((id, meter, task)) = running else {
            return;
        };
        task.abort();
        let bill = meter.bill(&self.providers, None);
        let why = "the call was cancelled".to_owned();
        self.ended(id, Err(failure(id, "cancelled", why)), bill);
    }
}

fn failure(id: u64, class: &str, message: String) -> InferFailure {
    InferFailure {
        id,
        class: class.to_owned(),
        retryable: false,
        message,
        retry_after_ms: None,
    }
}
