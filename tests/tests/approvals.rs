//! Approvals at a real terminal: what is drawn, which keys answer, and which never do.

#[cfg(test)]
mod approvals {
    use std::time::Duration;

    use provost_tests::harness::{Account, Live, Place, Terminal, until};
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

    /// Nobody reads and answers within the time that a prompt must stand.
    fn answer(terminal: &mut Terminal, keys: &str) {
        std::thread::sleep(protocol::bounds::PROMPT_STANDS + Duration::from_millis(200));
        terminal.press(keys);
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
            answer(&mut terminal, "o\n");
            terminal.await_drawn(ASKED, 2);
            answer(&mut terminal, "o\n");
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
        terminal.await_drawn("[s] for the session", 1);
        answer(&mut terminal, "s\n");
        // The second one runs unasked; the next question is about the third.
        terminal.await_drawn(ASKED, 2);
        assert!(terminal.drawn().contains("touch b"), "{}", terminal.drawn());
        answer(&mut terminal, "n\n");
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
        answer(&mut terminal, "n use the makefile instead\n");
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
        answer(&mut terminal, "y\n");
        terminal.await_drawn("please answer", 1);
        terminal.await_drawn(ASKED, 2);
        answer(&mut terminal, "n\n");
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
        answer(&mut terminal, "n\n");
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
        answer(&mut terminal, "2\n");
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

    #[test]
    fn an_answer_that_comes_as_the_question_is_drawn_is_dropped() {
        let place = Place::new();
        let mut terminal = start(&place, &format!("{}{}", calls("touch a"), ends()));
        terminal.await_drawn("[n] no", 1);
        terminal.press("o\n");
        terminal.await_drawn("before the question could be read", 1);
        answer(&mut terminal, "n\n");
        let done = terminal.wait(END);
        assert_eq!(answers(&place), [("deny".into(), None)], "{done}");
    }

    #[test]
    fn for_the_turn_is_over_with_the_turn() {
        let place = Place::new();
        let script = format!("{}{}{}", calls("touch a"), calls("touch a"), ends());
        let mut terminal = start(&place, &script);
        terminal.await_drawn("[t] this very action for the turn", 1);
        answer(&mut terminal, "t\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(
            answers(&place),
            [("turn".into(), None)],
            "asked once: {done}"
        );
    }

    #[test]
    fn what_the_answer_does_not_cover_is_said() {
        let place = Place::new();
        let line = "touch \u{430}pt; ./build.sh";
        let mut terminal = start(&place, &format!("{}{}", calls(line), ends()));
        terminal.await_drawn(
            "content not covered, the session can change it: ./build.sh",
            1,
        );
        terminal.await_drawn("letters of different alphabets", 1);
        answer(&mut terminal, "n\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
    }

    // ---- people who are not at the terminal ----

    /// A session whose questions wait for `provost approve`.
    fn unattended(place: &Place, script: &str) -> Live {
        let policy = place.policy(POLICY).display().to_string();
        place.start_play(script, &["--policy", &policy, "--approvals", "operator"])
    }

    /// The first open question, once there is one.
    fn open(place: &Place) -> Value {
        until("a question is open", Duration::from_secs(30), || {
            let list = place.run(["approvals", "list", "--json"]).json();
            let first = list["open"].as_array()?.first()?.clone();
            Some(first)
        })
    }

    fn text(value: &Value) -> String {
        value.as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_session_without_a_terminal_waits_for_an_operator() {
        for account in Account::all() {
            let place = Place::of(account);
            let script = format!("{}{}{}", calls("touch a"), calls("touch a"), ends());
            let live = unattended(&place, &script);
            let asked = open(&place);
            let (id, nonce) = (text(&asked["id"]), text(&asked["question"]["nonce"]));
            assert_eq!(asked["question"]["action"], "touch a");
            let list = place.run(["approvals", "list"]);
            assert!(
                list.stdout.contains(&id) && list.stdout.contains("touch-asks"),
                "{list}"
            );

            let blind = place.run(["approve", &id]);
            assert_eq!(blind.code, Some(64), "a yes needs what was seen: {blind}");
            let wrong = place.run(["approve", &id, "--nonce", "0000"]);
            assert_eq!(wrong.code, Some(1), "{wrong}");
            let right = place.run(["approve", &id, "--nonce", &nonce, "--scope", "session"]);
            assert_eq!(right.code, Some(0), "{right}");
            let again = place.run(["approve", &id, "--nonce", &nonce]);
            assert_eq!(again.code, Some(1), "a nonce answers once: {again}");
            let done = live.wait(END);
            assert_eq!(done.code, Some(0), "{done}");
            assert_eq!(answers(&place), [("session".into(), None)]);
            let gone = place.run(["approvals", "list"]);
            assert!(gone.stdout.contains("nothing is asked"), "{gone}");
        }
    }

    #[test]
    fn an_operator_denies_with_a_word_or_asks_for_something_else() {
        let place = Place::new();
        let script = format!(
            "{}{}{}{}",
            calls("touch a"),
            calls("touch b"),
            calls("touch c"),
            ends()
        );
        let live = unattended(&place, &script);
        let first = open(&place);
        let no = place.run(["deny", &text(&first["id"]), "--message", "not a"]);
        assert_eq!(no.code, Some(0), "{no}");
        let second = until("the second question", Duration::from_secs(30), || {
            Some(open(&place)).filter(|asked| asked["question"]["action"] == "touch b")
        });
        let nonce = text(&second["question"]["nonce"]);
        let instead = r#"{"command":"touch c"}"#;
        let edit = [
            "approve",
            &text(&second["id"]),
            "--nonce",
            &nonce,
            "--instead",
            instead,
        ];
        assert_eq!(place.run(edit).code, Some(0));
        // The third call is exactly what was asked for instead: its answer is there already.
        let done = live.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        let words: Vec<String> = answers(&place).into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, ["deny", "instead"]);
        let results = results(&place);
        assert!(results[0].contains("not a"), "{results:?}");
        assert!(results[1].contains("wants this instead"), "{results:?}");
        let tree = place.tree(&place.session().expect("a session"));
        assert!(tree.join("c").exists() && !tree.join("b").exists());
    }

    #[test]
    fn identical_questions_are_one_and_a_no_is_not_asked_again_and_again() {
        let place = Place::new();
        let call = json!({ "name": "bash", "input": { "command": "touch a" } });
        let two = json!({ "text": "", "tool_calls": [call, call], "stop": "tool" });
        let script = format!("{two}\n{}{}{}", calls("touch a"), calls("touch a"), ends());
        let live = unattended(&place, &script);
        let mut said = 0;
        let until_end = std::time::Instant::now() + END;
        let mut live = live;
        while !live.has_ended() && std::time::Instant::now() < until_end {
            let list = place.run(["approvals", "list", "--json"]).json();
            for asked in list["open"].as_array().into_iter().flatten() {
                said += i32::from(place.run(["deny", &text(&asked["id"])]).code == Some(0));
            }
        }
        let done = live.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            (1..=2).contains(&said),
            "asked {said} times for four identical calls"
        );
        let results = results(&place);
        assert_eq!(results.len(), 4, "{results:?}");
        assert!(results[3].contains("not asked again"), "{results:?}");
    }

    #[test]
    fn a_stranger_and_nonsense_on_the_socket_answer_nothing() {
        let place = Place::new();
        let live = unattended(&place, &format!("{}{}", calls("touch a"), ends()));
        let asked = open(&place);
        let session = place.session().expect("a session");
        let folder = place.root().join("run/operators");
        let mut names = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        let socket = names
            .find(|path| path.to_string_lossy().contains(&session))
            .expect("a socket");
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&socket).expect("a socket").permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        for bytes in [
            &b"\xff\xff\xff\xff"[..],
            b"\x00\x00\x00\x02{}",
            b"\x00\x00\x00\x0f{\"ask\":\"listen\"",
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            let mut stream = std::os::unix::net::UnixStream::connect(&socket).expect("connects");
            std::io::Write::write_all(&mut stream, bytes).expect("said");
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut told = Vec::new();
            let _ = std::io::Read::read_to_end(&mut stream, &mut told);
            assert!(
                !String::from_utf8_lossy(&told).contains("taken"),
                "{told:?}"
            );
        }
        assert_eq!(open(&place)["id"], asked["id"], "still open");
        let no = place.run(["deny", &text(&asked["id"])]);
        assert_eq!(no.code, Some(0), "{no}");
        assert_eq!(live.wait(END).code, Some(0));
        assert!(!socket.exists(), "the socket is gone with the session");
    }
}
