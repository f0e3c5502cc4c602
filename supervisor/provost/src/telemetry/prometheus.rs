//! Metrics as Prometheus text: in a file, or served on an address. At most a second old.

use std::{
    fmt::{Display, Write as _},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _},
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use opentelemetry::KeyValue;
use opentelemetry_sdk::{
    error::{OTelSdkError, OTelSdkResult},
    metrics::{
        Temporality,
        data::{AggregatedMetrics, HistogramDataPoint, Metric, MetricData, ResourceMetrics},
        exporter::PushMetricExporter,
    },
};

use crate::exit::{Failure, REFUSED_AT_START};

/// How old the text may be.
pub(super) const AGE: Duration = Duration::from_secs(1);
/// How long one who asks may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read.
const REQUEST: usize = 8 * 1024;

/// The text as it was last written.
type Latest = Arc<Mutex<String>>;

/// Where the text goes.
#[derive(Debug)]
pub(super) struct Text {
    latest: Latest,
    file: Option<PathBuf>,
}

impl Text {
    /// `FILE`, or `ADDRESS:PORT` (`:PORT` on loopback).
    ///
    /// # Errors
    /// It cannot be written there, or nobody can listen there: a run that promised it does not start.
    pub(super) fn open(word: &str) -> Result<Self, Failure> {
        let latest = Latest::default();
        let Some(address) = address(word) else {
            let text = Self {
                latest,
                file: Some(PathBuf::from(word)),
            };
            text.write("").map_err(|why| {
                Failure::new(
                    REFUSED_AT_START,
                    format!("--metrics: cannot write `{word}`: {why}"),
                )
                .help("name a file in a folder that you can write, or an address as 127.0.0.1:9464")
            })?;
            return Ok(text);
        };
        let listener = TcpListener::bind(address).map_err(|why| {
            Failure::new(
                REFUSED_AT_START,
                format!("--metrics: cannot listen on {address}: {why}"),
            )
            .help("name another port, or a file")
        })?;
        let shown = Arc::clone(&latest);
        let thread = std::thread::Builder::new().name("metrics".into());
        thread
            .spawn(move || serve(&listener, &shown))
            .map_err(|why| {
                Failure::new(REFUSED_AT_START, format!("--metrics: no thread: {why}"))
            })?;
        Ok(Self { latest, file: None })
    }

    /// Beside, and then in its place: nobody reads half of it.
    fn write(&self, text: &str) -> std::io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut beside = file.clone().into_os_string();
        beside.push(format!(".{}.tmp", std::process::id()));
        std::fs::write(&beside, text)?;
        std::fs::rename(&beside, file)
    }
}

fn address(word: &str) -> Option<SocketAddr> {
    let (host, port) = word.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    if host.is_empty() {
        return format!("127.0.0.1:{port}").parse().ok();
    }
    let fits = !host.contains('/');
    fits.then(|| word.to_socket_addrs().ok()?.next()).flatten()
}

impl PushMetricExporter for Text {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let text = render(metrics);
        {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            if *latest == text {
                return Ok(());
            }
            latest.clone_from(&text);
        }
        self.write(&text)
            .map_err(|why| OTelSdkError::InternalFailure(why.to_string()))
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

/// One after the other, each within its limits; the thread ends with the process.
fn serve(listener: &TcpListener, latest: &Latest) {
    for stream in listener.incoming().flatten() {
        // One who hangs up is part of the trade.
        let _ = answer(stream, latest);
    }
}

fn answer(mut stream: TcpStream, latest: &Latest) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let until = std::time::Instant::now() + PATIENCE;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST {
        let left = until.saturating_duration_since(std::time::Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut waits = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        if poll(&mut waits, left)? == 0 {
            return Ok(());
        }
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece)?;
        if read == 0 {
            break;
        }
        request.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
    let asked = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?");
    let (status, body) = if asked {
        let latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        ("200 OK", latest.clone())
    } else {
        ("404 Not Found", "the metrics are at /metrics\n".to_owned())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// All metrics, sorted by name.
fn render(metrics: &ResourceMetrics) -> String {
    let all = metrics.scope_metrics().flat_map(|scope| scope.metrics());
    let mut texts: Vec<String> = all.map(one).collect();
    texts.sort();
    texts.concat()
}

fn one(metric: &Metric) -> String {
    let mut out = String::new();
    let mut name: String = metric
        .name()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    if metric.unit() == "s" {
        name.push_str("_seconds");
    }
    let help = metric
        .description()
        .replace('\\', "\\\\")
        .replace('\n', "\\n");
    match metric.data() {
        AggregatedMetrics::F64(data) => series(&mut out, &name, &help, data),
        AggregatedMetrics::U64(data) => series(&mut out, &name, &help, data),
        AggregatedMetrics::I64(data) => series(&mut out, &name, &help, data),
    }
    out
}

fn series<T: Display + Copy>(out: &mut String, name: &str, help: &str, data: &MetricData<T>) {
    let mut head = |name: &str, kind: &str| {
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    };
    match data {
        MetricData::Gauge(gauge) => {
            head(name, "gauge");
            for point in gauge.data_points() {
                let _ = writeln!(
                    out,
                    "{name}{} {}",
                    labels(point.attributes(), None),
                    point.value()
                );
            }
        }
        MetricData::Sum(sum) => {
            let name = format!("{name}_total");
            head(&name, "counter");
            for point in sum.data_points() {
                let _ = writeln!(
                    out,
                    "{name}{} {}",
                    labels(point.attributes(), None),
                    point.value()
                );
            }
        }
        MetricData::Histogram(histogram) => {
            head(name, "histogram");
            for point in histogram.data_points() {
                buckets(out, name, point);
            }
        }
        // None of ours is one.
        MetricData::ExponentialHistogram(_) => {}
    }
}

fn buckets<T: Display + Copy>(out: &mut String, name: &str, point: &HistogramDataPoint<T>) {
    let mut sum = 0;
    let bounds = point.bounds().map(|bound| bound.to_string());
    let bounds = bounds.chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(point.bucket_counts()) {
        sum += count;
        let labels = labels(point.attributes(), Some(&bound));
        let _ = writeln!(out, "{name}_bucket{labels} {sum}");
    }
    let labels = labels(point.attributes(), None);
    let _ = writeln!(
        out,
        "{name}_sum{labels} {}\n{name}_count{labels} {}",
        point.sum(),
        point.count()
    );
}

fn labels<'a>(attributes: impl Iterator<Item = &'a KeyValue>, bound: Option<&str>) -> String {
    let quoted = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let mut pairs: Vec<String> = attributes
        .map(|pair| {
            let name = pair.key.as_str().replace(['.', '-'], "_");
            format!("{name}=\"{}\"", quoted(&pair.value.as_str()))
        })
        .collect();
    pairs.sort();
    pairs.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    if pairs.is_empty() {
        return String::new();
    }
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

    use super::*;

    #[test]
    fn counters_and_histograms_are_written_as_prometheus_reads_them() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("metrics.prom");
        let text = Text::open(file.to_str().expect("text")).expect("writable");
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(text).build())
            .build();
        let meter = provider.meter("t");
        let label = [KeyValue::new("a.b", "say \"hi\"\\")];
        meter
            .u64_counter("x.calls")
            .with_description("Calls.")
            .build()
            .add(3, &label);
        let seconds = meter
            .f64_histogram("x.time")
            .with_unit("s")
            .with_boundaries(vec![0.5, 2.0])
            .build();
        for value in [0.25, 1.0, 9.0] {
            seconds.record(value, &[]);
        }
        provider.shutdown().expect("flushed");
        let written = std::fs::read_to_string(&file).expect("written");
        assert_eq!(
            written,
            "# HELP x_calls_total Calls.\n# TYPE x_calls_total counter\n\
             x_calls_total{a_b=\"say \\\"hi\\\"\\\\\"} 3\n\
             # HELP x_time_seconds \n# TYPE x_time_seconds histogram\n\
             x_time_seconds_bucket{le=\"0.5\"} 1\nx_time_seconds_bucket{le=\"2\"} 2\n\
             x_time_seconds_bucket{le=\"+Inf\"} 3\nx_time_seconds_sum 10.25\nx_time_seconds_count 3\n"
        );
        let left = std::fs::read_dir(place.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing beside it");
    }

    #[test]
    fn what_is_an_address_and_what_a_file() {
        assert_eq!(address(":9464"), "127.0.0.1:9464".parse().ok());
        assert_eq!(address("127.0.0.1:1"), "127.0.0.1:1".parse().ok());
        assert_eq!(address("[::1]:5"), "[::1]:5".parse().ok());
        for file in ["metrics.prom", "/tmp/a:5", "./x", "a:b", "9464"] {
            assert_eq!(address(file), None, "{file}");
        }
    }
}
