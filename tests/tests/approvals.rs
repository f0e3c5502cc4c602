//! Approvals at a real terminal: what is drawn, which keys answer, and which never do.

#[cfg(test)]
mod approvals {
    use std::time::Duration;

    use provost_tests::harness::{Account, Place, Terminal};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const ASKED: &str = "approval needed";
    const POLICY: &str = r#"
version = 1
name = "test"
extends = "default"

[[rule]]
id = "touch-asks"
tool = "bash"
command = ["touch"]
verdict = "ask"
reason = "a person sees what is touched"
examples = { match = ["touch a"], differ = ["ls"] }
"#;

    fn calls(command: &str) -> String {
        let call = json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": command } }], "stop": "tool" });
        format!("{call}\n")
    }

    fn ends() -> String {
        format!("{}\n", json!({ "text": "bye", "stop": "end" }))
    }

    fn start(place: &Place, script: &str) -> Terminal {
        let policy = place.policy(POLICY).display().to_string();
        Terminal::start(place.play_command(script, &["--policy", &policy]))
    }

    fn answers(place: &Place) -> Vec<(String, Option<String>)> {
        let session = place.session().expect("a session");
        let entries = place.told(&session);
        let answered = entries.iter().filter(|entry| entry["kind"] == "answered");
        answered
            .map(|entry| {
                let message = entry["message"].as_str().map(str::to_owned);
                (
                    entry["answer"].as_str().unwrap_or_default().to_owned(),
                    message,
                )
            })
            .collect()
    }

    fn results(place: &Place) -> Vec<String> {
        let session = place.session().expect("a session");
        let entries = place.told(&session);
        let parts = entries
            .iter()
            .filter_map(|entry| entry["message"]["parts"].as_array());
        let results = parts
            .flatten()
            .filter_map(|part| part["tool_result"]["content"].as_str());
        results.map(str::to_owned).collect()
    }

    #[test]
    fn once_is_once() {
        for account in Account::all() {
            let place = Place::of(account);
            let script = format!("{}{}{}", calls("touch a"), calls("touch a"), ends());
            let mut terminal = start(&place, &script);
            terminal.await_drawn(ASKED, 1);
            terminal.await_drawn("> ", 1);
            let drawn = terminal.drawn();
            for word in [
                "touch a",
                "a person sees what is touched",
                "touch-asks",
                "[o] once",
                "[n] no",
            ] {
                assert!(drawn.contains(word), "{word}: {drawn}");
            }
            terminal.press("o\n");
            terminal.await_drawn(ASKED, 2);
            terminal.press("o\n");
            let done = terminal.wait(END);
            assert_eq!(done.code, Some(0), "{done}");
            assert_eq!(
                answers(&place),
                [("once".into(), None), ("once".into(), None)]
            );
            assert!(
                place
                    .tree(&place.session().expect("a session"))
                    .join("a")
                    .exists()
            );
        }
    }

    #[test]
    fn for_the_session_is_this_very_action_and_no_other() {
        let place = Place::new();
        let script = format!(
            "{}{}{}{}",
            calls("touch a"),
            calls("touch a"),
            calls("touch b"),
            ends()
        );
        let mut terminal = start(&place, &script);
        terminal.await_drawn("[s] this very action", 1);
        terminal.press("s\n");
        // The second one runs unasked; the next question is about the third.
        terminal.await_drawn(ASKED, 2);
        assert!(terminal.drawn().contains("touch b"), "{}", terminal.drawn());
        terminal.press("n\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(
            answers(&place),
            [("session".into(), None), ("deny".into(), None)]
        );
        let tree = place.tree(&place.session().expect("a session"));
        assert!(tree.join("a").exists() && !tree.join("b").exists());
    }

    #[test]
    fn a_no_brings_its_words_to_the_model() {
        let place = Place::new();
        let mut terminal = start(&place, &format!("{}{}", calls("touch a"), ends()));
        terminal.await_drawn("[n] no", 1);
        terminal.press("n use the makefile instead\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        let words = Some("use the makefile instead".to_owned());
        assert_eq!(answers(&place), [("deny".to_owned(), words)]);
        let results = results(&place);
        assert!(
            results[0].contains("use the makefile instead"),
            "{results:?}"
        );
        assert!(
            !place
                .tree(&place.session().expect("a session"))
                .join("a")
                .exists()
        );
    }

    #[test]
    fn keys_typed_ahead_and_stray_keys_never_answer() {
        let place = Place::new();
        let script = format!("{}{}{}", calls("sleep 1"), calls("touch a"), ends());
        let mut terminal = start(&place, &script);
        terminal.await_drawn("certificate", 1);
        // Typed while nothing asks: whole lines, and half a line.
        terminal.press("o\no\ns\no");
        terminal.await_drawn(ASKED, 1);
        terminal.await_drawn("> ", 1);
        terminal.press("y\n");
        terminal.await_drawn("please answer", 1);
        terminal.await_drawn(ASKED, 2);
        terminal.press("n\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(answers(&place), [("deny".into(), None)], "{done}");
        assert!(
            !place
                .tree(&place.session().expect("a session"))
                .join("a")
                .exists()
        );
    }

    #[test]
    fn what_is_asked_about_cannot_redraw_the_question() {
        let place = Place::new();
        let line = "touch a # \u{1b}[2K\u{1b}[1A harmless \u{202e}gpj.exe \u{200b} \r[o] once";
        let mut terminal = start(&place, &format!("{}{}", calls(line), ends()));
        terminal.await_drawn(ASKED, 1);
        terminal.await_drawn("[n] no", 1);
        let drawn = terminal.drawn();
        let question = &drawn[drawn.find(ASKED).expect("drawn")..];
        for hidden in ["\u{1b}[2K", "\u{1b}[1A", "\u{202e}", "\u{200b}"] {
            assert!(
                !question.contains(hidden),
                "{hidden:?} reaches the terminal: {question:?}"
            );
        }
        assert!(
            !question.replace("\r\n", "\n").contains('\r'),
            "{question:?}"
        );
        assert!(question.contains("touch a"), "{question:?}");
        terminal.press("n\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
    }

    #[test]
    fn a_question_of_the_model_is_answered_in_words() {
        let place = Place::new();
        let ask = json!({ "text": "", "tool_calls": [{ "name": "ask_user", "input": { "question": "Which one?", "choices": ["red", "blue"] } }], "stop": "tool" });
        let mut terminal = start(&place, &format!("{ask}\n{}", ends()));
        terminal.await_drawn("Which one?", 1);
        terminal.await_drawn("2. blue", 1);
        terminal.await_drawn("> ", 1);
        terminal.press("2\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(results(&place)[0].contains("blue"), "{:?}", results(&place));
    }

    #[test]
    fn an_interrupt_while_a_question_is_open_denies_it() {
        let place = Place::new();
        let mut terminal = start(&place, &format!("{}{}", calls("touch a"), ends()));
        terminal.await_drawn("[n] no", 1);
        terminal.interrupt();
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(130), "{done}");
        let entries: Vec<Value> = place.told(&place.session().expect("a session"));
        assert!(
            !entries.iter().any(|entry| entry["kind"] == "intent"),
            "nothing was begun"
        );
        assert!(
            !place
                .tree(&place.session().expect("a session"))
                .join("a")
                .exists()
        );
    }
}
