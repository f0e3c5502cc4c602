//! Routes of models with real sessions: who is asked next and when, and where that is told.

#[cfg(test)]
mod routes {
    use std::{process::Command, time::Duration};

    use nix::sys::signal::Signal;
    use provost_tests::harness::{Answer, Live, Place, Provider, schema, until};
    use serde_json::{Value, json};

    const END: Duration = Duration::from_secs(60);
    const FIRST: &str = "one/claude-opus-5";
    const SECOND: &str = "two/mistral-large-latest";

    /// A place with two providers of its own, each in its own dialect.
    fn place(one: &Provider, two: &Provider) -> Place {
        let place = Place::new();
        let rows = format!(
            "version = 1\n[provider.one]\ndialect = \"anthropic\"\nbase_url = \"{}\"\nauth = \"none\"\n\
             limits = {{ first_byte = 1 }}\n\
             [provider.two]\ndialect = \"openai-chat\"\nbase_url = \"{}\"\nauth = \"none\"\n",
            one.url(),
            two.url()
        );
        place.write("config/providers.toml", rows);
        place.write("work/a.txt", "a\n");
        place
    }

    fn run(place: &Place, more: &[&str]) -> Command {
        let mut command = place.command(["run", "--workspace"]);
        command.arg(place.work()).args(more).arg("the task");
        command
    }

    fn busy() -> Answer {
        Answer::Error(529, "busy".to_owned())
    }

    fn says(text: &str) -> Answer {
        Answer::Says(text.to_owned())
    }

    #[test]
    fn a_session_goes_on_with_the_next_model_and_says_so_everywhere() {
        let one = Provider::start(vec![busy(), busy(), busy()]);
        let two = Provider::start(vec![says("from two")]);
        let place = place(&one, &two);
        let args = ["--model", FIRST, "--fallback", SECOND, "--output", "json"];
        let done = Live::start(run(&place, &args)).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        let object = done.json();
        let wrong = schema::against("json.json", &object);
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(object["text"], "from two");
        let nexts: Vec<&Value> = object["tried"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|tried| &tried["next"])
            .collect();
        assert_eq!(nexts, [FIRST, FIRST, SECOND]);
        assert_eq!((one.sent().len(), two.sent().len()), (3, 1));

        let session = object["session"].as_str().expect("a session");
        let told = place.told(session);
        let of = |kind: &str| -> Vec<&Value> {
            told.iter().filter(|entry| entry["kind"] == kind).collect()
        };
        let tried = of("infer_tried");
        assert_eq!(tried.len(), 3);
        assert_eq!(tried[2]["attempt"]["class"], "overload");
        let outcome = of("infer_outcome");
        assert_eq!(
            (&outcome[0]["provider"], &outcome[0]["model"]),
            (&json!("two"), &json!("mistral-large-latest"))
        );
        let shown = place.run(["sessions", "show", session]);
        assert!(
            shown.stdout.contains(&format!("; next {SECOND}")),
            "{shown}"
        );
        assert_eq!(place.run(["audit", "verify"]).code, Some(0));
    }

    #[test]
    fn the_policys_route_is_the_route_and_the_live_view_tells_each_step() {
        let one = Provider::start(vec![Answer::Silence]);
        let two = Provider::start(vec![says("from two")]);
        let place = place(&one, &two);
        let policy = place.policy(&format!(
            "version = 1\nname = \"t\"\nextends = \"default\"\n[models]\nroute = [\"{FIRST}\", \"{SECOND}\"]\n"
        ));
        let policy = policy.display().to_string();
        let done = Live::start(run(&place, &["--policy", &policy])).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            done.stderr.contains(&format!("{FIRST}, then {SECOND}")),
            "{done}"
        );
        // One limit of time, then the next: a silent provider is not asked again.
        let step = format!("no byte of an answer within 1 s · asking {SECOND} instead");
        assert!(done.stderr.contains(&step), "{done}");
        assert_eq!(one.sent().len(), 1);
        assert_eq!(done.stdout, "from two\n");
    }

    #[test]
    fn what_does_not_pass_ends_the_session_and_the_next_model_never_hears_of_it() {
        let one = Provider::start(vec![Answer::Error(401, "no".to_owned())]);
        let two = Provider::start(vec![says("no")]);
        let place = place(&one, &two);
        let route = format!("{FIRST},{SECOND}");
        let done = Live::start(run(&place, &["--route", &route, "--output", "json"])).wait(END);
        assert_eq!(done.code, Some(1), "{done}");
        assert_eq!(done.json()["tried"][0]["class"], "authentication");
        assert_eq!((one.sent().len(), two.sent().len()), (1, 0));
    }

    #[test]
    fn a_cancelled_session_leaves_its_provider_at_once() {
        let one = Provider::start(vec![Answer::Silence]);
        let two = Provider::start(Vec::new());
        let place = place(&one, &two);
        place.write(
            "config/providers.toml",
            format!("version = 1\n[provider.one]\ndialect = \"anthropic\"\nbase_url = \"{}\"\nauth = \"none\"\n", one.url()),
        );
        let live = Live::start(run(&place, &["--model", FIRST]));
        until("the provider is asked", END, || {
            (one.sent().len() == 1).then_some(())
        });
        live.signal(Signal::SIGINT);
        until("the call is left", Duration::from_secs(5), || {
            (one.left() == 1).then_some(())
        });
        let done = live.wait(END);
        assert_eq!(done.code, Some(130), "{done}");
    }

    #[test]
    fn a_route_that_cannot_be_walked_is_refused_before_anything_starts() {
        let none = Provider::start(Vec::new());
        let place = place(&none, &none);
        for (args, code, words) in [
            (
                vec!["--route", "one/a,nobody/x"],
                78,
                "unknown model `nobody/x`",
            ),
            (
                vec!["--route", "one/a,openai/gpt-5.4"],
                78,
                "no key for `openai`",
            ),
            (
                vec!["--model", "one/a", "--fallback", "two"],
                64,
                "is not PROVIDER/MODEL",
            ),
            (vec!["--fallback", SECOND], 64, "--model"),
            (
                vec![
                    "--route",
                    "one/a,one/b,one/c,one/d,one/e,one/f,one/g,one/h,one/i",
                ],
                64,
                "the bound is 8",
            ),
        ] {
            let done = Live::start(run(&place, &args)).wait(END);
            assert_eq!(done.code, Some(code), "{args:?}: {done}");
            assert!(done.stderr.contains(words), "{args:?}: {done}");
        }
        assert!(none.sent().is_empty());
        let text =
            "version = 1\nname = \"t\"\nextends = \"default\"\n[models]\nallow = [\"one/*\"]\n";
        let policy = place.policy(text).display().to_string();
        let args = ["--policy", &policy, "--model", FIRST, "--fallback", SECOND];
        let done = Live::start(run(&place, &args)).wait(END);
        assert_eq!(done.code, Some(78), "{done}");
        assert!(
            done.stderr.contains("does not allow the model `two/"),
            "{done}"
        );
    }

    #[test]
    fn one_call_without_a_session_has_the_layers_when_it_asks_for_them() {
        let one = Provider::start(vec![
            busy(),
            busy(),
            says("third"),
            busy(),
            busy(),
            busy(),
            busy(),
        ]);
        let two = Provider::start(vec![says("from two")]);
        let place = place(&one, &two);
        let call = |more: &[&str]| {
            let mut command = place.command(["providers", "call", "--prompt", "hi", "--json"]);
            command.args(more);
            let done = Live::start(command).wait(END);
            let object = done.json();
            let wrong = schema::against("call.json", &object);
            assert!(wrong.is_empty(), "{wrong:#?}");
            (done, object)
        };
        let single = ["--provider", "one", "--model", "claude-opus-5"];
        let (done, object) = call(&single);
        assert_eq!((done.code, one.sent().len()), (Some(1), 1), "{done}");
        assert_eq!(object["error"]["class"], "overload");
        assert_eq!(object["tried"].as_array().map(Vec::len), Some(1));

        let (done, object) = call(&[&single[..], &["--retry"]].concat());
        assert_eq!((done.code, one.sent().len()), (Some(0), 3), "{done}");
        assert_eq!(
            (&object["text"], &object["provider"]),
            (&json!("third"), &json!("one"))
        );
        assert_eq!(object["tried"][0]["next"], FIRST);

        let route = format!("{FIRST},{SECOND}");
        let (done, object) = call(&["--route", &route]);
        assert_eq!((done.code, two.sent().len()), (Some(0), 1), "{done}");
        assert_eq!(
            (&object["text"], &object["model"]),
            (&json!("from two"), &json!("mistral-large-latest"))
        );
        assert_eq!(object["tried"][2]["next"], SECOND);
    }
}
