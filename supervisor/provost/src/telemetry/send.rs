//! How telemetry leaves: on a thread and a runtime of its own, each sending with a limit. A collector that
//! does not take it is spoken of once; the session never waits for it.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, RetryPolicy, SpanExporter,
    WithHttpConfig as _, WithTonicConfig as _, tonic_types::metadata::MetadataMap,
};
use opentelemetry_sdk::{
    error::{OTelSdkError, OTelSdkResult},
    logs::{LogBatch, LogExporter as SendLogs},
    metrics::{Temporality, data::ResourceMetrics, exporter::PushMetricExporter},
    trace::{SpanData, SpanExporter as SendSpans},
};
use supervisor_core::escape::escape;
use supervisor_providers::Courier;
use tokio::runtime::Handle;

use crate::{harden::Keys, output};

/// Longest that one sending may take, with all its attempts.
const SENDING: Duration = Duration::from_secs(10);
/// Characters of a cause that are shown.
const CAUSE: usize = 200;

/// The protocol of the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Http,
    Grpc,
}

/// What all three signals share.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) handle: Handle,
    pub(super) courier: Arc<Courier>,
    pub(super) said: Arc<AtomicBool>,
}

/// An exporter that runs where the thread of telemetry is, and whose first failure is said.
#[derive(Debug)]
pub(super) struct Told<E> {
    inner: E,
    way: Way,
}

impl Way {
    /// Carries a sending out in the runtime of telemetry, whoever polls it.
    async fn carry(&self, sending: impl Future<Output = OTelSdkResult> + Send) -> OTelSdkResult {
        let bounded = async {
            let sent = tokio::time::timeout(SENDING, sending).await;
            sent.unwrap_or(Err(OTelSdkError::Timeout(SENDING)))
        };
        let mut bounded = Box::pin(bounded);
        let sent = std::future::poll_fn(move |context| {
            let _inside = self.handle.enter();
            bounded.as_mut().poll(context)
        });
        let sent = sent.await;
        if let Err(error) = &sent {
            self.say(&error.to_string());
        }
        sent
    }

    /// Says once that telemetry is lost.
    fn say(&self, why: &str) {
        if self.said.swap(true, Ordering::Relaxed) {
            return;
        }
        let why: String = escape(why, false).chars().take(CAUSE).collect();
        output::err(&format!(
            "provost: telemetry cannot be sent (OTEL_EXPORTER_OTLP_ENDPOINT): {why}; the session goes on, this is not said again\n"
        ));
    }

    fn of<E>(&self, inner: E) -> Told<E> {
        Told {
            inner,
            way: self.clone(),
        }
    }

    /// Traces; the address and the limits come from the standard variables.
    pub(super) fn spans(
        &self,
        wire: Wire,
        headers: &Headers,
    ) -> Result<Told<SpanExporter>, ExporterBuildError> {
        let _inside = self.handle.enter();
        let builder = SpanExporter::builder();
        let built = match wire {
            Wire::Http => builder
                .with_http()
                .with_http_client(self.clone())
                .with_headers(headers.map("TRACES"))
                .with_retry_policy(retries())
                .build(),
            Wire::Grpc => builder
                .with_tonic()
                .with_metadata(headers.metadata("TRACES"))
                .with_retry_policy(retries())
                .build(),
        };
        built.map(|exporter| self.of(exporter))
    }

    /// Metrics.
    pub(super) fn metrics(
        &self,
        wire: Wire,
        headers: &Headers,
    ) -> Result<Told<MetricExporter>, ExporterBuildError> {
        let _inside = self.handle.enter();
        let builder = MetricExporter::builder();
        let built = match wire {
            Wire::Http => builder
                .with_http()
                .with_http_client(self.clone())
                .with_headers(headers.map("METRICS"))
                .with_retry_policy(retries())
                .build(),
            Wire::Grpc => builder
                .with_tonic()
                .with_metadata(headers.metadata("METRICS"))
                .with_retry_policy(retries())
                .build(),
        };
        built.map(|exporter| self.of(exporter))
    }

    /// Logs.
    pub(super) fn logs(
        &self,
        wire: Wire,
        headers: &Headers,
    ) -> Result<Told<LogExporter>, ExporterBuildError> {
        let _inside = self.handle.enter();
        let builder = LogExporter::builder();
        let built = match wire {
            Wire::Http => builder
                .with_http()
                .with_http_client(self.clone())
                .with_headers(headers.map("LOGS"))
                .with_retry_policy(retries())
                .build(),
            Wire::Grpc => builder
                .with_tonic()
                .with_metadata(headers.metadata("LOGS"))
                .with_retry_policy(retries())
                .build(),
        };
        built.map(|exporter| self.of(exporter))
    }
}

/// One more attempt: what a collector does not take twice is lost.
fn retries() -> RetryPolicy {
    RetryPolicy::recommended().with_max_retries(1)
}

impl HttpClient for Way {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let headers = head.headers.iter().filter_map(|(name, value)| {
                Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
            });
            let url = head.uri.to_string();
            let (status, body) = self
                .courier
                .post(&url, headers.collect(), body.to_vec())
                .await?;
            Ok(Response::builder().status(status).body(Bytes::from(body))?)
        })
    }
}

impl<E: SendSpans> SendSpans for Told<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.way.carry(self.inner.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &opentelemetry_sdk::Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: SendLogs> SendLogs for Told<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        self.way.carry(self.inner.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &opentelemetry_sdk::Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Told<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.way.carry(self.inner.export(metrics)).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

/// Headers that a collector wants; they hold keys, and were taken out of the environment as keys are.
#[derive(Default)]
pub(super) struct Headers(HashMap<&'static str, Vec<(String, String)>>);

impl Headers {
    /// From the standard variables, the one of a signal before the one of all.
    pub(super) fn read(keys: &Keys) -> Self {
        let signals = ["TRACES", "METRICS", "LOGS"].map(|signal| {
            let own = keys.get(&format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS"));
            let list = own.or_else(|| keys.get("OTEL_EXPORTER_OTLP_HEADERS"));
            (signal, parse(&list.unwrap_or_default()))
        });
        Self(signals.into())
    }

    fn map(&self, signal: &str) -> HashMap<String, String> {
        self.0
            .get(signal)
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .collect()
    }

    fn metadata(&self, signal: &str) -> MetadataMap {
        let mut request = Request::builder();
        for (name, value) in self.0.get(signal).into_iter().flatten() {
            request = request.header(name, value);
        }
        // A header that cannot be sent is left out, as the HTTP way does.
        request.body(()).map_or_else(
            |_| MetadataMap::new(),
            |request| MetadataMap::from_headers(request.into_parts().0.headers),
        )
    }
}

/// `name=value` with commas between; values are percent-encoded.
fn parse(list: &str) -> Vec<(String, String)> {
    let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    let pair = |(name, value): (&str, &str)| (name.trim().to_lowercase(), decode(value.trim()));
    pairs
        .map(pair)
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let digits = escaped.and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_with_percent_encoded_values() {
        let pairs = parse("Authorization=Bearer%20a%2Cb, x-scope = 1,broken,=no");
        let expected = [("authorization", "Bearer a,b"), ("x-scope", "1")];
        assert_eq!(
            pairs,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%41"), "%zzA");
    }
}
