//! Hooks as a table: who is asked in which order, and what each answer changes.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what is not as expected ends it; clippy exempts test functions, not what they call"
)]

use std::collections::BTreeMap;

use policies::{
    Facts, LayerName, Mode,
    parse::{self, Source},
};
use protocol::{
    CallId, Hello, Infer, Reply, Request, SessionId, TurnEnd, TurnReason, Welcome,
    call::{Call, Outcome, Stage},
};
use serde_json::{Value, json};
use supervisor_core::{
    Config, Effect, EffectOutcome, End, Entry, HookEnd, Message, Session, Tick, step,
};

/// Hooks as `(layer, id, event, required)`.
type Hooks<'a> = &'a [(LayerName, &'a str, &'a str, bool)];

const RULES: &str = "[[rule]]\nid = \"ask-tag\"\ntool = \"bash\"\ncommand = [\"git tag\"]\nverdict = \"ask\"\nreason = \"tags are seen\"\nexamples = { match = [\"git tag v1\"], differ = [\"ls\"] }\n";

fn config(hooks: Hooks<'_>, absent: &[usize]) -> Config {
    let layers = [LayerName::Organisation, LayerName::User, LayerName::Project];
    let sources = layers.map(|layer| {
        let mut text = "version = 1\n".to_owned();
        for (of, id, event, required) in hooks {
            if *of == layer {
                text.push_str(&format!(
                    "[[hook]]\nid = \"{id}\"\nevent = \"{event}\"\ncommand = [\"/h\"]\nrequired = {required}\n"
                ));
            }
        }
        if layer == LayerName::User {
            text.push_str(RULES);
        }
        Source {
            name: "t.toml".into(),
            text,
            layer,
        }
    });
    let policy = parse::load(&sources, &|_| None).unwrap_or_else(|faults| panic!("{faults:?}"));
    Config {
        policy,
        mode: Mode::OnRequest,
        facts: Facts {
            workspace: "/w".into(),
            home: "/home/agent".into(),
            system: vec!["/usr".into()],
            interactive: true,
            tree: None,
        },
        welcome: Welcome {
            hello: Hello::new("supervisor", SessionId::parse("s-test").expect("valid")),
            workspace: "/w".into(),
            mode: "onRequest".into(),
            model: "script/x".into(),
            window: 100_000,
            max_output: 4_096,
            tools: ["bash", "read_file"].map(str::to_owned).into(),
            databases: vec![],
            interactive: true,
            iterations: 3,
            turns: 5,
            turns_done: 0,
            history: vec![],
            unknown: vec![],
            law: json!(null),
        },
        provider: "script".into(),
        model: "x".into(),
        classifier: None,
        ceiling: Mode::Bypass,
        planning: false,
        fallbacks: Vec::new(),
        absent_hooks: absent
            .iter()
            .map(|&at| (at, "not approved".into()))
            .collect::<BTreeMap<_, _>>(),
        seed: "00".repeat(32),
    }
}

struct Play {
    session: Option<Session>,
    effects: Vec<Effect>,
    entries: Vec<Entry>,
}

impl Play {
    fn new(hooks: Hooks<'_>, absent: &[usize]) -> Self {
        let mut play = Self {
            session: Some(Session::new(config(hooks, absent), Tick(0))),
            effects: Vec::new(),
            entries: Vec::new(),
        };
        play.take(Message::Task(Some("do it".into())));
        let id = SessionId::parse("s-test").expect("valid");
        play.take(Message::Agent(Request::Hello(Hello::new(
            protocol::ROLE_AGENT,
            id,
        ))));
        play
    }

    fn take(&mut self, message: Message) {
        let stepped = step(self.session.take().expect("a session"), message, Tick(0));
        self.session = Some(stepped.session);
        self.effects = stepped.effects;
        self.entries.extend(stepped.entries);
    }

    fn call(&mut self, id: &str, command: &str) {
        let call = Call {
            id: CallId::parse(id).expect("valid"),
            tool: "bash".into(),
            input: json!({ "command": command }),
            prepared: None,
        };
        self.take(Message::Agent(Request::Calls { calls: vec![call] }));
    }

    fn infer(&mut self, id: u64) {
        self.take(Message::Agent(Request::Infer(Infer {
            id,
            system: String::new(),
            messages: vec![protocol::Message::user("x")],
            tools: vec![],
            max_output: 10,
        })));
    }

    /// The hook that this step started: its run and what it is told.
    fn started(&self) -> Option<(u64, Value)> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Hook(permit) => {
                let told = serde_json::from_str(&permit.action().input).expect("JSON");
                Some((permit.action().run, told))
            }
            _ => None,
        })
    }

    /// Answers the hook that runs; gives its name.
    fn answers(&mut self, code: i32, out: &str, err: &str) -> String {
        let (run, told) = self.started().expect("a hook runs");
        let (out, err) = (out.to_owned(), err.to_owned());
        let end = HookEnd::Exited { code, out, err };
        self.take(Message::Effect(EffectOutcome::Hook { run, end, ms: 1 }));
        let name = told.get("hook").and_then(Value::as_str);
        name.expect("a name").to_owned()
    }

    fn runs(&self) -> bool {
        self.effects.iter().any(|e| matches!(e, Effect::Run(_)))
    }

    fn refused(&self) -> Option<(Stage, String)> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Reply(Reply::Outcome { outcome, .. }) => match &**outcome {
                Outcome::Refused(refusal) => Some((refusal.stage, refusal.reason.clone())),
                _ => None,
            },
            _ => None,
        })
    }

    fn outcomes(&self) -> Vec<&str> {
        let ended = self.entries.iter().filter_map(|entry| match entry {
            Entry::HookEnded { outcome, .. } => Some(outcome.as_str()),
            _ => None,
        });
        ended.collect()
    }
}

const ALL: Hooks<'_> = &[
    (LayerName::Organisation, "o", "pre_tool", true),
    (LayerName::User, "u", "pre_tool", false),
    (LayerName::Project, "p", "pre_tool", false),
];

#[test]
fn the_innermost_is_asked_first_and_the_first_no_is_the_last_word() {
    let mut play = Play::new(ALL, &[]);
    play.call("c1", "ls");
    assert!(!play.runs(), "nothing runs before its hooks have answered");
    assert_eq!(play.answers(0, "", ""), "project/p");
    assert_eq!(play.answers(0, "", ""), "user/u");
    assert_eq!(play.answers(0, "", ""), "organisation/o");
    assert!(play.runs());
    play.call("c2", "ls");
    assert_eq!(play.answers(2, "", "no"), "project/p");
    assert_eq!(play.refused(), Some((Stage::Hook, "no".into())));
    assert!(play.started().is_none() && !play.runs());
}

#[test]
fn after_a_change_every_hook_sees_the_input_again_and_a_quarrel_ends() {
    let mut play = Play::new(ALL, &[]);
    play.call("c1", "ls");
    let to = |command: &str| {
        json!({ "decision": "rewrite", "input": { "command": command } }).to_string()
    };
    play.answers(0, "", "");
    assert_eq!(play.answers(0, &to("ls -l"), ""), "user/u");
    let (_, told) = play.started().expect("again from the first");
    assert_eq!(
        (&told["hook"], &told["input"]["command"]),
        (&json!("project/p"), &json!("ls -l"))
    );
    play.answers(0, "", "");
    // What changes nothing is no change.
    assert_eq!(play.answers(0, &to("ls -l"), ""), "user/u");
    assert_eq!(play.answers(0, "", ""), "organisation/o");
    assert!(play.runs());
    play.call("c2", "ls");
    for word in ["a", "b", "c"] {
        play.answers(0, &to(word), "");
    }
    play.answers(0, &to("d"), "");
    let (stage, why) = play.refused().expect("refused");
    assert_eq!(stage, Stage::Hook);
    assert!(why.contains("again and again"), "{why}");
}

#[test]
fn a_hook_that_cannot_run_denies_if_it_is_required_and_else_is_passed_over() {
    // Indices are those of the running order: the project's is 0, the organisation's is 2.
    let mut play = Play::new(ALL, &[0, 1]);
    play.call("c1", "ls");
    assert_eq!(play.answers(0, "", ""), "organisation/o");
    assert!(play.runs());
    let mut play = Play::new(ALL, &[2]);
    play.call("c1", "ls");
    play.answers(0, "", "");
    play.answers(0, "", "");
    let (stage, why) = play.refused().expect("refused");
    assert_eq!(stage, Stage::Hook);
    assert!(why.contains("not approved"), "{why}");
    assert_eq!(play.outcomes(), ["passed", "passed", "absent"]);
}

#[test]
fn a_cancel_ends_hooks_and_what_they_say_later_counts_for_nothing() {
    let mut play = Play::new(ALL, &[]);
    play.call("c1", "ls");
    let (run, _) = play.started().expect("runs");
    play.take(Message::Cancel);
    assert!(
        play.effects
            .iter()
            .any(|e| matches!(e, Effect::EndHook { run: of } if *of == run))
    );
    assert_eq!(play.refused().map(|(stage, _)| stage), Some(Stage::Mode));
    let end = HookEnd::Exited {
        code: 0,
        out: String::new(),
        err: String::new(),
    };
    play.take(Message::Effect(EffectOutcome::Hook { run, end, ms: 1 }));
    assert!(play.effects.is_empty() && play.outcomes() == ["cancelled"]);
}

#[test]
fn a_question_is_denied_or_advised_by_hooks_and_answered_by_nobody_but_a_person() {
    let hooks: Hooks<'_> = &[(LayerName::User, "u", "permission_request", false)];
    let mut play = Play::new(hooks, &[]);
    play.call("c1", "git tag v1");
    play.answers(0, r#"{"decision":"deny","reason":"not today"}"#, "");
    assert_eq!(play.refused(), Some((Stage::Hook, "not today".into())));
    play.call("c2", "git tag v1");
    play.answers(0, r#"{"decision":"allow","reason":"fine"}"#, "");
    let asked = play.effects.iter().find_map(|effect| match effect {
        Effect::Approve(question) => Some(question.advice.clone()),
        _ => None,
    });
    assert_eq!(
        asked,
        Some(vec!["hook user/u advises yes: fine".to_owned()])
    );
    assert!(!play.runs());
}

#[test]
fn a_required_hook_that_fails_where_nothing_can_be_denied_stops_the_session() {
    for (required, stops) in [(true, true), (false, false)] {
        let hooks = [(LayerName::User, "u", "query_start", required)];
        let mut play = Play::new(&hooks, &[]);
        let begun = |play: &Play| {
            let mut effects = play.effects.iter();
            effects.any(|e| matches!(e, Effect::Reply(Reply::Turn(_))))
        };
        assert!(!begun(&play), "the turn waits for its hooks");
        play.answers(1, "", "boom");
        assert!(begun(&play));
        play.call("c1", "ls");
        assert_eq!(play.refused().is_some(), stops);
        play.infer(1);
        let stopped = play.effects.iter().any(|effect| {
            matches!(effect, Effect::Reply(Reply::InferFailed(failure)) if failure.class == "stopped")
        });
        assert_eq!(stopped, stops);
    }
}

#[test]
fn what_hooks_say_is_recorded_and_sent_with_the_next_model_call_once() {
    let hooks: Hooks<'_> = &[(LayerName::User, "u", "iteration_start", false)];
    let mut play = Play::new(hooks, &[]);
    play.infer(1);
    play.answers(0, r#"{"context":"mind the gap"}"#, "");
    let (mut sent, mut heard) = (Vec::new(), Vec::new());
    for effect in &play.effects {
        match effect {
            Effect::Infer(permit) => sent.clone_from(&permit.action().request.messages),
            Effect::Reply(Reply::Context(message)) => heard.push(message.clone()),
            _ => {}
        }
    }
    assert_eq!(sent.get(1..), Some(heard.as_slice()));
    assert!(heard[0].text().contains("[Hook user/u: mind the gap]"));
    let kept = play.entries.iter().any(
        |entry| matches!(entry, Entry::Message { message } if message.text().contains("mind the gap")),
    );
    assert!(kept);
}

#[test]
fn the_end_waits_for_its_hooks_and_a_second_end_does_not() {
    let hooks: Hooks<'_> = &[(LayerName::User, "u", "session_end", true)];
    let ended = |play: &Play| play.effects.iter().any(|e| matches!(e, Effect::End(_)));
    for hurried in [false, true] {
        let mut play = Play::new(hooks, &[]);
        play.take(Message::Stop(End::new("done", "bye")));
        assert!(!ended(&play) && play.started().is_some());
        // What the agent says now is heard by nobody.
        let kept = play.effects.len();
        let (run, _) = play.started().expect("runs");
        let before = play.entries.len();
        play.infer(9);
        assert!(play.effects.is_empty() && kept > 0 && play.entries.len() == before);
        if hurried {
            play.take(Message::Stop(End::new("cancelled", "at once")));
        } else {
            let end = HookEnd::Failed("boom".into());
            play.take(Message::Effect(EffectOutcome::Hook { run, end, ms: 1 }));
        }
        assert!(ended(&play));
        let outcome = play.entries.iter().find_map(|entry| match entry {
            Entry::Ended { outcome, .. } => Some(outcome.as_str()),
            _ => None,
        });
        assert_eq!(outcome, Some("done"), "the first end is the reason");
    }
}

#[test]
fn one_more_cycle_is_one_and_the_turn_ends_once() {
    let hooks: Hooks<'_> = &[(LayerName::User, "u", "stop", false)];
    let mut play = Play::new(hooks, &[]);
    let over = || {
        Message::Agent(Request::TurnEnded(TurnEnd {
            reason: TurnReason::Done,
            text: "bye".into(),
            detail: None,
        }))
    };
    play.take(over());
    play.answers(2, "", "test it");
    let again = play.effects.iter().find_map(|effect| match effect {
        Effect::Reply(Reply::Turn(start)) => Some((start.number, start.text.clone())),
        _ => None,
    });
    let (number, text) = again.expect("the turn goes on");
    assert_eq!(number, 1);
    assert!(text.is_some_and(|text| text.contains("test it")));
    play.take(over());
    assert!(play.started().is_none(), "it is not asked again");
    let ends = play.entries.iter();
    assert_eq!(ends.filter(|e| matches!(e, Entry::TurnEnded(_))).count(), 1);
}
