//! How a session holds its changes: in an overlay and in a copy, with one and the same outcome; what is
//! hidden stays hidden; what tools changed can be put back.

#[cfg(test)]
mod workspaces {
    use std::{
        collections::BTreeMap,
        os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
        path::Path,
        time::Duration,
    };

    use provost_tests::harness::{Account, Done, Place, is_root, skipped, until};
    use serde_json::{Value, json};

    fn policy(place: &Place, mode: &str) -> String {
        let text = format!(
            "version = 1\nname = \"test\"\nextends = \"default\"\n[confinement]\nworkspace = \"{mode}\"\n[filesystem]\nhide = [\"hidden.txt\", \"vault/\"]\n"
        );
        place.policy(&text).display().to_string()
    }

    fn call(name: &str, input: &Value) -> Value {
        json!({ "name": name, "input": input })
    }

    fn script(rounds: &[Vec<Value>]) -> String {
        let mut text = String::new();
        for calls in rounds {
            let line = json!({ "text": "", "tool_calls": calls, "stop": "tool" });
            text.push_str(&format!("{line}\n"));
        }
        text.push_str(&format!("{}\n", json!({ "text": "Done.", "stop": "end" })));
        text
    }

    fn bash(command: &str) -> Value {
        call("bash", &json!({ "command": command }))
    }

    /// Plays one command in a workspace of the mode; it must have ended well.
    fn play(place: &Place, mode: &str, command: &str) -> Done {
        let policy = policy(place, mode);
        let done = place.play(&script(&[vec![bash(command)]]), &["--policy", &policy]);
        assert_eq!(done.code, Some(0), "{done}");
        let session = done.session();
        let outcomes = place.told(&session);
        let ended = outcomes
            .iter()
            .find(|entry| entry["kind"] == "outcome")
            .unwrap_or_else(|| panic!("no outcome: {done}"));
        assert_eq!(
            ended["ok"],
            true,
            "{command}: {ended} {}",
            output(place, &session)
        );
        done
    }

    /// What the model read as the results of its calls.
    fn output(place: &Place, session: &str) -> String {
        let told = place.told(session);
        let parts = told
            .iter()
            .filter_map(|entry| entry["message"]["parts"].as_array());
        let texts = parts
            .flatten()
            .filter_map(|part| part["tool_result"]["content"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// A folder as it is: kind, bits and content of everything in it.
    fn snapshot(root: &Path) -> BTreeMap<Vec<u8>, (char, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut open = vec![root.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).expect("listed").flatten() {
                let path = entry.path();
                let facts = path.symlink_metadata().expect("there");
                let mode = facts.mode() & 0o7777;
                let node = if facts.is_dir() {
                    open.push(path.clone());
                    ('d', mode, Vec::new())
                } else if facts.is_symlink() {
                    let target = std::fs::read_link(&path).expect("a link");
                    ('l', 0, target.as_os_str().as_bytes().to_vec())
                } else if facts.is_file() {
                    ('f', mode, std::fs::read(&path).expect("read"))
                } else {
                    ('?', mode, Vec::new())
                };
                let name = path.strip_prefix(root).expect("below");
                found.insert(name.as_os_str().as_bytes().to_vec(), node);
            }
        }
        found
    }

    const WORKSPACE: &str = r#"
        printf 'one\ntwo\nthree\n' > text.txt
        printf '\000\001\377binary' > bin
        mkdir -p dir/sub/deep empty many sw/in/deep; echo a > sw/a; echo b > sw/in/b; echo c > sw/in/deep/c
        echo a > dir/a; echo b > dir/sub/b; echo c > dir/sub/deep/c
        ln -s text.txt link; ln -s dir dirlink; ln -s nowhere dangling
        echo '#!/bin/sh' > run.sh; chmod 755 run.sh
        echo closed > closed; chmod 600 closed
        for i in $(seq 60); do echo "$i" > many/$i; done
        printf x > "$(printf 'odd\377name')"; echo y > 'name with space and "quotes"'
        printf x > "$(printf 'new\nline')"; echo s > 'back\slash'
        echo secret > hidden.txt; mkdir -p vault dir/vault; echo v > vault/v; echo w > dir/vault/w
        echo secret > dir/sub/hidden.txt
        echo 'echo mine > hidden.txt; mkdir vault; echo mine > vault/v' > own.sh
        mkfifo pipe; mkdir -p readonly; echo r > readonly/r; chmod 555 readonly
    "#;

    const CHANGES: &[(&str, &str)] = &[
        (
            "nothing",
            "cat text.txt dir/sub/deep/c > /dev/null; ls -laR . > /dev/null",
        ),
        (
            "files",
            "echo four >> text.txt; rm bin; printf '\\000new' > bin2; chmod 644 run.sh; chmod +x closed; \
             echo b > many/7; rm many/9; ln -sf bin2 link; rm dangling; mkdir -p new/empty new/deep; echo n > new/deep/n",
        ),
        (
            "the same again",
            "cp text.txt t; cat t > text.txt; rm t; touch run.sh; chmod 700 closed; chmod 600 closed; \
             mv many/3 many/3x; mv many/3x many/3; cp -p bin b; mv b bin",
        ),
        (
            "swaps",
            "rm -rf sw; echo file > sw; rm text.txt; mkdir -p text.txt/in; echo x > text.txt/in/x; \
             rm link; mkdir link; rm dirlink; echo f > dirlink; rm -rf many; ln -s run.sh many; rm run.sh; ln -s bin run.sh",
        ),
        (
            "renames",
            "mv dir moved; mv text.txt moved/text.txt; mv empty emptier; mv many/1 many/one; mv link link2",
        ),
        (
            "folders made anew",
            "rm -rf dir; mkdir dir; echo a > dir/a; echo other > dir/other; mkdir -p dir/sub; rm -rf many; mkdir many; echo 5 > many/5; \
             rmdir empty; mkdir empty; chmod 750 empty",
        ),
        (
            "removals",
            "rm -rf dir many empty; rm -f \"$(printf 'odd\\377name')\" \"$(printf 'new\\nline')\" 'back\\slash'",
        ),
        (
            "odd names and bits",
            "printf y > \"$(printf 'odd\\377name')\"; printf z > \"$(printf '\\001\\033[2J')\"; echo q > 'back\\slash'; mkdir -p d0/in; echo i > d0/in/i; chmod 400 d0/in/i; chmod 500 d0/in; \
             echo s > suid; perl -e 'chmod 04755, q(suid); chmod 02777, q(dir)'; mkfifo fifo2; mkdir -p .wh.x; echo w > .wh.y; ln -s ../../../../etc/passwd out",
        ),
        (
            "deep",
            "d=.; for i in $(seq 270); do d=$d/d; mkdir $d; done; echo deep > $d/f",
        ),
        ("hidden names of its own", "sh own.sh"),
    ];

    #[test]
    fn an_overlay_and_a_copy_show_write_and_apply_the_same() {
        for account in Account::all() {
            for (name, command) in CHANGES {
                let sides = ["overlay", "copy"].map(|mode| {
                    let place = Place::of(account);
                    place.build(WORKSPACE);
                    let before = snapshot(&place.work());
                    let done = play(&place, mode, command);
                    assert!(
                        done.stderr.contains(&format!("{mode} of")),
                        "{name}: the start line says how: {done}"
                    );
                    assert!(
                        before == snapshot(&place.work()),
                        "{name} {mode}: untouched"
                    );
                    let session = done.session();
                    let mut listed = place.run(["diff", "--json", &session]).json();
                    listed["session"] = Value::Null;
                    let patch = place.root().join("out.patch");
                    let word = patch.display().to_string();
                    let patched = place.run(["diff", "--patch", &word, &session]);
                    assert_eq!(patched.code, Some(0), "{name} {mode}: {patched}");
                    let patch = std::fs::read(&patch).expect("written");
                    let applied = place.run(["apply", &session]);
                    assert_eq!(applied.code, Some(0), "{name} {mode}: {applied}");
                    let again = place.run(["apply", &session]);
                    // A folder that stays because something hidden lies in it is told again.
                    let again = again
                        .stderr
                        .split(" to ")
                        .next()
                        .unwrap_or_default()
                        .to_owned();
                    if !["renames", "removals"].contains(name) {
                        assert_eq!(again, "applied 0 change(s)", "{name} {mode}");
                    }
                    let after = snapshot(&place.work());
                    assert_eq!(place.run(["discard", &session]).code, Some(0));
                    // Only what a session leaves is looked for afterwards.
                    place.build("chmod -R u+rwX .; rm -f pipe");
                    (listed, patch, (after, again))
                });
                let [overlay, copy] = sides;
                let changes = |side: &Value| -> Vec<String> {
                    let all = side["changes"].as_array().into_iter().flatten();
                    all.map(Value::to_string).collect()
                };
                assert_eq!(changes(&overlay.0), changes(&copy.0), "{name}: the list");
                assert_eq!(overlay.0, copy.0, "{name}");
                assert!(overlay.1 == copy.1, "{name}: the patch");
                assert_eq!(overlay.2, copy.2, "{name}: what was applied");
                if !["nothing", "the same again", "hidden names of its own"].contains(name) {
                    assert!(!changes(&copy.0).is_empty(), "{name} changed something");
                }
            }
        }
    }

    const TRICKS: &str = r#"
        cat hidden.txt a/b/hidden.txt vault/v; ls vault; grep -r TOP .
        mv a/b a/c; cat a/c/hidden.txt; mv a z; cat z/c/hidden.txt z/b/hidden.txt
        rm -rf z a; mkdir -p a/b; cat a/b/hidden.txt
        echo own > a/b/hidden.txt; rm a/b/hidden.txt; cat a/b/hidden.txt; ln a/b/hidden.txt x; cat x
        mkdir vault; ls vault; rmdir vault; cat vault/v; mknod hidden.txt c 0 0; rm -f hidden.txt; cat hidden.txt
        cp -a . /tmp/all; grep -r TOP . /tmp/all
        setfattr -x user.overlay.opaque a; setfattr -x user.overlay.opaque a/b; cat a/b/hidden.txt; grep -r TOP .
        grep -q 'overlay' /proc/self/mountinfo && echo "an overlay it is"
        true
    "#;

    #[test]
    fn what_is_hidden_cannot_be_read_by_any_way_of_moving_things() {
        for account in Account::all() {
            let place = Place::of(account);
            place.build("mkdir -p a/b vault; echo TOPSECRET | tee hidden.txt a/b/hidden.txt vault/v > /dev/null; echo plain > a/b/plain");
            // The law refuses the names in a call's own text, so that the kernel's part alone is tried.
            place.write("work/try.sh", TRICKS);
            let command = "touch ready; sleep 2; sh try.sh";
            let policy = policy(&place, "overlay");
            let live = place.start_play(&script(&[vec![bash(command)]]), &["--policy", &policy]);
            let ready = || {
                let tree = place.tree(&place.session()?);
                tree.join("ready").exists().then_some(())
            };
            until("the command runs", Duration::from_secs(60), ready);
            // As editors save: the new file takes the place of the one that a mask might lie on.
            place.build("echo TOPSECRET2 > t; mv t hidden.txt; echo TOPSECRET2 > t; mv t a/b/hidden.txt; rm -r vault; mkdir vault; echo TOPSECRET2 > vault/v");
            let done = live.wait(Duration::from_secs(60));
            assert_eq!(done.code, Some(0), "{done}");
            let read = output(&place, &done.session());
            assert!(read.contains("an overlay it is"), "{read}");
            assert!(!read.contains("TOPSECRET"), "{read}");
            let ended = place.told(&done.session());
            assert!(
                ended
                    .iter()
                    .any(|entry| entry["kind"] == "outcome" && entry["ok"] == true),
                "{read}"
            );
            // And nothing of it is ever removed by what the session did around it.
            let applied = place.run(["apply", &done.session()]);
            assert_eq!(applied.code, Some(0), "{applied}");
            assert_eq!(
                place.read("work/a/b/hidden.txt").as_deref(),
                Some("TOPSECRET2\n")
            );
            assert_eq!(place.read("work/vault/v").as_deref(), Some("TOPSECRET2\n"));
        }
    }

    #[test]
    fn a_folder_below_that_changes_meanwhile_stops_apply_before_the_first_write() {
        let place = Place::new();
        place.build("mkdir d; for f in a b c d/e; do echo 1 > $f; done");
        let done = play(
            &place,
            "overlay",
            "for f in a b d/e; do echo 2 > $f; done; rm c",
        );
        let session = done.session();
        for (change, named) in [
            ("echo other > b", "`b`"),
            ("echo 1 > t; mv t b; rm d/e", "`d/e`"),
            ("echo 1 > d/e; rm b; echo more > c", "`c`"),
        ] {
            place.build(change);
            let applied = place.run(["apply", &session]);
            assert_ne!(applied.code, Some(0), "{change}: {applied}");
            assert!(applied.stderr.contains(named), "{change}: {applied}");
            assert_eq!(place.read("work/a").as_deref(), Some("1\n"), "{change}");
        }
    }

    #[test]
    fn where_no_overlay_can_be_a_copy_is_made_and_says_so_unless_the_policy_wants_no_other() {
        if skipped(is_root(), "only root can give files away") {
            return;
        }
        let place = Place::new();
        place.build("echo a > a; echo b > b; chown 12345:12345 b");
        let done = place.play(&script(&[vec![bash("cat a b; echo c >> b")]]), &[]);
        assert_eq!(done.code, Some(0), "{done}");
        assert!(
            done.stderr.contains("a copy of 2 entries") && done.stderr.contains("12345"),
            "{done}"
        );
        assert!(place.tree(&done.session()).join("a").exists());
        let policy = policy(&place, "overlay");
        let refused = place.play(&script(&[]), &["--policy", &policy]);
        assert_eq!(refused.code, Some(77), "{refused}");
        assert!(
            refused.stderr.contains("12345") && refused.stderr.contains("copy"),
            "{refused}"
        );
    }

    #[test]
    fn git_works_inside_under_the_accounts_own_name() {
        let has_git = Path::new("/usr/bin/git").exists();
        if skipped(has_git, "git is not installed") {
            return;
        }
        for account in Account::all() {
            let place = Place::of(account);
            place.write("home/.gitconfig", "[user]\n\tname = Ada Byron\n\temail = ada@example.org\n[core]\n\thooksPath = /nowhere\n");
            place.build("git -c init.defaultBranch=main init -q; echo one > f; git add f; git -c user.name=x -c user.email=x@y commit -qm first");
            for mode in ["overlay", "copy"] {
                let command = "git status --short; echo two >> f; git diff --stat; git commit -qam second; git worktree add -q ../tree HEAD 2>&1 || git worktree add -q wt HEAD; \
                    git log --format='%an %ae %s' | head -1; git fsck --no-progress; git stash list; git status --short";
                let done = play(&place, mode, command);
                let read = output(&place, &done.session());
                assert!(
                    read.contains("Ada Byron ada@example.org second"),
                    "{mode}: {read}"
                );
                assert!(!read.contains("dubious"), "{mode}: {read}");
            }
        }
    }

    fn tools() -> String {
        script(&[
            vec![
                call("read_file", &json!({ "file_path": "a" })),
                call("read_file", &json!({ "file_path": "b" })),
            ],
            vec![call(
                "write_file",
                &json!({ "file_path": "a", "content": "A1\n" }),
            )],
            vec![call(
                "edit_file",
                &json!({ "file_path": "b", "old_string": "two", "new_string": "2" }),
            )],
            vec![call(
                "write_file",
                &json!({ "file_path": "new/n", "content": "n\n" }),
            )],
            vec![call("read_file", &json!({ "file_path": "a" }))],
            vec![call(
                "write_file",
                &json!({ "file_path": "a", "content": "A2\n" }),
            )],
        ])
    }

    /// Ids of the calls that wrote files, in order.
    fn writes(place: &Place, session: &str) -> Vec<String> {
        let told = place.told(session);
        let written = told
            .iter()
            .filter(|entry| entry["kind"] == "outcome" && entry.get("written").is_some());
        written
            .map(|entry| entry["call"].as_str().expect("an id").to_owned())
            .collect()
    }

    #[test]
    fn what_tools_changed_is_put_back_once_and_to_a_call() {
        for account in Account::all() {
            for mode in ["overlay", "copy"] {
                let place = Place::of(account);
                place.build("printf 'A0\\n' > a; printf 'one two\\n' > b; chmod 640 b");
                let policy = policy(&place, mode);
                let done = place.play(&tools(), &["--policy", &policy]);
                assert_eq!(done.code, Some(0), "{done}");
                let session = done.session();
                let calls = writes(&place, &session);
                assert_eq!(calls.len(), 4, "{done}");
                let tree = place.tree(&session);
                let read = |name: &str| std::fs::read_to_string(tree.join(name)).ok();
                assert_eq!(read("a").as_deref(), Some("A2\n"));

                let some = place.run(["undo", &session, "--to", &calls[2]]);
                assert_eq!(some.code, Some(0), "{some}");
                assert_eq!(read("a").as_deref(), Some("A1\n"), "{some}");
                assert_eq!(read("new/n").as_deref(), Some("n\n"));
                let unknown = place.run(["undo", &session, "--to", "nothing"]);
                assert_eq!(unknown.code, Some(64), "{unknown}");

                let all = place.run(["undo", &session]);
                assert_eq!(all.code, Some(0), "{all}");
                let now = std::fs::read_to_string(tree.join("a")).ok();
                assert_eq!(now.as_deref(), Some("A0\n"), "the rest goes as well: {all}");
            }
        }
    }

    #[test]
    fn undo_puts_all_back_is_recorded_and_does_nothing_twice() {
        for account in Account::all() {
            for mode in ["overlay", "copy"] {
                let place = Place::of(account);
                place.build("printf 'A0\\n' > a; printf 'one two\\n' > b; chmod 640 b");
                let policy = policy(&place, mode);
                let session = place.play(&tools(), &["--policy", &policy]).session();
                let undone = place.run(["undo", &session]);
                assert_eq!(undone.code, Some(0), "{undone}");
                assert!(undone.stderr.contains("put 3 file(s) back"), "{undone}");
                let listed = place.run(["diff", "--json", &session]).json();
                let left: Vec<_> = listed["changes"].as_array().into_iter().flatten().collect();
                assert!(
                    left.iter().all(|change| change["path"] == "new"),
                    "{mode}: only the empty folder is left: {listed}"
                );
                let again = place.run(["undo", &session]);
                assert!(again.stderr.contains("put 0 file(s) back"), "{again}");
                let told = place.told(&session);
                let kept = told.iter().filter(|entry| entry["what"] == "undone");
                assert_eq!(kept.count(), 2);
                assert_eq!(place.run(["audit", "verify", &session]).code, Some(0));
            }
        }
    }

    #[test]
    fn undo_stops_where_a_command_changed_the_file_afterwards() {
        for mode in ["overlay", "copy"] {
            let place = Place::new();
            place.build("echo A0 > a; echo B0 > b");
            let text = script(&[
                vec![
                    call("read_file", &json!({ "file_path": "a" })),
                    call("read_file", &json!({ "file_path": "b" })),
                ],
                vec![call(
                    "write_file",
                    &json!({ "file_path": "a", "content": "A1\n" }),
                )],
                vec![call(
                    "write_file",
                    &json!({ "file_path": "b", "content": "B1\n" }),
                )],
                vec![bash("echo more >> b")],
            ]);
            let policy = policy(&place, mode);
            let session = place.play(&text, &["--policy", &policy]).session();
            let undone = place.run(["undo", &session]);
            assert_eq!(undone.code, Some(1), "{undone}");
            assert!(undone.stderr.contains("`b`"), "{undone}");
            let tree = place.tree(&session);
            assert_eq!(
                std::fs::read_to_string(tree.join("a")).ok().as_deref(),
                Some("A1\n")
            );
        }
    }

    #[test]
    fn a_file_whose_old_content_cannot_be_kept_is_not_changed() {
        let place = Place::new();
        place.build("printf 'old\\n' > a");
        let digest = protocol::Digest::of(b"old\n");
        // Where its content belongs lies something else: keeping it fails as on a full disk.
        let folder = place.state().join("blobs");
        std::fs::create_dir_all(&folder).expect("made");
        let first: String = digest.as_str().chars().take(2).collect();
        std::fs::write(folder.join(&first), "").expect("written");
        let text = script(&[
            vec![call("read_file", &json!({ "file_path": "a" }))],
            vec![call(
                "write_file",
                &json!({ "file_path": "a", "content": "new\n" }),
            )],
            vec![call(
                "write_file",
                &json!({ "file_path": "b", "content": "new\n" }),
            )],
        ]);
        let done = place.play(&text, &[]);
        let read = output(&place, &done.session());
        assert!(read.contains("cannot be kept for undo"), "{read}");
        let tree = place.tree(&done.session());
        assert!(!tree.join("a").exists(), "it is as below: {read}");
        assert!(
            tree.join("b").exists(),
            "a new file needs nothing kept: {read}"
        );
        std::fs::remove_file(folder.join(first)).expect("removed");
    }

    #[test]
    fn a_discarded_overlay_leaves_neither_its_layer_nor_the_kernels_folder() {
        for account in Account::all() {
            let place = Place::of(account);
            place.build("mkdir d; echo a > d/a");
            let done = play(&place, "overlay", "rm -rf d; mkdir d; chmod 000 d");
            let folder = place.state().join("sessions").join(done.session());
            assert!(folder.join("work").is_dir(), "the kernel's folder");
            let discarded = place.run(["discard", &done.session()]);
            assert_eq!(discarded.code, Some(0), "{discarded}");
            assert!(!folder.join("tree").exists() && !folder.join("work").exists());
        }
    }

    #[test]
    fn a_session_that_was_cut_goes_on_in_its_overlay() {
        for account in Account::all() {
            let place = Place::of(account);
            place.build("echo a > a; echo b > b");
            let text = format!(
                "{}{}",
                script(&[vec![bash("echo 2 > a; rm b")]]),
                script(&[vec![bash("cat a; ls; echo 3 >> a")]])
            );
            let policy = policy(&place, "overlay");
            let session = place.play(&text, &["--policy", &policy]).session();
            let more = place.run(["resume", &session, "go on"]);
            assert_eq!(more.code, Some(0), "{more}");
            let applied = place.run(["apply", &session]);
            assert_eq!(applied.code, Some(0), "{applied}");
            assert_eq!(place.read("work/a").as_deref(), Some("2\n3\n"));
            assert_eq!(place.read("work/b"), None);
        }
    }
}
