//! A model provider of the test's own, over plain HTTP on the loopback: it answers as it was told, in the
//! dialect of the path that it was asked at, and keeps what it was sent.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
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
    /// The request is read, and nothing comes until the client leaves.
    Silence,
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
    left: Arc<AtomicUsize>,
}

impl Provider {
    /// Starts it with its answers in order; after the last one it refuses.
    #[must_use]
    pub fn start(answers: Vec<Answer>) -> Self {
        let listener = must("a port", TcpListener::bind("127.0.0.1:0"));
        let port = must("an address", listener.local_addr()).port();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        let left = Arc::new(AtomicUsize::new(0));
        let gone = Arc::clone(&left);
        std::thread::spawn(move || {
            let mut answers = VecDeque::from(answers);
            for stream in listener.incoming().flatten() {
                let answer = answers.front().cloned();
                if let Some(Answer::Silence) = answer {
                    answers.pop_front();
                    let (kept, gone) = (Arc::clone(&kept), Arc::clone(&gone));
                    std::thread::spawn(move || {
                        let _ = serve(stream, Some(Answer::Silence), &kept);
                        gone.fetch_add(1, Ordering::SeqCst);
                    });
                    continue;
                }
                // A connection that breaks is the client's affair; the answer is then still due.
                if serve(stream, answer, &kept).is_ok() {
                    answers.pop_front();
                }
            }
        });
        Self { port, sent, left }
    }

    /// Silent connections that their clients have left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
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
    let speech = speech(&head);
    if let Ok(mut kept) = kept.lock() {
        kept.push(Sent { head, body });
    }
    let (status, kind, text) = match answer {
        None => (400, "application/json", error(400, "no answer is left")),
        Some(Answer::Silence) => {
            // Until the other end closes; a client that stays is a failed test, not a hang.
            let mut stream = stream;
            let _ = stream.read(&mut [0_u8; 1]);
            return Ok(());
        }
        Some(Answer::Error(status, message)) => {
            (status, "application/json", error(status, &message))
        }
        Some(Answer::Says(text)) => (200, "text/event-stream", speech(&text, None)),
        Some(Answer::Calls(tool, input)) => {
            (200, "text/event-stream", speech("", Some((tool, &input))))
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

/// An answer of a text or a call, as a body.
type Speech = fn(&str, Option<(&str, &Value)>) -> String;

fn speech(head: &str) -> Speech {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path {
        path if path.ends_with("/chat/completions") => chat,
        path if path.ends_with("/responses") => responses,
        path if path.ends_with("/api/chat") => ollama,
        _ => messages,
    }
}

fn messages(text: &str, call: Option<(&str, &Value)>) -> String {
    match call {
        None => {
            let block = json!({ "type": "text", "text": "" });
            events(
                &block,
                &json!({ "type": "text_delta", "text": text }),
                "end_turn",
            )
        }
        Some((tool, input)) => {
            let block = json!({ "type": "tool_use", "id": format!("toolu_{tool}"), "name": tool, "input": {} });
            let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            events(&block, &delta, "tool_use")
        }
    }
}

fn lines(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect()
}

fn chat(text: &str, call: Option<(&str, &Value)>) -> String {
    let chunk = |delta: Value, finish: Option<&str>| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 10,
        "prompt_tokens_details": { "cached_tokens": 60 } } });
    let mut events = match call {
        None => vec![
            chunk(json!({ "content": text }), None),
            chunk(json!({}), Some("stop")),
        ],
        Some((tool, input)) => {
            let call = json!({ "index": 0, "id": format!("call_{tool}"), "type": "function",
                "function": { "name": tool, "arguments": input.to_string() } });
            vec![
                chunk(
                    json!({ "reasoning_content": "hm", "tool_calls": [call] }),
                    None,
                ),
                chunk(json!({}), Some("tool_calls")),
            ]
        }
    };
    events.push(usage);
    lines(&events) + "data: [DONE]\n\n"
}

fn responses(text: &str, call: Option<(&str, &Value)>) -> String {
    let item = match call {
        None => {
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
        }
        Some((tool, input)) => {
            json!({ "type": "function_call", "call_id": format!("call_{tool}"), "name": tool,
            "arguments": input.to_string() })
        }
    };
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbA==" });
    lines(&[
        json!({ "type": "response.created", "response": { "status": "in_progress" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": reasoning }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": item }),
        json!({ "type": "response.completed", "response": { "status": "completed", "output": [], "usage": {
            "input_tokens": 100, "output_tokens": 10, "input_tokens_details": { "cached_tokens": 60 } } } }),
    ])
}

fn ollama(text: &str, call: Option<(&str, &Value)>) -> String {
    let calls =
        call.map(|(tool, input)| json!([{ "function": { "name": tool, "arguments": input } }]));
    let said = json!({ "message": { "role": "assistant", "content": text, "thinking": "hm", "tool_calls": calls }, "done": false });
    let end = json!({ "message": { "content": "" }, "done": true, "done_reason": "stop",
        "prompt_eval_count": 40, "eval_count": 10 });
    format!("{said}\n{end}\n")
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
