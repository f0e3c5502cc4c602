//! Every fault that a provider is known to show, in every dialect: its class, whether it is tried again,
//! and how often it was asked. A broken answer is never an answer, and half a call is never a call.

use std::time::{Duration, Instant};

use protocol::{Part, StopReason};
use serde_json::{Value, json};

use super::dialects::{Case, Words, play, providers, six};
use crate::{
    Class,
    dialect::is_invalid,
    faults::{Act, End, Faults},
};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// What a body says, in the words of its provider.
#[derive(Debug, Clone, Copy)]
enum Says {
    TooLong,
    Filtered,
    Spent,
    Slowly,
    Busy,
    Broken,
    Unknown,
    Wrong,
}

fn body(case: &Case, says: Says) -> (u16, String) {
    let openai = |status, code: &str, message: &str| {
        (
            status,
            json!({"error": {"message": message, "type": "x", "code": code}}),
        )
    };
    let anthropic = |status, kind: &str, message: &str| {
        (
            status,
            json!({"type": "error", "error": {"type": kind, "message": message}}),
        )
    };
    let google = |status: u16, name: &str, message: &str| {
        (
            status,
            json!({"error": {"code": status, "status": name, "message": message}}),
        )
    };
    let amazon =
        |status, kind: &str, message: &str| (status, json!({"__type": kind, "message": message}));
    let plain = |status, message: &str| (status, json!({"error": message}));
    let long = "prompt is too long: 9 tokens > 8 maximum";
    let (status, body) = match (case.words, says) {
        (Words::OpenAi, Says::TooLong) => openai(400, "context_length_exceeded", "x"),
        (Words::OpenAi, Says::Filtered) => openai(400, "content_policy_violation", "x"),
        (Words::OpenAi, Says::Spent) => openai(429, "insufficient_quota", "pay"),
        (Words::OpenAi, Says::Slowly) => openai(429, "rate_limit_exceeded", "slowly"),
        (Words::OpenAi, Says::Busy) => openai(503, "slow_down", "busy"),
        (Words::OpenAi, Says::Broken) => openai(500, "server_error", "oops"),
        (Words::OpenAi, Says::Unknown) => openai(404, "model_not_found", "no"),
        (Words::OpenAi, Says::Wrong) => openai(400, "unsupported_parameter", "no"),
        (Words::Anthropic, Says::TooLong) => anthropic(400, "invalid_request_error", long),
        (Words::Anthropic, Says::Filtered) => {
            anthropic(400, "invalid_request_error", "it was flagged")
        }
        (Words::Anthropic, Says::Spent) => anthropic(402, "billing_error", "pay"),
        (Words::Anthropic, Says::Slowly) => anthropic(429, "rate_limit_error", "slowly"),
        (Words::Anthropic, Says::Busy) => anthropic(529, "overloaded_error", "Overloaded"),
        (Words::Anthropic, Says::Broken) => anthropic(500, "api_error", "oops"),
        (Words::Anthropic, Says::Unknown) => anthropic(404, "not_found_error", "model: x"),
        (Words::Anthropic, Says::Wrong) => anthropic(400, "invalid_request_error", "no"),
        (Words::Google, Says::TooLong) => google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        (Words::Google, Says::Filtered) => {
            google(400, "INVALID_ARGUMENT", "The input was flagged.")
        }
        (Words::Google, Says::Spent) => google(429, "RESOURCE_EXHAUSTED", "quota, limit: 0"),
        (Words::Google, Says::Slowly) => google(429, "RESOURCE_EXHAUSTED", "slowly"),
        (Words::Google, Says::Busy) => google(503, "UNAVAILABLE", "The model is overloaded."),
        (Words::Google, Says::Broken) => google(500, "INTERNAL", "oops"),
        (Words::Google, Says::Unknown) => google(404, "NOT_FOUND", "no"),
        (Words::Google, Says::Wrong) => google(400, "INVALID_ARGUMENT", "no"),
        (Words::Amazon, Says::TooLong) => amazon(
            400,
            "ValidationException",
            "Input is too long for requested model.",
        ),
        (Words::Amazon, Says::Filtered) => {
            amazon(400, "ValidationException", "The input was flagged.")
        }
        (Words::Amazon, Says::Spent) => amazon(400, "ServiceQuotaExceededException", "spent"),
        (Words::Amazon, Says::Slowly) => amazon(429, "ThrottlingException", "slowly"),
        (Words::Amazon, Says::Busy) => amazon(503, "ServiceUnavailableException", "busy"),
        (Words::Amazon, Says::Broken) => amazon(500, "InternalServerException", "oops"),
        (Words::Amazon, Says::Unknown) => amazon(404, "ResourceNotFoundException", "no"),
        (Words::Amazon, Says::Wrong) => amazon(400, "ValidationException", "no"),
        (Words::Ollama, Says::TooLong) => plain(400, "the input exceeds the context window"),
        (Words::Ollama, Says::Filtered) => plain(400, "the input was flagged"),
        (Words::Ollama, Says::Spent) => plain(402, "pay"),
        (Words::Ollama, Says::Slowly) => plain(429, "slowly"),
        (Words::Ollama, Says::Busy) => plain(503, "busy"),
        (Words::Ollama, Says::Broken) => plain(500, "oops"),
        (Words::Ollama, Says::Unknown) => plain(404, "model 'x' not found"),
        (Words::Ollama, Says::Wrong) => plain(400, "no"),
    };
    (status, body.to_string())
}

fn act(case: &Case, says: Says) -> Act {
    let (status, body) = body(case, says);
    Act::answer(status, &JSON, body)
}

/// What a call came to: class, whether it may be tried again, how often the provider was asked.
async fn came_to(case: &Case, acts: Vec<Act>) -> (Class, bool, usize) {
    let (answer, _, seen) = play(case, acts).await;
    let failure = answer.expect_err(case.provider);
    (failure.class, failure.retryable, seen.len())
}

#[tokio::test]
async fn each_status_has_its_class_in_every_dialect_and_only_what_passes_is_asked_again() {
    let table = [
        (Says::TooLong, Class::ContextTooLong, 1),
        (Says::Filtered, Class::Refusal, 1),
        (Says::Spent, Class::Quota, 1),
        (Says::Unknown, Class::Client, 1),
        (Says::Wrong, Class::Client, 1),
        (Says::Slowly, Class::RateLimit, 3),
        (Says::Busy, Class::Overload, 3),
        (Says::Broken, Class::Overload, 3),
    ];
    for case in six() {
        for (says, class, asked) in table {
            let got = came_to(&case, vec![act(&case, says)]).await;
            assert_eq!(got, (class, asked > 1, asked), "{} {says:?}", case.provider);
        }
    }
}

#[tokio::test]
async fn what_passes_is_not_noticed_and_only_the_answer_is_counted() {
    for case in six() {
        for says in [Says::Slowly, Says::Busy, Says::Broken] {
            let acts = vec![act(&case, says), case.act(case.whole())];
            let (answer, text, seen) = play(&case, acts).await;
            let answer = answer.unwrap_or_else(|why| panic!("{} {says:?}: {why}", case.provider));
            assert_eq!(
                (text.as_str(), seen.len()),
                ("hello", 2),
                "{}",
                case.provider
            );
            assert_eq!(
                answer.usage.output,
                Some(2),
                "{}: one answer's",
                case.provider
            );
            assert_eq!(
                seen[0].body, seen[1].body,
                "{}: the same request",
                case.provider
            );
        }
        let acts = vec![Act::HangUp, case.act(case.whole())];
        let (answer, _, seen) = play(&case, acts).await;
        assert!(
            answer.is_ok() && seen.len() == 2,
            "{}: {answer:?}",
            case.provider
        );
    }
}

#[tokio::test]
async fn advice_to_wait_is_kept_where_it_is_one() {
    for case in six() {
        let (status, body) = body(&case, Says::Slowly);
        let slowly = |after: &str| Act::answer(status, &[("retry-after", after)], body.clone());
        let (answer, _, seen) = play(&case, vec![slowly("1"), case.act(case.whole())]).await;
        assert!(answer.is_ok(), "{}: {answer:?}", case.provider);
        assert!(
            seen[1].at - seen[0].at >= Duration::from_secs(1),
            "{}",
            case.provider
        );
        for (after, asked) in [
            ("-5", 3),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 3),
            ("soon", 3),
            ("1000000000", 1),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 1),
        ] {
            let began = Instant::now();
            let got = came_to(&case, vec![slowly(after)]).await;
            assert_eq!(
                got,
                (Class::RateLimit, true, asked),
                "{} {after}",
                case.provider
            );
            assert!(
                began.elapsed() < Duration::from_secs(3),
                "{} {after}",
                case.provider
            );
        }
    }
}

#[tokio::test]
async fn a_provider_that_says_nothing_is_asked_once() {
    for case in six() {
        let mute = [Act::Silence, case.act("").ends(End::Stall)];
        for act in mute {
            let got = came_to(&case, vec![act]).await;
            assert_eq!(got, (Class::Network, true, 1), "{}", case.provider);
        }
        // Words, and then nothing more.
        let stalls = case
            .act([case.begin.as_slice(), &case.hello].concat())
            .ends(End::Stall);
        let got = came_to(&case, vec![stalls, case.act(case.whole())]).await;
        assert_eq!(got, (Class::Network, true, 1), "{}", case.provider);
    }
}

#[tokio::test]
async fn a_damaged_event_is_no_answer_and_the_next_call_is_well() {
    for case in six() {
        let before = [case.begin.as_slice(), &case.garbage, &case.hello, &case.end].concat();
        let acts = vec![case.act(before), case.act(case.whole())];
        let (answer, text, seen) = play(&case, acts).await;
        assert!(answer.is_ok(), "{}: {answer:?}", case.provider);
        assert_eq!(
            (text.as_str(), seen.len()),
            ("hello", 2),
            "{}",
            case.provider
        );

        let after = [case.begin.as_slice(), &case.hello, &case.garbage, &case.end].concat();
        let server = Faults::start(vec![case.act(after), case.act(case.whole())]).await;
        let providers = providers(&case, &server.url());
        let mut infer = super::ask(case.provider);
        infer.model = "model-1".into();
        let key = crate::Credential::Key(supervisor_core::Secret::new("k".into()));
        let failed = providers.infer_with(&infer, Some(&key), &mut |_| {}).await;
        let failed = failed.expect_err(case.provider);
        assert_eq!(
            (failed.class, failed.attempts),
            (Class::Network, 1),
            "{}",
            case.provider
        );
        let well = providers.infer_with(&infer, Some(&key), &mut |_| {}).await;
        assert_eq!(well.expect(case.provider).message.text(), "hello");
    }
}

#[tokio::test]
async fn half_a_call_is_an_error_where_the_answer_broke_and_marked_where_the_limit_cut_it() {
    for case in six() {
        let Some(half) = &case.half_call else {
            continue;
        };
        for how in [End::Whole, End::Drop, End::Stall] {
            let cut = [case.begin.as_slice(), &case.hello, half].concat();
            let got = came_to(&case, vec![case.act(cut).ends(how)]).await;
            assert_eq!(got, (Class::Network, true, 1), "{} {how:?}", case.provider);
        }
        let limited = [case.begin.as_slice(), &case.hello, half, &case.limit].concat();
        let (answer, ..) = play(&case, vec![case.act(limited)]).await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {why}", case.provider));
        assert_eq!(answer.stop, StopReason::Length, "{}", case.provider);
        let inputs = answer.message.parts.iter().filter_map(|part| match part {
            Part::ToolCall { input, .. } => Some(input),
            _ => None,
        });
        let inputs: Vec<&Value> = inputs.collect();
        assert!(
            inputs.len() == 1 && inputs.iter().all(|input| is_invalid(input)),
            "{}: nobody may run {inputs:?}",
            case.provider
        );
    }
}

#[tokio::test]
async fn an_end_that_comes_twice_or_late_or_bare_is_one_end() {
    for case in six() {
        let twice = [case.whole(), case.end.clone()].concat();
        let (answer, text, _) = play(&case, vec![case.act(twice)]).await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {why}", case.provider));
        assert_eq!(
            (answer.stop, text.as_str()),
            (StopReason::End, "hello"),
            "{}",
            case.provider
        );
        assert_eq!(
            answer.usage.output,
            Some(2),
            "{}: counted once",
            case.provider
        );

        // The connection stays open behind the end: nobody waits for it, but where only it ends the answer.
        if case.words == Words::Google {
            continue;
        }
        let began = Instant::now();
        let (answer, ..) = play(&case, vec![case.act(case.whole()).ends(End::Stall)]).await;
        assert!(answer.is_ok(), "{}: {answer:?}", case.provider);
        assert!(
            began.elapsed() < Duration::from_millis(290),
            "{}",
            case.provider
        );
    }
    let chat = six()
        .into_iter()
        .find(|case| case.path == "/chat/completions")
        .expect("one of the six");
    let whole = String::from_utf8(chat.whole()).expect("text");
    let bare = whole.replace("data: [DONE]\n\n", "");
    let (answer, ..) = play(&chat, vec![chat.act(bare)]).await;
    assert_eq!(answer.expect("no sentinel is needed").usage.output, Some(2));
}

#[tokio::test]
async fn errors_under_a_good_status_keep_their_class() {
    for case in six() {
        for (says, class, asked) in [
            (Says::TooLong, Class::ContextTooLong, 1),
            (Says::Spent, Class::Quota, 1),
            (Says::Busy, Class::Overload, 3),
        ] {
            // Ollama says these by their status alone.
            if case.words == Words::Ollama && !matches!(says, Says::TooLong) {
                continue;
            }
            let (_, body) = body(&case, says);
            let got = came_to(&case, vec![Act::answer(200, &JSON, body)]).await;
            assert_eq!(got, (class, asked > 1, asked), "{} {says:?}", case.provider);
        }
        // A gateway's own words inside the stream, in nobody's dialect.
        if case.words != Words::Amazon {
            let line = json!({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}});
            let line = match case.media {
                "text/event-stream" => format!("data: {line}\n\n"),
                _ => format!("{line}\n"),
            };
            let foreign = [case.begin.as_slice(), &case.hello, line.as_bytes()].concat();
            let got = came_to(&case, vec![case.act(foreign)]).await;
            assert_eq!(got, (Class::RateLimit, true, 1), "{}", case.provider);
        }
    }
}

#[tokio::test]
async fn what_no_provider_sends_is_refused_in_words() {
    for case in six() {
        let blanks = vec![b' '; protocol::bounds::STREAM_LINE + 1];
        let huge = [case.begin.as_slice(), &blanks].concat();
        let got = came_to(&case, vec![case.act(huge).pieces(65_536)]).await;
        let expected = match case.words {
            // No frame begins with blanks: that is damage, and may have come on the way.
            Words::Amazon => (Class::Network, true, 3),
            _ => (Class::Other, false, 1),
        };
        assert_eq!(got, expected, "{}", case.provider);

        let packed = [("content-type", case.media), ("content-encoding", "gzip")];
        let (answer, _, seen) = play(&case, vec![Act::answer(200, &packed, case.whole())]).await;
        let failure = answer.expect_err(case.provider);
        assert_eq!(
            (failure.class, seen.len()),
            (Class::Other, 1),
            "{}",
            case.provider
        );
        assert!(failure.message.contains("gzip"), "{failure}");

        let other = Faults::start(vec![case.act(case.whole())]).await;
        let location = format!("{}{}", other.url(), case.path);
        for status in [301, 302, 303, 307, 308] {
            let away = Act::answer(status, &[("location", &location)], "");
            let got = came_to(&case, vec![away]).await;
            assert_eq!(got, (Class::Client, false, 1), "{} {status}", case.provider);
        }
        assert!(
            other.seen().is_empty(),
            "{}: the key goes nowhere else",
            case.provider
        );
    }
}

#[tokio::test]
async fn an_outage_opens_the_breaker_in_every_dialect_and_spares_the_provider() {
    for case in six() {
        let server = Faults::start(vec![act(&case, Says::Busy)]).await;
        let providers = providers(&case, &server.url());
        let mut infer = super::ask(case.provider);
        infer.model = "model-1".into();
        let key = crate::Credential::Key(supervisor_core::Secret::new("k".into()));
        for _ in 0..15 {
            let failed = providers.infer_with(&infer, Some(&key), &mut |_| {}).await;
            assert_eq!(failed.expect_err(case.provider).class, Class::Overload);
        }
        assert_eq!(server.seen().len(), 5, "{}", case.provider);
    }
}
