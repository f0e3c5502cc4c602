//! Policy files: what they say, every fault with its place, and how layers meet.

use protocol::{Floor, Right};

use super::*;
use crate::{Decision, Mode, Settings};

fn source(layer: LayerName, text: &str) -> Source {
    Source {
        name: format!("{}.toml", layer.as_str()),
        text: text.into(),
        layer,
    }
}

fn nothing(_: &str) -> Option<Source> {
    None
}

fn one(text: &str) -> Result<Policy, Vec<Diagnostic>> {
    load(
        &[source(LayerName::User, &format!("version = 1\n{text}"))],
        &nothing,
    )
}

fn faults(text: &str) -> String {
    match one(text) {
        Ok(_) => "no fault".to_owned(),
        Err(faults) => faults
            .iter()
            .map(|fault| format!("{}\n", fault.rendered))
            .collect(),
    }
}

#[test]
fn the_shipped_profiles_load_and_their_examples_hold() {
    for name in PROFILES {
        let source = profile_source(name).expect("shipped");
        let policy = load(&[source], &nothing).unwrap_or_else(|faults| {
            panic!(
                "{}",
                faults
                    .iter()
                    .map(|f| format!("{}\n", f.rendered))
                    .collect::<String>()
            )
        });
        assert_eq!(policy.name, *name);
        for rule in policy.layers.iter().flat_map(|layer| &layer.rules) {
            assert!(
                !rule.examples.r#match.is_empty()
                    && (rule.command.is_empty() || !rule.examples.differ.is_empty())
            );
        }
    }
    assert_eq!(profile("DEFAULT"), None);
}

#[test]
fn every_setting_of_the_page_is_read() {
    let policy = one(r#"
name = "team"
extends = "default"
mode = "never"
[confinement]
backend = "landlock"
namespaces = "off"
workspace = "copy"
[confinement.rights]
"net.tcp" = "required"
"proc.see" = "preferred"
terminal = "off"
memory = "required"
devices = "off"
[filesystem]
read = ["/opt/tools"]
write = ["/var/cache/build"]
hide = [".env*", "./secrets"]
protect = ["migrations/**"]
[network]
allow = ["Example.com", "*.example.com", "api.test:8443"]
[limits]
memory = "1GiB"
processes = 64
cpu = 1.5
disk = "512 MiB"
wall = "1h30m"
output = "1MiB"
turns = 3
iterations = 7
cost_usd = 2.50
tokens = 100000
[models]
allow = ["anthropic/*"]
route = ["anthropic/claude-sonnet-5"]
[[database]]
name = "reservo"
path = "reservo.db"
max_rows = 3
tables = ["rooms"]
money = "Money is in cents (INTEGER)."
[[rule]]
id = "no-rm"
tool = "*"
path = ["secrets/**"]
verdict = "deny"
reason = "not ours"
"#)
    .unwrap_or_else(|faults| {
        panic!(
            "{}",
            faults
                .iter()
                .map(|f| f.rendered.clone())
                .collect::<String>()
        )
    });
    let settings = &policy.settings;
    assert_eq!((policy.name.as_str(), settings.mode), ("team", Mode::Never));
    assert!(!settings.confinement.namespaces);
    assert_eq!(settings.confinement.rights.len(), Right::ALL.len());
    assert_eq!(
        settings.confinement.rights[&Right::ProcSee],
        Floor::Preferred
    );
    assert_eq!(settings.confinement.rights[&Right::Terminal], Floor::Off);
    assert_eq!(settings.confinement.rights[&Right::Devices], Floor::Off);
    assert_eq!(settings.confinement.rights[&Right::Memory], Floor::Required);
    assert_eq!(
        settings.confinement.rights[&Right::Cpu],
        Right::Cpu.default_floor()
    );
    assert_eq!(settings.limits.cpu, Some(1.5));
    assert_eq!(
        settings.confinement.rights[&Right::FilesRead],
        Floor::Required
    );
    assert_eq!(settings.filesystem.hide, [".env*", "/secrets"]);
    assert_eq!(
        settings.network.allow,
        ["example.com", "*.example.com", "api.test:8443"]
    );
    assert_eq!(
        (settings.limits.memory, settings.limits.wall),
        (1 << 30, 5400)
    );
    assert_eq!(
        (settings.limits.cost_usd, settings.limits.tokens),
        (Some(2.5), Some(100_000))
    );
    assert_eq!((settings.limits.turns, settings.limits.iterations), (3, 7));
    assert_eq!(settings.models.route, ["anthropic/claude-sonnet-5"]);
    assert_eq!(
        policy.database("").map(|database| database.max_rows),
        Some(3)
    );
    // The profile's rules join the same layer.
    let [layer] = policy.layers.as_slice() else {
        panic!("one layer")
    };
    assert_eq!(layer.sources, ["user.toml", "built-in:default"]);
    assert!(layer.rules.iter().any(|rule| rule.id == "push-asks"));
    assert!(
        layer
            .rules
            .iter()
            .any(|rule| rule.id == "no-rm" && rule.at.starts_with("user.toml:4"))
    );
}

#[test]
fn a_fault_has_file_line_column_and_caret() {
    let text = faults("mode = \"onrequest\"\n[limits]\nmemroy = \"2GiB\"\n");
    assert_eq!(
        text,
        "user.toml:2:8: error: no mode is named `onrequest`\n   |\n 2 | mode = \"onrequest\"\n   |        ^^^^^^^^^^^\n   = help: did you mean `onRequest`?\n\
         user.toml:4:1: error: unknown key `memroy` in `[limits]`\n   |\n 4 | memroy = \"2GiB\"\n   | ^^^^^^\n   = help: did you mean `memory`?\n"
    );
}

#[test]
fn each_fault_is_told() {
    let rule = |body: &str| {
        format!("[[rule]]\nid = \"r\"\ntool = \"bash\"\nverdict = \"deny\"\nreason = \"x\"\n{body}")
    };
    let rows: Vec<(String, &str)> = vec![
        ("version = 2".into(), "not TOML"),
        ("x = 1".into(), "unknown key `x`"),
        (
            "mode = \"plan\"".into(),
            "plan mode is a person's choice for a session",
        ),
        (
            "mode = \"auto\"\n[granular]\nmcp = \"deny\"".into(),
            "unreachable: the mode is not granular",
        ),
        ("mode = 3".into(), "`mode` in a policy is a string"),
        (
            "extends = \"nowhere\"".into(),
            "no policy is named `nowhere`",
        ),
        (
            "[confinement]\nbackend = \"dokcer\"".into(),
            "did you mean `docker`?",
        ),
        (
            "[confinement]\nworkspace = \"overlai\"".into(),
            "no workspace is named `overlai`",
        ),
        ("[confinement]\nnamespaces = \"on\"".into(), "auto or off"),
        ("[confinement]\nimage = 3".into(), "`image`"),
        (
            "[confinement.rights]\n\"net.tpc\" = \"required\"".into(),
            "did you mean `net.tcp`?",
        ),
        (
            "[confinement.rights]\nexec = \"must\"".into(),
            "a right cannot be `must`",
        ),
        (
            "[limits]\ncpu = 5000".into(),
            "`cpu` is not a number of processors",
        ),
        (
            "[filesystem]\nhide = [\"..\"]".into(),
            "`..` leaves the place",
        ),
        (
            "[filesystem]\nhide = [\".\"]".into(),
            "would hide the workspace itself",
        ),
        (
            "[filesystem]\nhide = [\"**\"]".into(),
            "would hide the workspace itself",
        ),
        (
            "[filesystem]\nhide = [\"*\"]".into(),
            "would hide the workspace itself",
        ),
        (
            "[filesystem]\nhide = [\"~/.gnupg/**\"]".into(),
            "is outside the workspace",
        ),
        (
            "[filesystem]\nhide = [\"/etc/shadow\"]".into(),
            "is outside the workspace",
        ),
        ("[filesystem]\nhide = [\"!x\"]".into(), "cannot be negated"),
        (
            "[filesystem]\nread = [\"/\"]".into(),
            "the whole machine is not a view",
        ),
        (
            "[filesystem]\nread = [\"opt\"]".into(),
            "is not an absolute path",
        ),
        (
            "[filesystem]\nwrite = [\"/proc/x\"]".into(),
            "made fresh in every jail",
        ),
        ("[network]\nallow = [\"https://x\"]".into(), "is not a host"),
        (
            "[limits]\nmemory = 5".into(),
            "`memory` in `[limits]` is a string",
        ),
        ("[limits]\nmemory = \"5\"".into(), "is not a size"),
        ("[limits]\nmemory = \"5KiB\"".into(), "too small"),
        ("[limits]\nwall = \"soon\"".into(), "is not a time"),
        ("[limits]\nturns = 0".into(), "a whole number above zero"),
        ("[limits]\ncost_usd = -1".into(), "a number above zero"),
        (
            "[models]\nroute = [\"sonnet\"]".into(),
            "write PROVIDER/MODEL",
        ),
        (
            "[models]\nallow = [\"a/*\"]\nroute = [\"b/x\"]".into(),
            "no model of the route is allowed",
        ),
        (
            "[[database]]\nname = \"a b\"\npath = \"x\"".into(),
            "is not a database's name",
        ),
        (
            "[[database]]\nname = \"a\"".into(),
            "a database has a `path`",
        ),
        (
            "[[database]]\nname=\"a\"\npath=\"x\"\n[[database]]\nname=\"a\"\npath=\"y\"".into(),
            "declared twice",
        ),
        ("[database]\nname = \"a\"".into(), "write `[[database]]`"),
        ("[[rule]]\nid = \"r\"".into(), "a rule has `tool`"),
        (rule("verdct = 1"), "did you mean `verdict`?"),
        (rule("").replace("deny", "denie"), "did you mean `deny`?"),
        (rule("").replace("bash", "bsh"), "did you mean `bash`?"),
        (
            rule("").replace("\"r\"", "\"Bad Id\""),
            "is not a rule's id",
        ),
        (
            rule("").replace("\"r\"", "\"credential-material\""),
            "is taken by the law itself",
        ),
        (
            rule("").replace("\"x\"", "\"a\\u202eb\""),
            "cannot be shown",
        ),
        (rule("command = []"), "would match nothing"),
        (rule("command = [\"git *\"]"), "leave `*` out"),
        (
            rule("command = [\"a | b\"]"),
            "one program and its first arguments",
        ),
        (rule("command = [\"a 'b\"]"), "a quote is not closed"),
        (rule("command = [\"\"]"), "begins with a program"),
        (
            rule("command = [\"a\"]\npath = [\"b\"]"),
            "a rule has one condition",
        ),
        (rule("path = [\"a{b,c}\"]"), "has no meaning in a pattern"),
        (
            rule("table = [\"t\"]"),
            "unreachable: `bash` is never judged by `table`",
        ),
        (
            rule("path = [\"secrets/**\"]"),
            "not enforceable for commands: `secrets/**` is in the view",
        ),
        (rule("path = [\"~/.gnupg/**\"]"), "is outside the workspace"),
        (
            rule("path = [\"/etc/hosts\"]").replace("bash", "read_file"),
            "is outside the workspace",
        ),
    ];
    for (text, wanted) in rows {
        let told = faults(&text);
        assert!(
            told.contains(wanted),
            "{text}\n--- wanted {wanted}\n--- told {told}"
        );
        assert!(told.contains(": error: ") && told.contains('^'), "{told}");
    }
}

#[test]
fn rules_are_checked_together() {
    let rule = |id: &str, tool: &str, condition: &str, verdict: &str| {
        format!(
            "[[rule]]\nid = \"{id}\"\ntool = \"{tool}\"\n{condition}\nverdict = \"{verdict}\"\nreason = \"x\"\n"
        )
    };
    let push = "command = [\"git push\"]";
    let git = "command = [\"git\"]";
    let rows = [
        (
            rule("a", "bash", push, "deny") + &rule("a", "bash", git, "ask"),
            "a second rule has the id `a`",
        ),
        (
            rule("a", "bash", push, "ask") + &rule("b", "bash", push, "ask"),
            "says the same",
        ),
        (
            rule("a", "bash", push, "ask") + &rule("b", "bash", push, "deny"),
            "denies all that it could match",
        ),
        (
            rule("a", "bash", git, "deny") + &rule("b", "bash", push, "allow"),
            "denies all that it could match",
        ),
        (
            rule("a", "bash", push, "allow") + &rule("b", "bash", push, "ask"),
            "matches the same and is stricter",
        ),
        (
            rule("a", "*", "", "deny") + &rule("b", "write_file", "path = [\"x\"]", "ask"),
            "denies all",
        ),
    ];
    for (text, wanted) in rows {
        let told = faults(&text);
        assert!(told.contains(wanted), "{text}\n{told}");
    }
    // More specific words are reachable.
    let fine = rule("a", "bash", git, "ask")
        + &rule("b", "bash", "command = [\"git log\"]", "allow")
        + &rule("c", "bash", push, "deny");
    assert_eq!(faults(&fine), "no fault");
}

#[test]
fn examples_are_held_to() {
    let rule = |examples: &str| {
        format!(
            "[[rule]]\nid = \"a\"\ntool = \"bash\"\ncommand = [\"git push\"]\nverdict = \"deny\"\nreason = \"x\"\nexamples = {examples}\n"
        )
    };
    assert_eq!(
        faults(&rule(
            "{ match = [\"cd x && git push\"], differ = [\"git pull\"] }"
        )),
        "no fault"
    );
    let told = faults(&rule(
        "{ match = [\"git pull\"], differ = [\"git -C x push\"] }",
    ));
    assert!(
        told.contains("8:23: error: this example must match and does not"),
        "{told}"
    );
    assert!(
        told.contains("this example must not match and does"),
        "{told}"
    );
    let told = faults(&rule("{ match = [\"git push 'x\"] }"));
    assert!(told.contains("this example cannot be read"), "{told}");
    let path = "[[rule]]\nid = \"a\"\ntool = \"write_file\"\npath = [\"migrations/**\"]\nverdict = \"deny\"\nreason = \"x\"\nexamples = { match = [\"migrations/1.sql\"], differ = [\"src/migrations.rs\"] }\n";
    assert_eq!(faults(path), "no fault");
    let table = "[[rule]]\nid = \"a\"\ntool = \"run_sql\"\ntable = [\"payments\"]\nverdict = \"deny\"\nreason = \"x\"\nexamples = { match = [\"payments\", \"SELECT 1 FROM Payments\"], differ = [\"rooms\"] }\n";
    assert_eq!(faults(table), "no fault");
    let host = "[[rule]]\nid = \"a\"\ntool = \"bash\"\nhost = [\"*.evil.test\"]\nverdict = \"deny\"\nreason = \"x\"\nexamples = { match = [\"a.evil.test\", \"curl https://b.evil.test/x\"], differ = [\"evil.test.org\"] }\n";
    assert_eq!(faults(host), "no fault");
}

#[test]
fn a_read_denial_is_projected_or_refused() {
    let rule = "[[rule]]\nid = \"a\"\ntool = \"read_file\"\npath = [\"secrets/**\"]\nverdict = \"deny\"\nreason = \"x\"\n";
    assert!(faults(rule).contains("add it to [filesystem] hide"));
    for hide in ["secrets", "secrets/**", "./secrets", "**/secrets"] {
        assert_eq!(
            faults(&format!("[filesystem]\nhide = [\"{hide}\"]\n{rule}")),
            "no fault",
            "{hide}"
        );
    }
    assert!(
        faults(&format!("[filesystem]\nhide = [\"secrets/*.pem\"]\n{rule}"))
            .contains("in the view")
    );
}

#[test]
fn a_workspace_can_only_tighten() {
    let project = |text: &str| {
        let user = "version = 1\nmode = \"onRequest\"\n[network]\nallow = [\"*.example.com\"]\n[limits]\nwall = \"10m\"\n[confinement.rights]\nterminal = \"off\"\n";
        load(
            &[
                source(LayerName::Project, &format!("version = 1\n{text}")),
                source(LayerName::User, user),
            ],
            &nothing,
        )
    };
    let refused = [
        "extends = \"default\"",
        "mode = \"bypass\"",
        "[models]\nroute = [\"a/b\"]",
        "[[database]]\nname = \"a\"\npath = \"b\"",
        "[filesystem]\nread = [\"/opt\"]",
        "[filesystem]\nwrite = [\"/opt\"]",
        "[confinement]\nnamespaces = \"off\"",
        "[confinement]\nworkspace = \"copy\"",
        "[[rule]]\nid = \"a\"\ntool = \"bash\"\nverdict = \"allow\"\nreason = \"x\"",
    ];
    for text in refused {
        let told = project(text).expect_err(text);
        assert!(
            told.iter()
                .any(|fault| fault.file == "project.toml" && fault.line > 1),
            "{told:?}"
        );
    }
    let policy = project(
        "mode = \"never\"\n[network]\nallow = [\"git.example.com\", \"evil.test\"]\n[limits]\nwall = \"2h\"\nturns = 2\n[confinement.rights]\nterminal = \"preferred\"\nexec = \"off\"\n[filesystem]\nhide = [\"x\"]\n",
    )
    .expect("loads");
    let settings = policy.settings;
    assert_eq!(settings.mode, Mode::Never);
    assert_eq!(settings.network.allow, ["git.example.com"]);
    assert_eq!((settings.limits.wall, settings.limits.turns), (600, 2));
    assert_eq!(
        settings.confinement.rights[&Right::Terminal],
        Floor::Preferred
    );
    // Where the user said nothing, the workspace tightens the default and not its absence.
    assert_eq!(settings.confinement.rights[&Right::Exec], Floor::Required);
    let alone = load(
        &[source(
            LayerName::Project,
            "version = 1\nmode = \"onRequest\"\n[network]\nallow = [\"evil.test\"]\n[limits]\nwall = \"20h\"\nmemory = \"64GiB\"\n[confinement.rights]\nexec = \"off\"\n",
        )],
        &nothing,
    )
    .expect("loads");
    assert_eq!(alone.settings, Settings::default());
    assert_eq!(settings.filesystem.hide, ["x"]);
}

#[test]
fn chains_are_bounded_and_circles_refused() {
    let find = |name: &str| {
        let number: usize = name.strip_prefix('p')?.parse().ok()?;
        let text = format!("version = 1\nextends = \"p{}\"\n", (number + 1) % 30);
        Some(Source {
            name: name.into(),
            text,
            layer: LayerName::User,
        })
    };
    let start = Source {
        name: "p0".into(),
        text: "version = 1\nextends = \"p1\"\n".into(),
        layer: LayerName::User,
    };
    let told = load(&[start], &find).expect_err("too deep");
    assert!(
        told.iter()
            .any(|fault| fault.message.contains("more than 8 files")),
        "{told:?}"
    );
    let find = |_: &str| {
        Some(Source {
            name: "b".into(),
            text: "version = 1\nextends = \"a\"\n".into(),
            layer: LayerName::User,
        })
    };
    let start = Source {
        name: "a".into(),
        text: "version = 1\nextends = \"b\"\n".into(),
        layer: LayerName::User,
    };
    let told = load(&[start], &find).expect_err("circle");
    assert!(
        told.iter()
            .any(|fault| fault.message.contains("extends itself")),
        "{told:?}"
    );
}

#[test]
fn a_hostile_file_is_a_fault_and_no_more() {
    let deep = format!("x = {}{}", "[".repeat(5_000), "]".repeat(5_000));
    let long = format!("name = \"{}\"", "x".repeat(2_000_000));
    for text in [
        "\u{0}",
        "[",
        "a = ",
        "version = 99999999999999999999",
        &deep,
        &long,
        "\u{feff}mode = 1",
    ] {
        assert!(load(&[source(LayerName::Project, text)], &nothing).is_err());
    }
}

#[test]
fn the_digest_names_the_whole_policy() {
    let digest = |text: &str| one(text).expect("loads").digest();
    assert_eq!(digest("mode = \"never\""), digest("mode = \"never\""));
    assert_ne!(digest("mode = \"never\""), digest("mode = \"onRequest\""));
    let policy = one("mode = \"never\"").expect("loads");
    let json = serde_json::to_string(&policy).expect("writes");
    assert_eq!(
        serde_json::from_str::<Policy>(&json).expect("reads"),
        policy
    );
    assert_ne!(Decision::Allow, Decision::Deny);
}

#[test]
fn a_granular_mode_has_a_switch_for_each_category() {
    use crate::{Category, Granular, Mode, Switch};
    let policy = one("mode = \"granular\"\n[granular]\nnetwork = \"deny\"\nsandbox = \"ask\"\n")
        .expect("loads");
    let wanted = Granular::default().with(Category::Network, Switch::Deny);
    assert_eq!(policy.settings.mode, Mode::Granular(wanted));
    let plain = one("mode = \"granular\"").expect("loads");
    assert_eq!(plain.settings.mode, Mode::Granular(Granular::default()));
    assert!(
        faults("mode = \"granular\"\n[granular]\nnet = \"deny\"").contains("unknown key `net`")
    );
    assert!(
        faults("mode = \"granular\"\n[granular]\nmcp = \"allow\"")
            .contains("no mcp is named `allow`")
    );
}

#[test]
fn modes_of_two_layers_meet_or_clash() {
    use crate::Mode;
    let nothing = |_: &str| None;
    let of = |organisation: &str, user: &str| {
        let text = |mode: &str| format!("version = 1\nmode = \"{mode}\"\n");
        load(
            &[
                source(LayerName::Organisation, &text(organisation)),
                source(LayerName::User, &text(user)),
            ],
            &nothing,
        )
        .map(|policy| policy.settings.mode)
    };
    assert_eq!(of("onRequest", "bypass").ok(), Some(Mode::OnRequest));
    assert_eq!(of("never", "auto").ok(), Some(Mode::Never));
    assert_eq!(of("bypass", "auto").ok(), Some(Mode::Auto));
    let clash = of("auto", "onRequest").expect_err("clash");
    assert!(
        clash
            .iter()
            .any(|fault| fault.message.contains("do not compare"))
    );
    let ceiling = |text: &str| {
        mode_ceiling(
            &source(LayerName::Organisation, &format!("version = 1\n{text}")),
            &nothing,
        )
        .expect("loads")
    };
    assert_eq!(ceiling("mode = \"onRequest\""), Mode::OnRequest);
    assert_eq!(ceiling(""), Mode::Bypass);
}

#[test]
fn a_sub_agents_layer_binds_beside_its_parents() {
    let user = source(LayerName::User, "version = 1\nmode = \"onRequest\"\n");
    let rule = |id: &str, path: &str| {
        format!(
            "[[rule]]\nid = \"{id}\"\ntool = \"write_file\"\npath = [\"{path}\"]\nverdict = \"deny\"\nreason = \"x\"\n"
        )
    };
    let session = source(
        LayerName::Session,
        &format!("version = 1\n{}", rule("of-session", "a/**")),
    );
    let child = source(
        LayerName::SubAgent,
        &format!(
            "version = 1\nmode = \"never\"\n{}",
            rule("of-child", "b/**")
        ),
    );
    let policy = load(&[user.clone(), session, child], &|_| None).expect("loads");
    assert_eq!(policy.settings.mode, crate::Mode::Never);
    let ids: Vec<&str> = policy
        .layers
        .iter()
        .flat_map(|layer| &layer.rules)
        .map(|rule| rule.id.as_str())
        .collect();
    assert_eq!(ids, ["of-session", "of-child"]);
    let lax = source(LayerName::SubAgent, "version = 1\nmode = \"bypass\"\n");
    assert!(load(&[user, lax], &|_| None).is_err());
}
