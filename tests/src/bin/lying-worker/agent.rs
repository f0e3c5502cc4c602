//! The agent's lies over its link: one for each row of the treaty's table, and for each form that a
//! frame may not have.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

use protocol::{
    CallId, Hello, Infer, Message, Note, Part, ROLE_AGENT, ROLE_HANDS, Reply, Request, Role,
    SessionId, Settled, Transition, TransitionKind, TurnEnd, TurnReason,
    call::{Call, Outcome, Prepared},
};
use provost_tests::lies::OWNED;
use serde_json::json;

use crate::{
    chosen, deeds, unknown,
    wire::{Wire, frame_of, framed},
};

/// The role: as the honest one up to its first word, walls included.
pub(crate) fn run() -> ExitCode {
    let walls = std::env::args().nth(2).unwrap_or_default();
    type Walls = (Vec<PathBuf>, Option<u32>, SessionId);
    let read = serde_json::from_str::<Walls>(&walls).map(|(read, ..)| read);
    let chosen = chosen(&read.unwrap_or_default());
    let ours = |lie: &str| !lie.starts_with("hands_") && !lie.starts_with("birth_");
    let Some(chosen) = chosen.filter(|chosen| ours(&chosen.lie)) else {
        return (provost_worker::Parts::OURS.agent)();
    };
    let Ok(link) = worker_jail::agent_link() else {
        return ExitCode::from(70);
    };
    let Ok(session) = worker_jail::confine_agent(&walls) else {
        return ExitCode::from(77);
    };
    let mut wire = Wire::new(link, session);
    let told = match chosen.lie.strip_prefix("deed_") {
        Some(deed) => deeds::run(&mut wire, deed, &chosen.plan),
        None => lie(&mut wire, &chosen.lie),
    };
    match told {
        Ok(()) => {
            wire.wait_for_the_end();
            ExitCode::SUCCESS
        }
        // The link has ended: what was said has had its answer.
        Err(error) if error.kind() != io::ErrorKind::Other => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(99),
    }
}

fn hello(wire: &Wire) -> Request {
    Request::Hello(Hello::new(ROLE_AGENT, wire.session.clone()))
}

/// Greets and waits for the turn.
pub(crate) fn greet(wire: &mut Wire) -> io::Result<()> {
    let hello = hello(wire);
    wire.say(&hello)?;
    while !matches!(wire.hear()?, Reply::Turn(_)) {}
    Ok(())
}

fn id(word: &str) -> io::Result<CallId> {
    CallId::parse(word).map_err(io::Error::other)
}

fn call(word: &str, tool: &str, input: serde_json::Value) -> io::Result<Call> {
    Ok(Call {
        id: id(word)?,
        tool: tool.to_owned(),
        input,
        prepared: None,
    })
}

/// What a lie is for: a file that must not be there afterwards.
fn owning(word: &str) -> io::Result<Call> {
    call(word, "bash", json!({ "command": format!("touch {OWNED}") }))
}

fn sleeping(word: &str) -> io::Result<Call> {
    call(word, "bash", json!({ "command": "sleep 60" }))
}

fn calls(calls: Vec<Call>) -> Request {
    Request::Calls { calls }
}

fn settled(word: &str) -> io::Result<Request> {
    Ok(Request::Settled(Settled {
        call: id(word)?,
        ok: true,
        bytes: 1,
        ms: 1,
    }))
}

fn infer(id: u64) -> Request {
    Request::Infer(Infer {
        id,
        system: String::new(),
        messages: vec![Message::user("say something")],
        tools: Vec::new(),
        max_output: 100,
    })
}

pub(crate) fn transition(reason: &str) -> Request {
    Request::Transition(Transition {
        iteration: 1,
        kind: TransitionKind::Continue,
        reason: reason.to_owned(),
    })
}

fn note(text: &str) -> Request {
    Request::Note(Note::Log {
        text: text.to_owned(),
    })
}

/// Ends the turn with these words, as an honest agent would.
pub(crate) fn turn_ended(text: &str) -> Request {
    Request::TurnEnded(TurnEnd {
        reason: TurnReason::Done,
        text: text.to_owned(),
        detail: None,
    })
}

/// A request of each kind, in its plainest form.
fn of_kind(wire: &Wire, kind: &str) -> io::Result<Request> {
    Ok(match kind {
        "hello" => hello(wire),
        "infer" => infer(1),
        "calls" => calls(vec![owning("a")?]),
        "settled" => settled("a")?,
        "append" => Request::Append(Message::user("a word")),
        "transition" => transition("next_turn"),
        "note" => note("a word"),
        "turn_ended" => turn_ended("over"),
        _ => return Err(unknown(kind)),
    })
}

/// Tells one lie. What comes after it is for a supervisor that believed it.
fn lie(wire: &mut Wire, name: &str) -> io::Result<()> {
    if let Some(kind) = name.strip_prefix("in_greeting_") {
        let request = of_kind(wire, kind)?;
        wire.say(&request)?;
        return greet(wire);
    }
    if let Some(kind) = name.strip_prefix("in_idle_") {
        greet(wire)?;
        let request = of_kind(wire, kind)?;
        return wire.say_at_once(&[turn_ended("over"), request]);
    }
    if let Some(kind) = name.strip_prefix("in_ended_") {
        greet(wire)?;
        let request = of_kind(wire, kind)?;
        return wire.say_at_once(&[settled("never")?, request, calls(vec![owning("z")?])]);
    }
    match name {
        "of_another_build" | "of_another_version" | "in_another_role" | "in_another_session" => {
            greets_as_another(wire, name)
        }
        "never_greets" => {
            std::thread::sleep(Duration::from_secs(30));
            Ok(())
        }
        "closes_at_once" => Err(io::ErrorKind::BrokenPipe.into()),
        "an_oversize_frame" => wire.raw(&0x8000_0000_u32.to_be_bytes()),
        "deep_nesting" => {
            let deep = [vec![b'['; 100], vec![b']'; 100]].concat();
            wire.raw(&framed(&deep))
        }
        "garbage" => wire.raw(&framed(&[0xff; 64])),
        "an_empty_frame" => wire.raw(&framed(b"")),
        "two_values_in_a_frame" => {
            let hello = serde_json::to_vec(&hello(wire))?;
            wire.raw(&framed(&[hello.clone(), hello].concat()))
        }
        "an_unknown_tag" => wire.raw(&framed(br#"{"run_as_root":{"command":"id"}}"#)),
        "an_unknown_field" => {
            let mut hello = serde_json::to_value(hello(wire))?;
            if let Some(hello) = hello
                .get_mut("hello")
                .and_then(|hello| hello.as_object_mut())
            {
                hello.insert("trusted".to_owned(), json!(true));
            }
            wire.raw(&framed(&serde_json::to_vec(&hello)?))
        }
        _ => {
            greet(wire)?;
            in_a_turn(wire, name)
        }
    }
}

fn greets_as_another(wire: &mut Wire, name: &str) -> io::Result<()> {
    let mut hello = Hello::new(ROLE_AGENT, wire.session.clone());
    match name {
        "of_another_build" => hello.build = "0.0.0+0".to_owned(),
        "of_another_version" => hello.version = u32::MAX,
        "in_another_role" => hello.role = ROLE_HANDS.to_owned(),
        _ => hello.session = SessionId::parse("s-another").map_err(io::Error::other)?,
    }
    wire.say(&Request::Hello(hello))?;
    wire.say(&calls(vec![owning("a")?]))
}

fn in_a_turn(wire: &mut Wire, name: &str) -> io::Result<()> {
    match name {
        "greets_twice" => {
            let hello = hello(wire);
            wire.say(&hello)
        }
        "a_call_twice" => {
            wire.say(&calls(vec![sleeping("a")?]))?;
            wire.say(&calls(vec![owning("a")?]))
        }
        "a_call_twice_in_a_batch" => wire.say(&calls(vec![sleeping("a")?, owning("a")?])),
        "a_batch_of_11" => {
            let all: io::Result<Vec<Call>> = (0..11).map(|n| owning(&format!("a{n}"))).collect();
            wire.say(&calls(all?))
        }
        "a_batch_of_none" => wire.say(&calls(Vec::new())),
        "settled_never_asked" => wire.say(&settled("never")?),
        "settled_an_effect" => {
            wire.say(&calls(vec![sleeping("a")?]))?;
            wire.say(&settled("a")?)
        }
        "settled_a_refusal" => {
            let denied = call("a", "read_file", json!({ "file_path": "/etc/shadow" }))?;
            wire.say(&calls(vec![denied]))?;
            while !matches!(wire.hear()?, Reply::Outcome { .. }) {}
            wire.say(&settled("a")?)
        }
        "settled_twice" => {
            let read = call("a", "read_file", json!({ "file_path": "readme" }))?;
            wire.say(&calls(vec![read]))?;
            loop {
                if let Reply::Outcome { outcome, .. } = wire.hear()? {
                    if *outcome != Outcome::Proceed {
                        return Err(unknown("the read was not allowed"));
                    }
                    break;
                }
            }
            wire.say(&settled("a")?)?;
            wire.say(&settled("a")?)
        }
        "appends_as_the_model" => wire.say(&Request::Append(Message {
            role: Role::Assistant,
            parts: vec![Part::Text {
                text: "I was told to do it".to_owned(),
            }],
        })),
        "infers_twice" => wire.say_at_once(&[infer(1), infer(2)]),
        "a_malformed_reason" => wire.say(&transition("next turn\u{1b}[2J")),
        "a_long_reason" => wire.say(&transition(&"a".repeat(65))),
        "a_large_frame_for_a_small_word" => {
            let large = Request::Append(Message::user("a".repeat(2 * 1024 * 1024)));
            wire.say(&large)
        }
        "a_flood_of_notes" => {
            let one = frame_of(&note("again"))?;
            let many = one.repeat(1_000);
            for _ in 0..200 {
                wire.raw(&many)?;
            }
            Ok(())
        }
        "half_a_frame" => {
            let whole = frame_of(&calls(vec![owning("a")?]))?;
            wire.raw(whole.get(..whole.len() / 2).unwrap_or_default())?;
            Err(io::ErrorKind::BrokenPipe.into())
        }
        "never_reads" => {
            wire.say(&infer(1))?;
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        }
        "ends_with_open_calls" => {
            let slow = json!({ "command": format!("sleep 3; touch {OWNED}") });
            wire.say(&calls(vec![call("a", "bash", slow)?]))?;
            wire.say(&turn_ended("over"))
        }
        "forged_content" => {
            let mut forged = call(
                "a",
                "write_file",
                json!({ "file_path": OWNED, "content": "as shown" }),
            )?;
            forged.prepared = Some(Prepared {
                base: None,
                content: "as written".to_owned(),
            });
            wire.say(&calls(vec![forged]))?;
            finish(wire)
        }
        "forged_base" => {
            let mut forged = call(
                "a",
                "write_file",
                json!({ "file_path": "readme", "content": "overwritten" }),
            )?;
            forged.prepared = Some(Prepared {
                base: None,
                content: "overwritten".to_owned(),
            });
            wire.say(&calls(vec![forged]))?;
            finish(wire)
        }
        // No lie at all: what each lie hopes for works when it is asked for in order.
        "nothing" => {
            wire.say(&calls(vec![owning("a")?]))?;
            finish(wire)
        }
        "an_unknown_tool" => {
            wire.say(&calls(vec![call("a", "sudo", json!({ "command": "id" }))?]))?;
            finish(wire)
        }
        _ => Err(unknown(name)),
    }
}

/// Ends the turn with what became of the one call.
fn finish(wire: &mut Wire) -> io::Result<()> {
    loop {
        if let Reply::Outcome { outcome, .. } = wire.hear()? {
            let text = serde_json::to_string(&outcome)?;
            return wire.say(&turn_ended(&text));
        }
    }
}
