//! One question to one model without a session: the gate's permit, the vault's key, one attempt.

use std::sync::Arc;

use policies::{
    Facts, LayerName, Mode,
    parse::{self, Source},
};
use protocol::{Hello, Inference, Message as Said, Request, SessionId, ToolSpec, Welcome};
use serde_json::Value;
use supervisor_core::{
    Attempt, Config as SessionConfig, Effect, Infer, Message, ModelName, Permit, Session, Tick,
    step,
};
use supervisor_providers::{Config, Counted, Heard, InferError, Providers, Vault, Wish};
use supervisor_record::Places;

use super::row;
use crate::{
    cli::keys,
    exit::{BUG, CONFIG, Failure, USAGE},
    harden::Keys,
    session::SharedBreakers,
};

/// What a call without a session may do: ask the model, and nothing else.
const LAW: &str = "version = 1\nname = \"providers-call\"\nmode = \"never\"\n";

/// One question to one model.
pub(in crate::cli) struct Ask<'a> {
    pub(in crate::cli) provider: &'a str,
    pub(in crate::cli) model: &'a str,
    pub(in crate::cli) system: &'a str,
    pub(in crate::cli) prompt: &'a str,
    pub(in crate::cli) tools: Vec<ToolSpec>,
    pub(in crate::cli) max_output: u32,
    /// Whom to ask instead, in order.
    pub(in crate::cli) fallbacks: &'a [ModelName],
    pub(in crate::cli) retry: bool,
    /// What is asked for beside it.
    pub(in crate::cli) wish: Wish,
}

/// What came of it.
pub(in crate::cli) struct Asked {
    pub(in crate::cli) answer: Result<Inference, InferError>,
    /// The text that came before the answer's end or before the failure.
    pub(in crate::cli) streamed: String,
    /// Attempts that failed.
    pub(in crate::cli) tried: Vec<Attempt>,
}

impl Ask<'_> {
    /// Asks.
    pub(in crate::cli) fn ask(
        &self,
        config: Config,
        taken: &Keys,
        places: &Places,
        show: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Asked, Failure> {
        let (providers, vault, runtime) = self.ready(config, taken, places)?;
        let permit = self.permit()?;
        let (mut streamed, mut tried) = (String::new(), Vec::new());
        let lent = vault.lend(&permit);
        let mut on_heard = |heard: Heard<'_>| {
            match &heard {
                Heard::Text(text) => streamed.push_str(text),
                Heard::Tried(attempt) => tried.push(attempt.clone()),
                Heard::SoFar { .. } | Heard::Breaker(_) => {}
            }
            show(heard);
        };
        let answer = if self.retry {
            runtime.block_on(providers.infer(permit, &lent, &mut on_heard))
        } else {
            runtime.block_on(providers.infer_once(permit, &lent, &mut on_heard))
        };
        Ok(Asked {
            answer,
            streamed,
            tried,
        })
    }

    /// Counts what would be sent, and sends nothing but the question for it.
    pub(in crate::cli) fn count(
        &self,
        config: Config,
        taken: &Keys,
        places: &Places,
    ) -> Result<Result<Counted, InferError>, Failure> {
        let (providers, vault, runtime) = self.ready(config, taken, places)?;
        let permit = self.permit()?;
        let lent = vault.lend(&permit);
        let credential = lent.get(self.provider);
        Ok(runtime.block_on(providers.count(permit, credential)))
    }

    fn ready(
        &self,
        config: Config,
        taken: &Keys,
        places: &Places,
    ) -> Result<(Providers, Vault, tokio::runtime::Runtime), Failure> {
        let mut vault = Vault::new();
        let rest = self.fallbacks.iter().map(|next| next.provider.as_str());
        for provider in std::iter::once(self.provider).chain(rest) {
            if !vault.has(provider) {
                keys::take(&mut vault, row(&config, provider)?, places, taken)
                    .map_err(|error| Failure::new(CONFIG, error.to_string()))?;
            }
        }
        let mut providers = Providers::new(config);
        if self.retry {
            providers = providers.sharing(Arc::new(SharedBreakers::open(places)?));
        }
        providers.set_wish(self.wish.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(BUG, format!("cannot wait for a network: {error}")))?;
        Ok((providers, vault, runtime))
    }

    /// The gate's permit for this one call: a session that only asks, under a law that allows no tool.
    pub(in crate::cli) fn permit(&self) -> Result<Permit<Infer>, Failure> {
        let bug = |what: &str| Failure::new(BUG, format!("cannot ask the gate: {what}"));
        let source = Source {
            name: "providers call".into(),
            text: LAW.into(),
            layer: LayerName::User,
        };
        let policy = parse::load(&[source], &|_| None).map_err(|_| bug("its law does not load"))?;
        let session = SessionId::parse("s-call").map_err(|_| bug("its name is no name"))?;
        let welcome = Welcome {
            hello: Hello::new("supervisor", session.clone()),
            workspace: "/".into(),
            mode: "never".into(),
            model: format!("{}/{}", self.provider, self.model),
            window: u32::MAX,
            max_output: self.max_output,
            tools: Vec::new(),
            databases: Vec::new(),
            interactive: false,
            iterations: 1,
            turns: 1,
            turns_done: 0,
            history: Vec::new(),
            unknown: Vec::new(),
            law: Value::Null,
        };
        let config = SessionConfig {
            absent_hooks: std::collections::BTreeMap::new(),
            policy,
            mode: Mode::Never,
            ceiling: Mode::Bypass,
            planning: false,
            facts: Facts {
                workspace: "/".into(),
                home: "/".into(),
                system: Vec::new(),
                interactive: false,
                tree: None,
            },
            welcome,
            provider: self.provider.to_owned(),
            model: self.model.to_owned(),
            classifier: None,
            fallbacks: self.fallbacks.to_vec(),
            seed: "00".repeat(32),
        };
        let request = protocol::Infer {
            id: 1,
            system: self.system.to_owned(),
            messages: vec![Said::user(self.prompt)],
            tools: self.tools.clone(),
            max_output: self.max_output,
        };
        let mut session_state = Session::new(config, Tick(0));
        let messages = [
            Message::Task(Some(self.prompt.to_owned())),
            Message::Agent(Request::Hello(Hello::new("agent", session))),
            Message::Agent(Request::Infer(request)),
        ];
        let mut effects = Vec::new();
        for message in messages {
            let next = step(session_state, message, Tick(0));
            session_state = next.session;
            effects = next.effects;
        }
        let permit = effects.into_iter().find_map(|effect| match effect {
            Effect::Infer(permit) => Some(permit),
            _ => None,
        });
        permit.ok_or_else(|| {
            Failure::new(USAGE, "the gate does not let this call pass")
                .help("a prompt must hold words, and the whole request must stay below 16 MiB")
        })
    }
}
