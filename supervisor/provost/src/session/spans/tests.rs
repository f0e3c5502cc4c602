//! What a session's moments become: spans below one another, figures, and nothing that anybody wrote.

use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use protocol::{Message as Words, Part, Role, StopReason, Usage};

use super::*;

const WRITTEN: &str = "CANARY-of-what-somebody-wrote";

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|pair| pair.key.as_str() == key);
    found.map(|pair| pair.value.as_str().into_owned())
}

fn infer() -> Infer {
    Infer {
        request: protocol::Infer {
            id: 1,
            system: WRITTEN.into(),
            messages: vec![Words::user(WRITTEN)],
            tools: Vec::new(),
            max_output: 99,
        },
        provider: "bedrock".into(),
        model: "m-1".into(),
        fallbacks: Vec::new(),
    }
}

fn answer() -> Inference {
    Inference {
        message: Words {
            role: Role::Assistant,
            parts: vec![Part::Text {
                text: WRITTEN.into(),
            }],
        },
        stop: StopReason::ContextFull,
        usage: Usage {
            input_uncached: Some(3),
            cache_read: Some(60),
            cache_write: None,
            output: Some(7),
            reasoning: None,
        },
        provider: "bedrock".into(),
        model: "m-2".into(),
    }
}

fn judged(call: &CallId, tool: &str) -> ViewEvent {
    ViewEvent::Judged {
        call: call.clone(),
        tool: tool.into(),
        what: WRITTEN.into(),
        verdict: "allow",
        rule: Some("default".into()),
        reason: WRITTEN.into(),
    }
}

#[test]
fn a_session_is_one_tree_of_spans_without_a_word_of_its_content() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    global::set_tracer_provider(provider);
    let mut spans = Spans::new("s-test", "bedrock", "m-1");
    let parent = spans.traceparent().expect("traced");
    assert_eq!(parent.len(), 55, "{parent}");

    spans.asks(&infer());
    let delta = EffectOutcome::Delta {
        id: 1,
        text: WRITTEN.into(),
    };
    spans.hear(&Message::Effect(delta));
    let outcome = |result| {
        Message::Effect(EffectOutcome::Infer {
            id: 1,
            result,
            bill: supervisor_core::Bill {
                micro_usd: Some(12),
                ..supervisor_core::Bill::default()
            },
        })
    };
    spans.hear(&outcome(Ok(Box::new(answer()))));
    spans.asks(&infer());
    spans.hear(&outcome(Err(InferFailure {
        id: 1,
        class: "overload".into(),
        retryable: true,
        message: WRITTEN.into(),
        retry_after_ms: None,
    })));

    let call = CallId::parse("c1").expect("valid");
    spans.see(&judged(&call, "bash"));
    spans.see(&ViewEvent::Progress {
        call: call.clone(),
        percent: 66,
    });
    spans.hear(&Message::Fault {
        link: "agent",
        what: WRITTEN.into(),
    });
    assert_eq!(
        exporter.get_finished_spans().expect("read").len(),
        2,
        "it still runs"
    );
    spans.see(&ViewEvent::Settled {
        call,
        tool: "bash".into(),
        ok: false,
        what: WRITTEN.into(),
        ms: 3,
        verdict: "allow",
        rule: None,
    });
    spans.see(&judged(&CallId::parse("c2").expect("valid"), WRITTEN));
    spans.end(&End::new("budget", WRITTEN), &Totals::default());

    let finished = exporter.get_finished_spans().expect("read");
    let names: Vec<&str> = finished.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(
        names,
        [
            "chat m-1",
            "chat m-1",
            "tool bash",
            "tool unknown",
            "invoke_agent"
        ]
    );
    let [good, bad, tool, _, root] = finished.as_slice() else {
        panic!("{finished:?}")
    };
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    for span in &finished[..4] {
        assert_eq!(
            span.parent_span_id,
            root.span_context.span_id(),
            "{}",
            span.name
        );
        assert_eq!(span.span_context.trace_id(), root.span_context.trace_id());
    }
    let of = |span: &SpanData, keys: &[&str]| {
        keys.iter()
            .map(|key| attribute(span, key))
            .collect::<Vec<_>>()
    };
    let some = |values: &[&str]| {
        values
            .iter()
            .map(|value| Some((*value).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of(
            good,
            &[
                "gen_ai.provider.name",
                "gen_ai.request.model",
                "gen_ai.response.model",
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.cache_read.input_tokens",
                "gen_ai.response.finish_reasons",
                "gen_ai.request.max_tokens",
                "provost.cost.micro_usd"
            ]
        ),
        some(&[
            "aws.bedrock",
            "m-1",
            "m-2",
            "63",
            "7",
            "60",
            "[\"context_full\"]",
            "99",
            "12"
        ])
    );
    assert!(attribute(good, "gen_ai.response.time_to_first_chunk").is_some());
    assert_eq!(attribute(bad, "error.type").as_deref(), Some("overload"));
    assert!(
        matches!(bad.status, Status::Error { .. }) && matches!(tool.status, Status::Error { .. })
    );
    assert_eq!(tool.events.events.len(), 2, "its progress and the fault");
    assert_eq!(
        attribute(tool, "gen_ai.tool.call.id").as_deref(),
        Some("c1")
    );
    assert_eq!(attribute(root, "error.type").as_deref(), Some("budget"));
    let all = format!("{finished:?}");
    assert!(!all.contains(WRITTEN), "content got out: {all}");
}
