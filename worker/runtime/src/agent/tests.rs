//! The role against a supervisor played by the test, over a socket pair.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    thread::JoinHandle,
    time::Duration,
};

use policies::parse::{self, Source};
use protocol::{
    CallId, Digest, Hello, InferFailure, Inference, Message, Note, Part, ROLE_AGENT, Reply,
    Request, Role, SessionId, StopReason, TransitionKind, TurnEnd, TurnReason, TurnStart, Usage,
    Welcome, bounds,
    call::{Call, Outcome, Refusal, Stage},
    frame::{Decoder, encode},
};
use serde_json::{Value, json};

use super::{link::Lost, session::serve};

fn session() -> SessionId {
    SessionId::parse("s1").expect("valid")
}

fn id(word: &str) -> CallId {
    CallId::parse(word).expect("valid")
}

/// The supervisor's side, in the test's hands.
struct Fake {
    stream: Option<UnixStream>,
    decoder: Decoder,
    agent: Option<JoinHandle<Result<(), Lost>>>,
    room: tempfile::TempDir,
    notes: Vec<Note>,
}

impl Fake {
    fn start() -> Self {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let agent = std::thread::spawn(move || serve(theirs, session(), 1));
        Self {
            stream: Some(ours),
            decoder: Decoder::new(bounds::MODEL_FRAME),
            agent: Some(agent),
            room: tempfile::tempdir().expect("a folder"),
            notes: Vec::new(),
        }
    }

    /// Greets as a supervisor does and starts a turn.
    fn greeted(change: impl FnOnce(&mut Welcome)) -> Self {
        let mut fake = Self::start();
        let Request::Hello(hello) = fake.hear() else {
            panic!("a greeting first")
        };
        hello.check(ROLE_AGENT, &session()).expect("of this build");
        let mut welcome = fake.welcome();
        change(&mut welcome);
        fake.say(&Reply::Welcome(Box::new(welcome)));
        fake
    }

    fn workspace(&self) -> String {
        self.room.path().to_str().expect("text").to_owned()
    }

    fn welcome(&self) -> Welcome {
        let workspace = self.workspace();
        let text = "version = 1\nname = \"t\"\n[[rule]]\nid = \"no-push\"\ntool = \"bash\"\n\
                    command = [\"git push\"]\nverdict = \"deny\"\nreason = \"people push\"\n";
        let source = Source {
            name: "t.toml".into(),
            text: text.into(),
            layer: policies::LayerName::User,
        };
        let policy = parse::load(&[source], &|_| None).expect("a policy");
        let facts = json!({"workspace": workspace, "home": "/home/u", "system": ["/usr"],
                           "interactive": false});
        Welcome {
            hello: Hello::new("supervisor", session()),
            workspace,
            mode: "onRequest".into(),
            model: "script/one".into(),
            window: 100_000,
            max_output: 1_000,
            tools: [
                "bash",
                "edit_file",
                "grep",
                "list_directory",
                "read_file",
                "write_file",
            ]
            .map(str::to_owned)
            .to_vec(),
            databases: Vec::new(),
            interactive: false,
            iterations: 20,
            turns: 20,
            turns_done: 0,
            history: Vec::new(),
            unknown: Vec::new(),
            law: json!({"policy": policy, "facts": facts, "mode": "onRequest"}),
        }
    }

    fn say(&mut self, reply: &Reply) {
        let bytes = encode(reply, bounds::MODEL_FRAME).expect("fits");
        self.raw(&bytes);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.stream
            .as_mut()
            .expect("open")
            .write_all(bytes)
            .expect("sent");
    }

    /// The next request that is no note.
    fn hear(&mut self) -> Request {
        let mut chunk = [0; 4096];
        loop {
            let frame = self.decoder.next_frame().expect("within the bound");
            let size = frame.as_ref().map_or(0, Vec::len);
            match frame.map(|frame| protocol::frame::decode(&frame).expect("decodes")) {
                Some(Request::Note(note)) => self.notes.push(note),
                Some(request) => {
                    let large = matches!(request, Request::Infer(_));
                    assert!(size <= bounds::FRAME || large, "as the supervisor demands");
                    return request;
                }
                None => {
                    let n = self
                        .stream
                        .as_mut()
                        .expect("open")
                        .read(&mut chunk)
                        .expect("in time");
                    assert!(n > 0, "the agent left");
                    self.decoder.push(&chunk[..n]);
                }
            }
        }
    }

    fn turn(&mut self, text: &str) -> protocol::Infer {
        self.say(&Reply::Turn(TurnStart {
            number: 1,
            text: Some(text.into()),
        }));
        self.infer()
    }

    fn infer(&mut self) -> protocol::Infer {
        match self.hear() {
            Request::Infer(infer) => infer,
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, of: u64, parts: Vec<Part>, stop: StopReason) {
        let answer = Inference {
            message: Message {
                role: Role::Assistant,
                parts,
            },
            stop,
            usage: Usage::default(),
            provider: "script".into(),
            model: "one".into(),
        };
        self.say(&Reply::Inferred {
            id: of,
            answer: Box::new(answer),
        });
    }

    fn calls(&mut self, of: u64, calls: &[(&str, &str, Value)]) {
        let parts = calls.iter().map(|(word, tool, input)| Part::ToolCall {
            id: id(word),
            name: (*tool).into(),
            input: input.clone(),
        });
        self.answer(of, parts.collect(), StopReason::Tool);
    }

    fn text(&mut self, of: u64, text: &str) {
        self.answer(of, vec![Part::Text { text: text.into() }], StopReason::End);
    }

    fn batch(&mut self) -> Vec<Call> {
        match self.hear() {
            Request::Calls { calls } => calls,
            other => panic!("{other:?}"),
        }
    }

    fn outcome(&mut self, call: &str, outcome: Outcome) {
        self.say(&Reply::Outcome {
            call: id(call),
            outcome: Box::new(outcome),
        });
    }

    /// Results that were appended, as (call, content, is_error).
    fn results(&mut self) -> Vec<(String, String, bool)> {
        let message = match self.hear() {
            Request::Append(message) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(message.role, Role::User);
        let parts = message.parts.into_iter().map(|part| match part {
            Part::ToolResult {
                id,
                content,
                is_error,
            } => (id.to_string(), content, is_error),
            other => panic!("{other:?}"),
        });
        parts.collect()
    }

    /// Everything up to the end of the turn: the end, and the reasons on the way.
    fn ended(&mut self) -> (TurnEnd, Vec<String>) {
        let mut reasons = Vec::new();
        loop {
            match self.hear() {
                Request::TurnEnded(end) => return (end, reasons),
                Request::Transition(transition) => reasons.push(transition.reason),
                Request::Append(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn transition(&mut self) -> String {
        match self.hear() {
            Request::Transition(transition) => transition.reason,
            other => panic!("{other:?}"),
        }
    }

    /// Closes the link and tells how the agent left.
    fn left(&mut self) -> Result<(), Lost> {
        self.stream = None;
        self.agent.take().expect("once").join().expect("no panic")
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.room.path().join(name), text).expect("a file");
    }
}

fn json_of(content: &str) -> Value {
    let inner = content
        .split_once('>')
        .and_then(|(_, rest)| rest.strip_suffix("</tool_result>"));
    serde_json::from_str(inner.expect("wrapped")).expect("JSON")
}

#[test]
fn a_turn_of_one_answer_and_a_quiet_leave() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Say hello.");
    assert_eq!(infer.messages, [Message::user("Say hello.")]);
    let names: Vec<&str> = infer.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "bash",
            "edit_file",
            "grep",
            "list_directory",
            "read_file",
            "write_file"
        ]
    );
    assert!(infer.system.contains("- Mode: onRequest"));
    fake.say(&Reply::Delta(protocol::Delta {
        id: infer.id,
        text: "Hel".into(),
    }));
    fake.text(infer.id, "Hello.");
    let (end, reasons) = fake.ended();
    assert_eq!(
        (end.reason, end.text.as_str()),
        (TurnReason::Done, "Hello.")
    );
    assert_eq!(reasons, ["stop_reason_terminal"]);
    assert!(matches!(fake.left(), Err(Lost::Closed)));
}

#[test]
fn whoever_is_no_supervisor_of_this_build_is_left() {
    let mut fake = Fake::start();
    let _ = fake.hear();
    fake.raw(&[0, 0, 0, 3, b'{', b'x', b'}']);
    assert!(matches!(
        fake.agent.take().expect("once").join(),
        Ok(Err(Lost::Fault(_)))
    ));

    let mut fake = Fake::greeted(|welcome| welcome.hello.build = "another".into());
    assert!(matches!(
        fake.agent.take().expect("once").join(),
        Ok(Err(Lost::Stranger(_)))
    ));

    let mut fake = Fake::greeted(|_| {});
    fake.raw(&u32::MAX.to_be_bytes());
    assert!(matches!(
        fake.agent.take().expect("once").join(),
        Ok(Err(Lost::Fault(_)))
    ));

    let mut fake = Fake::greeted(|_| {});
    fake.say(&Reply::Bye);
    assert!(matches!(
        fake.agent.take().expect("once").join(),
        Ok(Err(Lost::Closed))
    ));
}

#[test]
fn reads_run_together_once_they_are_allowed() {
    let mut fake = Fake::greeted(|_| {});
    fake.put("a.txt", "one\n");
    let infer = fake.turn("Look.");
    let calls = [
        ("r", "read_file", json!({"file_path": "a.txt"})),
        ("l", "list_directory", json!({})),
        ("n", "read_file", json!({"file_path": "none"})),
    ];
    fake.calls(infer.id, &calls);
    let batch = fake.batch();
    assert_eq!(
        batch
            .iter()
            .map(|call| call.id.as_str())
            .collect::<Vec<_>>(),
        ["r", "l", "n"]
    );
    // Allowed in any order; results stand in call order.
    for (word, ok) in [("l", true), ("n", false), ("r", true)] {
        fake.outcome(word, Outcome::Proceed);
        match fake.hear() {
            Request::Settled(settled) => {
                assert_eq!((settled.call.as_str(), settled.ok), (word, ok))
            }
            other => panic!("{other:?}"),
        }
    }
    let results = fake.results();
    let order: Vec<(&str, bool)> = results.iter().map(|r| (r.0.as_str(), r.2)).collect();
    assert_eq!(order, [("r", false), ("l", false), ("n", true)]);
    assert_eq!(json_of(&results[0].1)["content"], "one\n");
    assert_eq!(fake.transition(), "tool_results_appended");
    let next = fake.infer();
    assert_eq!(next.messages.len(), 3);
    assert_eq!(next.system, infer.system, "the same bytes for every call");
    let percents: Vec<u8> = fake
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Progress { call, percent } if call.as_str() == "r" => Some(*percent),
            _ => None,
        })
        .collect();
    assert_eq!(percents, [0, 25, 66, 90, 100]);
    fake.text(next.id, "All done.");
    assert_eq!(fake.ended().0.reason, TurnReason::Done);
}

#[test]
fn nothing_that_the_agent_says_exceeds_the_usual_frame() {
    let mut fake = Fake::greeted(|_| {});
    fake.put("quotes", &"\"\"\"\"\"\"\"\"\n".repeat(10_000));
    let infer = fake.turn("Read.");
    let words = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let calls = words.map(|word| {
        (
            word,
            "read_file",
            json!({"file_path": "quotes", "limit": 100_000}),
        )
    });
    fake.calls(infer.id, &calls);
    assert_eq!(fake.batch().len(), 10);
    for word in words {
        fake.outcome(word, Outcome::Proceed);
        assert!(matches!(fake.hear(), Request::Settled(_)));
    }
    // Together they would not fit: they come one by one, in call order.
    for word in words {
        let results = fake.results();
        assert_eq!((results.len(), results[0].0.as_str()), (1, word));
        assert!(results[0].1.len() > 50_000);
    }
    assert_eq!(fake.transition(), "tool_results_appended");
    let next = fake.infer();
    assert_eq!(
        next.messages.len(),
        3,
        "one message for the model all the same"
    );
    fake.text(next.id, &"long ".repeat(400_000));
    let (end, _) = fake.ended();
    assert!(
        end.text
            .ends_with("(cut; the whole answer stands in the record)")
    );
    assert!(fake.notes.len() <= 50);

    let infer = fake.turn("Write.");
    let write = json!({"file_path": "new", "content": "\u{1}".repeat(100_000)});
    fake.calls(infer.id, &[("w", "write_file", write)]);
    assert!(fake.results()[0].1.contains("limit reached"));
}

#[test]
fn a_flood_of_notes_is_thinned_out_before_it_is_one() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let count = std::thread::spawn(move || {
        let (mut ours, mut decoder, mut chunk, mut seen) =
            (ours, Decoder::new(bounds::FRAME), [0; 4096], 0_u128);
        loop {
            match ours.read(&mut chunk).expect("reads") {
                0 => return seen,
                n => decoder.push(&chunk[..n]),
            }
            while decoder
                .next_message::<Request>()
                .expect("decodes")
                .is_some()
            {
                seen += 1;
            }
        }
    });
    let before = std::time::Instant::now();
    let mut link = super::link::Link::new(theirs);
    for _ in 0..5_000 {
        link.note(Note::Log { text: "x".into() })
            .expect("an open link");
    }
    let ms = before.elapsed().as_millis();
    drop(link);
    let seen = count.join().expect("no panic");
    assert!(
        seen >= 1_000 && seen <= 1_000 + ms / 2 + 1,
        "{seen} in {ms} ms"
    );
}

#[test]
fn what_is_no_call_is_answered_without_asking() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Go.");
    let calls = [
        ("u", "rm", json!({})),
        ("d", "run_sql", json!({"query": "SELECT 1"})),
        ("i", "bash", json!({"cmd": "ls"})),
        (
            "e",
            "edit_file",
            json!({"file_path": "x", "old_string": "a", "new_string": "b"}),
        ),
    ];
    fake.put("x", "a");
    fake.calls(infer.id, &calls);
    let said = |results: Vec<(String, String, bool)>| {
        assert!(results.iter().all(|result| result.2));
        json_of(&results[0].1)
    };
    let unknown = said(fake.results());
    assert!(
        unknown["error"]
            .as_str()
            .is_some_and(|e| e.starts_with("tool not found: `rm`"))
    );
    assert_eq!(unknown["refused"]["stage"], "resolve");
    assert!(
        said(fake.results())["error"]
            .as_str()
            .is_some_and(|e| e.contains("`run_sql`"))
    );
    let invalid = said(fake.results());
    assert_eq!(
        invalid["error"],
        "invalid input: unknown field `cmd`; the fields are `command`, `timeout_s`, `description`, \
         `run_in_background`, `stdin`"
    );
    let unread = said(fake.results());
    assert_eq!(
        unread["error"],
        "`x` was not read yet; read it with read_file first, then change it"
    );
    assert_eq!(fake.transition(), "tool_results_appended");
    let _ = fake.infer();
}

#[test]
fn an_edit_carries_what_was_read_and_what_it_becomes() {
    let mut fake = Fake::greeted(|_| {});
    fake.put("a.txt", "one two\n");
    let infer = fake.turn("Edit.");
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.txt", "old_string": old, "new_string": new});
    let calls = [
        ("r", "read_file", json!({"file_path": "a.txt"})),
        ("e", "edit_file", edit("one", "1")),
        ("f", "edit_file", edit("two", "2")),
    ];
    fake.calls(infer.id, &calls);
    assert_eq!(fake.batch().len(), 1);
    fake.outcome("r", Outcome::Proceed);
    assert!(matches!(fake.hear(), Request::Settled(_)));
    assert_eq!(fake.results().len(), 1);
    let batch = fake.batch();
    let prepared = batch[0].prepared.clone().expect("prepared");
    assert_eq!(prepared.base, Some(Digest::of(b"one two\n")));
    assert_eq!(prepared.content, "1 two\n");
    fake.put("a.txt", &prepared.content);
    fake.outcome(
        "e",
        Outcome::Written {
            path: format!("{}/a.txt", fake.workspace()),
            created: false,
            bytes: 6,
            digest: Digest::of(b"1 two\n"),
        },
    );
    assert!(!fake.results()[0].2);
    // What it wrote, it has read: the second edit goes on from the first.
    let batch = fake.batch();
    assert_eq!(
        batch[0].prepared.as_ref().expect("prepared").content,
        "1 2\n"
    );
    fake.outcome(
        "f",
        Outcome::Failed {
            class: protocol::FailureClass::Changed,
            message: "`a.txt` is not what was read".into(),
        },
    );
    assert!(fake.results()[0].1.contains("read the file again"));
}

#[test]
fn a_refusal_is_told_in_its_words_and_not_asked_for_twice() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Push.");
    let push = json!({"command": "git push"});
    fake.calls(infer.id, &[("a", "bash", push.clone())]);
    assert_eq!(
        fake.batch().len(),
        1,
        "the first time it is asked, so that the record knows"
    );
    fake.outcome(
        "a",
        Outcome::Refused(Refusal {
            stage: Stage::Permissions,
            rule: Some("no-push".into()),
            layer: Some("user".into()),
            reason: "people push".into(),
            instead: None,
        }),
    );
    let first = fake.results();
    assert_eq!(
        json_of(&first[0].1)["error"],
        "permission denied: people push (rule no-push)"
    );
    let _ = fake.transition();
    let infer = fake.infer();
    fake.calls(
        infer.id,
        &[
            ("b", "bash", push),
            ("c", "bash", json!({"command": "git status"})),
        ],
    );
    let again = fake.results();
    assert_eq!(
        (again[0].0.as_str(), json_of(&again[0].1)),
        ("b", json_of(&first[0].1))
    );
    assert_eq!(fake.batch()[0].id, id("c"), "another call is asked for");
}

#[test]
fn a_failed_model_call_is_tried_again_and_a_final_one_ends_the_turn() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Go.");
    let failure = |of: u64, retryable: bool| {
        Reply::InferFailed(InferFailure {
            id: of,
            class: "overload".into(),
            retryable,
            message: "busy".into(),
            retry_after_ms: None,
        })
    };
    fake.say(&failure(infer.id, true));
    assert_eq!(fake.transition(), "recoverable_overload");
    let next = fake.infer();
    assert_eq!(next.id, infer.id + 1);
    fake.say(&failure(next.id, false));
    let (end, reasons) = fake.ended();
    assert_eq!(
        (end.reason, reasons.as_slice()),
        (
            TurnReason::ModelFailed,
            &["api_error_terminal".to_owned()][..]
        )
    );
    assert!(end.detail.is_some_and(|detail| detail.contains("busy")));
}

#[test]
fn a_cancel_while_the_model_thinks_ends_the_turn_and_the_next_one_works() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Go.");
    fake.say(&Reply::Cancel);
    let cancelled = InferFailure {
        id: infer.id,
        class: "cancelled".into(),
        retryable: false,
        message: "cancelled".into(),
        retry_after_ms: None,
    };
    fake.say(&Reply::InferFailed(cancelled));
    let (end, reasons) = fake.ended();
    assert_eq!(
        (end.reason, reasons.as_slice()),
        (TurnReason::Cancelled, &["cancelled".to_owned()][..])
    );
    let next = fake.turn("Go on.");
    assert_eq!(
        next.messages.len(),
        3,
        "the task, the note, the new message"
    );
    fake.text(next.id, "Fine.");
    assert_eq!(fake.ended().0.reason, TurnReason::Done);
}

#[test]
fn an_answer_that_crosses_the_cancel_is_kept_and_its_calls_are_not_run() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Go.");
    fake.say(&Reply::Cancel);
    fake.calls(infer.id, &[("a", "bash", json!({"command": "make"}))]);
    let results = fake.results();
    assert!(results[0].1.contains("before this call ran"));
    assert_eq!(fake.ended().0.reason, TurnReason::Cancelled);
    let next = fake.turn("Again.");
    let shape: Vec<Role> = next.messages.iter().map(|message| message.role).collect();
    assert_eq!(
        shape,
        [
            Role::User,
            Role::Assistant,
            Role::User,
            Role::User,
            Role::User
        ]
    );
}

#[test]
fn a_cancel_while_a_command_runs_waits_for_its_outcome() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Go.");
    let line = |word: &str| json!({"command": word});
    fake.calls(
        infer.id,
        &[
            ("a", "bash", line("make")),
            ("b", "bash", line("make test")),
        ],
    );
    assert_eq!(fake.batch().len(), 1);
    fake.say(&Reply::Cancel);
    let result = protocol::call::CommandResult {
        exit: None,
        signal: Some(15),
        ms: 5,
        ended_by: Some(protocol::call::EndedBy::Cancelled),
        left_running: 0,
        output: protocol::call::Excerpt::default(),
    };
    fake.outcome("a", Outcome::Command(result));
    assert!(fake.results()[0].1.contains("\"ended_by\":\"cancelled\""));
    assert!(fake.results()[0].1.contains("before this call ran"));
    assert_eq!(fake.ended().0.reason, TurnReason::Cancelled);
}

#[test]
fn a_cancel_whose_outcome_never_comes_ends_all_the_same() {
    let mut fake = Fake::greeted(|_| {});
    let infer = fake.turn("Go.");
    fake.calls(infer.id, &[("a", "bash", json!({"command": "make"}))]);
    let _ = fake.batch();
    fake.say(&Reply::Cancel);
    assert!(fake.results()[0].1.contains("outcome unknown"));
    assert_eq!(fake.ended().0.reason, TurnReason::Cancelled);
    // Late, and passed over.
    fake.outcome(
        "a",
        Outcome::Answer {
            text: "late".into(),
        },
    );
    let next = fake.turn("Again.");
    fake.text(next.id, "Fine.");
    assert_eq!(fake.ended().0.reason, TurnReason::Done);
}

#[test]
fn a_resumed_session_repairs_appends_and_goes_on() {
    let mut fake = Fake::greeted(|welcome| {
        welcome.history = vec![
            Message::user("Go."),
            Message {
                role: Role::Assistant,
                parts: vec![Part::ToolCall {
                    id: id("a"),
                    name: "bash".into(),
                    input: json!({}),
                }],
            },
        ];
        welcome.unknown = vec![id("a")];
        welcome.turns_done = 0;
    });
    assert!(fake.results()[0].1.contains("outcome unknown"));
    fake.say(&Reply::Turn(TurnStart {
        number: 1,
        text: None,
    }));
    let infer = fake.infer();
    assert_eq!(infer.messages.len(), 3);
    assert!(infer.system.contains("was cut and goes on"));
}

#[test]
fn project_instructions_reach_the_prompt_labelled() {
    let mut fake = Fake::start();
    let _ = fake.hear();
    fake.put("AGENTS.md", "Use tabs.");
    let welcome = fake.welcome();
    fake.say(&Reply::Welcome(Box::new(welcome)));
    let infer = fake.turn("Go.");
    assert!(
        infer
            .system
            .contains("(from AGENTS.md in the workspace)\nWritten by whoever")
    );
    assert!(infer.system.contains("Use tabs."));
}

#[test]
fn a_law_that_does_not_read_is_said_and_every_call_asked() {
    let mut fake = Fake::greeted(|welcome| welcome.law = Value::Null);
    let infer = fake.turn("Go.");
    assert!(matches!(&fake.notes[0], Note::Log { text } if text.contains("cannot be read")));
    fake.calls(infer.id, &[("a", "bash", json!({"command": "git push"}))]);
    assert_eq!(fake.batch().len(), 1);
}

#[test]
fn reasons_are_known_to_the_supervisor_as_it_checks_them() {
    for reason in worker_agent::Reason::ALL {
        let word = reason.as_str();
        assert!(
            word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
            "{word}"
        );
        assert!(matches!(
            reason.kind(),
            TransitionKind::Continue
                | TransitionKind::ContinueWithRecovery
                | TransitionKind::Terminate
        ));
    }
}
