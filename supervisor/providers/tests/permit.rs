//! A model call as the supervisor makes it: only the gate gives the permit, the vault lends the key
//! against it, and the call spends it.

#[cfg(test)]
mod tests {
    use policies::{
        Facts, LayerName, Mode,
        parse::{self, Source},
    };
    use protocol::{Hello, Message as Said, Request, SessionId, Welcome};
    use supervisor_core::{Config, Effect, Infer, Message, Permit, Session, Tick, step};
    use supervisor_providers::{Config as Rows, Credential, Heard, Providers, Script, Vault};

    const POLICY: &str = "version = 1\nname = \"test\"\nmode = \"never\"\n";

    fn config(provider: &str) -> Config {
        let source = Source {
            name: "test.toml".into(),
            text: POLICY.into(),
            layer: LayerName::User,
        };
        let Ok(policy) = parse::load(&[source], &|_| None) else {
            panic!("the policy loads");
        };
        let session = SessionId::parse("s-test").expect("valid");
        Config {
            policy,
            mode: Mode::Never,
            ceiling: Mode::Bypass,
            planning: false,
            facts: Facts {
                workspace: "/w".into(),
                home: "/home/agent".into(),
                system: vec!["/usr".into()],
                interactive: false,
                tree: None,
            },
            welcome: Welcome {
                hello: Hello::new("supervisor", session),
                workspace: "/w".into(),
                mode: "never".into(),
                model: format!("{provider}/m"),
                window: 100_000,
                max_output: 4_096,
                tools: vec![],
                databases: vec![],
                interactive: false,
                iterations: 3,
                turns: 5,
                turns_done: 0,
                history: vec![],
                unknown: vec![],
                law: serde_json::Value::Null,
            },
            provider: provider.into(),
            model: "m".into(),
            classifier: None,
            fallbacks: Vec::new(),
            absent_hooks: Default::default(),
            seed: "00".repeat(32),
        }
    }

    /// The permit that the gate gives to an agent that has greeted and asks the model.
    fn permit(provider: &str) -> Permit<Infer> {
        let mut session = Session::new(config(provider), Tick(0));
        let request = protocol::Infer {
            id: 1,
            system: String::new(),
            messages: vec![Said::user("hello")],
            tools: vec![],
            max_output: 10,
        };
        let hello = Hello::new("agent", SessionId::parse("s-test").expect("valid"));
        let messages = [
            Message::Task(Some("hello".into())),
            Message::Agent(Request::Hello(hello)),
            Message::Agent(Request::Infer(request)),
        ];
        let mut effects = Vec::new();
        for message in messages {
            let step = step(session, message, Tick(0));
            session = step.session;
            effects = step.effects;
        }
        let permit = effects.into_iter().find_map(|effect| match effect {
            Effect::Infer(permit) => Some(permit),
            _ => None,
        });
        permit.expect("the gate lets a model call pass")
    }

    #[test]
    fn a_key_is_lent_for_the_provider_of_the_permit_and_for_no_other() {
        let mut vault = Vault::new();
        vault.put("anthropic", "sk-one".into()).expect("a key");
        vault.put("openai", "sk-two".into()).expect("a key");
        let permitted = permit("anthropic");
        let lent = vault.lend(&permitted);
        let key = lent.get("anthropic").expect("lent");
        assert!(matches!(key, Credential::Key(key) if key.expose() == "sk-one"));
        assert!(lent.get("openai").is_none(), "not in the route");
        assert!(vault.lend(&permit("script")).get("anthropic").is_none());
    }

    #[tokio::test]
    async fn a_permitted_call_is_answered() {
        let rows = Rows::parse(None, None, &|_| None).expect("embedded");
        let providers = Providers::new(rows);
        let script = "{\"text\":\"hi there\",\"chunk\":3,\"expect\":\"^hello$\"}";
        providers.set_script(Script::parse("s", script).expect("a script"));
        let permit = permit("script");
        let vault = Vault::new();
        let lent = vault.lend(&permit);
        let mut streamed = String::new();
        let mut hear = |heard: Heard<'_>| {
            if let Heard::Text(text) = heard {
                streamed.push_str(text);
            }
        };
        let answer = providers.infer(permit, &lent, &mut hear).await;
        assert_eq!(answer.expect("an answer").message.text(), "hi there");
        assert_eq!(streamed, "hi there");
    }
}
