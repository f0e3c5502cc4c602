//! What a supervisor tells its operator's collector: traces, metrics and logs, by either protocol, without
//! a word of content; and that a collector that fails is nobody's trouble.

#[cfg(test)]
mod telemetry {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
        path::Path,
        process::Command,
        time::{Duration, Instant},
    };

    use provost_tests::harness::{Collector, Live, Place, until};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const SECRET: &str = "Bearer otlp-canary-7731";
    const CANARY: &str = "CANARY-words-of-somebody";
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    /// Reads a file, prints the trace that it stands in, is refused once, and ends.
    fn script() -> String {
        let call = |name: &str, input: Value| {
            json!({ "text": CANARY, "tool_calls": [{ "name": name, "input": input }], "stop": "tool",
                "usage": { "input_uncached": 30, "cache_read": 10, "output": 5 } })
        };
        let ends = json!({ "text": CANARY, "stop": "end", "expect": "denied|refused|not allowed" });
        [
            call("read_file", json!({ "file_path": "a.txt" })),
            call(
                "bash",
                json!({ "command": format!("echo {CANARY} $TRACEPARENT") }),
            ),
            call("bash", json!({ "command": "git push origin main" })),
            ends,
        ]
        .map(|line| format!("{line}\n"))
        .concat()
    }

    fn command(place: &Place, more: &[&str]) -> Command {
        place.write("work/a.txt", format!("{CANARY}\n"));
        let mut command = place.play_command(&script(), &[&["--mode", "never"], more].concat());
        command
            .env("TRACEPARENT", format!("00-{TRACE}-{PARENT}-01"))
            .env(
                "OTEL_EXPORTER_OTLP_HEADERS",
                format!("authorization={}", SECRET.replace(' ', "%20")),
            );
        command
    }

    /// Every object below `name`, whatever it is in.
    fn each<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
        match value {
            Value::Array(list) => list.iter().for_each(|item| each(item, name, found)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match value.as_array().filter(|_| key == name) {
                        Some(list) => found.extend(list),
                        None => each(value, name, found),
                    }
                }
            }
            _ => {}
        }
    }

    fn attribute(object: &Value, key: &str) -> Value {
        let list = object["attributes"].as_array().cloned().unwrap_or_default();
        let found = list.into_iter().find(|pair| pair["key"] == key);
        let value = found.map(|pair| pair["value"].clone()).unwrap_or_default();
        let inner = value
            .as_object()
            .and_then(|fields| fields.values().next().cloned());
        inner.unwrap_or_default()
    }

    /// An identifier as the collector prints it: base64 of its bytes.
    fn hex(id: &Value) -> String {
        use base64::Engine as _;
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(id.as_str().unwrap_or_default());
        bytes
            .unwrap_or_default()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    #[test]
    fn a_collector_hears_of_spans_metrics_and_events_by_either_protocol_and_of_no_content() {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let Some(collector) = Collector::start(folder) else {
            return;
        };
        for (protocol, way, port) in [
            ("grpc", "grpc", collector.grpc),
            ("http/protobuf", "http", collector.http),
        ] {
            let place = Place::new();
            let mut command = command(&place, &[]);
            command
                .env(
                    "OTEL_EXPORTER_OTLP_ENDPOINT",
                    format!("http://127.0.0.1:{port}"),
                )
                .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
            let done = Live::start(command).wait(END);
            assert_eq!(done.code, Some(0), "{done}");
            assert!(!done.stderr.contains("telemetry"), "{done}");
            // The run has said farewell: what it sent has arrived.
            let took: Vec<Value> = collector
                .took()
                .into_iter()
                .filter(|one| one["way"] == way)
                .collect();
            let all = json!(took).to_string();
            assert!(!all.contains(CANARY), "{protocol}: content got out: {all}");
            assert_eq!(
                all.matches("otlp-canary").count(),
                took.len(),
                "only in each export's own header"
            );
            for one in &took {
                assert_eq!(one["headers"]["authorization"], SECRET, "{protocol}");
            }

            let arrived = json!(took);
            let mut spans = Vec::new();
            each(&arrived, "spans", &mut spans);
            let spans: Vec<Value> = spans.into_iter().cloned().collect();
            let mut names: Vec<&str> = spans
                .iter()
                .filter_map(|span| span["name"].as_str())
                .collect();
            names.sort_unstable();
            let chat = "chat conversation";
            let expected = [
                chat,
                chat,
                chat,
                chat,
                "invoke_agent",
                "tool bash",
                "tool bash",
                "tool read_file",
            ];
            assert_eq!(names, expected, "{protocol}");
            let root = spans
                .iter()
                .find(|span| span["name"] == "invoke_agent")
                .expect("there");
            assert_eq!(
                (
                    hex(&root["traceId"]).as_str(),
                    hex(&root["parentSpanId"]).as_str()
                ),
                (TRACE, PARENT)
            );
            for span in spans.iter().filter(|span| span["name"] != "invoke_agent") {
                assert_eq!(
                    (&span["traceId"], &span["parentSpanId"]),
                    (&root["traceId"], &root["spanId"])
                );
                assert_eq!(
                    span["name"] == chat,
                    span["kind"] == "SPAN_KIND_CLIENT",
                    "{span}"
                );
            }
            let first = spans
                .iter()
                .find(|span| span["name"] == chat)
                .expect("there");
            let figures = [
                "gen_ai.operation.name",
                "gen_ai.provider.name",
                "gen_ai.request.model",
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.output_tokens",
            ]
            .map(|key| attribute(first, key));
            assert_eq!(
                figures,
                [
                    json!("chat"),
                    json!("script"),
                    json!("conversation"),
                    json!("40"),
                    json!("5")
                ]
            );

            // The command saw the session's span, and went on with nothing else.
            let session = place.session().expect("one");
            let told = json!(place.told(&session)).to_string();
            let own = format!("00-{TRACE}-{}-01", hex(&root["spanId"]));
            assert!(told.contains(&own), "{protocol}: {own} is not in {told}");

            let mut metrics = Vec::new();
            each(&arrived, "metrics", &mut metrics);
            let mut names: Vec<&str> = metrics
                .iter()
                .filter_map(|metric| metric["name"].as_str())
                .collect();
            names.sort_unstable();
            names.dedup();
            let expected = [
                "gen_ai.client.operation.duration",
                "gen_ai.client.operation.time_to_first_chunk",
                "gen_ai.client.token.usage",
                "provost.sessions",
                "provost.tool.duration",
                "provost.verdicts",
            ];
            assert_eq!(names, expected, "{protocol}");

            let mut records = Vec::new();
            each(&arrived, "logRecords", &mut records);
            let events: Vec<&str> = records
                .iter()
                .filter_map(|record| record["eventName"].as_str())
                .collect();
            assert_eq!(events.first(), Some(&"provost.session.began"), "{events:?}");
            assert_eq!(events.last(), Some(&"provost.session.ended"), "{events:?}");
            let judged = records
                .iter()
                .filter(|record| record["eventName"] == "provost.call.judged");
            let verdicts: Vec<Value> = judged
                .map(|record| attribute(record, "provost.verdict"))
                .collect();
            assert_eq!(verdicts.len(), 3, "{records:?}");
            assert!(
                records
                    .iter()
                    .all(|record| record["traceId"] == root["traceId"])
            );
        }
    }

    /// A run whose collector is no good: it ends as ever, in time, and it is said once.
    fn ends_in_spite_of(endpoint: &str, protocol: &str) {
        let place = Place::new();
        let mut command = command(&place, &[]);
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        let began = Instant::now();
        let done = Live::start(command).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            done.stderr.matches("telemetry cannot be sent").count() <= 1,
            "{done}"
        );
        assert!(!done.to_string().contains("otlp-canary"), "{done}");
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn a_collector_that_is_not_there_or_says_nothing_holds_nobody_up() {
        let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
        let nobody = format!("http://{}", gone.local_addr().expect("bound"));
        drop(gone);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mute = format!("http://{}", silent.local_addr().expect("bound"));
        for protocol in ["grpc", "http/protobuf"] {
            ends_in_spite_of(&nobody, protocol);
            ends_in_spite_of(&mute, protocol);
        }
        let place = Place::new();
        let mut command = command(&place, &[]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &nobody);
        let done = Live::start(command).wait(END);
        assert_eq!(
            done.stderr.matches("telemetry cannot be sent").count(),
            1,
            "said once: {done}"
        );
    }

    #[test]
    fn a_protocol_that_is_not_spoken_is_an_error_before_anything_starts() {
        let place = Place::new();
        let mut command = command(&place, &[]);
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
        let done = Live::start(command).wait(END);
        assert_eq!(done.code, Some(78), "{done}");
        assert!(done.stderr.contains("`http/protobuf` or `grpc`"), "{done}");
        assert_eq!(place.session(), None, "{done}");
    }

    #[test]
    fn metrics_are_written_as_text_or_served() {
        let place = Place::new();
        let file = place.root().join("metrics.prom");
        let done =
            Live::start(command(&place, &["--metrics", &file.display().to_string()])).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        let text = std::fs::read_to_string(&file).expect("written");
        for line in [
            "provost_sessions_total{provost_outcome=\"done\"} 1",
            "# TYPE gen_ai_client_operation_duration_seconds histogram",
            "gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name=\"chat\",\
             gen_ai_provider_name=\"script\",gen_ai_request_model=\"conversation\"} 4",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nis not in\n{text}"
            );
        }
        assert!(!text.contains(CANARY));

        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|held| held.local_addr())
            .expect("a port");
        let place = Place::new();
        let waits = "{\"text\":\"one\",\"tool_calls\":[{\"name\":\"bash\",\"input\":{\"command\":\"true\"}}],\"stop\":\"tool\"}\n\
                     {\"text\":\"two\",\"stop\":\"end\",\"delay_ms\":20000}\n";
        let live = Live::start(place.play_command(waits, &["--metrics", &port.to_string()]));
        let scrape = |path: &str| -> Option<String> {
            let mut stream = TcpStream::connect(port).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            Some(text)
        };
        let text = until("the verdict is counted", END, || {
            scrape("/metrics").filter(|text| text.contains("provost_verdicts_total{"))
        });
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("text/plain; version=0.0.4"),
            "{text}"
        );
        assert!(
            scrape("/secrets")
                .expect("an answer")
                .starts_with("HTTP/1.1 404")
        );
        live.signal(nix::sys::signal::Signal::SIGTERM);
        live.wait(END);
    }
}
