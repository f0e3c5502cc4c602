//! Where keys may come from, at the command line: each place, in which order, and what is refused.

#[cfg(test)]
mod keys {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        os::unix::fs::PermissionsExt as _,
        path::Path,
        process::{Command, Stdio},
        time::Duration,
    };

    use provost_tests::harness::{
        Answer, Done, Live, Needles, Place, Provider, Terminal, find_in_files, must,
    };

    const KEY: &str = "sk-ant-canary+7Qz/9f3aB2~c81=0d5e";
    const END: Duration = Duration::from_secs(60);

    /// A place, and a provider that says so many words.
    fn place(answers: usize) -> (Place, Provider) {
        let provider = Provider::start(vec![Answer::Says("hi".to_owned()); answers]);
        let place = Place::new();
        let rows = format!(
            "version = 1\n[provider.anthropic]\nbase_url = \"{}\"\n",
            provider.url()
        );
        place.write("config/providers.toml", rows);
        (place, provider)
    }

    fn with_input(mut command: Command, input: &str) -> Done {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = must("start", command.spawn());
        let mut stdin = child.stdin.take().expect("a pipe");
        must("written", stdin.write_all(input.as_bytes()));
        drop(stdin);
        Live::adopt(child).wait(END)
    }

    fn ask(place: &Place) -> Command {
        place.command([
            "providers",
            "call",
            "--provider",
            "anthropic",
            "--model",
            "m",
            "--prompt",
            "hi",
        ])
    }

    /// The key that the provider was shown last.
    fn shown(provider: &Provider) -> Option<String> {
        let sent = provider.sent();
        let head = &sent.last()?.head;
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("x-api-key: "))?;
        Some(line.to_owned())
    }

    #[test]
    fn login_keeps_what_it_is_given_and_logout_removes_it() {
        let (place, provider) = place(2);
        let done = with_input(place.command(["login", "anthropic"]), &format!("  {KEY}\n"));
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(
            Needles::of(KEY).within(done.stderr.as_bytes()),
            None,
            "{done}"
        );
        let file = place.config().join("keys/anthropic");
        let mode = |path| must("there", std::fs::metadata(path)).permissions().mode() & 0o7777;
        assert_eq!(
            (mode(file.clone()), mode(place.config().join("keys"))),
            (0o600, 0o700)
        );
        let done = Live::start(ask(&place)).wait(END);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "hi\n"),
            "{done}"
        );
        assert_eq!(shown(&provider).as_deref(), Some(KEY));

        let mut logout = place.command(["logout", "anthropic"]);
        logout.env("ANTHROPIC_API_KEY", "sk-other-0123456789");
        let done = Live::start(logout).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(!file.exists());
        assert!(
            done.stderr.contains("still finds ANTHROPIC_API_KEY"),
            "what is left is named: {done}"
        );
        let done = place.run(["logout", "anthropic"]);
        assert!(
            done.code == Some(0) && done.stderr.contains("no "),
            "{done}"
        );
    }

    #[test]
    fn login_refuses_what_is_no_key_and_writes_nothing() {
        let (place, _provider) = place(0);
        for (provider, input, code) in [
            ("anthropic", "", 64),
            ("anthropic", "two words\n", 78),
            ("vertex", "{\"type\":\"MARKER\"}", 78),
            ("script", "x", 64),
            ("nobody", "x", 64),
        ] {
            let done = with_input(place.command(["login", provider]), input);
            assert_eq!(done.code, Some(code), "{provider} {input:?}: {done}");
            assert!(!done.stderr.contains("MARKER"), "{done}");
        }
        assert!(!place.config().join("keys/anthropic").exists());
    }

    #[test]
    fn a_sealed_key_opens_with_its_passphrase_only() {
        let (place, provider) = place(2);
        let mut login = place.command(["login", "anthropic", "--seal"]);
        login.env("PROVOST_PASSPHRASE", "correct horse battery");
        let done = with_input(login, KEY);
        assert_eq!(done.code, Some(0), "{done}");
        let (found, read) = find_in_files(place.root(), &[], &Needles::of(KEY));
        assert_eq!(found, Vec::<String>::new(), "no form of it is on disk");
        assert!(read >= 2);

        let done = Live::start(ask(&place)).wait(END);
        assert_eq!(done.code, Some(78), "{done}");
        assert!(done.stderr.contains("PROVOST_PASSPHRASE"), "{done}");
        let mut wrong = ask(&place);
        wrong.env("PROVOST_PASSPHRASE", "incorrect horse");
        let done = Live::start(wrong).wait(END);
        assert!(
            done.code == Some(78) && done.stderr.contains("does not open"),
            "{done}"
        );
        assert!(provider.sent().is_empty());

        let mut right = ask(&place);
        right.env("PROVOST_PASSPHRASE", "correct horse battery");
        let done = Live::start(right).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(shown(&provider).as_deref(), Some(KEY));
        // The passphrase as systemd lays it down.
        place.write("home/creds/passphrase", "correct horse battery\n");
        place.mode("home/creds/passphrase", 0o400);
        let mut unit = ask(&place);
        unit.env("CREDENTIALS_DIRECTORY", place.root().join("home/creds"));
        let done = Live::start(unit).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
    }

    #[test]
    fn a_person_types_key_and_passphrase_unseen() {
        let (place, provider) = place(1);
        let mut terminal = Terminal::start(place.command(["login", "anthropic", "--seal"]));
        for (question, line) in [
            ("Passphrase to seal it with:", "correct horse\n"),
            ("The same again:", "correct horse\n"),
            ("Key of anthropic", "sk-typed-0123456789abcdef\n"),
        ] {
            terminal.await_drawn(question, 1);
            terminal.press(line);
        }
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            !done.stderr.contains("sk-typed") && !done.stderr.contains("correct"),
            "nothing is echoed: {done}"
        );
        let mut terminal = Terminal::start(ask(&place));
        terminal.await_drawn("Passphrase of", 1);
        terminal.press("correct horse\n");
        let done = terminal.wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(
            shown(&provider).as_deref(),
            Some("sk-typed-0123456789abcdef")
        );
    }

    #[test]
    fn a_descriptor_comes_before_a_file_before_systemd_before_a_variable() {
        let (place, provider) = place(4);
        place.write("home/creds/anthropic", "sk-systemd-0123456789");
        place.mode("home/creds/anthropic", 0o440);
        place.write("config/keys/anthropic", "sk-file-0123456789");
        place.mode("config/keys/anthropic", 0o600);
        let handed = place.write("home/handed", "sk-handed-0123456789\n");
        let full = || {
            let mut command = ask(&place);
            command
                .env("ANTHROPIC_API_KEY", "sk-variable-0123456789")
                .env("CREDENTIALS_DIRECTORY", place.root().join("home/creds"));
            command
        };
        // A shell hands a descriptor over, as it does for a person.
        let own = full();
        let words = ["-c", "exec \"$@\" 7<\"$HANDED\"", "sh"];
        let mut shell = place.program(Path::new("/bin/sh"), words);
        shell.arg(own.get_program()).args(own.get_args());
        for (name, value) in own.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        shell
            .env("HANDED", &handed)
            .env("PROVOST_KEY_FDS", "anthropic=7");
        let steps: [(&str, &dyn Fn() -> Command); 3] = [
            ("sk-file-0123456789", &full),
            ("sk-systemd-0123456789", &full),
            ("sk-variable-0123456789", &full),
        ];
        let done = Live::start(shell).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        assert_eq!(shown(&provider).as_deref(), Some("sk-handed-0123456789"));
        for (expected, command) in steps {
            let done = Live::start(command()).wait(END);
            assert_eq!(done.code, Some(0), "{expected}: {done}");
            assert_eq!(shown(&provider).as_deref(), Some(expected));
            // The next one is found when this one is gone.
            let gone = match expected.contains("file") {
                true => place.config().join("keys/anthropic"),
                false => place.root().join("home/creds/anthropic"),
            };
            let _ = std::fs::remove_file(gone);
        }
        let mut nothing = ask(&place);
        nothing.env("PROVOST_KEY_FDS", "anthropic=99");
        let done = Live::start(nothing).wait(END);
        assert!(
            done.code == Some(78) && done.stderr.contains("descriptor 99"),
            "{done}"
        );
    }

    /// A session whose key is a token that is fetched: no form of it, nor of what it was fetched with, is
    /// anywhere but with the provider.
    #[test]
    fn a_fetched_token_leaves_no_trace() {
        const SECRET: &str = "refresh-canary+4Wd/8h1kM5~p60=3r7t";
        let listener = must("a port", TcpListener::bind("127.0.0.1:0"));
        let tokens = format!("http://{}", must("an address", listener.local_addr()));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = vec![0; 64 * 1024];
                let _ = stream.read(&mut request);
                let body = format!("{{\"access_token\":\"{KEY}\",\"expires_in\":3600}}");
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        let provider = Provider::start(vec![
            Answer::Error(529, format!("overloaded; {KEY}")),
            Answer::Says(format!("Your token is {KEY}.")),
        ]);
        let place = Place::new();
        place.write(
            "config/providers.toml",
            format!("version = 1\n[provider.own]\ndialect = \"anthropic\"\nauth = \"google\"\nbase_url = \"{}\"\n", provider.url()),
        );
        let account = place.write(
            "home/account.json",
            serde_json::json!({"type": "authorized_user", "client_id": "c", "client_secret": "client-canary-0123456789",
                "refresh_token": SECRET, "token_uri": tokens}).to_string(),
        );
        place.write("work/a.txt", "a\n");
        let mut command = place.command(["run", "--model", "own/claude-sonnet-5", "--workspace"]);
        command
            .arg(place.work())
            .arg("say something")
            .env("GOOGLE_APPLICATION_CREDENTIALS", &account);
        let done = Live::start(command).wait(END);
        assert_eq!(done.code, Some(0), "{done}");
        let sent = provider.sent();
        assert_eq!(sent.len(), 2, "one was retried");
        let line = format!("authorization: Bearer {KEY}");
        assert!(
            sent.iter().all(|sent| sent.head.contains(&line)),
            "{sent:?}"
        );
        for needles in [Needles::of(KEY), Needles::of(SECRET)] {
            let (found, read) = find_in_files(place.root(), &[&account], &needles);
            assert_eq!(found, Vec::<String>::new());
            assert!(read >= 5, "the search read {read} files");
            for text in [&done.stdout, &done.stderr] {
                assert_eq!(needles.within(text.as_bytes()), None, "{done}");
            }
        }
    }
}
