//! A session as OpenTelemetry spans: `invoke_agent` around it, `chat MODEL` for each model call, `tool NAME`
//! from a call's verdict to its outcome; with the metrics and log events of the same moments.
//!
//! They go to whatever providers the process has installed; without one they cost nothing. Only names of a
//! closed set, identifiers and numbers go into them: what a model or a worker wrote does not.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use opentelemetry::{
    Context, KeyValue,
    global::{self, BoxedSpan, BoxedTracer},
    metrics::{Counter, Histogram},
    trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _},
};
use policies::tools::Tool;
use protocol::{CallId, InferFailure, Inference};
use supervisor_core::{EffectOutcome, End, Infer, Message, Totals, ViewEvent};

use crate::telemetry::{self, names};

/// Open spans of a session.
pub(crate) struct Spans {
    session: String,
    tracer: BoxedTracer,
    root: Context,
    calls: BTreeMap<CallId, BoxedSpan>,
    chat: Option<Chat>,
    meters: Meters,
}

/// The model call that runs.
struct Chat {
    span: BoxedSpan,
    began: Instant,
    first: Option<Duration>,
    provider: String,
    model: String,
}

struct Meters {
    duration: Histogram<f64>,
    first: Histogram<f64>,
    tokens: Histogram<u64>,
    tool: Histogram<f64>,
    verdicts: Counter<u64>,
    sessions: Counter<u64>,
}

impl Meters {
    fn new() -> Self {
        let meter = global::meter("provost");
        // The steps that the conventions advise.
        let seconds = || {
            (0..14)
                .map(|step| 0.01 * f64::from(1_u32 << step))
                .collect::<Vec<_>>()
        };
        let tokens: Vec<f64> = (0..14).map(|step| f64::from(1_u32 << (2 * step))).collect();
        let time = |name, what| {
            let builder = meter.f64_histogram(name).with_unit("s");
            builder
                .with_description(what)
                .with_boundaries(seconds())
                .build()
        };
        Self {
            duration: time(names::DURATION, "Duration of a model call."),
            first: time(
                names::TO_FIRST_CHUNK,
                "Time to the first text of an answer.",
            ),
            tool: time(
                names::TOOL_DURATION,
                "Duration of a tool call, from its verdict.",
            ),
            tokens: meter
                .u64_histogram(names::TOKENS)
                .with_unit("{token}")
                .with_description("Tokens of a model call.")
                .with_boundaries(tokens)
                .build(),
            verdicts: meter
                .u64_counter(names::VERDICTS)
                .with_description("Calls that were judged.")
                .build(),
            sessions: meter
                .u64_counter(names::SESSIONS)
                .with_description("Sessions that ended.")
                .build(),
        }
    }
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spans({} open)", self.calls.len())
    }
}

/// A tool by its name; what is none is the worker's word, and is not passed on.
fn known(tool: &str) -> &'static str {
    let found = Tool::ALL.iter().find(|known| known.as_str() == tool);
    found.map_or("unknown", |known| known.as_str())
}

fn count(figure: Option<u64>) -> Option<i64> {
    i64::try_from(figure?).ok()
}

impl Spans {
    /// For a session, which its model serves.
    pub(crate) fn new(session: &str, provider: &str, model: &str) -> Self {
        let tracer = global::tracer("provost");
        let attributes = [
            KeyValue::new(names::OPERATION, names::AGENT_SPAN),
            KeyValue::new(names::AGENT, "provost"),
            KeyValue::new(names::CONVERSATION, session.to_owned()),
            KeyValue::new(names::SESSION, session.to_owned()),
            KeyValue::new(names::PROVIDER, names::provider(provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, model.to_owned()),
        ];
        let span = tracer
            .span_builder(names::AGENT_SPAN)
            .with_kind(SpanKind::Internal)
            .with_attributes(attributes.clone())
            .start_with_context(&tracer, &telemetry::parent());
        let root = Context::new().with_span(span);
        telemetry::log(&root, names::BEGAN, false, attributes.into());
        Self {
            session: session.to_owned(),
            tracer,
            root,
            calls: BTreeMap::new(),
            chat: None,
            meters: Meters::new(),
        }
    }

    /// The session's span for those who go on with it: the commands inside.
    pub(crate) fn traceparent(&self) -> Option<String> {
        telemetry::traceparent(&self.root)
    }

    fn log(&self, event: &'static str, bad: bool, mut attributes: Vec<KeyValue>) {
        attributes.push(KeyValue::new(names::SESSION, self.session.clone()));
        telemetry::log(&self.root, event, bad, attributes);
    }

    /// A model is asked.
    pub(crate) fn asks(&mut self, infer: &Infer) {
        let attributes = [
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::CONVERSATION, self.session.clone()),
            KeyValue::new(names::PROVIDER, names::provider(&infer.provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, infer.model.clone()),
            KeyValue::new(
                names::REQUEST_MAX_TOKENS,
                i64::from(infer.request.max_output),
            ),
            KeyValue::new(names::REQUEST_STREAM, true),
        ];
        let span = self
            .tracer
            .span_builder(format!("{} {}", names::CHAT, infer.model))
            .with_kind(SpanKind::Client)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, &self.root);
        self.chat = Some(Chat {
            span,
            began: Instant::now(),
            first: None,
            provider: infer.provider.clone(),
            model: infer.model.clone(),
        });
    }

    /// Answers end a model call; faults become events of every open span.
    pub(crate) fn hear(&mut self, message: &Message) {
        match message {
            Message::Effect(EffectOutcome::Delta { .. }) => {
                if let Some(chat) = &mut self.chat {
                    chat.first.get_or_insert_with(|| chat.began.elapsed());
                }
            }
            Message::Effect(EffectOutcome::Infer { result, bill, .. }) => {
                if let Some(chat) = self.chat.take() {
                    self.answered(chat, result.as_deref(), bill.micro_usd);
                }
            }
            Message::Fault { link, .. } => {
                let attributes = vec![KeyValue::new(names::LINK, *link)];
                for span in self.calls.values_mut() {
                    span.add_event("fault", attributes.clone());
                }
                self.log(names::FAULT, true, attributes);
            }
            _ => {}
        }
    }

    fn answered(
        &mut self,
        mut chat: Chat,
        result: Result<&Inference, &InferFailure>,
        micro_usd: Option<u64>,
    ) {
        let took = chat.began.elapsed().as_secs_f64();
        // A fallback answers under another name than the one that was asked.
        let provider = result.map_or(chat.provider.as_str(), |answer| answer.provider.as_str());
        let mut labels = vec![
            KeyValue::new(names::OPERATION, names::CHAT),
            KeyValue::new(names::PROVIDER, names::provider(provider).to_owned()),
            KeyValue::new(names::REQUEST_MODEL, chat.model.clone()),
        ];
        if let Some(first) = chat.first {
            self.meters.first.record(first.as_secs_f64(), &labels);
            chat.span
                .set_attribute(KeyValue::new(names::FIRST_CHUNK, first.as_secs_f64()));
        }
        match result {
            Ok(answer) => {
                let usage = answer.usage;
                let sum = [usage.input_uncached, usage.cache_read, usage.cache_write];
                // The conventions count what a cache gave among the input.
                let input = usage
                    .input_uncached
                    .map(|_| sum.iter().flatten().sum::<u64>());
                let figures = [
                    (names::INPUT_TOKENS, input),
                    (names::OUTPUT_TOKENS, usage.output),
                    (names::CACHE_READ, usage.cache_read),
                    (names::CACHE_WRITE, usage.cache_write),
                    (names::REASONING, usage.reasoning),
                    (names::COST, micro_usd),
                ];
                for (name, figure) in figures {
                    if let Some(figure) = count(figure) {
                        chat.span.set_attribute(KeyValue::new(name, figure));
                    }
                }
                for (kind, figure) in [("input", input), ("output", usage.output)] {
                    if let Some(figure) = figure {
                        let mut labels = labels.clone();
                        labels.push(KeyValue::new(names::TOKEN_TYPE, kind));
                        self.meters.tokens.record(figure, &labels);
                    }
                }
                let stop = serde_json::to_value(answer.stop).ok();
                let stop = stop.and_then(|stop| Some(stop.as_str()?.to_owned()));
                let stops =
                    opentelemetry::Array::String(stop.into_iter().map(Into::into).collect());
                chat.span.set_attribute(KeyValue::new(
                    names::FINISH_REASONS,
                    opentelemetry::Value::Array(stops),
                ));
                chat.span
                    .set_attribute(KeyValue::new(names::RESPONSE_MODEL, answer.model.clone()));
            }
            Err(failure) => {
                let class = KeyValue::new(names::ERROR, failure.class.clone());
                labels.push(class.clone());
                chat.span.set_attribute(class);
                chat.span.set_status(Status::error(failure.class.clone()));
                self.log(names::MODEL_FAILED, true, labels.clone());
            }
        }
        self.meters.duration.record(took, &labels);
        chat.span.end();
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
                let tool = known(tool);
                let mut attributes = vec![
                    KeyValue::new(names::TOOL, tool),
                    KeyValue::new(names::VERDICT, *verdict),
                ];
                self.meters.verdicts.add(1, &attributes);
                attributes.push(KeyValue::new(names::CALL, call.to_string()));
                attributes.extend(rule.clone().map(|rule| KeyValue::new(names::RULE, rule)));
                self.log(names::JUDGED, *verdict == "deny", attributes.clone());
                attributes.push(KeyValue::new(names::SESSION, self.session.clone()));
                attributes.push(KeyValue::new(names::OPERATION, names::EXECUTE_TOOL));
                attributes.push(KeyValue::new(names::TOOL_TYPE, "function"));
                // Judged again after an answer: the span goes on.
                if let Some(span) = self.calls.get_mut(call) {
                    span.set_attributes(attributes);
                    return;
                }
                let span = self
                    .tracer
                    .span_builder(format!("tool {tool}"))
                    .with_kind(SpanKind::Internal)
                    .with_attributes(attributes)
                    .start_with_context(&self.tracer, &self.root);
                self.calls.insert(call.clone(), span);
            }
            ViewEvent::Progress { call, percent } => {
                if let Some(span) = self.calls.get_mut(call) {
                    let percent = KeyValue::new(names::PERCENT, i64::from(*percent));
                    span.add_event("progress", vec![percent]);
                }
            }
            ViewEvent::Settled {
                call, tool, ok, ms, ..
            } => {
                let tool = KeyValue::new(names::TOOL, known(tool));
                let outcome = KeyValue::new(names::OUTCOME, if *ok { "ok" } else { "failed" });
                // Exact up to 2^53 milliseconds.
                let took = Duration::from_millis(*ms).as_secs_f64();
                self.meters
                    .tool
                    .record(took, &[tool.clone(), outcome.clone()]);
                let call_id = KeyValue::new(names::CALL, call.to_string());
                self.log(names::SETTLED, !ok, vec![tool, outcome, call_id]);
                if let Some(mut span) = self.calls.remove(call) {
                    if !ok {
                        span.set_attribute(KeyValue::new(names::ERROR, "no_result"));
                        span.set_status(Status::error("the call gave no result"));
                    }
                    span.end();
                }
            }
            _ => {}
        }
    }

    /// The session is over; what is still open ends with it.
    pub(crate) fn end(&mut self, end: &End, totals: &Totals) {
        if let Some(mut chat) = self.chat.take() {
            chat.span.set_status(Status::error("the session ended"));
            chat.span.end();
        }
        for (_, mut span) in std::mem::take(&mut self.calls) {
            span.set_status(Status::error("the session ended"));
            span.end();
        }
        let outcome = KeyValue::new(names::OUTCOME, end.outcome);
        let root = self.root.span();
        let figures = [
            (names::INPUT_TOKENS, totals.usage.input_uncached),
            (names::OUTPUT_TOKENS, totals.usage.output),
            (names::COST, Some(totals.micro_usd)),
        ];
        for (name, figure) in figures {
            if let Some(figure) = count(figure) {
                root.set_attribute(KeyValue::new(name, figure));
            }
        }
        root.set_attribute(outcome.clone());
        if end.outcome != "done" {
            root.set_attribute(KeyValue::new(names::ERROR, end.outcome));
            root.set_status(Status::error(end.outcome));
        }
        root.end();
        self.meters.sessions.add(1, std::slice::from_ref(&outcome));
        self.log(names::ENDED, end.outcome != "done", vec![outcome]);
    }
}

#[cfg(test)]
mod tests;
