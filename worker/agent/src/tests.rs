//! Drives the machine with scripted models and tools and holds its tables of cases.

use crate::{
    CallResult, Event, Intent, Phase, Readiness, Reason, Requested, Setup, State, ToolFacts,
    partition, step, wrap,
};
use protocol::{
    CallId, InferFailure, Inference, Message, Part, Role, StopReason, ToolSpec, TransitionKind,
    TurnEnd, TurnReason, TurnStart, Usage,
};
use serde_json::{Value, json};

/// One thing that the scripted model does.
#[derive(Clone)]
enum Says {
    Text(&'static str, StopReason),
    Calls(Vec<(&'static str, &'static str, Value)>, StopReason),
    Fails(&'static str, bool, Option<u64>),
}

fn text(words: &'static str) -> Says {
    Says::Text(words, StopReason::End)
}

fn call(id: &'static str, tool: &'static str) -> Says {
    Says::Calls(vec![(id, tool, json!({"n": id}))], StopReason::Tool)
}

/// A call whose input is always the same.
fn same(id: &'static str, tool: &'static str) -> Says {
    Says::Calls(vec![(id, tool, json!({}))], StopReason::Tool)
}

fn id(word: &str) -> CallId {
    CallId::parse(word).expect("valid")
}

fn setup() -> Setup {
    let tool = |name: &str, waits| ToolFacts {
        spec: ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        },
        waits,
    };
    Setup {
        system: "system".into(),
        tools: vec![
            tool("bash", false),
            tool("job_output", true),
            tool("read_file", false),
        ],
        max_output: 1_000,
        iterations: 100,
        turns: 100,
        turns_done: 0,
        history: Vec::new(),
        unknown: Vec::new(),
        seed: 7,
    }
}

/// What happened in one turn.
#[derive(Debug, Default)]
struct Seen {
    infers: usize,
    reasons: Vec<String>,
    batches: Vec<Vec<String>>,
    waits: Vec<u64>,
    appended: Vec<Message>,
    end: Option<TurnEnd>,
}

impl Seen {
    fn recoveries(&self, word: &str) -> usize {
        self.reasons.iter().filter(|reason| *reason == word).count()
    }
    fn reason(&self) -> TurnReason {
        self.end.as_ref().expect("the turn ended").reason
    }
    fn last(&self) -> &str {
        self.reasons.last().expect("a reason")
    }
}

/// Runs a turn against a script; the model repeats its last line when the script is over. Cancels
/// after `cancel_at` events, if given.
fn drive(
    state: State,
    task: Option<&str>,
    script: &[Says],
    cancel_at: Option<usize>,
) -> (State, Seen) {
    let mut seen = Seen::default();
    let start = TurnStart {
        number: 1,
        text: task.map(str::to_owned),
    };
    let mut events = vec![Event::Turn(start)];
    let (mut state, mut asked, mut count) = (state, 0, 0);
    while let Some(event) = events.pop() {
        let (next, intents) = step(state, event);
        state = next;
        count += 1;
        assert!(count < 1_000, "the turn never ends");
        for intent in intents {
            match intent {
                Intent::Append(message) => seen.appended.push(message),
                Intent::Transition(transition) => {
                    let known = Reason::ALL.iter().find(|r| r.as_str() == transition.reason);
                    assert_eq!(known.expect("a known reason").kind(), transition.kind);
                    seen.reasons.push(transition.reason);
                }
                Intent::Wait { ms } => {
                    seen.waits.push(ms);
                    events.push(Event::Waited);
                }
                Intent::TurnEnded(end) => seen.end = Some(end),
                Intent::Infer(infer) => {
                    check(&infer.messages);
                    let line = script.get(asked).or(script.last()).expect("a script");
                    asked += 1;
                    seen.infers += 1;
                    events.push(answer(infer.id, line));
                }
                Intent::Prepare(calls) => {
                    events.push(Event::Prepared(calls.iter().map(readiness).collect()));
                }
                Intent::Run(calls) => {
                    seen.batches
                        .push(calls.iter().map(|c| c.id.as_str().to_owned()).collect());
                    // Results come in any order.
                    events.push(Event::Results(calls.iter().rev().map(result).collect()));
                }
            }
        }
        if cancel_at == Some(count) {
            // The cancel comes first, what was under way comes late.
            events.push(Event::Cancel);
        }
    }
    if seen.end.is_some() {
        assert_eq!(state.phase(), Phase::Idle);
    }
    check(state.history());
    (state, seen)
}

fn answer(id_of: u64, line: &Says) -> Event {
    let (parts, stop) = match line {
        Says::Fails(class, retryable, after) => {
            return Event::InferFailed(InferFailure {
                id: id_of,
                class: (*class).into(),
                retryable: *retryable,
                message: "it failed".into(),
                retry_after_ms: *after,
            });
        }
        Says::Text(words, stop) => (
            vec![Part::Text {
                text: (*words).into(),
            }],
            *stop,
        ),
        Says::Calls(calls, stop) => {
            let parts = calls.iter().map(|(word, tool, input)| Part::ToolCall {
                id: id(word),
                name: (*tool).into(),
                input: input.clone(),
            });
            (parts.collect(), *stop)
        }
    };
    Event::Inferred {
        id: id_of,
        answer: Box::new(Inference {
            message: Message {
                role: Role::Assistant,
                parts,
            },
            stop,
            usage: Usage::default(),
            provider: "script".into(),
            model: "script".into(),
        }),
    }
}

fn readiness(call: &Requested) -> Readiness {
    match call.tool.as_str() {
        "read_file" => Readiness::Safe,
        "bash" | "job_output" => Readiness::Alone,
        _ => Readiness::Failed(CallResult {
            id: call.id.clone(),
            content: "tool not found".into(),
            is_error: true,
            essence: call.id.to_string(),
        }),
    }
}

fn result(call: &Requested) -> CallResult {
    CallResult {
        id: call.id.clone(),
        content: wrap(&call.tool, "{\"ok\":true}"),
        is_error: false,
        essence: "ok".into(),
    }
}

/// What every provider wants: each call has exactly one result, in the message after it, and
/// nothing is empty.
fn check(history: &[Message]) {
    let mut open: Vec<CallId> = Vec::new();
    for message in history {
        assert!(!message.parts.is_empty());
        for part in &message.parts {
            match part {
                Part::ToolResult { id, .. } => {
                    let at = open
                        .iter()
                        .position(|o| o == id)
                        .expect("a result has an open call");
                    open.remove(at);
                }
                Part::ToolCall { id, .. } => {
                    assert_eq!(message.role, Role::Assistant);
                    open.push(id.clone());
                }
                Part::Text { text } => {
                    assert!(!text.is_empty());
                    assert!(
                        message.role == Role::Assistant || open.is_empty(),
                        "results come first"
                    );
                }
                Part::Reasoning { .. } => {}
            }
        }
        if message.role == Role::User {
            assert!(
                open.is_empty(),
                "all results stand in the message after the calls: {open:?}"
            );
        }
    }
}

fn run(script: &[Says]) -> Seen {
    let (state, _) = State::new(setup());
    drive(state, Some("do it"), script, None).1
}

#[test]
fn a_plain_answer_ends_the_turn_with_one_call() {
    let seen = run(&[text("Hello.")]);
    assert_eq!((seen.infers, seen.reason()), (1, TurnReason::Done));
    assert_eq!(seen.end.expect("end").text, "Hello.");
    assert_eq!(seen.reasons, ["stop_reason_terminal"]);
}

#[test]
fn announcing_without_a_tool_used_before_is_no_reason_to_nudge() {
    let seen = run(&[text("I'll now continue")]);
    assert_eq!((seen.infers, seen.reason()), (1, TurnReason::Done));
}

#[test]
fn announcements_after_a_tool_are_nudged_at_most_three_times() {
    let seen = run(&[call("a", "bash"), text("Next I will run the tests.")]);
    assert_eq!(seen.recoveries("continuation_nudge"), 3);
    assert_eq!(
        (seen.last(), seen.reason()),
        ("nudges_exhausted", TurnReason::NoProgress)
    );

    let script = [
        call("a", "bash"),
        text("I'll now apply the patch."),
        call("b", "bash"),
        text("I'll now apply the patch."),
        text("All done."),
    ];
    let seen = run(&script);
    assert_eq!(
        (seen.recoveries("continuation_nudge"), seen.reason()),
        (2, TurnReason::Done)
    );
}

#[test]
fn the_output_limit_is_resumed_three_times_with_a_counter_of_its_own() {
    let seen = run(&[Says::Text("part", StopReason::Length)]);
    assert_eq!(seen.recoveries("max_output_tokens_recovery"), 3);
    assert_eq!((seen.infers, seen.last()), (4, "output_limit_reached"));

    let script = [
        Says::Fails("network", true, None),
        Says::Fails("network", true, None),
        Says::Text("part", StopReason::Length),
        Says::Text("part", StopReason::Length),
        Says::Text("part", StopReason::Length),
        text("All done."),
    ];
    assert_eq!(
        run(&script).reason(),
        TurnReason::Done,
        "recoveries and resumes do not share"
    );
}

#[test]
fn tools_run_whatever_the_stop_reason_says() {
    for stop in [
        StopReason::End,
        StopReason::Length,
        StopReason::Other,
        StopReason::Filtered,
    ] {
        let calls = vec![("a", "bash", json!({"command": "ls"}))];
        let seen = run(&[Says::Calls(calls, stop), text("All done.")]);
        assert_eq!(seen.batches, [["a"]], "{stop:?}");
        assert_eq!(
            seen.reasons,
            ["tool_results_appended", "stop_reason_terminal"]
        );
    }
}

#[test]
fn a_call_that_was_cut_or_does_not_parse_is_never_run() {
    let cut = Says::Calls(
        vec![
            ("a", "bash", json!({"command": "ls"})),
            ("b", "bash", json!({})),
        ],
        StopReason::Length,
    );
    let seen = run(&[cut, text("All done.")]);
    assert_eq!(seen.batches, [["a"]]);
    assert!(result_text(&seen, "b").contains("the output limit cut the answer"));

    let broken = json!({"_invalid": "{\"command\": \"rm -rf bu"});
    let seen = run(&[
        Says::Calls(vec![("a", "bash", broken)], StopReason::Tool),
        text("All done."),
    ]);
    assert!(seen.batches.is_empty());
    let told = result_text(&seen, "a");
    assert!(
        told.contains("`bash` is not valid JSON (EOF while parsing a string at line 1"),
        "{told}"
    );
    assert!(told.contains("the input's schema is"), "{told}");
}

fn result_text(seen: &Seen, of: &str) -> String {
    let parts = seen.appended.iter().flat_map(|message| &message.parts);
    let mut found = parts.filter_map(|part| match part {
        Part::ToolResult { id, content, .. } if id.as_str() == of => Some(content.clone()),
        _ => None,
    });
    let first = found.next().expect("a result");
    assert_eq!(found.next(), None, "exactly one result");
    first
}

#[test]
fn rounds_of_calls_that_no_tool_takes_end_the_turn() {
    let script: Vec<Says> = ["a", "b", "c", "d", "e", "f"]
        .map(|word| call(word, "no_such_tool"))
        .to_vec();
    let seen = run(&script);
    assert_eq!((seen.infers, seen.last()), (5, "invalid_calls"));
}

#[test]
fn failures_recover_with_growing_waits_and_end_after_three_in_a_row() {
    let script = [Says::Fails("network", true, None), text("Fine.")];
    let seen = run(&script);
    assert_eq!(
        seen.reasons,
        ["recoverable_network", "stop_reason_terminal"]
    );

    let seen = run(&[Says::Fails("network", true, None)]);
    assert_eq!((seen.infers, seen.last()), (4, "recovery_error"));
    let [first, second, third] = seen.waits[..] else {
        panic!("three waits")
    };
    assert!(
        (250..=312).contains(&first) && (500..=625).contains(&second),
        "{first} {second}"
    );
    assert!((1_000..=1_250).contains(&third), "{third}");

    let seen = run(&[Says::Fails("authentication", false, None)]);
    assert_eq!(
        (seen.infers, seen.reasons.as_slice()),
        (1, &["api_error_terminal".to_owned()][..])
    );
    assert!(
        seen.end
            .expect("end")
            .detail
            .expect("detail")
            .contains("it failed")
    );
}

#[test]
fn a_providers_advice_to_wait_is_honoured_and_bounded() {
    let seen = run(&[Says::Fails("rate_limit", true, Some(45_000)), text("Fine.")]);
    assert_eq!(seen.waits, [45_000]);
    let seen = run(&[Says::Fails("rate_limit", true, Some(3_600_000))]);
    assert_eq!((seen.infers, seen.last()), (1, "api_error_terminal"));
}

#[test]
fn failures_that_no_retry_helps_name_their_kind() {
    let table = [
        ("budget", TurnReason::BudgetReached),
        ("refusal", TurnReason::Filtered),
        ("context_too_long", TurnReason::ContextFull),
        ("client", TurnReason::ModelFailed),
    ];
    for (class, reason) in table {
        assert_eq!(
            run(&[Says::Fails(class, false, None)]).reason(),
            reason,
            "{class}"
        );
    }
}

#[test]
fn a_success_in_between_starts_the_count_of_failures_anew() {
    let fail = Says::Fails("overload", true, None);
    let script = [
        fail.clone(),
        fail.clone(),
        fail.clone(),
        call("a", "bash"),
        fail.clone(),
        fail.clone(),
        fail,
        text("All done."),
    ];
    assert_eq!(run(&script).reason(), TurnReason::Done);
}

#[test]
fn an_empty_answer_is_asked_once_more_and_never_taken_for_success() {
    let seen = run(&[call("a", "bash"), text("")]);
    assert_eq!(
        seen.reasons[1..],
        ["empty_answer_retry", "no_answer_from_model"]
    );
    assert_eq!(seen.reason(), TurnReason::ModelFailed);
    assert_eq!(run(&[text(""), text("Fine.")]).reason(), TurnReason::Done);
}

#[test]
fn other_stops_are_explained() {
    let seen = run(&[Says::Text("…", StopReason::Malformed)]);
    assert_eq!((seen.infers, seen.last()), (4, "recovery_error"));
    assert_eq!(
        run(&[Says::Text("no", StopReason::Filtered)]).reason(),
        TurnReason::Filtered
    );
    assert_eq!(
        run(&[Says::Text("no", StopReason::ContextFull)]).reason(),
        TurnReason::ContextFull
    );
    let seen = run(&[Says::Text("thinking", StopReason::Continue), text("Done.")]);
    assert_eq!(seen.reasons, ["provider_paused", "stop_reason_terminal"]);
}

#[test]
fn a_hundred_rounds_reach_the_cap_and_it_is_told_apart_from_an_end() {
    let ids: Vec<&'static str> = (0..120)
        .map(|n| &*Box::leak(format!("c{n}").into_boxed_str()))
        .collect();
    let script: Vec<Says> = ids.into_iter().map(|word| call(word, "bash")).collect();
    let seen = run(&script);
    assert_eq!(
        (seen.infers, seen.reason()),
        (100, TurnReason::MaxIterationsReached)
    );
    assert_eq!(seen.last(), "max_iterations_reached");
}

#[test]
fn a_session_at_its_last_turn_is_refused_before_any_model_call() {
    let (state, _) = State::new(Setup {
        turns: 2,
        turns_done: 2,
        ..setup()
    });
    let (_, seen) = drive(state, Some("more"), &[text("x")], None);
    assert_eq!(
        (seen.infers, seen.reason()),
        (0, TurnReason::MaxTurnsReached)
    );
}

#[test]
fn the_same_call_with_the_same_result_three_times_ends_the_turn() {
    let seen = run(&[
        same("a", "bash"),
        same("b", "bash"),
        same("c", "bash"),
        text("no"),
    ]);
    assert_eq!((seen.infers, seen.reason()), (3, TurnReason::NoProgress));
    let waits = [
        same("a", "job_output"),
        same("b", "job_output"),
        same("c", "job_output"),
        text("Fine."),
    ];
    assert_eq!(
        run(&waits).reason(),
        TurnReason::Done,
        "waiting for a job is not spinning"
    );

    let (state, _) = State::new(setup());
    let spin = [same("a", "bash"), same("b", "bash"), same("c", "bash")];
    let (state, seen) = drive(state, Some("go"), &spin, None);
    assert_eq!(seen.reason(), TurnReason::NoProgress);
    let (_, seen) = drive(
        state,
        Some("try another way"),
        &[same("d", "bash"), text("Fine.")],
        None,
    );
    assert_eq!(
        seen.reason(),
        TurnReason::Done,
        "a person's word starts anew"
    );
}

#[test]
fn calls_run_in_batches_in_model_order() {
    let (r, b) = ("read_file", "bash");
    let seen = run(&[
        Says::Calls(
            vec![
                ("a", r, json!(1)),
                ("b", r, json!(2)),
                ("c", b, json!(3)),
                ("d", r, json!(4)),
            ],
            StopReason::Tool,
        ),
        text("All done."),
    ]);
    assert_eq!(seen.batches, [vec!["a", "b"], vec!["c"], vec!["d"]]);
    let order: Vec<String> = seen
        .appended
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::ToolResult { id, .. } => Some(id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["a", "b", "c", "d"], "results stand in call order");
}

#[test]
fn a_failed_call_among_safe_ones_is_a_batch_of_its_own() {
    let failed = || {
        Readiness::Failed(CallResult {
            id: id("x"),
            content: String::new(),
            is_error: true,
            essence: String::new(),
        })
    };
    let (s, a) = (|| Readiness::Safe, || Readiness::Alone);
    assert_eq!(partition(&[s(), s(), a(), s()]), [0..2, 2..3, 3..4]);
    assert_eq!(partition(&[s(), failed(), s()]), [0..1, 1..2, 2..3]);
    assert_eq!(partition(&vec![s(); 12]), [0..10, 10..12]);
    assert_eq!(partition(&[a(), a()]), [0..1, 1..2]);
    assert_eq!(partition(&[]), []);

    let calls = vec![
        ("a", "read_file", json!(1)),
        ("b", "nope", json!(1)),
        ("c", "read_file", json!(2)),
    ];
    let seen = run(&[Says::Calls(calls, StopReason::Tool), text("All done.")]);
    assert_eq!(seen.batches, [["a"], ["c"]]);
    assert_eq!(result_text(&seen, "b"), "tool not found");
}

#[test]
fn an_id_that_comes_twice_in_one_answer_runs_once() {
    let calls = vec![("a", "bash", json!(1)), ("a", "bash", json!(2))];
    let seen = run(&[Says::Calls(calls, StopReason::Tool), text("All done.")]);
    assert_eq!(seen.batches, [["a"]]);
}

#[test]
fn a_call_without_a_result_is_told_as_unknown() {
    let (state, _) = State::new(setup());
    let (state, _) = step(
        state,
        Event::Turn(TurnStart {
            number: 1,
            text: Some("go".into()),
        }),
    );
    let (state, _) = step(state, answer(1, &call("a", "bash")));
    let (state, _) = step(state, Event::Prepared(vec![Readiness::Alone]));
    let (state, intents) = step(state, Event::Results(Vec::new()));
    let Some(Intent::Append(message)) = intents.first() else {
        panic!("{intents:?}")
    };
    assert!(format!("{message:?}").contains("outcome unknown"));
    check(state.history());
}

#[test]
fn a_cancel_at_any_point_leaves_a_history_that_every_provider_accepts() {
    let r = "read_file";
    let script = [
        Says::Fails("network", true, None),
        Says::Calls(
            vec![
                ("a", r, json!(1)),
                ("b", r, json!(2)),
                ("c", "bash", json!(3)),
                ("d", "nope", json!(4)),
            ],
            StopReason::Tool,
        ),
        Says::Text("part", StopReason::Length),
        text("I'll now continue with the rest. Moving on"),
        call("e", "bash"),
        text("All done."),
    ];
    let mut cancelled = 0;
    for at in 1..40 {
        let (state, _) = State::new(setup());
        let (state, seen) = drive(state, Some("go"), &script, Some(at));
        if seen.reason() == TurnReason::Cancelled {
            cancelled += 1;
            assert_eq!(seen.last(), "cancelled");
        } else {
            assert_eq!(seen.reason(), TurnReason::Done, "cancel at {at}");
        }
        // The next turn goes on from there.
        let (_, next) = drive(state, Some("again"), &[text("Fine.")], None);
        assert_eq!(next.reason(), TurnReason::Done);
    }
    assert!(cancelled >= 12, "{cancelled}");
}

#[test]
fn what_was_not_started_when_the_cancel_came_is_told_so() {
    let (state, _) = State::new(setup());
    let calls = vec![("a", "bash", json!(1)), ("b", "bash", json!(2))];
    let (state, _) = step(
        state,
        Event::Turn(TurnStart {
            number: 1,
            text: Some("go".into()),
        }),
    );
    let (state, _) = step(state, answer(1, &Says::Calls(calls, StopReason::Tool)));
    let (state, _) = step(
        state,
        Event::Prepared(vec![Readiness::Alone, Readiness::Alone]),
    );
    let (state, intents) = step(state, Event::Cancel);
    assert_eq!(
        (intents, state.phase()),
        (vec![], Phase::Running),
        "the batch is awaited"
    );
    let done = CallResult {
        id: id("a"),
        content: "did".into(),
        is_error: false,
        essence: "did".into(),
    };
    let (state, intents) = step(state, Event::Results(vec![done]));
    let said = format!("{intents:?}");
    assert!(
        said.contains("did") && said.contains("before this call ran"),
        "{said}"
    );
    assert!(
        matches!(intents.last(), Some(Intent::TurnEnded(end)) if end.reason == TurnReason::Cancelled)
    );
    check(state.history());
}

#[test]
fn late_and_stray_events_change_nothing() {
    let (state, _) = State::new(setup());
    let (state, _) = step(
        state,
        Event::Turn(TurnStart {
            number: 1,
            text: Some("go".into()),
        }),
    );
    for stray in [
        answer(99, &text("late")),
        Event::Waited,
        Event::Results(vec![]),
        Event::Prepared(vec![]),
        Event::Turn(TurnStart {
            number: 2,
            text: Some("another".into()),
        }),
    ] {
        let (after, intents) = step(state.clone(), stray);
        assert!(intents.is_empty());
        assert_eq!(
            (after.phase(), after.history()),
            (Phase::Inferring, state.history())
        );
    }
    let (state, intents) = step(state, Event::Cancel);
    let kinds = intents.iter().filter_map(|intent| match intent {
        Intent::Transition(transition) => Some(transition.kind),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [TransitionKind::Terminate]);
    let (after, intents) = step(state.clone(), answer(1, &text("late")));
    assert!(
        intents.is_empty() && after.history() == state.history(),
        "an answer after the cancel"
    );
}

#[test]
fn a_resumed_session_repairs_its_history_and_goes_on() {
    let history = vec![
        Message::user("go"),
        Message {
            role: Role::Assistant,
            parts: vec![Part::ToolCall {
                id: id("a"),
                name: "bash".into(),
                input: json!({}),
            }],
        },
    ];
    let (state, intents) = State::new(Setup {
        history,
        unknown: vec![id("a")],
        ..setup()
    });
    let [Intent::Append(message)] = &intents[..] else {
        panic!("{intents:?}")
    };
    assert!(format!("{message:?}").contains("outcome unknown"));
    let (state, seen) = drive(
        state,
        None,
        &[text("I'll now continue."), text("All done.")],
        None,
    );
    assert_eq!(
        seen.recoveries("continuation_nudge"),
        1,
        "tools were used before the cut"
    );
    assert_eq!(seen.reason(), TurnReason::Done);
    // A finished conversation has nothing open, and goes on when asked to.
    let (_, seen) = drive(state, None, &[text("Nothing is left.")], None);
    assert_eq!(seen.reason(), TurnReason::Done);
    let (state, _) = State::new(setup());
    let (_, seen) = drive(state, None, &[text("x")], None);
    assert_eq!((seen.infers, seen.last()), (0, "nothing_to_do"));
}
