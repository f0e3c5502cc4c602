//! One OpenTelemetry span `tool NAME` around each call, from its verdict to its outcome.
//!
//! Spans go to whatever tracer provider the process has installed; without one they cost nothing.

use std::collections::BTreeMap;

use opentelemetry::{
    KeyValue,
    global::{self, BoxedSpan},
    trace::{Span as _, Status, Tracer as _},
};
use protocol::CallId;
use supervisor_core::{Message, ViewEvent};

/// Open spans of a session.
#[derive(Default)]
pub(crate) struct Spans {
    session: String,
    open: BTreeMap<CallId, BoxedSpan>,
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spans({} open)", self.open.len())
    }
}

impl Spans {
    /// For a session.
    pub(crate) fn new(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            open: BTreeMap::new(),
        }
    }

    /// Faults become events of every open span.
    pub(crate) fn hear(&mut self, message: &Message) {
        if let Message::Fault { link, .. } = message {
            for span in self.open.values_mut() {
                span.add_event("fault", vec![KeyValue::new("link", *link)]);
            }
        }
    }

    /// Verdicts open spans, outcomes end them.
    pub(crate) fn see(&mut self, event: &ViewEvent) {
        match event {
            ViewEvent::Judged {
                call,
                tool,
                verdict,
                rule,
                ..
            } => {
                let tracer = global::tracer("provost");
                let mut span = tracer.start(format!("tool {tool}"));
                span.set_attribute(KeyValue::new("session.id", self.session.clone()));
                span.set_attribute(KeyValue::new("gen_ai.operation.name", "execute_tool"));
                span.set_attribute(KeyValue::new("gen_ai.tool.name", tool.clone()));
                span.set_attribute(KeyValue::new("gen_ai.tool.call.id", call.to_string()));
                span.set_attribute(KeyValue::new("verdict", *verdict));
                if let Some(rule) = rule {
                    span.set_attribute(KeyValue::new("rule.id", rule.clone()));
                }
                self.open.insert(call.clone(), span);
            }
            ViewEvent::Progress { call, percent } => {
                if let Some(span) = self.open.get_mut(call) {
                    span.add_event(
                        "progress",
                        vec![KeyValue::new("percent", i64::from(*percent))],
                    );
                }
            }
            ViewEvent::Settled { call, ok, .. } => {
                if let Some(mut span) = self.open.remove(call) {
                    if !ok {
                        span.set_status(Status::error("the call gave no result"));
                    }
                    span.end();
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};

    use super::*;

    #[test]
    fn a_call_is_one_span_from_its_verdict_to_its_outcome() {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .build();
        global::set_tracer_provider(provider);
        let mut spans = Spans::new("s-test");
        let call = CallId::parse("c1").expect("valid");
        spans.see(&ViewEvent::Judged {
            call: call.clone(),
            tool: "bash".into(),
            what: "make test".into(),
            verdict: "allow",
            rule: Some("default".into()),
            reason: String::new(),
        });
        spans.see(&ViewEvent::Progress {
            call: call.clone(),
            percent: 66,
        });
        assert!(
            exporter.get_finished_spans().expect("read").is_empty(),
            "it still runs"
        );
        spans.see(&ViewEvent::Settled {
            call,
            tool: "bash".into(),
            ok: false,
            what: "exit 1".into(),
            ms: 3,
            verdict: "allow",
            rule: None,
        });
        let finished = exporter.get_finished_spans().expect("read");
        let [span] = finished.as_slice() else {
            panic!("{finished:?}")
        };
        assert_eq!(span.name, "tool bash");
        assert!(matches!(span.status, Status::Error { .. }));
        let attribute = |key: &str| {
            let found = span.attributes.iter().find(|pair| pair.key.as_str() == key);
            found.map(|pair| pair.value.as_str().into_owned())
        };
        assert_eq!(attribute("session.id").as_deref(), Some("s-test"));
        assert_eq!(attribute("gen_ai.tool.call.id").as_deref(), Some("c1"));
        assert_eq!(span.events.events.len(), 1, "its progress");
    }
}
