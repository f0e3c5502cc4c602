//! The same faults in every dialect: what a provider does wrong is heard the same, whatever it speaks.

use std::time::Duration;

use protocol::{Inference, StopReason};
use serde_json::{Value, json};
use supervisor_core::Secret;

use super::{KEY, ask, with};
use crate::{
    Class, Config, Credential, InferError, Providers,
    bedrock::build,
    faults::{Act, End, Faults, Seen},
};

/// How a provider words its errors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    OpenAi,
    Anthropic,
    Google,
    Amazon,
    Ollama,
}

/// One dialect: a row that speaks it, and bodies that mean the same in each.
pub(super) struct Case {
    pub(super) provider: &'static str,
    pub(super) path: &'static str,
    pub(super) key_header: &'static str,
    pub(super) media: &'static str,
    /// Lifecycle, then the text `hello`, then the end.
    pub(super) begin: Vec<u8>,
    pub(super) hello: Vec<u8>,
    pub(super) end: Vec<u8>,
    /// A call of `bash` whose arguments begin, `{"command":"rm -rf /`, and go no further.
    pub(super) half_call: Option<Vec<u8>>,
    /// The end that says that the limit of output was reached.
    pub(super) limit: Vec<u8>,
    /// What its framing takes for an event, and its grammar cannot read.
    pub(super) garbage: Vec<u8>,
    /// An error inside the stream that says that the provider is overloaded.
    pub(super) overloaded: Vec<u8>,
    /// An error body that says that the key is wrong.
    pub(super) denied: String,
    pub(super) words: Words,
}

impl Case {
    pub(super) fn whole(&self) -> Vec<u8> {
        [self.begin.as_slice(), &self.hello, &self.end].concat()
    }

    pub(super) fn act(&self, body: impl Into<Vec<u8>>) -> Act {
        Act::answer(200, &[("content-type", self.media)], body)
    }
}

fn sse(events: &[Value]) -> Vec<u8> {
    let line = |event: &Value| format!("data: {event}\n\n");
    events.iter().map(line).collect::<String>().into_bytes()
}

const STREAM: &str = "text/event-stream";
const BEARER: &str = "authorization: bearer";
const ARGUMENTS: &str = "{\"command\":\"rm -rf /";

fn chat(provider: &'static str) -> Case {
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let ends = |reason: &str| {
        let mut end = sse(&[
            chunk(json!({}), json!(reason)),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
        ]);
        end.extend_from_slice(b"data: [DONE]\n\n");
        end
    };
    let call = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "bash", "arguments": ARGUMENTS}}]});
    Case {
        provider,
        path: "/chat/completions",
        key_header: BEARER,
        media: STREAM,
        begin: sse(&[chunk(
            json!({"role": "assistant", "content": ""}),
            Value::Null,
        )]),
        hello: sse(&[chunk(json!({"content": "hello"}), Value::Null)]),
        end: ends("stop"),
        half_call: Some(sse(&[chunk(call, Value::Null)])),
        limit: ends("length"),
        garbage: b"data: {\"choices\": [{\n\n".to_vec(),
        overloaded: sse(&[json!({"error": {"code": 503, "message": "busy"}})]),
        denied: json!({"error": {"message": "no", "code": "invalid_api_key"}}).to_string(),
        words: Words::OpenAi,
    }
}

fn responses(provider: &'static str) -> Case {
    let usage = json!({"input_tokens": 7, "output_tokens": 2});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": ""});
    Case {
        provider,
        path: "/responses",
        key_header: BEARER,
        media: STREAM,
        begin: sse(&[json!({"type": "response.created", "response": {"status": "in_progress"}})]),
        hello: sse(&[
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "hello"}),
        ]),
        end: sse(&[json!({"type": "response.completed",
            "response": {"status": "completed", "output": [], "usage": usage}})]),
        half_call: Some(sse(&[
            json!({"type": "response.output_item.added", "output_index": 1, "item": call}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": ARGUMENTS}),
        ])),
        limit: sse(&[
            json!({"type": "response.incomplete", "response": {"status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"}, "output": [], "usage": usage}}),
        ]),
        garbage: b"data: {\"type\": \n\n".to_vec(),
        overloaded: sse(&[
            json!({"type": "error", "error": {"code": "server_is_overloaded", "message": "busy"}}),
        ]),
        denied: json!({"error": {"message": "no", "code": "invalid_api_key"}}).to_string(),
        words: Words::OpenAi,
    }
}

fn messages(provider: &'static str, key_header: &'static str) -> Case {
    let ends = |reason: &str| {
        sse(&[
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ])
    };
    let call = json!({"type": "tool_use", "id": "c1", "name": "bash", "input": {}});
    Case {
        provider,
        path: "/v1/messages",
        key_header,
        media: STREAM,
        begin: sse(&[json!({"type": "message_start",
            "message": {"type": "message", "content": [], "usage": {"input_tokens": 7}}})]),
        hello: sse(&[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}),
        ]),
        end: ends("end_turn"),
        half_call: Some(sse(&[
            json!({"type": "content_block_start", "index": 1, "content_block": call}),
            json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": ARGUMENTS}}),
        ])),
        limit: ends("max_tokens"),
        garbage: b"data: {\"type\": \"content_bl\n\n".to_vec(),
        overloaded: sse(&[
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        ]),
        denied:
            json!({"type": "error", "error": {"type": "authentication_error", "message": "no"}})
                .to_string(),
        words: Words::Anthropic,
    }
}

fn gemini() -> Case {
    let chunk = |parts: Value, finish: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts},
        "finishReason": finish}], "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2}})
    };
    let call = json!([{"functionCall": {"name": "bash", "willContinue": true,
        "partialArgs": [{"jsonPath": "$.command", "stringValue": "rm -rf /", "willContinue": true}]}}]);
    Case {
        provider: "gemini",
        path: "/models/model-1:streamgeneratecontent?alt=sse",
        key_header: "x-goog-api-key:",
        media: STREAM,
        begin: sse(&[chunk(json!([{"text": "hm", "thought": true}]), Value::Null)]),
        hello: sse(&[chunk(json!([{"text": "hello"}]), Value::Null)]),
        end: sse(&[chunk(json!([{"text": ""}]), json!("STOP"))]),
        half_call: Some(sse(&[chunk(call, Value::Null)])),
        limit: sse(&[chunk(json!([]), json!("MAX_TOKENS"))]),
        garbage: b"data: {\"candidates\": [\n\n".to_vec(),
        overloaded: sse(&[
            json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}}),
        ]),
        denied: json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key not valid.",
            "details": [{"reason": "API_KEY_INVALID"}]}})
        .to_string(),
        words: Words::Google,
    }
}

fn converse() -> Case {
    let event = |name: &str, payload: Value| {
        let headers = [
            (":event-type", name),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ];
        build(&headers, payload.to_string().as_bytes())
    };
    let ends = |reason: &str| {
        [
            event("contentBlockStop", json!({"contentBlockIndex": 0})),
            event("messageStop", json!({"stopReason": reason})),
            event(
                "metadata",
                json!({"usage": {"inputTokens": 7, "outputTokens": 2}}),
            ),
        ]
        .concat()
    };
    let busy = [
        (":exception-type", "serviceUnavailableException"),
        (":message-type", "exception"),
    ];
    let call = json!({"toolUse": {"toolUseId": "c1", "name": "bash"}});
    // One bit of a checksum.
    let mut garbage = event(
        "contentBlockDelta",
        json!({"contentBlockIndex": 0, "delta": {"text": "x"}}),
    );
    if let Some(last) = garbage.last_mut() {
        *last ^= 1;
    }
    Case {
        provider: "bedrock",
        path: "/model/model-1/converse-stream",
        key_header: BEARER,
        media: "application/vnd.amazon.eventstream",
        begin: event("messageStart", json!({"role": "assistant"})),
        hello: event(
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": {"text": "hello"}}),
        ),
        end: ends("end_turn"),
        half_call: Some(
            [
                event(
                    "contentBlockStart",
                    json!({"contentBlockIndex": 1, "start": call}),
                ),
                event(
                    "contentBlockDelta",
                    json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": ARGUMENTS}}}),
                ),
            ]
            .concat(),
        ),
        limit: ends("max_tokens"),
        garbage,
        overloaded: build(&busy, b"{\"message\":\"busy\"}"),
        denied: json!({"message": "The security token included in the request is invalid."})
            .to_string(),
        words: Words::Amazon,
    }
}

fn ollama() -> Case {
    let line = |value: Value| format!("{value}\n").into_bytes();
    let ends = |reason: &str| {
        line(
            json!({"message": {"content": ""}, "done": true, "done_reason": reason,
        "prompt_eval_count": 7, "eval_count": 2}),
        )
    };
    Case {
        provider: "ollama",
        path: "/api/chat",
        key_header: BEARER,
        media: "application/x-ndjson",
        begin: line(json!({"message": {"content": "", "thinking": "hm"}, "done": false})),
        hello: line(json!({"message": {"content": "hello"}, "done": false})),
        end: ends("stop"),
        // A call comes whole here, or not at all.
        half_call: None,
        limit: ends("length"),
        garbage: b"{\"message\": {\"content\": \n".to_vec(),
        overloaded: line(json!({"error": {"message": "busy", "type": "overloaded_error"}})),
        denied: json!({"error": "unauthorized"}).to_string(),
        words: Words::Ollama,
    }
}

/// One row of each dialect.
pub(super) fn six() -> Vec<Case> {
    vec![
        messages("anthropic", "x-api-key:"),
        chat("openai-compatible"),
        responses("openai"),
        gemini(),
        converse(),
        ollama(),
    ]
}

/// Every row that a key alone opens.
fn cases() -> Vec<Case> {
    let mut cases = six();
    cases.push(messages("minimax", BEARER));
    let names = [
        "mistral",
        "openrouter",
        "deepseek",
        "z-ai",
        "kimi",
        "cloudflare",
        "opencode",
    ];
    cases.extend(names.map(chat));
    cases
}

pub(super) fn providers(case: &Case, url: &str) -> Providers {
    let mut config = Config::parse(None, None, &|_| None).expect("embedded");
    config.set_base_url(case.provider, url).expect("an address");
    with(config)
}

pub(super) async fn play(
    case: &Case,
    acts: Vec<Act>,
) -> (Result<Inference, InferError>, String, Vec<Seen>) {
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
            // Where the path does not say it.
            if !head.starts_with("post /model") {
                assert_eq!(
                    (&body["model"], &body["stream"]),
                    (&json!("model-1"), &json!(true))
                );
            }
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
                .act([case.begin.as_slice(), &case.hello].concat())
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
        let early = case.act([case.begin.as_slice(), &case.overloaded].concat());
        let (answer, _, seen) = play(&case, vec![early, case.act(case.whole())]).await;
        assert!(answer.is_ok(), "{}: {answer:?}", case.provider);
        assert_eq!(seen.len(), 2, "{}", case.provider);
        let late = case.act([case.begin.as_slice(), &case.hello, &case.overloaded].concat());
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
            .act([case.begin.as_slice(), &case.hello].concat())
            .ends(End::Stall);
        let (answer, _, _) = play(&case, vec![stalls]).await;
        let failure = answer.expect_err("silence");
        assert_eq!(failure.class, Class::Network, "{}", case.provider);
        assert!(failure.message.contains("silent"), "{failure}");
    }
}
