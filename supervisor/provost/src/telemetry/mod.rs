//! Traces, metrics and logs: to a collector over OTLP where the standard variables name one, metrics as
//! text where `--metrics` says. Without either nothing is started and nothing costs.
//!
//! What is sent is names, numbers and identifiers; never a prompt, an answer, an argument, a path, an
//! output or a key. The supervisor alone sends; a worker has no network.

pub(crate) mod names;
mod prometheus;
mod send;

use std::{
    sync::{Arc, OnceLock, atomic::AtomicBool, mpsc},
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, KeyValue, global,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
    propagation::TextMapPropagator as _,
    trace::TraceContextExt as _,
};
use opentelemetry_sdk::{
    Resource,
    logs::{SdkLogger, SdkLoggerProvider},
    metrics::{PeriodicReader, SdkMeterProvider},
    propagation::TraceContextPropagator,
    trace::SdkTracerProvider,
};
use supervisor_providers::Courier;

use self::{
    prometheus::Text,
    send::{Headers, Way, Wire},
};
use crate::{
    exit::{CONFIG, Failure, REFUSED_AT_START},
    harden::Keys,
};

/// How long a session that has ended waits for what is not sent yet.
const FAREWELL: Duration = Duration::from_secs(2);

/// The log of this process, once there is one.
static LOG: OnceLock<SdkLogger> = OnceLock::new();

/// What runs beside the sessions; it ends, within its bound, when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    logs: Option<SdkLoggerProvider>,
    /// Ends the thread of the sending when it is dropped.
    runtime: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Telemetry {
    /// Starts what the environment and `--metrics` ask for.
    ///
    /// # Errors
    /// A setting that cannot be obeyed. A collector that is not there is no error.
    pub(crate) fn start(keys: &Keys, metrics: Option<&str>) -> Result<Self, Failure> {
        let set = |name: &str| keys.get(name).filter(|value| !value.trim().is_empty());
        let off = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let wanted = |signal: &str| {
            let asked = set(&format!("OTEL_{signal}_EXPORTER"));
            let named = set("OTEL_EXPORTER_OTLP_ENDPOINT")
                .or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")));
            !off && named.is_some() && asked.is_none_or(|word| word == "otlp")
        };
        let text = metrics.map(Text::open).transpose()?;
        let signals = ["TRACES", "METRICS", "LOGS"].map(wanted);
        let mut this = Self::default();
        if text.is_none() && signals == [false; 3] {
            return Ok(this);
        }
        let resource = resource(&set);
        let mut meters = SdkMeterProvider::builder().with_resource(resource.clone());
        if let Some(text) = text {
            meters = meters.with_reader(
                PeriodicReader::builder(text)
                    .with_interval(prometheus::AGE)
                    .build(),
            );
        }
        if signals != [false; 3] {
            let bad = |error: &dyn std::fmt::Display| {
                Failure::new(CONFIG, format!("telemetry cannot be set up: {error}"))
                    .help("check OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_PROTOCOL, or unset them")
            };
            let way = this.way()?;
            let headers = Headers::read(keys);
            let wire = |signal: &str| wire(signal, &set);
            if let [true, ..] = signals {
                let exporter = way
                    .spans(wire("TRACES")?, &headers)
                    .map_err(|error| bad(&error))?;
                let provider = SdkTracerProvider::builder()
                    .with_resource(resource.clone())
                    .with_batch_exporter(exporter)
                    .build();
                global::set_tracer_provider(provider.clone());
                this.traces = Some(provider);
            }
            if let [_, true, _] = signals {
                let exporter = way
                    .metrics(wire("METRICS")?, &headers)
                    .map_err(|error| bad(&error))?;
                meters = meters.with_periodic_exporter(exporter);
            }
            if let [.., true] = signals {
                let exporter = way
                    .logs(wire("LOGS")?, &headers)
                    .map_err(|error| bad(&error))?;
                let provider = SdkLoggerProvider::builder()
                    .with_resource(resource)
                    .with_batch_exporter(exporter)
                    .build();
                // One process has one log; a second start keeps the first.
                let _ = LOG.set(provider.logger("provost"));
                this.logs = Some(provider);
            }
        }
        let provider = meters.build();
        global::set_meter_provider(provider.clone());
        this.metrics = Some(provider);
        Ok(this)
    }

    /// The thread that all sending runs on.
    fn way(&mut self) -> Result<Way, Failure> {
        let no = |error: std::io::Error| {
            Failure::new(
                REFUSED_AT_START,
                format!("telemetry has no thread: {error}"),
            )
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(no)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("telemetry".into());
        thread
            .spawn(move || {
                let _ = runtime.block_on(stopped);
            })
            .map_err(no)?;
        self.runtime = Some(stop);
        Ok(Way {
            handle,
            courier: Arc::new(Courier::default()),
            said: Arc::new(AtomicBool::new(false)),
        })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let (traces, metrics, logs) = (self.traces.take(), self.metrics.take(), self.logs.take());
        if metrics.is_none() {
            return;
        }
        let (done, all) = mpsc::channel();
        // Beside us, all three at once: a collector that hangs holds nobody up beyond the bound.
        let mut left = 0;
        let mut beside = |end: Box<dyn FnOnce() + Send>| {
            let done = done.clone();
            let thread = std::thread::Builder::new().name("telemetry-end".into());
            let spawned = thread.spawn(move || {
                end();
                let _ = done.send(());
            });
            left += usize::from(spawned.is_ok());
        };
        if let Some(traces) = traces {
            beside(Box::new(move || {
                drop(traces.shutdown_with_timeout(FAREWELL))
            }));
        }
        if let Some(logs) = logs {
            beside(Box::new(move || drop(logs.shutdown_with_timeout(FAREWELL))));
        }
        if let Some(metrics) = metrics {
            beside(Box::new(move || drop(metrics.shutdown())));
        }
        let until = std::time::Instant::now() + FAREWELL;
        for _ in 0..left {
            let rest = until.saturating_duration_since(std::time::Instant::now());
            if all.recv_timeout(rest).is_err() {
                break;
            }
        }
    }
}

/// `grpc` or `http/protobuf`, the signal's own word before that of all; 4317 is the port of gRPC.
fn wire(signal: &str, set: &dyn Fn(&str) -> Option<String>) -> Result<Wire, Failure> {
    let of = |what: &str| {
        set(&format!("OTEL_EXPORTER_OTLP_{signal}_{what}"))
            .or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{what}")))
    };
    match of("PROTOCOL").as_deref() {
        Some("http/protobuf") => Ok(Wire::Http),
        Some("grpc") => Ok(Wire::Grpc),
        None => {
            let endpoint = of("ENDPOINT").unwrap_or_default();
            let grpc = endpoint.trim_end_matches('/').ends_with(":4317");
            Ok(if grpc { Wire::Grpc } else { Wire::Http })
        }
        Some(other) => Err(Failure::new(
            CONFIG,
            format!("OTEL_EXPORTER_OTLP_PROTOCOL: `{other}` is not spoken here"),
        )
        .help("it is `http/protobuf` or `grpc`")),
    }
}

/// Who sends: what the environment says, and our name where it says none.
fn resource(set: &dyn Fn(&str) -> Option<String>) -> Resource {
    let named = set("OTEL_SERVICE_NAME").is_some()
        || set("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
    let builder = Resource::builder()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if named {
        builder.build()
    } else {
        builder.with_service_name("provost").build()
    }
}

/// The span that this run stands in, where whoever started it says so (`TRACEPARENT`).
pub(crate) fn parent() -> Context {
    let carrier = ["traceparent", "tracestate"]
        .into_iter()
        .filter_map(|name| {
            let value = std::env::var(name.to_uppercase()).ok()?;
            Some((name.to_owned(), value))
        });
    let carrier: std::collections::HashMap<String, String> = carrier.collect();
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

/// The context as `TRACEPARENT` says it; `None` where nobody traces.
pub(crate) fn traceparent(context: &Context) -> Option<String> {
    let mut carrier = std::collections::HashMap::new();
    TraceContextPropagator::new().inject_context(context, &mut carrier);
    carrier.remove("traceparent")
}

/// One event of the log, within its span.
pub(crate) fn log(context: &Context, event: &'static str, bad: bool, attributes: Vec<KeyValue>) {
    let Some(logger) = LOG.get() else { return };
    let mut record = logger.create_log_record();
    let (severity, word) = if bad {
        (Severity::Warn, "WARN")
    } else {
        (Severity::Info, "INFO")
    };
    record.set_event_name(event);
    record.set_timestamp(SystemTime::now());
    record.set_severity_number(severity);
    record.set_severity_text(word);
    record.set_body(AnyValue::from(event));
    for attribute in attributes {
        let value = match attribute.value {
            opentelemetry::Value::I64(number) => AnyValue::Int(number),
            opentelemetry::Value::Bool(truth) => AnyValue::Boolean(truth),
            opentelemetry::Value::F64(number) => AnyValue::Double(number),
            other => AnyValue::from(other.as_str().into_owned()),
        };
        record.add_attribute(attribute.key, value);
    }
    let span = context.span().span_context().clone();
    if span.is_valid() {
        record.set_trace_context(span.trace_id(), span.span_id(), Some(span.trace_flags()));
    }
    logger.emit(record);
}
