//! The `script` provider: plays a conversation file, one JSON line for each model call, in order.

use std::{collections::BTreeMap, io::Read as _, path::Path, time::Duration};

use protocol::{CallId, Inference, Message, Part, Role, StopReason, Usage, bounds};
use regex::Regex;
use serde::Deserialize;
use supervisor_core::Masker;

use crate::{
    Class, InferError,
    classify::{Hints, Upstream},
    failure::one_line,
    retry::{self, Backoff},
};

/// What stands for the last tool result in a text.
const LAST_RESULT: &str = "{{last_result}}";
/// Longest pause before an answer.
const LONGEST_DELAY_MS: u64 = 600_000;

/// A conversation file and how far it was played.
#[derive(Debug)]
pub struct Script {
    name: String,
    lines: Vec<Line>,
    at: usize,
    played: u32,
}

/// Why a conversation file cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptFailure {
    /// It cannot be read.
    #[error("cannot read the script {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("the script {file} is larger than 16 MiB")]
    TooLarge {
        /// The file.
        file: String,
    },
    /// It holds no answer.
    #[error(
        "the script {file} holds no line: write one JSON object a line, one for each model call"
    )]
    Empty {
        /// The file.
        file: String,
    },
    /// A line is wrong.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Debug)]
struct Line {
    number: usize,
    file: LineFile,
    expect: Option<Regex>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineFile {
    #[serde(default)]
    text: String,
    #[serde(default)]
    tool_calls: Vec<CallFile>,
    stop: Option<StopReason>,
    reasoning: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    delay_ms: u64,
    chunk: Option<usize>,
    error: Option<ErrorFile>,
    expect: Option<String>,
    repeat: Option<RepeatFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    name: String,
    #[serde(default = "empty_object")]
    input: serde_json::Value,
    id: Option<CallId>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ErrorFile {
    Cut(CutWord),
    Status(StatusFile),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CutWord {
    Cut,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusFile {
    status: u16,
    #[serde(default)]
    body: String,
}

/// `repeat`: a number of times, or `true` for as often as it is asked.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum RepeatFile {
    Times(u32),
    Always(bool),
}

fn empty_object() -> serde_json::Value {
    serde_json::Value::Object(serde_json::Map::new())
}

/// One play of a line: what to forward after which pause, and how it ends.
#[derive(Debug)]
pub(crate) struct Play {
    pub(crate) delay: Duration,
    pub(crate) deltas: Vec<String>,
    pub(crate) end: Result<Inference, InferError>,
}

impl Script {
    /// Reads a conversation file.
    ///
    /// # Errors
    /// [`ScriptFailure`] names file and line.
    pub fn load(path: &Path) -> Result<Self, ScriptFailure> {
        let name = path.display().to_string();
        let failed = |source| ScriptFailure::Read {
            file: name.clone(),
            source,
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut text = String::new();
        file.take(bounds::SCRIPT_FILE + 1)
            .read_to_string(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > bounds::SCRIPT_FILE {
            return Err(ScriptFailure::TooLarge { file: name });
        }
        Self::parse(&name, &text)
    }

    /// Reads a conversation from its text; blank lines are passed over.
    ///
    /// # Errors
    /// [`ScriptFailure`] names the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScriptFailure> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |problem: String| ScriptFailure::Line {
                file: name.to_owned(),
                line: number,
                problem,
            };
            let file: LineFile =
                serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let expect = file.expect.as_deref().map(Regex::new).transpose();
            let expect = expect.map_err(|error| wrong(format!("expect: {error}")))?;
            check(&file).map_err(wrong)?;
            lines.push(Line {
                number,
                file,
                expect,
            });
        }
        if lines.is_empty() {
            return Err(ScriptFailure::Empty {
                file: name.to_owned(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            lines,
            at: 0,
            played: 0,
        })
    }

    /// Passes over what `calls` model calls have used before, so that a resumed session goes on with
    /// the line that comes next. A call that was retried has used a line for each attempt.
    pub fn skip(&mut self, calls: u64) {
        for _ in 0..calls {
            for attempt in 1.. {
                let Some(line) = self.advance().and_then(|at| self.lines.get(at)) else {
                    return;
                };
                let forwarded = !line.file.text.is_empty() && line.status().is_none();
                let again = line.error().is_some_and(|failure| {
                    retry::wait(&failure, attempt, forwarded, Backoff::default(), 0).is_some()
                });
                if !again {
                    break;
                }
            }
        }
    }

    /// Plays the next line against a request. One attempt of a call is one line.
    pub(crate) fn play(&mut self, request: &protocol::Infer, model: &str) -> Play {
        let Some(line) = self.advance().and_then(|at| self.lines.get(at)) else {
            let words = format!(
                "the script {} is over: all of its {} lines were played",
                self.name,
                self.lines.len()
            );
            return Play::fails(InferError::new(Class::Client, words));
        };
        if let Some(expect) = &line.expect {
            let seen = last_word(&request.messages);
            if !expect.is_match(&seen) {
                let words = format!(
                    "{}:{}: expected /{}/, but the last word was: {}",
                    self.name,
                    line.number,
                    one_line(expect.as_str(), 300),
                    one_line(&seen, 600)
                );
                return Play::fails(InferError::new(Class::Client, words));
            }
        }
        line.play(request, model)
    }

    /// The index of the line to play now, moving on as `repeat` says.
    fn advance(&mut self) -> Option<usize> {
        let at = self.at;
        let line = self.lines.get(at)?;
        self.played = self.played.saturating_add(1);
        let over = match line.file.repeat {
            Some(RepeatFile::Always(true)) => false,
            Some(RepeatFile::Times(times)) => self.played >= times,
            Some(RepeatFile::Always(false)) | None => true,
        };
        if over {
            self.at += 1;
            self.played = 0;
        }
        Some(at)
    }
}

impl Play {
    fn fails(failure: InferError) -> Self {
        Self {
            delay: Duration::ZERO,
            deltas: Vec::new(),
            end: Err(failure),
        }
    }
}

impl Line {
    fn status(&self) -> Option<&StatusFile> {
        match &self.file.error {
            Some(ErrorFile::Status(status)) => Some(status),
            Some(ErrorFile::Cut(CutWord::Cut)) | None => None,
        }
    }

    fn error(&self) -> Option<InferError> {
        match &self.file.error {
            None => None,
            Some(ErrorFile::Cut(CutWord::Cut)) => Some(InferError::new(
                Class::Network,
                "script: the answer broke off before its end",
            )),
            Some(ErrorFile::Status(StatusFile { status, body })) => {
                let mut upstream = Upstream::read(Some(*status), body.as_bytes());
                if upstream.message.is_empty() && upstream.kind.is_empty() {
                    upstream.message.clone_from(body);
                }
                Some(upstream.failure("script", &Masker::default(), &Hints::default(), 0))
            }
        }
    }

    fn play(&self, request: &protocol::Infer, model: &str) -> Play {
        let delay = Duration::from_millis(self.file.delay_ms);
        let error = self.error();
        if let (Some(failure), Some(_)) = (&error, self.status()) {
            return Play {
                delay,
                deltas: Vec::new(),
                end: Err(failure.clone()),
            };
        }
        let result = last_result(&request.messages).unwrap_or_default();
        let text = self.file.text.replace(LAST_RESULT, result);
        let deltas = pieces(&text, self.file.chunk);
        let end = match error {
            Some(failure) => Err(failure),
            None => Ok(self.answer(request, model, text)),
        };
        Play { delay, deltas, end }
    }

    fn answer(&self, request: &protocol::Infer, model: &str, text: String) -> Inference {
        let mut parts = Vec::new();
        if let Some(reasoning) = &self.file.reasoning {
            let raw = serde_json::json!({"type": "thinking", "thinking": reasoning}).to_string();
            parts.push(Part::Reasoning {
                provider: "script".into(),
                model: model.to_owned(),
                raw,
            });
        }
        if !text.is_empty() {
            parts.push(Part::Text { text });
        }
        for (nth, call) in self.file.tool_calls.iter().enumerate() {
            // The request's number makes the id unique in its session, also after a resume.
            let own = || CallId::parse(&format!("script_{}_{nth}", request.id));
            if let Some(id) = call.id.clone().or_else(|| own().ok()) {
                let (name, input) = (call.name.clone(), call.input.clone());
                parts.push(Part::ToolCall { id, name, input });
            }
        }
        let calls = self.file.tool_calls.is_empty();
        Inference {
            message: Message {
                role: Role::Assistant,
                parts,
            },
            stop: self.file.stop.unwrap_or(if calls {
                StopReason::End
            } else {
                StopReason::Tool
            }),
            usage: self.file.usage.unwrap_or_default(),
            provider: "script".into(),
            model: model.to_owned(),
        }
    }
}

/// What the types of a line cannot say.
fn check(file: &LineFile) -> Result<(), String> {
    if file.chunk == Some(0) {
        return Err("chunk: at least 1 byte a delta".into());
    }
    if file.delay_ms > LONGEST_DELAY_MS {
        return Err(format!("delay_ms: at most {LONGEST_DELAY_MS}"));
    }
    if matches!(file.repeat, Some(RepeatFile::Times(0))) {
        return Err("repeat: at least 1, or true for as often as it is asked".into());
    }
    if let Some(ErrorFile::Status(status)) = &file.error
        && !(300..=599).contains(&status.status)
    {
        return Err("error: a status of 300 to 599".into());
    }
    let says = !file.text.is_empty() || !file.tool_calls.is_empty() || file.reasoning.is_some();
    if !says && file.error.is_none() && file.stop.is_none() {
        return Err("a line says something, calls a tool, names its stop, or fails".into());
    }
    let mut ids: BTreeMap<&str, ()> = BTreeMap::new();
    for id in file.tool_calls.iter().filter_map(|call| call.id.as_ref()) {
        if ids.insert(id.as_str(), ()).is_some() {
            return Err(format!("tool_calls: the id `{id}` stands twice"));
        }
    }
    Ok(())
}

/// The last tool result of the conversation.
fn last_result(messages: &[Message]) -> Option<&str> {
    messages
        .iter()
        .rev()
        .flat_map(|message| message.parts.iter().rev())
        .find_map(|part| match part {
            Part::ToolResult { content, .. } => Some(content.as_str()),
            Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall { .. } => None,
        })
}

/// What the model would answer to: the results of the last user message, or its text.
fn last_word(messages: &[Message]) -> String {
    let Some(last) = messages
        .iter()
        .rev()
        .find(|message| message.role == Role::User)
    else {
        return String::new();
    };
    let results = last.parts.iter().filter_map(|part| match part {
        Part::ToolResult { content, .. } => Some(content.as_str()),
        Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall { .. } => None,
    });
    let results: Vec<&str> = results.collect();
    if results.is_empty() {
        last.text()
    } else {
        results.join("\n")
    }
}

/// A text in deltas of about `size` bytes, each a whole number of characters.
fn pieces(text: &str, size: Option<usize>) -> Vec<String> {
    let size = size.unwrap_or(text.len());
    let mut pieces: Vec<String> = Vec::new();
    for c in text.chars() {
        match pieces.last_mut() {
            Some(last) if last.len() + c.len_utf8() <= size => last.push(c),
            _ => pieces.push(c.to_string()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, messages: Vec<Message>) -> protocol::Infer {
        protocol::Infer {
            id,
            system: String::new(),
            messages,
            tools: vec![],
            max_output: 100,
        }
    }

    fn result(content: &str) -> Message {
        let id = CallId::parse("c").expect("fits");
        let part = Part::ToolResult {
            id,
            content: content.into(),
            is_error: false,
        };
        Message {
            role: Role::User,
            parts: vec![part],
        }
    }

    fn script(text: &str) -> Script {
        Script::parse("demo.jsonl", text).expect("a script")
    }

    fn text(script: &mut Script) -> String {
        let play = script.play(&request(1, vec![]), "m");
        play.end.map_or_else(
            |failure| failure.class.as_str().to_owned(),
            |a| a.message.text(),
        )
    }

    #[test]
    fn a_line_becomes_a_whole_answer() {
        let line = r#"{"text":"Ran: {{last_result}}!","tool_calls":[{"name":"bash","input":{"command":"make"}},{"name":"list_tables"}],"reasoning":"hm \"x\"","usage":{"input_uncached":5,"cache_read":null,"cache_write":null,"output":2,"reasoning":null},"delay_ms":9,"chunk":4}"#;
        let play = script(line).play(&request(7, vec![result("grün")]), "m");
        let answer = play.end.expect("an answer");
        let call = |id: &str, name: &str, input| Part::ToolCall {
            id: CallId::parse(id).expect("fits"),
            name: name.into(),
            input,
        };
        let raw = r#"{"thinking":"hm \"x\"","type":"thinking"}"#;
        assert_eq!(
            answer.message.parts,
            [
                Part::Reasoning {
                    provider: "script".into(),
                    model: "m".into(),
                    raw: raw.into()
                },
                Part::Text {
                    text: "Ran: grün!".into()
                },
                call("script_7_0", "bash", serde_json::json!({"command": "make"})),
                call("script_7_1", "list_tables", serde_json::json!({})),
            ]
        );
        assert_eq!(
            (answer.stop, answer.usage.output),
            (StopReason::Tool, Some(2))
        );
        assert_eq!(play.deltas.concat(), "Ran: grün!");
        assert_eq!(play.deltas, ["Ran:", " gr", "ün!"]);
        assert_eq!(play.delay, Duration::from_millis(9));
    }

    #[test]
    fn lines_come_in_order_repeat_and_end() {
        let mut script = script(
            "{\"text\":\"a\"}\n\n{\"text\":\"b\",\"repeat\":2}\n{\"text\":\"c\",\"stop\":\"length\"}\n",
        );
        let words: Vec<String> = (0..5).map(|_| text(&mut script)).collect();
        assert_eq!(words, ["a", "b", "b", "c", "client"]);
        let mut forever = self::script("{\"text\":\"x\",\"repeat\":true}");
        assert!((0..50).all(|_| text(&mut forever) == "x"));
    }

    #[test]
    fn an_expectation_that_fails_shows_both_sides() {
        let line = r#"{"text":"ok","expect":"^\\d+ passed"}"#;
        let ok = script(line).play(&request(1, vec![result("12 passed")]), "m");
        assert!(ok.end.is_ok());
        let failure = script(line).play(&request(1, vec![result("3 failed\n")]), "m");
        let failure = failure.end.expect_err("no match");
        assert_eq!((failure.class, failure.retryable), (Class::Client, false));
        assert!(failure.message.contains("demo.jsonl:1") && failure.message.contains("passed"));
        assert!(failure.message.contains("3 failed"), "{failure}");
        let task = vec![result("12 passed"), Message::user("12 passed, go on")];
        assert!(
            script(line).play(&request(1, task), "m").end.is_ok(),
            "the user's message"
        );
    }

    #[test]
    fn errors_have_the_class_of_their_status_and_body() {
        let table = [
            (r#"{"error":{"status":529,"body":"busy"}}"#, Class::Overload),
            (r#"{"error":{"status":429}}"#, Class::RateLimit),
            (
                r#"{"error":{"status":401,"body":"no"}}"#,
                Class::Authentication,
            ),
            (
                r#"{"error":{"status":400,"body":"{\"error\":{\"message\":\"prompt is too long: 2 tokens\"}}"}}"#,
                Class::ContextTooLong,
            ),
            (r#"{"text":"half","error":"cut"}"#, Class::Network),
        ];
        for (line, class) in table {
            let play = script(line).play(&request(1, vec![]), "m");
            assert_eq!(play.end.expect_err(line).class, class);
            assert_eq!(
                play.deltas.concat(),
                if class == Class::Network { "half" } else { "" }
            );
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        for (line, word) in [
            ("{\"txt\":\"a\"}", "txt"),
            ("{\"text\":\"a\"", "EOF"),
            ("{\"text\":\"a\",\"expect\":\"(\"}", "expect"),
            ("{\"text\":\"a\",\"chunk\":0}", "chunk"),
            ("{\"text\":\"a\",\"repeat\":0}", "repeat"),
            ("{\"error\":{\"status\":200}}", "status"),
            ("{\"error\":\"cute\"}", "error"),
            ("{\"delay_ms\":99999999}", "delay_ms"),
            ("{}", "says"),
            (
                "{\"tool_calls\":[{\"name\":\"a\",\"id\":\"x\"},{\"name\":\"b\",\"id\":\"x\"}]}",
                "twice",
            ),
        ] {
            let text = format!("{{\"text\":\"fine\"}}\n\n{line}\n");
            let failure = Script::parse("s.jsonl", &text).expect_err(line).to_string();
            assert!(failure.starts_with("s.jsonl:3: "), "{failure}");
            assert!(failure.contains(word) || word == "error", "{failure}");
        }
        assert!(matches!(
            Script::parse("s", " \n"),
            Err(ScriptFailure::Empty { .. })
        ));
        assert!(matches!(
            Script::load(Path::new("/no/such")),
            Err(ScriptFailure::Read { .. })
        ));
    }

    #[test]
    fn a_resumed_session_goes_on_where_its_calls_left_off() {
        let lines = [
            "{\"text\":\"one\"}",
            "{\"error\":{\"status\":529}}",
            "{\"error\":\"cut\"}",
            "{\"text\":\"two\",\"repeat\":2}",
            "{\"error\":{\"status\":400}}",
            "{\"text\":\"half\",\"error\":\"cut\"}",
            "{\"error\":{\"status\":503},\"repeat\":3}",
            "{\"text\":\"last\"}",
        ]
        .join("\n");
        let after = |calls| {
            let mut script = script(&lines);
            script.skip(calls);
            script
                .lines
                .get(script.at)
                .map(|line| (line.number, script.played))
        };
        let table = [
            Some((1, 0)),
            Some((2, 0)),
            Some((4, 1)),
            Some((5, 0)),
            Some((6, 0)),
            Some((7, 0)),
            Some((8, 0)),
            None,
            None,
        ];
        for (calls, expected) in (0..).zip(table) {
            assert_eq!(after(calls), expected, "after {calls} calls");
        }
    }
}
