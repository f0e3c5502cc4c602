//! Counting: asked of those who count, in their words; an estimate, called one, everywhere else.

use serde_json::{Value, json};
use supervisor_core::Secret;

use super::dialects::{Case, providers, six};
use crate::{
    Class, Counted, Credential, InferError,
    faults::{Act, Faults, Seen},
};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn count(case: &Case, act: Act) -> (Result<Counted, InferError>, Vec<Seen>) {
    let server = Faults::start(vec![act]).await;
    let providers = providers(case, &server.url());
    let mut infer = super::ask(case.provider);
    infer.model = "model-1".into();
    let key = Credential::Key(Secret::new("k".into()));
    (
        providers.count_with(&infer, Some(&key)).await,
        server.seen(),
    )
}

#[tokio::test]
async fn those_who_count_are_asked_and_the_others_estimated() {
    for case in six() {
        let (path, answer) = match case.provider {
            "anthropic" => ("/v1/messages/count_tokens", json!({"input_tokens": 42})),
            "openai" => (
                "/responses/input_tokens",
                json!({"object": "response.input_tokens", "input_tokens": 42}),
            ),
            "gemini" => ("/models/model-1:countTokens", json!({"totalTokens": 42})),
            "bedrock" => ("/model/model-1/count-tokens", json!({"inputTokens": 42})),
            _ => ("", Value::Null),
        };
        let (counted, seen) = count(&case, Act::answer(200, &JSON, answer.to_string())).await;
        let counted = counted.expect(case.provider);
        if path.is_empty() {
            assert!(
                seen.is_empty() && counted.estimate,
                "{}: nobody to ask",
                case.provider
            );
            // The request holds some hundred bytes.
            assert!(
                (20..400).contains(&counted.tokens),
                "{}: {counted:?}",
                case.provider
            );
            continue;
        }
        assert_eq!(
            counted,
            Counted {
                tokens: 42,
                estimate: false
            },
            "{}",
            case.provider
        );
        assert!(
            seen[0].head.starts_with(&format!("POST {path} HTTP")),
            "{}",
            seen[0].head
        );
        let body: Value = serde_json::from_str(&seen[0].body).expect("JSON");
        for name in [
            "stream",
            "max_tokens",
            "max_output_tokens",
            "inferenceConfig",
        ] {
            assert!(body.get(name).is_none(), "{}: {body}", case.provider);
        }
        assert!(
            body.to_string().contains("hello"),
            "{}: {body}",
            case.provider
        );
    }
}

#[tokio::test]
async fn a_host_without_a_count_gives_an_estimate_and_a_refused_key_an_error() {
    for case in six()
        .iter()
        .filter(|case| !matches!(case.provider, "openai-compatible" | "ollama"))
    {
        let (counted, _) = count(
            case,
            Act::answer(404, &[("content-type", "text/html")], "<html>"),
        )
        .await;
        assert!(counted.expect(case.provider).estimate);
        let (counted, seen) = count(case, Act::answer(401, &JSON, case.denied.clone())).await;
        let failure = counted.expect_err(case.provider);
        assert_eq!(
            (failure.class, seen.len()),
            (Class::Authentication, 1),
            "{}",
            case.provider
        );
    }
}
