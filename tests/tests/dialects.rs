//! A session in every dialect: the same task through the same pipeline, whatever the provider speaks.

#[cfg(test)]
mod sessions {
    use std::{os::unix::fs::PermissionsExt as _, time::Duration};

    use provost_tests::harness::{Answer, Live, Place, Provider};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const KEY: &str = "sk-canary-of-dialects-5512";

    /// Provider, model, the header that shows the key, and what stands in the second request for the
    /// first answer's reasoning and for the tool's result.
    const ROWS: [(&str, &str, &str, &str, &str); 5] = [
        (
            "anthropic",
            "claude-sonnet-5",
            "x-api-key: ",
            "",
            "\"tool_use_id\":\"toolu_bash\"",
        ),
        (
            "openai-compatible",
            "any",
            "authorization: Bearer ",
            "\"reasoning_content\":\"hm\"",
            "\"tool_call_id\":\"call_bash\"",
        ),
        (
            "mistral",
            "mistral-large-latest",
            "authorization: Bearer ",
            "\"reasoning_content\":\"hm\"",
            "\"role\":\"tool\"",
        ),
        (
            "openai",
            "gpt-5.4",
            "authorization: Bearer ",
            "\"encrypted_content\":\"c2VhbA==\"",
            "\"type\":\"function_call_output\"",
        ),
        (
            "ollama",
            "qwen3:4b",
            "authorization: Bearer ",
            "\"thinking\":\"hm\"",
            "\"tool_name\":\"bash\"",
        ),
    ];

    fn place(provider: &str, url: &str) -> Place {
        let place = Place::new();
        let row = format!("version = 1\n[provider.{provider}]\nbase_url = \"{url}\"\n");
        place.write("config/providers.toml", row);
        place.write(&format!("config/keys/{provider}"), format!("{KEY}\n"));
        place.mode(&format!("config/keys/{provider}"), 0o600);
        place.mode("config/keys", 0o700);
        place.write("work/a.txt", "a\n");
        place
    }

    /// Output of one answer.
    fn tokens(provider: &str) -> u64 {
        if provider == "anthropic" { 5 } else { 10 }
    }

    #[test]
    fn a_task_is_done_through_every_dialect() {
        for (name, model, header, reasoning, result) in ROWS {
            let provider = Provider::start(vec![
                Answer::Calls("bash", json!({ "command": "cat a.txt" })),
                Answer::Says("It holds an a.".to_owned()),
            ]);
            let place = place(name, &provider.url());
            let model = format!("{name}/{model}");
            let mut command =
                place.command(["run", "--model", &model, "--output", "json", "--workspace"]);
            command.arg(place.work()).arg("what does a.txt hold?");
            let done = Live::start(command).wait(END);
            assert_eq!(done.code, Some(0), "{name}: {done}");
            let said: Value = serde_json::from_str(&done.stdout).expect("one object");
            assert!(
                said.to_string().contains("It holds an a."),
                "{name}: {said}"
            );
            assert_eq!(said["usage"]["output"], 2 * tokens(name), "{name}: {said}");
            let sent = provider.sent();
            assert_eq!(sent.len(), 2, "{name}");
            for sent in &sent {
                assert!(
                    sent.head.contains(&format!("{header}{KEY}")),
                    "{name}: {}",
                    sent.head
                );
            }
            let second = &sent[1].body;
            let (before, after) = (prefix(&sent[0].body), prefix(second));
            assert!(
                after.starts_with(&before),
                "{name}: the cached prefix has changed\n{before}\n{after}"
            );
            assert!(
                second.contains(reasoning) && second.contains(result),
                "{name}: {second}"
            );
        }
    }

    #[test]
    fn a_session_whose_answer_must_be_an_object_says_when_it_is_none() {
        for (text, code) in [("{\"a\":1}", 0), ("It holds an a.", 1)] {
            let provider = Provider::start(vec![
                Answer::Calls("bash", json!({ "command": "cat a.txt" })),
                Answer::Says(text.to_owned()),
            ]);
            let place = place("openai", &provider.url());
            let schema = place.write("schema.json", r#"{"type":"object"}"#);
            let mut command =
                place.command(["run", "--model", "openai/gpt-5.4", "--output-schema"]);
            command
                .arg(schema)
                .arg("--workspace")
                .arg(place.work())
                .arg("what does a.txt hold?");
            let done = Live::start(command).wait(END);
            assert_eq!(
                (done.code, done.stderr.contains("no JSON object")),
                (Some(code), code == 1),
                "{done}"
            );
            assert!(
                provider
                    .sent()
                    .iter()
                    .all(|sent| sent.body.contains("\"json_schema\"")),
                "{done}"
            );
        }
    }

    /// What of a request the next one must begin with: all up to the end of its list of messages, but for
    /// the marks of a prompt cache, which move on.
    fn prefix(body: &str) -> String {
        let plain = body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
        let end = plain.rfind("}]").expect("a list of messages");
        plain[..=end].to_owned()
    }

    #[test]
    fn a_question_takes_a_form_pictures_and_documents_and_counts() {
        for (name, model, ..) in ROWS {
            let provider = Provider::start(vec![
                Answer::Says("{\"a\": 1}".to_owned()),
                Answer::Says("no object".to_owned()),
            ]);
            let place = Place::new();
            let schema = place.write(
                "schema.json",
                r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#,
            );
            let image = place.write("a.png", b"\x89PNG\r\n\x1a\n0000");
            let url = provider.url();
            let (schema, image) = (schema.display().to_string(), image.display().to_string());
            let call = |more: &[&str]| {
                let base = [
                    "providers",
                    "call",
                    "--provider",
                    name,
                    "--base-url",
                    &url,
                    "--model",
                    model,
                    "--prompt",
                    "hi",
                    "--json",
                ];
                place.run([base.as_slice(), more].concat())
            };
            let done = call(&["--schema", &schema, "--image", &image]);
            assert_eq!(done.code, Some(0), "{name}: {done}");
            assert_eq!(done.json()["text"], "{\"a\": 1}");
            let body = provider.sent()[0].body.clone();
            assert!(
                body.contains("iVBORw0KGgow") && body.contains("\"integer\""),
                "{name}: {body}"
            );
            let done = call(&["--schema", &schema]);
            assert_eq!(done.code, Some(1), "{name}: {done}");
            let error = &done.json()["error"];
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|why| why.contains("--schema")),
                "{error}"
            );

            let text = place.write("a.txt", "words");
            let done = call(&["--image", &text.display().to_string()]);
            assert_eq!(done.code, Some(64), "{name}: {done}");
            assert!(
                done.stderr.contains("neither png, jpeg, gif nor webp"),
                "{done}"
            );
        }
        let place = Place::new();
        let document = place.write("a.txt", "words");
        let document = document.display().to_string();
        let call = |provider: &str, more: &[&str]| {
            let base = [
                "providers",
                "call",
                "--provider",
                provider,
                "--base-url",
                "http://127.0.0.1:1",
                "--model",
                "m",
                "--prompt",
                "hi",
                "--json",
            ];
            place.run([base.as_slice(), more].concat())
        };
        let done = call("ollama", &["--document", &document]);
        let error = done.json()["error"].clone();
        assert_eq!(
            (done.code, &error["class"]),
            (Some(1), &json!("client")),
            "{done}"
        );
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|why| why.contains("`ollama` takes no documents")),
            "{error}"
        );
        let counted = call("openai-compatible", &["--count"]);
        let count = counted.json();
        let objections = provost_tests::harness::schema::against("count.json", &count);
        assert!(
            objections.is_empty() && count["estimate"] == true,
            "{counted} {objections:?}"
        );
    }

    #[test]
    fn one_call_prints_one_object_and_its_faults_their_class() {
        for (name, model, ..) in ROWS {
            let provider = Provider::start(vec![
                Answer::Says("Hello.".to_owned()),
                Answer::Calls("add", json!({ "a": 2 })),
                Answer::Error(401, "no such key".to_owned()),
            ]);
            let place = Place::new();
            let call = || {
                let url = provider.url();
                place.run([
                    "providers",
                    "call",
                    "--provider",
                    name,
                    "--base-url",
                    &url,
                    "--model",
                    model,
                    "--prompt",
                    "hi",
                    "--json",
                ])
            };
            let done = call();
            assert_eq!(done.code, Some(0), "{name}: {done}");
            let said = done.json();
            assert_eq!(
                (&said["text"], &said["stop"], &said["error"]),
                (&json!("Hello."), &json!("end"), &Value::Null)
            );
            assert_eq!(said["usage"]["output"], tokens(name), "{name}: {said}");
            let done = call();
            assert_eq!(
                done.json()["tool_calls"],
                json!([{ "name": "add", "input": { "a": 2 } }]),
                "{name}: {done}"
            );
            let done = call();
            assert_eq!(done.code, Some(1), "{name}: {done}");
            let error = &done.json()["error"];
            assert_eq!(
                (&error["class"], &error["retryable"]),
                (&json!("authentication"), &json!(false))
            );
            assert_eq!(provider.sent().len(), 3, "one attempt each, without a key");
        }
    }

    #[test]
    fn rows_are_shown_with_what_is_missing_and_no_key() {
        let provider = Provider::start(vec![Answer::Says("OK".to_owned())]);
        let place = place("openai", &provider.url());
        let list = place.run(["providers", "list", "--json"]).json();
        let rows = list["providers"].as_array().expect("rows");
        assert!(rows.len() >= 19, "{list}");
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("known");
        assert!(
            row("openai")["key"]
                .as_str()
                .is_some_and(|key| key.contains("keys/openai"))
        );
        assert!(
            row("cloudflare")["missing"]
                .as_str()
                .is_some_and(|why| why.contains("CLOUDFLARE_ACCOUNT_ID"))
        );
        let shown = place.run(["providers", "show", "openai", "--json"]).json();
        let models = shown["models"].as_array().expect("models");
        assert!(
            models
                .iter()
                .all(|model| model["usd_per_million"]["source"].is_string()),
            "{shown}"
        );
        let done = place.run(["providers", "test"]);
        assert_eq!(
            (done.code, done.stdout.contains("ok (")),
            (Some(0), true),
            "{done}"
        );
        assert_eq!(provider.sent().len(), 1);
        let key = place.config().join("keys/openai");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("mode");
        let list = place.run(["providers", "list", "--json"]);
        assert!(
            list.stdout.contains("chmod 600") && !list.stdout.contains(KEY),
            "{list}"
        );
        assert_eq!(place.run(["providers", "show", "nobody"]).code, Some(64));
    }
}
