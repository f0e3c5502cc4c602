//! One breaker for all supervisors of an account: real processes that share a record.

#[cfg(test)]
mod breakers {
    use std::time::Duration;

    use nix::sys::signal::Signal;
    use provost_tests::harness::{Answer, Done, Live, Place, Provider, must, until};
    use serde_json::Value;

    const END: Duration = Duration::from_secs(60);

    fn place(provider: &Provider) -> Place {
        let place = Place::new();
        let row = format!(
            "version = 1\n[provider.one]\ndialect = \"anthropic\"\nbase_url = \"{}\"\nauth = \"none\"\n",
            provider.url()
        );
        place.write("config/providers.toml", row);
        place.write("work/a.txt", "a\n");
        place
    }

    const CALL: [&str; 9] = [
        "providers",
        "call",
        "--provider",
        "one",
        "--model",
        "m",
        "--prompt",
        "hi",
        "--retry",
    ];

    fn call(place: &Place) -> Done {
        Live::start(place.command(CALL)).wait(END)
    }

    fn down(times: usize) -> Vec<Answer> {
        vec![Answer::Error(503, "down".to_owned()); times]
    }

    fn phase(place: &Place) -> String {
        let shown = place.run(["providers", "show", "one", "--json"]);
        shown.json()["breaker"].as_str().expect("a word").to_owned()
    }

    /// The recorded state as it would be so many milliseconds later.
    fn later(place: &Place, ms: u64) {
        let db = must(
            "the record",
            rusqlite::Connection::open(place.state().join("record.db")),
        );
        let text: String = must(
            "a state",
            db.query_row("SELECT state FROM breakers", [], |row| row.get(0)),
        );
        let mut state: Value = must("JSON", serde_json::from_str(&text));
        fn turn_back(value: &mut Value, ms: u64) {
            match value {
                Value::Object(fields) => {
                    for (name, value) in fields {
                        match value.as_u64().filter(|_| name == "since_ms") {
                            Some(since) => *value = (since - ms).into(),
                            None => turn_back(value, ms),
                        }
                    }
                }
                Value::Array(items) => items.iter_mut().for_each(|item| turn_back(item, ms)),
                _ => {}
            }
        }
        turn_back(&mut state, ms);
        let changed = db.execute("UPDATE breakers SET state = ?1", [state.to_string()]);
        assert_eq!(must("changed", changed), 1);
    }

    #[test]
    fn what_one_process_met_every_other_knows_and_a_dead_holder_gives_its_trial_back() {
        let mut answers = down(5);
        answers.push(Answer::Silence);
        answers.extend(vec![Answer::Says("well".to_owned()); 3]);
        let provider = Provider::start(answers);
        let place = place(&provider);
        assert_eq!(phase(&place), "closed");
        for _ in 0..2 {
            assert_eq!(call(&place).code, Some(1));
        }
        assert_eq!(provider.sent().len(), 5, "five failures in two processes");
        assert_eq!(phase(&place), "open");
        let list = place.run(["providers", "list"]);
        assert!(list.stdout.contains("breaker open"), "{list}");
        let third = call(&place);
        assert!(third.stderr.contains("left alone"), "{third}");
        assert_eq!(provider.sent().len(), 5, "it is not touched");

        // A minute later one process takes a trial permit and dies with it.
        later(&place, 60_000);
        let holder = Live::start(place.command(CALL));
        until("the trial is under way", END, || {
            (provider.sent().len() == 6).then_some(())
        });
        assert_eq!(phase(&place), "half-open");
        holder.signal(Signal::SIGKILL);
        drop(holder);
        for _ in 0..2 {
            assert_eq!(call(&place).code, Some(0));
        }
        let fourth = call(&place);
        assert!(
            fourth.stderr.contains("left alone"),
            "the dead one's permit counts\n{fourth}"
        );
        assert_eq!(phase(&place), "half-open");

        // Nobody renews it: its deadline passes, and the third success closes the breaker.
        later(&place, 30_000);
        assert_eq!(call(&place).code, Some(0));
        assert_eq!(phase(&place), "closed");
        assert_eq!(provider.sent().len(), 9);
    }

    #[test]
    fn processes_that_fail_at_once_open_it_exactly_once_and_a_session_writes_it_down() {
        let provider = Provider::start(down(40));
        let place = place(&provider);
        // The record is made before they meet in it.
        assert_eq!(place.run(["usage"]).code, Some(0));
        let all: Vec<Live> = (0..4).map(|_| Live::start(place.command(CALL))).collect();
        for live in all {
            assert_eq!(live.wait(END).code, Some(1));
        }
        let seen = provider.sent().len();
        assert!(
            (5..=8).contains(&seen),
            "five, and what was under way: {seen}"
        );
        assert_eq!(phase(&place), "open");

        later(&place, 60_000);
        let mut command = place.command([
            "run",
            "--model",
            "one/m",
            "--output",
            "json",
            "--timeout",
            "8s",
            "--workspace",
        ]);
        command.arg(place.work()).arg("the task");
        let done = Live::start(command).wait(END);
        // It waits for the breaker until its own time is over.
        assert_eq!(done.code, Some(3), "{done}");
        let object = done.json();
        let told = place.told(object["session"].as_str().expect("a session"));
        let changes: Vec<(&str, &str)> = told
            .iter()
            .filter(|entry| entry["kind"] == "breaker_changed")
            .map(|entry| {
                (
                    entry["from"].as_str().expect("from"),
                    entry["to"].as_str().expect("to"),
                )
            })
            .collect();
        assert_eq!(changes[..2], [("open", "half-open"), ("half-open", "open")]);
        assert_eq!(place.run(["audit", "verify"]).code, Some(0));
    }
}
