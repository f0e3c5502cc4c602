//! Budgets with real sessions: held before a call, settled after it, shared through the record.

#[cfg(test)]
mod money {
    use std::{process::Command, time::Duration};

    use nix::sys::signal::Signal;
    use provost_tests::harness::{Answer, Done, Live, Place, Provider, schema, until};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const MODEL: &str = "one/m";

    /// A provider whose model costs 1 $ a million tokens in and 100 $ out.
    fn place(provider: &Provider) -> Place {
        let place = Place::new();
        let row = format!(
            "version = 1\n[provider.one]\ndialect = \"anthropic\"\nbase_url = \"{}\"\nauth = \"none\"\n",
            provider.url()
        );
        place.write("config/providers.toml", row);
        place.write(
            "config/models.toml",
            "version = 1\n[[model]]\nprovider = \"one\"\nid = \"m\"\nwindow = 200_000\noutput = 16_000\n\
             price = { input = 1, cache_write = 1, output = 100, date = \"2026-11-30\", source = \"test\" }\n",
        );
        place.write("work/a.txt", "a\n");
        place
    }

    fn says(times: usize) -> Vec<Answer> {
        vec![Answer::Says("well".to_owned()); times]
    }

    fn command(place: &Place, more: &[&str]) -> Command {
        let mut command =
            place.command(["run", "--model", MODEL, "--output", "json", "--workspace"]);
        command.arg(place.work()).args(more).arg("the task");
        command
    }

    fn run(place: &Place, more: &[&str]) -> Done {
        Live::start(command(place, more)).wait(END)
    }

    fn limits(place: &Place, text: &str) -> String {
        let policy = format!("version = 1\nname = \"t\"\nextends = \"default\"\n{text}\n");
        place.policy(&policy).display().to_string()
    }

    fn usage(place: &Place, more: &[&str]) -> Vec<Value> {
        let mut args = vec!["usage", "--json"];
        args.extend(more);
        let done = place.run(args);
        let object = done.json();
        let wrong = schema::against("usage.json", &object);
        assert!(wrong.is_empty(), "{wrong:#?}");
        object["rows"].as_array().expect("rows").clone()
    }

    #[test]
    fn a_session_costs_at_most_what_its_caller_said() {
        let provider = Provider::start(says(2));
        let place = place(&provider);
        let done = run(&place, &["--max-cost", "0.05"]);
        assert_eq!(done.code, Some(3), "{done}");
        assert_eq!(done.json()["outcome"], "budget");
        let why = done.json()["reason"].as_str().expect("words").to_owned();
        assert!(
            why.contains("--max-cost") && why.contains("$0.0500"),
            "{why}"
        );
        assert!(
            provider.sent().is_empty(),
            "what cannot be paid is not asked"
        );

        // What is left of it bounds the answer.
        let done = run(&place, &["--max-cost", "0.3"]);
        assert_eq!(done.code, Some(0), "{done}");
        let body: Value = serde_json::from_str(&provider.sent()[0].body).expect("JSON");
        let most = body["max_tokens"].as_u64().expect("a limit");
        assert!((1_024..3_000).contains(&most), "{most}");
        let rows = usage(&place, &["--by", "session"]);
        assert_eq!(rows.last().expect("a row")["micro_usd"], 10 + 500);

        for bad in ["0", "-1", "a lot", "inf"] {
            assert_eq!(run(&place, &["--max-cost", bad]).code, Some(64), "{bad}");
        }
    }

    #[test]
    fn two_sessions_cannot_pass_a_days_budget_together_and_a_dead_one_has_spent_what_it_held() {
        let provider = Provider::start(vec![Answer::Silence]);
        let place = place(&provider);
        let policy = limits(&place, "[limits.day]\ncost_usd = 0.25");
        let args = ["--policy", policy.as_str()];
        let first = Live::start(command(&place, &args));
        until("the first one asks", END, || {
            (provider.sent().len() == 1).then_some(())
        });
        // It holds all that is left of the day.
        let second = run(&place, &args);
        assert_eq!(second.code, Some(3), "{second}");
        let why = second.json()["reason"].as_str().expect("words").to_owned();
        assert!(
            why.contains("[limits.day]") && why.contains("held"),
            "{why}"
        );

        first.signal(Signal::SIGKILL);
        drop(first);
        let third = run(&place, &args);
        assert_eq!(third.code, Some(3), "{third}");
        assert_eq!(provider.sent().len(), 1);
        let rows = usage(&place, &["--by", "day"]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["estimated"], 1, "{rows:?}");
        let spent = rows[0]["micro_usd"].as_u64().expect("a figure");
        assert!((200_000..=250_000).contains(&spent), "{spent}");
        assert_eq!(
            place
                .ask_record("SELECT name FROM sqlite_schema WHERE name = 'held'")
                .len(),
            1
        );
        assert!(
            place.ask_record("SELECT model FROM held").is_empty(),
            "nothing is held any more"
        );
        // Without that budget the account goes on.
        assert_eq!(
            run(&place, &[]).code,
            Some(1),
            "the provider has no answer left"
        );
    }

    #[test]
    fn sessions_at_the_same_time_stay_below_the_budget() {
        let provider = Provider::start(says(6));
        let place = place(&provider);
        assert_eq!(place.run(["usage"]).code, Some(0));
        let policy = limits(&place, "[limits.day]\ncalls = 3");
        let all: Vec<Live> = (0..6)
            .map(|_| Live::start(command(&place, &["--policy", &policy])))
            .collect();
        let mut codes: Vec<Option<i32>> = all.into_iter().map(|live| live.wait(END).code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 0, 0, 3, 3, 3].map(Some));
        assert_eq!(provider.sent().len(), 3);
    }

    #[test]
    fn a_price_that_is_not_known_refuses_a_budget_in_money_unless_the_policy_allows_it() {
        let provider = Provider::start(says(2));
        let place = place(&provider);
        let run = |more: &[&str]| {
            let mut command = place.command(["run", "--model", "one/new", "--workspace"]);
            command.arg(place.work()).args(more).arg("the task");
            Live::start(command).wait(END)
        };
        let done = run(&["--max-cost", "1"]);
        assert_eq!(done.code, Some(78), "{done}");
        assert!(
            done.stderr.contains("price of `one/new` is not known"),
            "{done}"
        );
        assert!(done.stderr.contains("unpriced = true"), "{done}");
        let policy = limits(&place, "[limits]\nunpriced = true");
        let done = run(&["--max-cost", "1", "--policy", &policy]);
        assert_eq!(done.code, Some(0), "{done}");
        let rows = usage(&place, &[]);
        assert_eq!(
            (&rows[0]["name"], &rows[0]["unpriced"]),
            (&json!("one/new"), &json!(1))
        );
    }

    #[test]
    fn calls_are_counted_over_a_resume_and_what_was_done_is_kept() {
        let place = Place::new();
        let policy = limits(&place, "[limits]\ncalls = 1");
        let write = json!({ "text": "", "tool_calls": [{ "name": "bash", "input": { "command": "echo kept > a.txt" } }], "stop": "tool" });
        let script = format!("{write}\n{{\"text\":\"bye\",\"stop\":\"end\"}}\n");
        let done = place.play(&script, &["--policy", &policy, "--output", "json"]);
        assert_eq!(done.code, Some(3), "{done}");
        let session = done.json()["session"]
            .as_str()
            .expect("a session")
            .to_owned();
        let kept = std::fs::read_to_string(place.tree(&session).join("a.txt"));
        assert_eq!(kept.expect("kept"), "kept\n");
        let again = place.run(["resume", &session, "--output", "json", "go on"]);
        assert_eq!(again.code, Some(3), "{again}");
        assert!(
            again.json()["reason"]
                .as_str()
                .expect("words")
                .contains("1 model calls"),
            "{again}"
        );
    }

    #[test]
    fn usage_is_added_up_by_whatever_is_asked_for() {
        let provider = Provider::start(says(2));
        let place = place(&provider);
        assert_eq!(usage(&place, &[]), Vec::<Value>::new());
        for _ in 0..2 {
            assert_eq!(run(&place, &[]).code, Some(0));
        }
        for (by, names) in [
            ("model", vec![MODEL]),
            ("provider", vec!["one"]),
            ("account", vec!["account"]),
        ] {
            let rows = usage(&place, &["--by", by]);
            let found: Vec<&str> = rows
                .iter()
                .map(|row| row["name"].as_str().expect("a name"))
                .collect();
            assert_eq!(found, names);
            assert_eq!(
                (&rows[0]["calls"], &rows[0]["micro_usd"]),
                (&json!(2), &json!(1_020))
            );
            assert_eq!(rows[0]["usage"]["output"], 10);
        }
        assert_eq!(usage(&place, &["--by", "session"]).len(), 2);
        assert_eq!(usage(&place, &["--session", "last"]).len(), 1);
        assert_eq!(usage(&place, &["--since", "1h"]).len(), 1);
        assert_eq!(usage(&place, &["--since", "9999-01-01"]).len(), 0);
        let text = place.run(["usage"]);
        assert!(
            text.stdout.contains("one/m") && text.stdout.contains("$0.0010"),
            "{text}"
        );
        assert_eq!(place.run(["usage", "--since", "tomorrow"]).code, Some(64));
    }
}
