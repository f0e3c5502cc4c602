//! Chat bodies: what a host takes, and what it refuses put right.

use serde_json::{Value, json};

use crate::dialect::{CallIds, Dialect, OutputLimit, Quirks, Replay, golden::*};

const CHAT: Dialect = Dialect::OpenaiChat;

fn loop_of_one(raw: &str) -> Vec<protocol::Message> {
    vec![
        protocol::Message::user("list the files"),
        assistant(vec![
            thought(raw),
            text("I look."),
            call("functions.bash:0", json!({"command": "ls"})),
        ]),
        user(vec![text("go on"), result("functions.bash:0", "a.rs")]),
    ]
}

#[test]
fn a_whole_request_reads_as_the_dialect_says() {
    let body = encoded(
        CHAT,
        &Quirks::default(),
        loop_of_one("{\"reasoning_content\":\"hm\"}"),
    );
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_completion_tokens": 1_000,
            "tools": [{"type": "function", "function":
                {"name": "bash", "description": "runs", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "You work in a box."},
                {"role": "user", "content": "list the files"},
                {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
                    {"id": "functions.bash:0", "type": "function",
                        "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]},
                {"role": "tool", "tool_call_id": "functions.bash:0", "content": "a.rs"},
                {"role": "user", "content": "go on"},
            ],
        })
    );
    prefixes_hold(CHAT, "messages");
}

#[test]
fn quirks_change_what_they_name() {
    let quirks = Quirks {
        output_limit: OutputLimit::MaxTokens,
        no_stream_options: true,
        call_ids: CallIds::Nine,
        no_user_after_tool: true,
        system_role: Some("developer".into()),
        body: [("tool_stream".to_owned(), Value::Bool(true))]
            .into_iter()
            .collect(),
        ..Quirks::default()
    };
    let raw = "{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"hm\"}]}]}";
    let body = encoded(CHAT, &quirks, loop_of_one(raw));
    assert_eq!(body["max_tokens"], 1_000);
    assert_eq!(body["tool_stream"], true);
    assert!(body.get("max_completion_tokens").is_none() && body.get("stream_options").is_none());
    let messages = body["messages"].as_array().expect("messages");
    assert_eq!(messages[0]["role"], "developer");
    assert_eq!(messages[2]["content"][0]["type"], "thinking");
    assert_eq!(
        messages[2]["content"][1],
        json!({"type": "text", "text": "I look."})
    );
    let id = messages[2]["tool_calls"][0]["id"].as_str().expect("id");
    assert!(
        id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        "{id}"
    );
    assert_eq!(messages[3]["tool_call_id"], id);
    assert_eq!(messages[3]["content"], "a.rs\n\ngo on");
    assert_eq!(messages.len(), 4, "no user after a tool");
}

#[test]
fn reasoning_goes_back_where_it_is_wanted_and_nowhere_else() {
    let raw = "{\"reasoning_content\":\"hm\"}";
    let plain = vec![
        protocol::Message::user("a"),
        assistant(vec![thought(raw), text("b")]),
        protocol::Message::user("c"),
    ];
    for (replay, in_loop, in_talk) in [
        (Replay::AsReceived, true, true),
        (Replay::WithCalls, true, false),
        (Replay::Never, false, false),
    ] {
        let quirks = Quirks {
            replay,
            ..Quirks::default()
        };
        let has =
            |messages| encoded(CHAT, &quirks, messages)["messages"][2]["reasoning_content"] == "hm";
        assert_eq!(
            (has(loop_of_one(raw)), has(plain.clone())),
            (in_loop, in_talk),
            "{replay:?}"
        );
    }
    let mut foreign = plain;
    foreign[1].parts[0] = protocol::Part::Reasoning {
        provider: "p".into(),
        model: "other".into(),
        raw: raw.into(),
    };
    assert!(
        encoded(CHAT, &Quirks::default(), foreign)["messages"][2]
            .get("reasoning_content")
            .is_none()
    );
}

#[test]
fn an_interrupted_call_is_answered_and_a_broken_input_is_an_object() {
    let body = encoded(
        CHAT,
        &Quirks::default(),
        vec![
            protocol::Message::user("a"),
            assistant(vec![
                call("a", json!({"_invalid": "{\"x"})),
                call("b", json!("half")),
            ]),
            protocol::Message::user("stop"),
        ],
    );
    let messages = body["messages"].as_array().expect("messages");
    assert_eq!(messages[2]["content"], Value::Null);
    for (at, id) in [(3, "a"), (4, "b")] {
        assert_eq!(
            (&messages[at]["role"], &messages[at]["tool_call_id"]),
            (&json!("tool"), &json!(id))
        );
        let arguments = messages[2]["tool_calls"][at - 3]["function"]["arguments"]
            .as_str()
            .expect("text");
        assert!(
            serde_json::from_str::<Value>(arguments)
                .expect("JSON")
                .is_object()
        );
    }
    assert_eq!(messages[5]["content"], "stop");
    let empty = CHAT.encode(
        &request(vec![protocol::Message::user(" ")]),
        &target(&Quirks::default()),
    );
    assert!(matches!(empty, Err(crate::dialect::Unsendable::Empty)));
}

#[test]
fn cache_marks_stand_at_the_ends_of_prefixes() {
    let quirks = Quirks {
        cache_marks: true,
        ..Quirks::default()
    };
    let body = encoded(CHAT, &quirks, loop_of_one("{}"));
    let marks = body.to_string().matches("ephemeral").count();
    assert_eq!(marks, 3, "{body}");
    assert_eq!(
        body["messages"][0]["content"][0]["cache_control"]["type"],
        "ephemeral"
    );
}
