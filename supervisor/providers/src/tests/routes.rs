//! Along a route: who is asked next, after what, with which request; and when nobody is.

use protocol::CallId;
use supervisor_core::{Attempt, ModelName};

use super::*;
use crate::{BreakerChange, Heard, Lent, Limit, RowLimits};

/// What was heard of a call.
#[derive(Debug, Default)]
struct Ears {
    text: String,
    tried: Vec<Attempt>,
    changes: Vec<BreakerChange>,
    content: usize,
}

impl Ears {
    fn hear(&mut self, heard: Heard<'_>) {
        match heard {
            Heard::Text(text) => self.text.push_str(text),
            Heard::Tried(attempt) => self.tried.push(attempt),
            Heard::Breaker(change) => self.changes.push(change),
            Heard::SoFar { so_far, .. } => self.content = so_far.content,
        }
    }

    /// Who failed, how, and who was next.
    fn steps(&self) -> Vec<(&str, &str, Option<&str>)> {
        self.tried
            .iter()
            .map(|t| (t.provider.as_str(), t.class.as_str(), t.next.as_deref()))
            .collect()
    }
}

fn rows(first: &str, second: &str, limits: RowLimits) -> Providers {
    let text = format!(
        "version = 1\n[provider.anthropic]\nbase_url = \"{first}\"\n\
         [provider.mistral]\nbase_url = \"{second}\"\n"
    );
    let mut config = Config::parse(Some(("p", &text)), None, &|_| None).expect("good");
    config.set_limits("anthropic", limits);
    with(config)
}

fn pair() -> Infer {
    Infer {
        fallbacks: vec![ModelName {
            provider: "mistral".into(),
            model: "mistral-large-latest".into(),
        }],
        ..ask("anthropic")
    }
}

async fn go(providers: &Providers, infer: &Infer) -> (Result<Inference, InferError>, Ears) {
    let key = Credential::Key(Secret::new(KEY.into()));
    let lent = Lent::none()
        .and("anthropic", Some(&key))
        .and("mistral", Some(&key));
    let mut ears = Ears::default();
    let result = providers
        .walk(infer, &lent, &mut |heard| ears.hear(heard))
        .await;
    (result, ears)
}

/// An answer of the Chat dialect.
fn chat(words: &str) -> Vec<u8> {
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut body = sse(&[
        chunk(json!({"content": words}), Value::Null),
        chunk(json!({}), json!("stop")),
    ]);
    body.extend_from_slice(b"data: [DONE]\n\n");
    body
}

#[tokio::test]
async fn what_passes_is_tried_again_and_then_the_next_model_is_asked_with_a_request_of_its_own() {
    let busy = Act::answer(529, &[], error_body("overloaded_error", "busy"));
    let (one, two) = (
        Faults::start(vec![busy]).await,
        Faults::start(vec![Act::stream(chat("from the second"))]).await,
    );
    let providers = rows(&one.url(), &two.url(), RowLimits::default());
    let mut infer = pair();
    infer.request.max_output = 2_000_000;
    let id = CallId::parse("functions.bash:0").expect("an id");
    let own = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}).to_string();
    infer.request.messages.push(Message {
        role: protocol::Role::Assistant,
        parts: vec![
            Part::Reasoning {
                provider: "anthropic".into(),
                model: "claude-opus-5".into(),
                raw: own.clone(),
            },
            Part::ToolCall {
                id: id.clone(),
                name: "bash".into(),
                input: json!({"command": "ls"}),
            },
        ],
    });
    infer.request.messages.push(Message {
        role: protocol::Role::User,
        parts: vec![Part::ToolResult {
            id,
            content: "a.txt".into(),
            is_error: false,
        }],
    });
    let (result, ears) = go(&providers, &infer).await;
    let answer = result.expect("an answer");
    assert_eq!(
        (answer.provider.as_str(), answer.model.as_str()),
        ("mistral", "mistral-large-latest")
    );
    assert_eq!(
        (answer.message.text().as_str(), ears.text.as_str()),
        ("from the second", "from the second")
    );
    let same = Some("anthropic/claude-opus-5");
    assert_eq!(
        ears.steps(),
        [
            ("anthropic", "overload", same),
            ("anthropic", "overload", same),
            (
                "anthropic",
                "overload",
                Some("mistral/mistral-large-latest")
            ),
        ]
    );
    assert_eq!(
        ears.tried.iter().map(|t| t.number).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    // The first got its own reasoning back; the second gets none of it, its own limit, its own ids.
    let first: Value = serde_json::from_str(&one.seen()[0].body).expect("JSON");
    assert!(first.to_string().contains("c2ln"), "{first}");
    let second: Value = serde_json::from_str(&two.seen()[0].body).expect("JSON");
    assert!(!second.to_string().contains("c2ln"), "{second}");
    let (_, most) = providers
        .config()
        .models
        .limits("mistral", "mistral-large-latest");
    assert_eq!(second["max_tokens"], json!(most), "{second}");
    let call = &second["messages"][2]["tool_calls"][0]["id"];
    assert_eq!(call.as_str().map(str::len), Some(9), "{second}");
    assert_eq!(&second["messages"][3]["tool_call_id"], call, "{second}");
    assert_eq!(second["model"], "mistral-large-latest");
}

#[tokio::test]
async fn a_class_that_does_not_pass_ends_at_once_and_asks_nobody_else() {
    for (status, class) in [
        (400, Class::Client),
        (401, Class::Authentication),
        (402, Class::Quota),
    ] {
        let one = Faults::start(vec![Act::answer(status, &[], Vec::new())]).await;
        let two = Faults::start(vec![Act::stream(chat("no"))]).await;
        let providers = rows(&one.url(), &two.url(), RowLimits::default());
        let (result, ears) = go(&providers, &pair()).await;
        let failure = result.expect_err("a failure");
        assert_eq!((failure.class, failure.attempts), (class, 1));
        assert_eq!(ears.steps(), [("anthropic", class.as_str(), None)]);
        assert_eq!((one.seen().len(), two.seen().len()), (1, 0));
    }
}

#[tokio::test]
async fn after_the_first_byte_of_content_nobody_else_is_asked() {
    for end in [End::Whole, End::Drop, End::Stall] {
        let one = Faults::start(vec![Act::stream(half()).ends(end)]).await;
        let two = Faults::start(vec![Act::stream(chat("no"))]).await;
        let providers = rows(&one.url(), &two.url(), RowLimits::default());
        let (result, ears) = go(&providers, &pair()).await;
        result.expect_err("cut");
        assert_eq!(ears.text, "half");
        assert_eq!(ears.steps(), [("anthropic", "network", None)], "{end:?}");
        assert_eq!((one.seen().len(), two.seen().len()), (1, 0));
        assert!(ears.content > 0, "what came is known for the bill");
    }
}

#[tokio::test]
async fn one_that_is_late_has_one_chance_and_each_limit_its_own_error() {
    let pings = |times: usize| {
        let mut body = sse(&[start()]);
        body.extend(b": ping\n\n".repeat(times));
        body
    };
    let gap = Duration::from_millis(40);
    let [a, b] = text("");
    let drip = {
        let mut body = sse(&[start(), a, b]);
        body.extend(b": \n".repeat(60));
        body
    };
    let head = drip.len() - 180;
    let table = [
        (
            Act::Silence,
            Limit::FirstByte,
            RowLimits {
                first_byte: Some(0.1),
                ..RowLimits::default()
            },
            "no byte",
        ),
        (
            Act::stream(pings(100)).pieces(60).slowly(gap),
            Limit::FirstContent,
            RowLimits {
                first_content: Some(0.25),
                ..RowLimits::default()
            },
            "no content of an answer within 0.25 s",
        ),
        (
            Act::stream(sse(&[start()])).ends(End::Stall),
            Limit::FirstContent,
            RowLimits {
                first_content: Some(0.15),
                ..RowLimits::default()
            },
            "no content",
        ),
        (
            Act::stream(sse(&[start()])).ends(End::Stall),
            Limit::Idle,
            RowLimits {
                idle: Some(0.1),
                ..RowLimits::default()
            },
            "silent for 0.1 s",
        ),
        (
            Act::stream(drip).pieces(head / 6).slowly(gap),
            Limit::Slow,
            RowLimits {
                slow_window: Some(0.15),
                slow_bytes: Some(100_000),
                ..RowLimits::default()
            },
            "less than 100000 bytes",
        ),
        (
            Act::stream(pings(100)).pieces(30).slowly(gap),
            Limit::Total,
            RowLimits {
                total: Some(0.2),
                ..RowLimits::default()
            },
            "not whole within 0.2 s",
        ),
    ];
    for (act, limit, limits, words) in table {
        let one = Faults::start(vec![act]).await;
        let two = Faults::start(vec![Act::stream(chat("in time"))]).await;
        let (result, ears) = go(&rows(&one.url(), &two.url(), limits), &pair()).await;
        assert_eq!(result.expect("an answer").message.text(), "in time");
        let tried = &ears.tried[0];
        assert_eq!(tried.limit.as_deref(), Some(limit.as_str()), "{tried:?}");
        assert!(tried.message.contains(words), "{tried:?}");
        assert_eq!((ears.tried.len(), one.seen().len()), (1, 1), "{limit:?}");
    }
}

#[tokio::test]
async fn an_open_breaker_moves_calls_down_the_route_without_touching_its_provider() {
    let one = Faults::start(vec![Act::answer(503, &[], Vec::new())]).await;
    let two = Faults::start(vec![Act::stream(chat("ok"))]).await;
    let providers = rows(&one.url(), &two.url(), RowLimits::default());
    let mut changes = Vec::new();
    for _ in 0..3 {
        let (result, ears) = go(&providers, &pair()).await;
        result.expect("the second answers");
        changes.extend(
            ears.changes
                .iter()
                .map(|c| (c.provider.clone(), c.from, c.to)),
        );
        if ears.tried.len() == 1 {
            let next = Some("mistral/mistral-large-latest");
            assert_eq!(ears.steps(), [("anthropic", "breaker_open", next)]);
        }
    }
    assert_eq!(one.seen().len(), 5, "five failures, then it is left alone");
    assert_eq!(two.seen().len(), 3);
    assert_eq!(
        changes,
        [("anthropic".to_owned(), Phase::Closed, Phase::Open)]
    );
}

#[tokio::test]
async fn advice_beyond_the_bound_is_no_wait_but_the_next_model() {
    let busy = Act::answer(429, &[("retry-after", "3600")], Vec::new());
    let one = Faults::start(vec![busy]).await;
    let two = Faults::start(vec![Act::stream(chat("ok"))]).await;
    let providers = rows(&one.url(), &two.url(), RowLimits::default());
    let (result, ears) = go(&providers, &pair()).await;
    result.expect("the second answers");
    assert_eq!(ears.tried.len(), 1);
    assert_eq!(ears.tried[0].wait_ms, 0);

    // Where nobody else is listed the caller is told.
    let (result, ears) = go(&providers, &ask("anthropic")).await;
    assert_eq!(result.expect_err("told").retry_after_ms, Some(3_600_000));
    assert_eq!(ears.steps(), [("anthropic", "rate_limit", None)]);
}

#[tokio::test]
async fn when_everybody_fails_the_last_failure_is_told_with_all_attempts() {
    let one = Faults::start(vec![Act::HangUp]).await;
    let two = Faults::start(vec![Act::answer(503, &[], Vec::new())]).await;
    let providers = rows(&one.url(), &two.url(), RowLimits::default());
    let (result, ears) = go(&providers, &pair()).await;
    let failure = result.expect_err("nobody");
    assert_eq!((failure.class, failure.attempts), (Class::Overload, 6));
    assert_eq!(ears.tried.len(), 6);
    assert_eq!(ears.tried[5].next, None);
    assert!(failure.message.contains("mistral"), "{failure}");
}

#[test]
fn limits_of_a_row_are_seconds_within_reason() {
    let parse = |limits: &str| {
        let text = format!("version = 1\n[provider.anthropic]\nlimits = {limits}\n");
        Config::parse(Some(("providers.toml", &text)), None, &|_| None)
    };
    let config = parse("{ idle = 2.5, slow_bytes = 0 }").expect("good");
    let limits = config.row("anthropic").expect("known").limits;
    assert_eq!((limits.idle, limits.slow_bytes), (Some(2.5), Some(0)));
    for bad in [
        "{ idle = 0 }",
        "{ total = 1e9 }",
        "{ idle = -1 }",
        "{ first_byte = nan }",
    ] {
        let words = parse(bad).expect_err(bad).to_string();
        assert!(
            words.contains("in seconds") && words.contains("anthropic"),
            "{words}"
        );
    }
    assert!(parse("{ idel = 1 }").is_err());
}
