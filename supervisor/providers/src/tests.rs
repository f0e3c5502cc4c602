//! Whole calls against a provider that misbehaves: classes, attempts, breaker, and no key anywhere.

mod count;
mod dialects;
mod routes;
mod wall;

use std::time::{Duration, Instant};

use protocol::{Inference, Message, Part, StopReason, ToolSpec};
use serde_json::{Value, json};
use supervisor_core::{
    Infer, Secret,
    breaker::{self, Breaker, Phase},
};

use crate::{
    Class, Config, Credential, InferError, Limits, Providers, Script,
    faults::{Act, End, Faults},
    retry::Backoff,
};

const KEY: &str = "sk-ant-MARKER-0123456789abcdefghij";

fn providers(url: &str) -> Providers {
    let mut config = Config::parse(None, None, &|_| None).expect("embedded");
    config.set_base_url("anthropic", url).expect("an address");
    with(config)
}

fn with(config: Config) -> Providers {
    let limits = Limits {
        connect: Duration::from_secs(2),
        first_byte: Duration::from_millis(300),
        first_content: Duration::from_secs(20),
        slow_window: Duration::from_secs(20),
        slow_bytes: 1,
        idle: Duration::from_millis(300),
        total: Duration::from_secs(20),
    };
    let mut providers = Providers::with_limits(config, limits);
    let step = Duration::from_millis(1);
    providers.set_backoff(Backoff {
        first: step,
        cap: step,
    });
    providers
}

fn ask(provider: &str) -> Infer {
    let request = protocol::Infer {
        id: 1,
        system: "Be brief.".into(),
        messages: vec![Message::user("hello")],
        tools: vec![ToolSpec {
            name: "bash".into(),
            description: "runs".into(),
            input_schema: json!({"type": "object"}),
        }],
        max_output: 100,
    };
    Infer {
        request,
        provider: provider.into(),
        model: "claude-opus-5".into(),
        fallbacks: Vec::new(),
    }
}

/// Makes a call and looks for the key in whatever comes of it.
async fn call(providers: &Providers) -> (Result<Inference, InferError>, String) {
    let secret = Credential::Key(Secret::new(KEY.into()));
    let mut text = String::new();
    let result = providers
        .infer_with(&ask("anthropic"), Some(&secret), &mut |d| text.push_str(d))
        .await;
    let all = format!("{result:?} {text} {providers:?}");
    assert!(!all.contains("MARKER"), "a key got out: {all}");
    if let Err(failure) = &result {
        assert!(
            failure.message.len() < 700 && !failure.message.contains('\n'),
            "{failure}"
        );
    }
    (result, text)
}

async fn failure(acts: Vec<Act>) -> (InferError, String, usize) {
    let server = Faults::start(acts).await;
    let (result, text) = call(&providers(&server.url())).await;
    (result.expect_err("a failure"), text, server.seen().len())
}

fn sse(events: &[Value]) -> Vec<u8> {
    let line = |event: &Value| format!("data: {event}\n\n");
    events.iter().map(line).collect::<String>().into_bytes()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}})
}

fn text(words: &str) -> [Value; 2] {
    [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}),
    ]
}

fn stop() -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]
}

fn good(words: &str) -> Vec<u8> {
    let [a, b] = text(words);
    let [c, d] = stop();
    sse(&[start(), a, b, c, d])
}

/// A stream that has forwarded `half` and goes on no further.
fn half() -> Vec<u8> {
    let [a, b] = text("half");
    sse(&[start(), a, b])
}

fn error_body(kind: &str, message: &str) -> Vec<u8> {
    json!({"type": "error", "error": {"type": kind, "message": message}})
        .to_string()
        .into_bytes()
}

#[tokio::test]
async fn a_whole_answer_is_the_same_in_any_pieces_and_the_request_is_what_the_dialect_says() {
    for size in [1, 7, 4_096] {
        let server = Faults::start(vec![Act::stream(good("Grüße aus 東京")).pieces(size)]).await;
        let (result, forwarded) = call(&providers(&server.url())).await;
        let answer = result.expect("an answer");
        assert_eq!(answer.message.text(), "Grüße aus 東京");
        assert_eq!(forwarded, "Grüße aus 東京");
        assert_eq!(
            (answer.stop, answer.usage.output),
            (StopReason::End, Some(5))
        );
        let seen = server.seen();
        assert_eq!(seen.len(), 1);
        let head = seen[0].head.to_lowercase();
        assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
        assert!(
            head.contains(&format!("x-api-key: {KEY}").to_lowercase()),
            "{head}"
        );
        assert!(head.contains("anthropic-version: 2023-06-01"), "{head}");
        assert!(
            !head.contains("accept-encoding") && !head.contains("cookie"),
            "{head}"
        );
        let body: Value = serde_json::from_str(&seen[0].body).expect("JSON");
        assert_eq!(
            (&body["model"], &body["stream"]),
            (&json!("claude-opus-5"), &json!(true))
        );
        assert!(!seen[0].body.contains("MARKER"));
    }
}

#[tokio::test]
async fn a_bearer_row_shows_the_key_that_way_and_base_urls_are_written_in_three_ways() {
    for suffix in ["", "/v1", "/v1/messages/"] {
        let server = Faults::start(vec![Act::stream(good("ok"))]).await;
        let file = format!(
            "version = 1\n[provider.anthropic]\nbase_url = \"{}{suffix}\"\nauth = \"bearer\"",
            server.url()
        );
        let config = Config::parse(Some(("p", &file)), None, &|_| None).expect("good");
        call(&with(config)).await.0.expect("an answer");
        let head = server.seen()[0].head.clone();
        assert!(head.starts_with("POST /v1/messages HTTP"), "{head}");
        assert!(
            head.contains(&format!("authorization: Bearer {KEY}")),
            "{head}"
        );
        assert!(!head.contains("x-api-key"), "{head}");
    }
}

#[tokio::test]
async fn each_status_has_its_class_and_only_what_passes_is_tried_again() {
    let table = [
        (
            400,
            error_body("invalid_request_error", "no"),
            Class::Client,
            1,
        ),
        (
            400,
            error_body("invalid_request_error", "prompt is too long: 9 tokens > 8"),
            Class::ContextTooLong,
            1,
        ),
        (
            401,
            error_body("authentication_error", &format!("invalid key {KEY}")),
            Class::Authentication,
            1,
        ),
        (
            403,
            error_body("permission_error", &KEY[4..30]),
            Class::Authentication,
            1,
        ),
        (402, error_body("billing_error", "pay"), Class::Quota, 1),
        (404, b"<html>not here</html>".to_vec(), Class::Client, 1),
        (
            429,
            error_body("rate_limit_error", "slowly"),
            Class::RateLimit,
            3,
        ),
        (500, error_body("api_error", "oops"), Class::Overload, 3),
        (502, Vec::new(), Class::Overload, 3),
        (
            529,
            error_body("overloaded_error", "Overloaded"),
            Class::Overload,
            3,
        ),
        (
            200,
            error_body("overloaded_error", "Overloaded"),
            Class::Overload,
            3,
        ),
        (204, Vec::new(), Class::Other, 1),
    ];
    for (status, body, class, attempts) in table {
        let act = Act::answer(status, &[("content-type", "application/json")], body);
        let (failure, text, seen) = failure(vec![act]).await;
        assert_eq!(
            (failure.class, failure.attempts),
            (class, attempts),
            "{status}: {failure}"
        );
        assert_eq!(
            (seen, failure.retryable),
            (attempts as usize, attempts > 1),
            "{failure}"
        );
        assert_eq!(text, "");
        let report = failure.report(7);
        assert_eq!((report.id, report.class.as_str()), (7, class.as_str()));
    }
}

#[tokio::test]
async fn an_outage_that_passes_is_not_noticed_and_nothing_is_said_twice() {
    let [a, _] = text("");
    let acts = vec![
        Act::answer(529, &[], error_body("overloaded_error", "busy")),
        Act::stream(sse(&[start(), a])).ends(End::Drop),
        Act::stream(good("fine")),
    ];
    let server = Faults::start(acts).await;
    let providers = providers(&server.url());
    let (result, forwarded) = call(&providers).await;
    assert_eq!(result.expect("an answer").message.text(), "fine");
    assert_eq!((forwarded.as_str(), server.seen().len()), ("fine", 3));
    assert_eq!(
        providers.breaker("anthropic").expect("asked"),
        Breaker::default(),
        "a success clears the count"
    );
}

#[tokio::test]
async fn advice_to_wait_is_kept_and_advice_beyond_the_bound_is_told() {
    let busy = error_body("rate_limit_error", "slowly");
    let acts = vec![
        Act::answer(
            429,
            &[("retry-after-ms", "250"), ("retry-after", "0")],
            busy.clone(),
        ),
        Act::stream(good("ok")),
    ];
    let server = Faults::start(acts).await;
    call(&providers(&server.url())).await.0.expect("an answer");
    let seen = server.seen();
    assert!(seen[1].at - seen[0].at >= Duration::from_millis(250));

    for (after, ms) in [("45240", 45_240_000), ("1000000000", 366 * 86_400_000)] {
        let (failure, _, seen) = failure(vec![Act::answer(
            429,
            &[("retry-after", after)],
            busy.clone(),
        )])
        .await;
        assert_eq!(
            (failure.retry_after_ms, failure.attempts, seen),
            (Some(ms), 1, 1)
        );
        assert!(failure.retryable);
    }
    let told = Act::answer(529, &[("x-should-retry", "false")], Vec::new());
    assert_eq!(failure(vec![told]).await.2, 1);
}

#[tokio::test]
async fn after_the_first_delta_nothing_is_tried_again() {
    let [a, b] = text("half");
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": KEY}});
    let acts = [
        (Act::stream(half()), Class::Network, "broke off"),
        (Act::stream(half()).ends(End::Drop), Class::Network, "broke"),
        (
            Act::stream(half()).ends(End::Stall),
            Class::Network,
            "silent",
        ),
        (
            Act::stream(sse(&[start(), a, b, error])),
            Class::Overload,
            "overloaded_error",
        ),
    ];
    for (act, class, word) in acts {
        let (failure, forwarded, seen) = failure(vec![act.clone()]).await;
        assert_eq!(
            (failure.class, failure.attempts, seen),
            (class, 1, 1),
            "{act:?}: {failure}"
        );
        assert!(failure.message.contains(word), "{failure}");
        assert_eq!(forwarded, "half");
        assert!(
            failure.retryable,
            "the loop above may withdraw it and ask again"
        );
    }
}

#[tokio::test]
async fn a_cut_anywhere_before_the_end_is_never_an_answer() {
    let whole = good("never an answer");
    let end = String::from_utf8_lossy(&whole)
        .find("data: {\"type\":\"message_stop")
        .expect("ends");
    for cut in [0, 1, 20, 90, end / 2, end - 1, end, end + 10] {
        for how in [End::Whole, End::Drop] {
            let server = Faults::start(vec![Act::stream(&whole[..cut]).ends(how)]).await;
            let result = call(&providers(&server.url())).await.0;
            let failure = result.expect_err("cut");
            assert_eq!(
                (failure.class, failure.retryable),
                (Class::Network, true),
                "at {cut}"
            );
        }
    }
}

#[tokio::test]
async fn every_limit_has_an_error_of_its_own() {
    let (failure, _, seen) = self::failure(vec![Act::Silence]).await;
    assert_eq!(
        (failure.class, failure.retryable, seen),
        (Class::Network, true, 1)
    );
    assert!(
        failure.message.contains("no byte of an answer"),
        "{failure}"
    );

    let head_only = Act::stream(Vec::new()).ends(End::Stall);
    let (failure, ..) = self::failure(vec![head_only]).await;
    assert!(
        failure.message.contains("no byte of an answer"),
        "{failure}"
    );

    let (failure, _, seen) =
        self::failure(vec![Act::stream(sse(&[start()])).ends(End::Stall)]).await;
    assert!(failure.message.contains("silent for 0.3 s"), "{failure}");
    assert_eq!(seen, 3, "nothing was forwarded");

    let (failure, _, seen) = self::failure(vec![Act::HangUp]).await;
    assert_eq!((failure.class, seen), (Class::Network, 3));
    assert!(failure.message.contains("broke"), "{failure}");

    let gone = Faults::start(vec![Act::HangUp]).await;
    let url = gone.url();
    drop(gone);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let failure = call(&providers(&url)).await.0.expect_err("nobody there");
    assert_eq!((failure.class, failure.attempts), (Class::Network, 3));
    assert!(failure.message.contains("cannot connect"), "{failure}");

    let server = Faults::start(vec![Act::stream(half()).ends(End::Stall)]).await;
    let mut config = Config::parse(None, None, &|_| None).expect("embedded");
    config
        .set_base_url("anthropic", &server.url())
        .expect("an address");
    let limits = Limits {
        total: Duration::from_millis(200),
        ..Limits::default()
    };
    let failure = call(&Providers::with_limits(config, limits))
        .await
        .0
        .expect_err("too long");
    assert!(
        failure.message.contains("not whole within 0.2 s"),
        "{failure}"
    );
}

#[tokio::test]
async fn silence_is_ended_by_any_byte_and_a_slow_stream_is_not_a_dead_one() {
    let mut body = b": ping\n".repeat(12);
    body.extend_from_slice(&good("late"));
    let size = body.len() / 12;
    let act = Act::stream(body)
        .pieces(size)
        .slowly(Duration::from_millis(100));
    let server = Faults::start(vec![act]).await;
    let began = Instant::now();
    let answer = call(&providers(&server.url())).await.0.expect("an answer");
    assert_eq!(answer.message.text(), "late");
    assert!(
        began.elapsed() > Duration::from_millis(900),
        "longer than any one limit"
    );
}

#[tokio::test]
async fn what_is_no_messages_stream_is_refused_in_words_that_help() {
    let huge = vec![b'x'; protocol::bounds::STREAM_LINE + 1];
    let html = [("content-type", "text/html; charset=utf-8")];
    let table = [
        (
            Act::stream(huge).pieces(65_536),
            Class::Other,
            "longer than",
            1,
        ),
        (
            Act::answer(200, &html, "<html>sign in</html>"),
            Class::Other,
            "base_url",
            1,
        ),
        (
            Act::answer(200, &[], "data: {\"type\":\n\n"),
            Class::Network,
            "damaged",
            3,
        ),
        (
            Act::answer(200, &[], "{\"choices\":[]}"),
            Class::Network,
            "dialect",
            3,
        ),
        (Act::answer(200, &[], ""), Class::Network, "broke off", 3),
    ];
    for (act, class, word, attempts) in table {
        let (failure, _, seen) = failure(vec![act]).await;
        assert_eq!((failure.class, seen), (class, attempts), "{failure}");
        assert!(failure.message.contains(word), "{failure}");
    }
}

#[tokio::test]
async fn one_document_is_an_answer_too_whatever_it_calls_itself() {
    let document = json!({"type": "message", "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}});
    for media in [
        "application/json",
        "application/octet-stream",
        "text/event-stream",
    ] {
        let act = Act::answer(200, &[("content-type", media)], format!("\n {document}")).pieces(5);
        let server = Faults::start(vec![act]).await;
        let (result, forwarded) = call(&providers(&server.url())).await;
        assert_eq!(result.expect(media).message.text(), "hi");
        assert_eq!(forwarded, "hi");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_goes_nowhere_else() {
    let other = Faults::start(vec![Act::stream(good("stolen"))]).await;
    for status in [301, 302, 307, 308] {
        let location = format!("{}/v1/messages", other.url());
        let act = Act::answer(status, &[("location", &location)], Vec::new());
        let (failure, _, seen) = failure(vec![act]).await;
        assert_eq!((failure.class, seen), (Class::Client, 1), "{failure}");
        assert!(failure.message.contains("base_url"), "{failure}");
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn a_key_that_the_provider_echoes_into_its_answer_stays_outside() {
    let tool = json!({"type": "content_block_start", "index": 1, "content_block":
        {"type": "tool_use", "id": "t", "name": "bash", "input": {"command": format!("echo {KEY}")}}});
    let [open, _] = text("");
    let mut events = vec![start(), open];
    for piece in [&KEY[..3], &KEY[3..20], &KEY[20..], " is it"] {
        let [_, delta] = text(piece);
        events.push(delta);
    }
    events.push(tool);
    events.extend(stop());
    let server = Faults::start(vec![Act::stream(sse(&events)).pieces(9)]).await;
    let (result, forwarded) = call(&providers(&server.url())).await;
    let answer = result.expect("an answer");
    assert_eq!(forwarded, "masked-secret is it");
    assert_eq!(answer.message.text(), forwarded);
    let Part::ToolCall { input, .. } = &answer.message.parts[1] else {
        panic!("{answer:?}")
    };
    assert_eq!(input, &json!({"command": "echo masked-secret"}));
}

#[tokio::test]
async fn five_failures_open_the_breaker_and_three_good_trials_close_it() {
    let mut acts = vec![Act::answer(529, &[], Vec::new()); 5];
    acts.push(Act::answer(400, &[], Vec::new()));
    acts.push(Act::stream(good("back")));
    let server = Faults::start(acts).await;
    let providers = providers(&server.url());

    let first = call(&providers).await.0.expect_err("down");
    assert_eq!((first.class, first.attempts), (Class::Overload, 3));
    let second = call(&providers).await.0.expect_err("down");
    assert_eq!(
        (second.class, second.attempts, server.seen().len()),
        (Class::Overload, 2, 5)
    );
    assert!(
        second.message.contains("left alone") && second.message.contains("529"),
        "{second}"
    );
    let third = call(&providers).await.0.expect_err("left alone");
    assert_eq!(
        (third.attempts, server.seen().len()),
        (0, 5),
        "the provider is not touched"
    );
    assert!(
        third.retryable
            && third
                .retry_after_ms
                .is_some_and(|ms| ms <= breaker::OPEN_MS)
    );

    // A minute later, as a record that was read back sees it.
    let mut state =
        serde_json::to_value(providers.breaker("anthropic").expect("asked")).expect("encodes");
    let since = state.pointer_mut("/state/open/since_ms").expect("open");
    *since = json!(since.as_u64().expect("a time") - breaker::OPEN_MS);
    providers.restore_breaker("anthropic", serde_json::from_value(state).expect("decodes"));
    assert_eq!(
        call(&providers)
            .await
            .0
            .expect_err("at fault ourselves")
            .class,
        Class::Client
    );
    for _ in 0..breaker::TRIALS {
        assert_eq!(
            providers.breaker("anthropic").expect("asked").phase(),
            Phase::HalfOpen
        );
        call(&providers).await.0.expect("a good trial");
    }
    assert_eq!(
        providers.breaker("anthropic").expect("asked").phase(),
        Phase::Closed
    );
}

#[tokio::test]
async fn client_errors_and_refused_keys_never_open_the_breaker() {
    for status in [400, 401, 402, 404, 429] {
        let act = Act::answer(status, &[("x-should-retry", "false")], Vec::new());
        let server = Faults::start(vec![act]).await;
        let providers = providers(&server.url());
        for _ in 0..8 {
            call(&providers).await.0.expect_err("refused");
        }
        assert_eq!(
            (
                server.seen().len(),
                providers.breaker("anthropic").expect("asked").phase()
            ),
            (8, Phase::Closed)
        );
    }
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection_and_says_nothing_about_the_provider() {
    let server = Faults::start(vec![Act::stream(half()).ends(End::Stall)]).await;
    let mut config = Config::parse(None, None, &|_| None).expect("embedded");
    config
        .set_base_url("anthropic", &server.url())
        .expect("an address");
    let providers = Providers::new(config);
    let began = Instant::now();
    for dropped in 1..=8 {
        let dropped_call = tokio::time::timeout(Duration::from_millis(80), call(&providers)).await;
        assert!(dropped_call.is_err(), "it would have gone on");
        while server.left() < dropped && began.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(server.left(), dropped, "the connection is closed");
    }
    assert_eq!(
        providers.breaker("anthropic").expect("asked"),
        Breaker::default()
    );
}

#[tokio::test]
async fn without_key_address_or_conversation_nothing_is_sent() {
    let server = Faults::start(vec![Act::stream(good("no"))]).await;
    let providers = providers(&server.url());
    let ask_without = async |provider: &str| {
        providers
            .infer_with(&ask(provider), None, &mut |_| {})
            .await
            .expect_err("refused")
    };
    // What is on this machine may be called without a key, what is elsewhere never.
    let far = with(Config::parse(None, None, &|_| None).expect("embedded"));
    let failure = far.infer_with(&ask("anthropic"), None, &mut |_| {}).await;
    let failure = failure.expect_err("no key");
    assert_eq!(failure.class, Class::Authentication);
    assert!(failure.message.contains("keys/anthropic"), "{failure}");
    assert!(
        ask_without("anthropic-compatible")
            .await
            .message
            .contains("base_url")
    );
    assert!(ask_without("script").await.message.contains("--script"));
    assert!(ask_without("nobody").await.message.contains("nobody"));
    let newline = Credential::Key(Secret::new("sk-MARKER\nx: y".into()));
    let result = providers
        .infer_with(&ask("anthropic"), Some(&newline), &mut |_| {})
        .await;
    let failure = result.expect_err("no header");
    assert_eq!(failure.class, Class::Authentication);
    assert!(!failure.message.contains("MARKER"), "{failure}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_script_goes_through_the_same_retries_and_the_same_breaker() {
    let lines = [
        "{\"error\":{\"status\":529,\"body\":\"busy\"}}",
        "{\"text\":\"after a retry\",\"chunk\":3}",
        "{\"text\":\"half\",\"error\":\"cut\"}",
        "{\"error\":{\"status\":503},\"repeat\":true}",
    ];
    let config = Config::parse(None, None, &|_| None).expect("embedded");
    let providers = with(config);
    providers.set_script(Script::parse("s", &lines.join("\n")).expect("a script"));
    let play = async || {
        let mut text = String::new();
        let result = providers
            .infer_with(&ask("script"), None, &mut |d| text.push_str(d))
            .await;
        (result, text)
    };
    let (result, forwarded) = play().await;
    assert_eq!(
        (
            result.expect("an answer").message.text(),
            forwarded.as_str()
        ),
        ("after a retry".into(), "after a retry")
    );
    let (result, forwarded) = play().await;
    let failure = result.expect_err("cut");
    assert_eq!(
        (failure.class, failure.attempts, forwarded.as_str()),
        (Class::Network, 1, "half")
    );
    assert_eq!(play().await.0.expect_err("down").attempts, 3);
    let failure = play().await.0.expect_err("opens");
    assert_eq!(
        (
            failure.attempts,
            providers.breaker("script").expect("asked").phase()
        ),
        (1, Phase::Open)
    );
}

/// What the tests below run in a process of its own, because an environment belongs to a process.
#[tokio::test]
async fn child_calls_an_address_of_its_environment() {
    let Ok(url) = std::env::var("PROVOST_TEST_CHILD_URL") else {
        return;
    };
    let failure = call(&providers(&url))
        .await
        .0
        .expect_err("nobody answers there");
    assert_eq!(failure.class, Class::Network, "{failure}");
}

async fn child(url: &str, variables: &[(&str, &str)]) {
    let mut command = tokio::process::Command::new(std::env::current_exe().expect("known"));
    command.args([
        "--exact",
        "tests::child_calls_an_address_of_its_environment",
    ]);
    for name in [
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "no_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        command.env_remove(name);
    }
    command
        .env("PROVOST_TEST_CHILD_URL", url)
        .envs(variables.iter().copied());
    let output = command.output().await.expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_used_but_never_for_this_machine() {
    let proxy = Faults::start(vec![Act::HangUp]).await;
    let url = proxy.url();
    child("https://provider.invalid", &[("HTTPS_PROXY", url.as_str())]).await;
    let seen = proxy.seen();
    assert_eq!(seen.len(), 3, "each attempt asks the proxy");
    assert!(
        seen[0].head.starts_with("CONNECT provider.invalid:443"),
        "{}",
        seen[0].head
    );
    assert!(
        !format!("{seen:?}").contains("MARKER"),
        "the key stays inside the tunnel"
    );

    let none = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", ".invalid")];
    child("https://provider.invalid", &none).await;
    let loopback = [("HTTP_PROXY", url.as_str()), ("ALL_PROXY", url.as_str())];
    child("http://127.0.0.1:9", &loopback).await;
    assert_eq!(proxy.seen().len(), 3);
}

#[test]
fn a_call_may_run_on_any_thread() {
    fn send<T: Send>(_: &T) {}
    let config = Config::parse(None, None, &|_| None).expect("embedded");
    let providers = Providers::new(config);
    let infer = ask("script");
    let mut forward = |_: &str| {};
    send(&providers.infer_with(&infer, None, &mut forward));
}
