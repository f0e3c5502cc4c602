//! A model provider of the test's own: Anthropic Messages over plain HTTP on the loopback, which
//! answers as it was told and keeps what it was sent.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use super::must;

/// One answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// An HTTP error with its body.
    Error(u16, String),
    /// An answer that ends.
    Says(String),
    /// An answer that calls a tool.
    Calls(&'static str, Value),
}

/// What the provider was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Request line and headers.
    pub head: String,
    /// Body.
    pub body: String,
}

/// The provider. It serves until the process ends.
#[derive(Debug)]
pub struct Provider {
    port: u16,
    sent: Arc<Mutex<Vec<Sent>>>,
}

impl Provider {
    /// Starts it with its answers in order; after the last one it refuses.
    #[must_use]
    pub fn start(answers: Vec<Answer>) -> Self {
        let listener = must("a port", TcpListener::bind("127.0.0.1:0"));
        let port = must("an address", listener.local_addr()).port();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        std::thread::spawn(move || {
            let mut answers = VecDeque::from(answers);
            for stream in listener.incoming().flatten() {
                let answer = answers.front().cloned();
                // A connection that breaks is the client's affair; the answer is then still due.
                if serve(stream, answer, &kept).is_ok() {
                    answers.pop_front();
                }
            }
        });
        Self { port, sent }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Everything that it was sent so far.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        self.sent
            .lock()
            .map(|sent| sent.clone())
            .unwrap_or_default()
    }
}

fn serve(
    stream: TcpStream,
    answer: Option<Answer>,
    kept: &Mutex<Vec<Sent>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0_u64);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    if let Ok(mut kept) = kept.lock() {
        kept.push(Sent { head, body });
    }
    let (status, kind, text) = match answer {
        None => (400, "application/json", error(400, "no answer is left")),
        Some(Answer::Error(status, message)) => {
            (status, "application/json", error(status, &message))
        }
        Some(Answer::Says(text)) => {
            let block = json!({ "type": "text", "text": "" });
            let delta = json!({ "type": "text_delta", "text": text });
            (200, "text/event-stream", events(&block, &delta, "end_turn"))
        }
        Some(Answer::Calls(tool, input)) => {
            let block = json!({ "type": "tool_use", "id": format!("toolu_{tool}"), "name": tool, "input": {} });
            let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            (200, "text/event-stream", events(&block, &delta, "tool_use"))
        }
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} Answer\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )?;
    stream.flush()
}

fn error(status: u16, message: &str) -> String {
    let kind = match status {
        401 => "authentication_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string()
}

fn events(block: &Value, delta: &Value, stop: &str) -> String {
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let events = [
        json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
            "content": [], "model": "test", "stop_reason": null, "stop_sequence": null, "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
            "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let line = |event: &Value| {
        let kind = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    events.iter().map(line).collect()
}
