//! A shared machine: root's supervisor works for an account with that account's rights alone, and two
//! sessions at once neither see nor reach one another, whoever they work for.

#[cfg(test)]
mod neighbours {
    use std::{
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
        path::{Path, PathBuf},
        time::Duration,
    };

    use nix::sys::signal::Signal;
    use provost_tests::harness::{Done, Live, Place, is_root, skipped, until};
    use serde_json::json;

    const NOBODY: u32 = 65_534;
    const END: Duration = Duration::from_secs(60);

    /// A place of root's whose workspace belongs to an account.
    fn given_to(uid: u32) -> Place {
        let place = Place::new();
        place.write("work/a.txt", "one\n");
        give(&place.work(), uid);
        give(&place.work().join("a.txt"), uid);
        place
    }

    fn give(path: &Path, uid: u32) {
        chown(path, Some(uid), Some(uid)).expect("given away");
    }

    fn script(commands: &[&str]) -> String {
        let mut text = String::new();
        for command in commands {
            let call = json!({ "name": "bash", "input": { "command": command } });
            let line = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
            text.push_str(&format!("{line}\n"));
        }
        text + "{\"text\":\"Done.\",\"stop\":\"end\"}\n"
    }

    /// What the commands wrote.
    fn output(place: &Place, session: &str) -> String {
        let told = place.told(session);
        let parts = told
            .iter()
            .filter_map(|entry| entry["message"]["parts"].as_array());
        let texts = parts
            .flatten()
            .filter_map(|part| part["tool_result"]["content"].as_str());
        let objects = texts.filter_map(|text| {
            let object = text.split_once('>')?.1.rsplit_once("</tool_result>")?.0;
            serde_json::from_str::<serde_json::Value>(object).ok()
        });
        let written = objects.filter_map(|object| object["output"].as_str().map(str::to_owned));
        written.collect::<Vec<_>>().join("\n")
    }

    fn play(place: &Place, command: &str, more: &[&str]) -> (Done, String) {
        let done = place.play(&script(&[command]), more);
        assert_eq!(done.code, Some(0), "{done}");
        let said = output(place, &done.session());
        (done, said)
    }

    fn policy(place: &Place, confinement: &str) -> String {
        let text = format!(
            "version = 1\nname = \"test\"\nextends = \"default\"\n[confinement]\n{confinement}\n"
        );
        place.policy(&text).display().to_string()
    }

    /// Every way of holding changes, with and without namespaces.
    const WAYS: [&str; 3] = [
        "workspace = \"overlay\"",
        "workspace = \"copy\"",
        "namespaces = \"off\"",
    ];

    #[test]
    fn what_is_made_for_an_account_belongs_to_it() {
        if skipped(is_root(), "only root can work for another account") {
            return;
        }
        for way in WAYS {
            let place = given_to(NOBODY);
            let policy = policy(&place, way);
            let more = ["--as", "nobody", "--policy", &policy];
            let (done, said) = play(
                &place,
                "id -u; id -g; id -G; echo two >> a.txt; mkdir new; echo x > new/b",
                &more,
            );
            assert!(said.contains("65534\n65534\n65534\n"), "{way}: {said}");
            assert!(
                done.stderr.contains("works as nobody (user 65534)"),
                "{done}"
            );
            let session = done.session();
            let listed = place.run(["diff", &session, "--list"]);
            assert!(listed.stdout.contains("new/b"), "{way}: {listed}");
            let patch = place.root().join("out.patch");
            let asked = ["diff", &session, "--patch", &patch.display().to_string()];
            assert_eq!(place.run(asked).code, Some(0));
            // A second one: the account cannot make names beside its tree, and need not.
            assert_eq!(place.run(asked).code, Some(0));
            let text = std::fs::read_to_string(&patch).expect("a patch");
            assert!(text.contains("+two") && text.contains("new/b"), "{text}");
            assert_eq!(patch.metadata().expect("there").uid(), 0, "root named it");
            let applied = place.run(["apply", &session]);
            assert_eq!(applied.code, Some(0), "{way}: {applied}");
            for name in ["a.txt", "new", "new/b"] {
                let facts = place.work().join(name).metadata().expect("applied");
                assert_eq!(
                    (facts.uid(), facts.gid()),
                    (NOBODY, NOBODY),
                    "{way}: {name}"
                );
            }
            let gone = place.run(["discard", &session]);
            assert_eq!(gone.code, Some(0), "{way}: {gone}");
            let trees = place.root().join("state-trees");
            assert!(!trees.exists(), "{way}: nothing is left of the tree");
        }
    }

    #[test]
    fn what_is_undone_belongs_to_the_account_again() {
        if skipped(is_root(), "only root can work for another account") {
            return;
        }
        for way in WAYS {
            let place = given_to(NOBODY);
            let policy = policy(&place, way);
            let input = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
            let read = json!({ "name": "read_file", "input": { "file_path": "a.txt" } });
            let edit = json!({ "name": "edit_file", "input": input });
            let mut text = String::new();
            for call in [read, edit] {
                let line = json!({ "text": "", "tool_calls": [call], "stop": "tool" });
                text.push_str(&format!("{line}\n"));
            }
            text.push_str("{\"text\":\"Done.\",\"stop\":\"end\"}\n");
            let done = place.play(&text, &["--as", "nobody", "--policy", &policy]);
            assert_eq!(done.code, Some(0), "{done}");
            let session = done.session();
            let file = place.tree(&session).join("a.txt");
            assert_eq!(std::fs::read_to_string(&file).expect("edited"), "two\n");
            let undone = place.run(["undo", &session]);
            assert_eq!(undone.code, Some(0), "{way}: {undone}");
            assert_eq!(std::fs::read_to_string(&file).expect("restored"), "one\n");
            assert_eq!(file.metadata().expect("there").uid(), NOBODY, "{way}");
        }
    }

    #[test]
    fn a_session_for_an_account_has_its_rights_alone() {
        if skipped(is_root(), "only root can work for another account") {
            return;
        }
        for way in WAYS {
            let place = given_to(NOBODY);
            // Root reads and writes all of it; the account does not.
            place.write("work/closed", "root's own\n");
            place.mode("work/closed", 0o600);
            place.write("work/fixed", "root's\n");
            std::fs::create_dir(place.work().join("attic")).expect("a folder");
            place.mode("work/attic", 0o700);
            let way = way.replace("\"overlay\"", "\"copy\"");
            let policy = policy(&place, &way);
            let more = ["--as", "nobody", "--policy", &policy];
            let (done, said) = play(
                &place,
                "cat closed; ls attic; cat fixed; echo mine > fixed; echo mine > own",
                &more,
            );
            assert!(!said.contains("root's own"), "{way}: {said}");
            assert!(said.contains("root's\n"), "what all may read: {said}");
            let session = done.session();
            let applied = place.run(["apply", &session]);
            // The folder is the account's, so that it may put its file in the place of root's; what it
            // cannot read it can neither see nor change.
            assert_eq!(applied.code, Some(0), "{applied}");
            assert_eq!(place.read("work/closed").as_deref(), Some("root's own\n"));
            assert!(place.work().join("attic").is_dir());
            let facts = place.work().join("own").metadata().expect("applied");
            assert_eq!(facts.uid(), NOBODY);
        }
    }

    #[test]
    fn a_workspace_that_the_account_cannot_enter_or_change_is_refused() {
        if skipped(is_root(), "only root can work for another account") {
            return;
        }
        let place = Place::new();
        place.mode("work", 0o700);
        let done = place.play(&script(&["true"]), &["--as", "nobody"]);
        assert_ne!(done.code, Some(0), "{done}");
        assert!(done.stderr.contains("ermission denied"), "{done}");

        // Readable and not the account's: it works, and nothing can be applied.
        let place = Place::new();
        place.write("work/a.txt", "root's\n");
        let (done, _) = play(&place, "echo mine > a.txt", &["--as", "nobody"]);
        let applied = place.run(["apply", &done.session()]);
        assert_ne!(applied.code, Some(0), "{applied}");
        assert_eq!(place.read("work/a.txt").as_deref(), Some("root's\n"));
    }

    #[test]
    fn root_follows_nothing_that_the_account_has_laid() {
        if skipped(is_root(), "only root can work for another account") {
            return;
        }
        let place = given_to(NOBODY);
        // A policy of the workspace that only root could read.
        place.write(
            "work/.provost.toml",
            "version = 1\nname = \"secret word\"\n",
        );
        place.mode("work/.provost.toml", 0o600);
        let done = place.play(&script(&["true"]), &["--as", "nobody"]);
        assert_eq!(done.code, Some(78), "{done}");
        assert!(!done.stderr.contains("secret word"), "{done}");

        // A database behind a door that is closed to the account.
        let place = given_to(NOBODY);
        let database = place.reservo();
        std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o600)).expect("mode");
        let named = format!("reservo={}", database.display());
        let asked =
            json!({ "name": "run_sql", "input": { "database": "reservo", "query": "SELECT 1" } });
        let line = json!({ "text": "", "tool_calls": [asked], "stop": "tool" });
        let text = format!("{line}\n{}\n", json!({ "text": "Done.", "stop": "end" }));
        let done = place.play(&text, &["--as", "nobody", "--database", &named]);
        assert_ne!(done.code, Some(0), "{done}");
        assert!(done.stderr.contains("reservo"), "it says which: {done}");

        // The workspace's name is a link into root's own folder by the time that it is used.
        let place = given_to(NOBODY);
        let inner = place.root().join("home/inner");
        std::fs::create_dir(&inner).expect("a folder");
        std::fs::write(inner.join("secret"), "behind a closed door\n").expect("written");
        let outer = place.root().join("door");
        symlink(&inner, &outer).expect("a link");
        let done = place.run([
            "run",
            "--as",
            "nobody",
            "--workspace",
            &outer.display().to_string(),
            "--script",
            &place.script(&script(&["cat secret"])).display().to_string(),
            "the task",
        ]);
        assert_ne!(done.code, Some(0), "{done}");
    }

    #[test]
    fn who_may_not_be_worked_for_is_said() {
        let place = Place::new();
        let tried: &[(&str, &str)] = if is_root() {
            &[
                ("root", "no session runs as root"),
                ("0", "no session runs as root"),
                ("no-such-account", "no such account"),
                ("4123456789", "no such account"),
            ]
        } else {
            &[("nobody", "--as is for root")]
        };
        for (word, why) in tried {
            let done = place.play(&script(&["true"]), &["--as", word]);
            assert_eq!(done.code, Some(64), "{word}: {done}");
            assert!(done.stderr.contains(why), "{word}: {done}");
        }
        assert!(place.session().is_none(), "no session was begun");
    }

    #[test]
    fn a_session_for_an_account_goes_on_after_its_supervisor_was_killed() {
        if skipped(is_root(), "only root can work for another account") {
            return;
        }
        let place = given_to(NOBODY);
        let live = place.start_play(
            &script(&["echo one > made; sleep 300", "cat made; id -u"]),
            &["--as", "nobody"],
        );
        let session = until("a session", END, || place.session());
        let made = || place.tree(&session).join("made").exists().then_some(());
        until("the first command runs", END, made);
        live.signal(Signal::SIGKILL);
        let _ = live.wait(END);
        let resumed = place.run(["resume", &session]);
        assert_eq!(resumed.code, Some(0), "{resumed}");
        let said = output(&place, &session);
        assert!(said.contains("one\n65534"), "{said}");
        assert!(resumed.stderr.contains("works as nobody"), "{resumed}");
        let undone = place.run(["discard", &session]);
        assert_eq!(undone.code, Some(0), "{undone}");
    }

    // ---- two at once ----

    /// A session that has left marks wherever sessions could meet, and holds still.
    struct Holding {
        place: Place,
        live: Live,
        session: String,
    }

    /// What it does: a process with a name, files in every shared folder, System V memory, an abstract
    /// socket, a keyring's key where the kernel lets it.
    const MARK: &str = r#"
        echo neighbour > /tmp/neighbour; echo neighbour > /dev/shm/neighbour 2>/dev/null
        perl -e '
            use Socket;
            my $id = shmget(0x50524f56, 4096, 01600); print defined $id ? "shm\n" : "no shm: $!\n";
            if (defined $id) { shmwrite($id, "neighbour", 0, 9) }
            my $s; if (socket($s, AF_UNIX, SOCK_STREAM, 0)) {
                print bind($s, pack_sockaddr_un("\0provost-neighbour")) && listen($s, 1) ? "socket\n" : "no bind: $!\n";
            } else { print "no socket: $!\n" }
            open my $f, ">", "ready"; print $f "$$\n"; close $f;
            $0 = "neighbour-secret-name"; sleep 300;
        '
    "#;

    fn hold(uid: u32, account: Option<&str>, confinement: &str) -> Holding {
        let place = given_to(uid);
        let policy = policy(&place, confinement);
        let mut more = vec!["--policy", &policy];
        more.extend(account.iter().flat_map(|name| ["--as", name]));
        let live = place.start_play(&script(&[MARK]), &more);
        let session = until("a session", END, || place.session());
        let ready = || {
            std::fs::read_to_string(place.tree(&session).join("ready"))
                .ok()
                .filter(|text| text.ends_with('\n'))
        };
        until("it holds still", END, ready);
        Holding {
            place,
            live,
            session,
        }
    }

    /// What another session can find of it.
    const LOOK: &str = r#"
        echo "tmp: $(cat /tmp/neighbour 2>&1)"; echo "shm: $(cat /dev/shm/neighbour 2>&1)"
        echo "names: $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ')"
        for pid in $HOST; do kill -0 $pid 2>&1 && echo "signalled $pid"; cat /proc/$pid/status 2>&1; done
        perl -e '
            use Socket;
            my $id = shmget(0x50524f56, 4096, 0);
            if (defined $id) { my $b = ""; shmread($id, $b, 0, 9); print "read $b\n" } else { print "none: $!\n" }
            my $s; socket($s, AF_UNIX, SOCK_STREAM, 0)
                && connect($s, pack_sockaddr_un("\0provost-neighbour")) && print "connected\n";
        '
        ls -la $TREE 2>&1; echo hello > $TREE/planted
    "#;

    #[test]
    fn two_sessions_neither_see_nor_reach_one_another() {
        if skipped(is_root(), "neighbours of several accounts need root") {
            return;
        }
        let daemon = 1;
        // Of root's own, of one account twice, of two accounts.
        let pairs = [
            ((0, None), (0, None)),
            ((NOBODY, Some("nobody")), (NOBODY, Some("nobody"))),
            ((NOBODY, Some("nobody")), (daemon, Some("daemon"))),
        ];
        for confinement in ["", "namespaces = \"off\""] {
            for ((one, first), (two, second)) in pairs {
                let Holding {
                    place,
                    live,
                    session,
                } = hold(one, first, confinement);
                let tree: PathBuf = place.tree(&session).canonicalize().expect("a tree");
                let pids = processes_named("neighbour-secret-name");
                assert!(!pids.is_empty(), "its process is there");
                let host: Vec<String> = pids.iter().map(u32::to_string).collect();
                let other = given_to(two);
                let policy = policy(&other, confinement);
                let mut more = vec!["--policy", &policy];
                more.extend(second.iter().flat_map(|name| ["--as", name]));
                let look = LOOK
                    .replace("$HOST", &host.join(" "))
                    .replace("$TREE", &tree.display().to_string());
                // In a file: the command lines that it lists would else hold what it looks for.
                other.write("work/look.sh", look);
                other.mode("work/look.sh", 0o644);
                give(&other.work().join("look.sh"), two);
                let (_, said) = play(&other, "bash look.sh; true", &more);
                let case = format!("{first:?} and {second:?}, {confinement}: {said}");
                for found in [
                    "tmp: neighbour",
                    "shm: neighbour",
                    "neighbour-secret-name",
                    "signalled",
                    "read neighbour",
                    "connected",
                ] {
                    assert!(!said.contains(found), "{found}: {case}");
                }
                assert!(said.contains("names: "), "it looked: {case}");
                assert!(!tree.join("planted").exists(), "{case}");
                let still = processes_named("neighbour-secret-name");
                assert_eq!(still, pids, "the neighbour goes on");
                live.signal(Signal::SIGINT);
                live.signal(Signal::SIGTERM);
                let _ = live.wait(END);
            }
        }
    }

    fn processes_named(name: &str) -> Vec<u32> {
        let found = std::fs::read_dir("/proc").expect("listed").flatten();
        let pids = found.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut pids: Vec<u32> = pids
            .filter(|pid| {
                std::fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.starts_with(name.as_bytes()))
            })
            .collect();
        pids.sort_unstable();
        pids
    }
}
