//! A collector of telemetry that others wrote: the OpenTelemetry project's own Python messages, in a
//! virtual environment of the build folder.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{must, skipped, some};

/// What the receiver imports.
const PACKAGES: [&str; 2] = ["opentelemetry-proto", "grpcio"];
/// Longest that installing them may take.
const INSTALLING: Duration = Duration::from_secs(240);
/// Longest until the receiver listens.
const STARTING: Duration = Duration::from_secs(30);

/// A running collector; it ends when it is dropped.
#[derive(Debug)]
pub struct Collector {
    child: Child,
    /// Its end of file is the receiver's end.
    input: Option<ChildStdin>,
    took: Arc<Mutex<Vec<Value>>>,
    /// Port of OTLP over gRPC.
    pub grpc: u64,
    /// Port of OTLP over HTTP.
    pub http: u64,
}

impl Collector {
    /// Starts one, with Python packages below `folder`; `None`, and the reason said, where they cannot be had.
    #[must_use]
    pub fn start(folder: &Path) -> Option<Self> {
        static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let python = match PYTHON.get_or_init(|| python(folder)) {
            Ok(python) => python,
            Err(why) => {
                let _ = skipped(false, why);
                return None;
            }
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("otlp/receiver.py");
        let mut command = Command::new(python);
        command
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = must("the receiver", command.spawn());
        let input = child.stdin.take();
        let lines = BufReader::new(some("its output", child.stdout.take())).lines();
        let took = Arc::new(Mutex::new(Vec::new()));
        let (ports, first) = mpsc::channel();
        let kept = Arc::clone(&took);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Ok(value) = serde_json::from_str::<Value>(&line) else {
                    continue;
                };
                if value.get("grpc").is_some() {
                    let _ = ports.send(value);
                } else {
                    kept.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(value);
                }
            }
        });
        let ports = must("the receiver listens", first.recv_timeout(STARTING));
        let port = |name: &str| some("a port", ports.get(name).and_then(Value::as_u64));
        Some(Self {
            child,
            input,
            took,
            grpc: port("grpc"),
            http: port("http"),
        })
    }

    /// Everything that arrived so far.
    #[must_use]
    pub fn took(&self) -> Vec<Value> {
        self.took
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.input.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Python that has the packages, installing them if need be.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let folder = folder.join("otlp");
    let python = folder.join("bin/python");
    let has = |python: &Path| {
        let imports = "import grpc, opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc";
        run(Command::new(python).args(["-c", imports]), STARTING)
    };
    if has(&python).is_ok() {
        return Ok(python);
    }
    run(
        Command::new("python3").args(["-m", "venv"]).arg(&folder),
        INSTALLING,
    )
    .map_err(|why| format!("python3 -m venv: {why}"))?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .args(PACKAGES);
    run(&mut pip, INSTALLING)
        .map_err(|why| format!("pip install {}: {why}", PACKAGES.join(" ")))?;
    has(&python).map(|()| python)
}

fn run(command: &mut Command, bound: Duration) -> Result<(), String> {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = quiet.spawn().map_err(|error| error.to_string())?;
    let until = Instant::now() + bound;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done within {} s", bound.as_secs()));
            }
        }
    }
}
