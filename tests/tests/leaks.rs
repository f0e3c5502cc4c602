//! A key that is made to be missed (signs of regular expressions, of URLs, of JSON and shells) is in no
//! sink: not in what a session says, keeps, exports, or tells a collector, whatever the provider echoes.

#[cfg(test)]
mod leaks {
    use std::{path::Path, time::Duration};

    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use provost_tests::harness::{
        Answer, Collector, Live, Needles, Place, Provider, find_in_file, find_in_files,
    };
    use serde_json::json;

    const END: Duration = Duration::from_secs(60);
    const KEYS: [&str; 4] = [
        "sk-ant-.*+?[a-z](b|c){2}^$\\d-canary",
        "sk-\"quote'%2F<&>=~;`id`-canary",
        "a/b+c==.Zm9vYmFy_canary-0000",
        "$(cat)${IFS}%s%n{{canary}}!!",
    ];

    #[test]
    fn an_awkward_key_is_in_no_sink() {
        let Some(collector) = Collector::start(Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
            return;
        };
        for key in KEYS {
            let coded = STANDARD.encode(key);
            let provider = Provider::start(vec![
                Answer::Calls(
                    "bash",
                    json!({ "command": format!("echo '{}' {coded}", key.replace('\'', "")) }),
                ),
                Answer::Calls(
                    "write_file",
                    json!({ "file_path": "b.txt", "content": format!("{key}\n{coded}\n") }),
                ),
                Answer::Error(401, format!("bad key {key} or {coded}")),
            ]);
            let place = Place::new();
            let row = format!(
                "version = 1\n[provider.anthropic]\nbase_url = \"{}\"\n",
                provider.url()
            );
            place.write("config/providers.toml", row);
            let kept = place.write("config/keys/anthropic", format!("{key}\n"));
            place.mode("config/keys/anthropic", 0o600);
            place.mode("config/keys", 0o700);
            place.write("work/a.txt", "a\n");
            let (metrics, patch) = (
                place.root().join("metrics.prom"),
                place.root().join("out.patch"),
            );
            let mut command = place.command([
                "run",
                "--model",
                "anthropic/claude-sonnet-5",
                "--mode",
                "never",
                "--metrics",
            ]);
            command
                .arg(&metrics)
                .arg("--patch")
                .arg(&patch)
                .arg("--workspace")
                .arg(place.work());
            command.arg("say the key").env(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                format!("http://127.0.0.1:{}", collector.http),
            );
            let done = Live::start(command).wait(END);
            assert_eq!(done.code, Some(1), "the provider refused: {done}");
            let sent = provider.sent();
            assert_eq!(sent.len(), 3, "{done}");
            assert!(
                sent.iter().all(|sent| sent.head.contains(key)),
                "its provider is shown it"
            );

            let needles = Needles::of(key);
            let session = done.session();
            let mut sinks = vec![
                ("standard output", done.stdout.clone()),
                ("standard error", done.stderr.clone()),
            ];
            for words in [
                vec!["audit", "export", &session],
                vec!["audit", "export", &session, "--format", "ocsf"],
                vec!["sessions", "show", &session, "--json"],
                vec!["why", &session],
                vec!["diff", &session],
                vec!["providers", "show", "anthropic", "--json"],
                vec!["providers", "test", "anthropic"],
            ] {
                let told = place.run(words);
                sinks.push(("a command", told.stdout + &told.stderr));
            }
            sinks.push(("the collector", json!(collector.took()).to_string()));
            for (sink, text) in &sinks {
                assert_eq!(
                    needles.within(text.as_bytes()),
                    None,
                    "{key} in {sink}: {text}"
                );
            }
            assert!(
                metrics.is_file() && patch.is_file(),
                "there is something to look at: {done}"
            );
            let (found, read) = find_in_files(place.root(), &[&kept], &needles);
            assert_eq!(found, Vec::<String>::new(), "{key}");
            assert!(read >= 5, "the search read {read} files");
            assert!(
                find_in_file(&kept, &needles).is_some(),
                "the search finds what is there"
            );
        }
        assert!(
            collector.took().len() >= 3 * KEYS.len(),
            "it was told of every run"
        );
    }
}
