//! The same faults in every dialect: what a provider does wrong is heard the same, whatever it speaks.

use std::time::Duration;

use protocol::{Inference, StopReason};
use serde_json::json;
use supervisor_core::Secret;

use super::{KEY, ask, with};
use crate::{
    Class, Config, Credential, InferError, Providers,
    faults::{Act, End, Faults, Seen},
};

/// One dialect: a row that speaks it, and bodies that mean the same in each.
struct Case {
    provider: &'static str,
    path: &'static str,
    key_header: &'static str,
    media: &'static str,
    /// Lifecycle, then the text `hello`, then the end.
    begin: String,
    hello: String,
    end: String,
    /// An error inside the stream that says that the provider is overloaded.
    overloaded: String,
    /// An error body that says that the key is wrong.
    denied: String,
}

impl Case {
    fn whole(&self) -> String {
        [self.begin.as_str(), &self.hello, &self.end].concat()
    }

    fn act(&self, body: impl Into<Vec<u8>>) -> Act {
        Act::answer(200, &[("content-type", self.media)], body)
    }
}

fn cases() -> Vec<Case> {
    let sse = |events: &[serde_json::Value]| -> String {
        events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect()
    };
    let line = |value: serde_json::Value| format!("{value}\n");
    let stream = "text/event-stream";
    let chat = |provider, path, key_header| Case {
        provider,
        path,
        key_header,
        media: stream,
        begin: sse(&[
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        ]),
        hello: sse(&[json!({"choices": [{"index": 0, "delta": {"content": "hello"}}]})]),
        end: sse(&[json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})])
            + "data: [DONE]\n\n",
        overloaded: sse(&[json!({"error": {"code": 503, "message": "busy"}})]),
        denied: json!({"error": {"message": "no", "code": "invalid_api_key"}}).to_string(),
    };
    let responses = |provider, path| Case {
        provider,
        path,
        key_header: "authorization: bearer",
        media: stream,
        begin: sse(&[json!({"type": "response.created", "response": {"status": "in_progress"}})]),
        hello: sse(&[
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "hello"}),
        ]),
        end: sse(&[
            json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
        ]),
        overloaded: sse(&[
            json!({"type": "error", "error": {"code": "server_is_overloaded", "message": "busy"}}),
        ]),
        denied: json!({"error": {"message": "no", "code": "invalid_api_key"}}).to_string(),
    };
    let messages = |provider, path, key_header| Case {
        provider,
        path,
        key_header,
        media: stream,
        begin: sse(&[
            json!({"type": "message_start", "message": {"type": "message", "content": []}}),
        ]),
        hello: sse(&[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}),
        ]),
        end: sse(&[
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
            json!({"type": "message_stop"}),
        ]),
        overloaded: sse(&[
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        ]),
        denied:
            json!({"type": "error", "error": {"type": "authentication_error", "message": "no"}})
                .to_string(),
    };
    let bearer = "authorization: bearer";
    vec![
        messages("anthropic", "/v1/messages", "x-api-key:"),
        messages("minimax", "/v1/messages", bearer),
        chat("openai-compatible", "/chat/completions", bearer),
        chat("mistral", "/chat/completions", bearer),
        chat("openrouter", "/chat/completions", bearer),
        chat("deepseek", "/chat/completions", bearer),
        chat("z-ai", "/chat/completions", bearer),
        chat("kimi", "/chat/completions", bearer),
        chat("cloudflare", "/chat/completions", bearer),
        chat("opencode", "/chat/completions", bearer),
        responses("openai", "/responses"),
        Case {
            provider: "ollama",
            path: "/api/chat",
            key_header: bearer,
            media: "application/x-ndjson",
            begin: line(json!({"message": {"content": "", "thinking": "hm"}, "done": false})),
            hello: line(json!({"message": {"content": "hello"}, "done": false})),
            end: line(json!({"message": {"content": ""}, "done": true, "done_reason": "stop"})),
            overloaded: line(json!({"error": {"message": "busy", "type": "overloaded_error"}})),
            denied: json!({"error": "unauthorized"}).to_string(),
        },
    ]
}

fn providers(case: &Case, url: &str) -> Providers {
    let mut config = Config::parse(None, None, &|_| None).expect("embedded");
    config.set_base_url(case.provider, url).expect("an address");
    with(config)
}

async fn play(case: &Case, acts: Vec<Act>) -> (Result<Inference, InferError>, String, Vec<Seen>) {
    let server = Faults::start(acts).await;
    let providers = providers(case, &server.url());
    let secret = Credential::Key(Secret::new(KEY.into()));
    let mut infer = ask(case.provider);
    infer.model = "model-1".into();
    let mut text = String::new();
    let result = providers
        .infer_with(&infer, Some(&secret), &mut |piece| text.push_str(piece))
        .await;
    let all = format!("{result:?} {text} {providers:?}");
    assert!(!all.contains("MARKER"), "a key got out: {all}");
    (result, text, server.seen())
}

#[tokio::test]
async fn a_whole_answer_arrives_in_every_dialect_whatever_the_pieces() {
    for case in cases() {
        for size in [1, 7, 4_096] {
            let (answer, text, seen) = play(&case, vec![case.act(case.whole()).pieces(size)]).await;
            let answer = answer.unwrap_or_else(|failure| panic!("{}: {failure}", case.provider));
            assert_eq!(
                (answer.stop, text.as_str()),
                (StopReason::End, "hello"),
                "{}",
                case.provider
            );
            assert_eq!(answer.message.text(), "hello");
            assert_eq!(seen.len(), 1);
            let head = seen[0].head.to_lowercase();
            assert!(
                head.starts_with(&format!("post {} http", case.path)),
                "{head}"
            );
            assert!(head.contains(case.key_header), "{}: {head}", case.provider);
            let body: serde_json::Value = serde_json::from_str(&seen[0].body).expect("JSON");
            assert_eq!(body["model"], "model-1");
            assert_eq!(body["stream"], true);
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_tried_again_until_something_was_forwarded() {
    for case in cases() {
        for how in [End::Whole, End::Drop] {
            let before = case.act(case.begin.clone()).ends(how);
            let (answer, text, seen) = play(&case, vec![before, case.act(case.whole())]).await;
            assert!(answer.is_ok(), "{}: {answer:?}", case.provider);
            assert_eq!(
                (text.as_str(), seen.len()),
                ("hello", 2),
                "{}",
                case.provider
            );

            let after = case
                .act([case.begin.as_str(), &case.hello].concat())
                .ends(how);
            let (answer, text, seen) = play(&case, vec![after, case.act(case.whole())]).await;
            let failure = answer.expect_err("cut");
            assert_eq!(
                (failure.class, failure.retryable),
                (Class::Network, true),
                "{}",
                case.provider
            );
            assert_eq!(
                (text.as_str(), seen.len()),
                ("hello", 1),
                "{}",
                case.provider
            );
        }
    }
}

#[tokio::test]
async fn an_error_inside_a_good_status_keeps_its_class() {
    for case in cases() {
        let early = case.act([case.begin.as_str(), &case.overloaded].concat());
        let (answer, _, seen) = play(&case, vec![early, case.act(case.whole())]).await;
        assert!(answer.is_ok(), "{}: {answer:?}", case.provider);
        assert_eq!(seen.len(), 2, "{}", case.provider);
        let late = case.act([case.begin.as_str(), &case.hello, &case.overloaded].concat());
        let (answer, text, seen) = play(&case, vec![late]).await;
        let failure = answer.expect_err("an error");
        assert_eq!(
            (failure.class, text.as_str(), seen.len()),
            (Class::Overload, "hello", 1),
            "{}",
            case.provider
        );
    }
}

#[tokio::test]
async fn statuses_and_silence_are_heard_the_same() {
    for case in cases() {
        let json = [("content-type", "application/json")];
        let denied = Act::answer(401, &json, case.denied.clone());
        let (answer, _, seen) = play(&case, vec![denied]).await;
        let failure = answer.expect_err("denied");
        assert_eq!(
            (failure.class, seen.len()),
            (Class::Authentication, 1),
            "{}",
            case.provider
        );

        let busy = Act::answer(503, &[], "");
        let (answer, _, seen) = play(&case, vec![busy, case.act(case.whole())]).await;
        assert!(
            answer.is_ok() && seen.len() == 2,
            "{}: {answer:?}",
            case.provider
        );

        let page = Act::answer(200, &[("content-type", "text/html")], "<html>hello</html>");
        let (answer, _, seen) = play(&case, vec![page]).await;
        let failure = answer.expect_err("a page");
        assert_eq!(
            (failure.class, seen.len()),
            (Class::Other, 1),
            "{}",
            case.provider
        );

        let slow = case
            .act(case.whole())
            .pieces(16)
            .slowly(Duration::from_millis(5));
        let (answer, _, _) = play(&case, vec![slow]).await;
        assert!(
            answer.is_ok(),
            "{}: a drip is no silence: {answer:?}",
            case.provider
        );

        let stalls = case
            .act([case.begin.as_str(), &case.hello].concat())
            .ends(End::Stall);
        let (answer, _, _) = play(&case, vec![stalls]).await;
        let failure = answer.expect_err("silence");
        assert_eq!(failure.class, Class::Network, "{}", case.provider);
        assert!(failure.message.contains("silent"), "{failure}");
    }
}
