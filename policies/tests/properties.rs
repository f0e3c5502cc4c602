//! The laws of the algebra, held for made-up policies and lines.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use policies::{
    Action, Category, CommandPattern, Decision, Examples, Facts, FileAccess, FileVerb, Granular,
    Layer, LayerName, Mode, Policy, Rule, Run, Switch, ViewPath, WorkspaceMode,
    evaluate::{evaluate, evaluate_planning},
    parse::{Source, load},
    shell, suggest,
    tools::Tool,
};
use proptest::prelude::*;

fn facts() -> Facts {
    Facts {
        workspace: "/srv/app".into(),
        home: "/home/u".into(),
        system: vec!["/usr".into()],
        interactive: true,
        tree: None,
    }
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        Just(Decision::Allow),
        Just(Decision::Ask),
        Just(Decision::Deny)
    ]
}

fn pattern() -> impl Strategy<Value = CommandPattern> {
    let program = prop_oneof![
        Just("git"),
        Just("rm"),
        Just("ls"),
        Just("cat"),
        Just("npm")
    ];
    let words = prop::collection::vec(
        prop_oneof![
            Just("push"),
            Just("log"),
            Just("-f"),
            Just("-rf"),
            Just("x"),
            Just("--force")
        ],
        0..3,
    );
    (program, words).prop_map(|(program, words)| {
        CommandPattern(
            std::iter::once(program)
                .chain(words)
                .map(str::to_owned)
                .collect(),
        )
    })
}

fn glob() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("src/**"),
        Just("src/a/*.rs"),
        Just("*.env"),
        Just("migrations"),
        Just("/tmp/**"),
        Just("~/x")
    ]
    .prop_map(str::to_owned)
}

fn rule() -> impl Strategy<Value = Rule> {
    let condition = prop_oneof![
        2 => prop::collection::vec(pattern(), 1..3).prop_map(|list| (list, Vec::new())),
        1 => prop::collection::vec(glob(), 1..3).prop_map(|list| (Vec::new(), list)),
        1 => Just((Vec::new(), Vec::new())),
    ];
    (0..1_000_u32, condition, decision(), any::<bool>()).prop_map(
        |(id, (command, path), verdict, any)| {
            let tool = match (any, command.is_empty()) {
                (true, _) => "*",
                (false, false) => "bash",
                (false, true) => "write_file",
            };
            Rule {
                id: format!("r{id}"),
                at: "p.toml:1".into(),
                tool: tool.into(),
                command,
                path,
                host: vec![],
                table: vec![],
                mcp: vec![],
                verdict,
                reason: "x".into(),
                instead: None,
                examples: Examples::default(),
            }
        },
    )
}

fn layer_name() -> impl Strategy<Value = LayerName> {
    prop_oneof![
        Just(LayerName::Organisation),
        Just(LayerName::User),
        Just(LayerName::Session),
        Just(LayerName::SubAgent)
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop::collection::vec((layer_name(), prop::collection::vec(rule(), 0..6)), 0..3).prop_map(
        |layers| {
            let mut policy = Policy::plain();
            for (name, rules) in layers {
                match policy.layers.iter_mut().find(|layer| layer.name == name) {
                    Some(layer) => layer.rules.extend(rules),
                    None => policy.layers.push(Layer {
                        name,
                        sources: vec![],
                        rules,
                    }),
                }
            }
            policy
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let word = prop_oneof![
        Just("git"),
        Just("rm"),
        Just("ls"),
        Just("cat"),
        Just("push"),
        Just("log"),
        Just("-rf"),
        Just("-f"),
        Just("x"),
        Just("src/a/b.rs"),
        Just("$X"),
        Just(";"),
        Just("&&"),
        Just("|"),
        Just("> src/o"),
        Just("$(git push)"),
        Just("'q"),
        Just("*.rs"),
        Just("env"),
        Just(".env"),
        Just("npm")
    ];
    let line = prop::collection::vec(word, 1..9).prop_map(|words| {
        let line = words.join(" ");
        Action::Run(Run {
            reading: shell::read(&line),
            line,
            timeout_s: 1,
            background: false,
            stdin: None,
        })
    });
    let path = prop_oneof![
        Just("src/a/b.rs"),
        Just("x.env"),
        Just("migrations/1"),
        Just("/tmp/x/y"),
        Just("/opt/z"),
        Just("~/x")
    ];
    let file = (path, any::<bool>()).prop_map(|(path, read)| {
        let path = ViewPath::new(path, "/srv/app", "/home/u").expect("valid");
        let place = facts().place(&path);
        let (tool, verb) = if read {
            (Tool::ReadFile, FileVerb::Read)
        } else {
            (Tool::WriteFile, FileVerb::Write)
        };
        Action::File(FileAccess {
            tool,
            verb,
            path,
            place,
        })
    });
    prop_oneof![4 => line, 1 => file]
}

/// A policy file without rules.
fn settings() -> impl Strategy<Value = String> {
    let maybe = |values: &'static [&'static str]| prop::option::of(prop::sample::select(values));
    let mode = maybe(&[
        "never",
        "onRequest",
        "acceptEdits",
        "auto",
        "granular",
        "bypass",
    ]);
    let wall = maybe(&["1m", "30m", "5h"]);
    let memory = maybe(&["64MiB", "2GiB", "9GiB"]);
    let floor = maybe(&["off", "preferred", "required"]);
    let hosts = prop::option::of(prop::collection::vec(
        prop::sample::select(&["a.test", "*.a.test", "x.a.test", "b.test"][..]),
        0..3,
    ));
    let hide = maybe(&["x", "*.pem", "./keys"]);
    (
        mode,
        wall,
        memory,
        floor,
        hosts,
        hide,
        prop::option::of(1..200_u32),
    )
        .prop_map(|(mode, wall, memory, floor, hosts, hide, turns)| {
            let mut text = "version = 1\n".to_owned();
            if let Some(mode) = mode {
                text += &format!("mode = \"{mode}\"\n");
            }
            text += "[limits]\n";
            if let Some(wall) = wall {
                text += &format!("wall = \"{wall}\"\n");
            }
            if let Some(memory) = memory {
                text += &format!("memory = \"{memory}\"\n");
            }
            if let Some(turns) = turns {
                text += &format!("turns = {turns}\n");
            }
            if let Some(floor) = floor {
                text += &format!("[confinement.rights]\nexec = \"{floor}\"\n");
            }
            if let Some(hosts) = hosts {
                text += &format!("[network]\nallow = {hosts:?}\n");
            }
            if let Some(hide) = hide {
                text += &format!("[filesystem]\nhide = [\"{hide}\"]\n");
            }
            text
        })
}

fn granular(bits: u8) -> Mode {
    let denied = Category::ALL
        .into_iter()
        .enumerate()
        .filter(|(at, _)| bits & (1 << at) != 0);
    Mode::Granular(denied.fold(Granular::default(), |all, (_, category)| {
        all.with(category, Switch::Deny)
    }))
}

fn judge(policy: &Policy, mode: Mode, action: &Action) -> Decision {
    evaluate(policy, mode, action, &facts()).decision
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_rules_and_layers_never_matters(policy in policy(), action in action(), turn in 0..7_usize) {
        let mut other = policy.clone();
        other.layers.reverse();
        for layer in &mut other.layers {
            layer.rules.reverse();
            let by = turn.min(layer.rules.len());
            layer.rules.rotate_left(by);
        }
        prop_assert_eq!(
            judge(&policy, Mode::OnRequest, &action),
            judge(&other, Mode::OnRequest, &action)
        );
    }

    #[test]
    fn adding_a_rule_that_denies_or_asks_never_allows_more(
        policy in policy(), action in action(), mut new in rule(), name in layer_name(), ask in any::<bool>()
    ) {
        new.verdict = if ask { Decision::Ask } else { Decision::Deny };
        let mut tighter = policy.clone();
        match tighter.layers.iter_mut().find(|layer| layer.name == name) {
            Some(layer) => layer.rules.push(new),
            None => tighter.layers.push(Layer { name, sources: vec![], rules: vec![new] }),
        }
        for mode in Mode::ALL {
            let (before, after) = (judge(&policy, mode, &action), judge(&tighter, mode, &action));
            prop_assert!(after >= before, "{:?} {:?}", before, after);
        }
    }

    #[test]
    fn a_whole_layer_more_only_tightens(
        policy in policy(), action in action(), rules in prop::collection::vec(rule(), 0..6)
    ) {
        let mut tighter = policy.clone();
        tighter.layers.push(Layer { name: LayerName::Project, sources: vec![], rules });
        let spoke = |policy: &Policy| judge(policy, Mode::OnRequest, &action);
        prop_assert!(spoke(&tighter) >= spoke(&policy));
    }

    #[test]
    fn a_laxer_mode_allows_whatever_a_stricter_one_does(
        policy in policy(), action in action(), direct in any::<bool>(), bits in 0..64_u8
    ) {
        let mut policy = policy;
        if direct { policy.settings.confinement.workspace = Some(WorkspaceMode::Direct); }
        let mut modes = Mode::ALL.to_vec();
        modes.push(granular(bits));
        let judged: Vec<(Mode, Decision)> = modes.iter().map(|&mode| (mode, judge(&policy, mode, &action))).collect();
        for &(a, low) in &judged {
            for &(b, high) in &judged {
                if a.at_most(b) && low == Decision::Allow { prop_assert_eq!(high, Decision::Allow, "{:?} {:?}", a, b); }
                // What a rule or the safety check denies is denied in every mode.
                if a == Mode::OnRequest && low == Decision::Deny { prop_assert_eq!(high, Decision::Deny, "{:?}", b); }
            }
            if matches!(a, Mode::Never | Mode::Bypass) { prop_assert_ne!(low, Decision::Ask); }
        }
    }

    #[test]
    fn a_deny_wins_over_everything(policy in policy(), action in action(), name in layer_name(), allow in rule()) {
        let mut all = allow.clone();
        all.id = "all".into();
        (all.tool, all.command, all.path, all.verdict) = ("*".into(), vec![], vec![], Decision::Deny);
        let mut denied = policy.clone();
        denied.layers.push(Layer { name, sources: vec![], rules: vec![all] });
        for mode in Mode::ALL {
            prop_assert_eq!(judge(&denied, mode, &action), Decision::Deny);
        }
        // And an allow, of whatever layer, never turns a deny into anything else.
        let mut allow = allow;
        allow.verdict = Decision::Allow;
        let mut wider = policy.clone();
        wider.layers.push(Layer { name, sources: vec![], rules: vec![allow] });
        if judge(&policy, Mode::OnRequest, &action) == Decision::Deny {
            prop_assert_eq!(judge(&wider, Mode::OnRequest, &action), Decision::Deny);
        }
    }

    #[test]
    fn a_suggested_rule_matches_its_own_action_and_lowers_no_deny(policy in policy(), action in action(), other in action()) {
        let found = suggest::suggest(&policy, Mode::OnRequest, std::slice::from_ref(&action), &facts());
        let mut wider = policy.clone();
        suggest::add(&mut wider, &found.rules);
        if !found.rules.is_empty() {
            prop_assert_eq!(judge(&policy, Mode::OnRequest, &action), Decision::Ask);
            prop_assert_eq!(judge(&wider, Mode::OnRequest, &action), Decision::Allow);
        }
        if judge(&policy, Mode::OnRequest, &other) == Decision::Deny {
            prop_assert_eq!(judge(&wider, Mode::OnRequest, &other), Decision::Deny);
        }
    }

    #[test]
    fn plan_mode_only_tightens_and_allows_reads_only(policy in policy(), action in action()) {
        for mode in Mode::ALL {
            let planned = evaluate_planning(&policy, mode, &action, &facts()).decision;
            prop_assert!(planned >= judge(&policy, mode, &action));
            if planned == Decision::Allow {
                match &action {
                    Action::Run(run) => prop_assert!(run.reading.doubt.is_none() && run.reading.simples.iter().all(shell::is_proven_read)),
                    Action::File(access) => prop_assert_eq!(access.verb, FileVerb::Read),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn the_whole_is_the_strictest_part_and_a_doubt_is_never_allowed(policy in policy(), action in action()) {
        for mode in Mode::ALL {
            let verdict = evaluate(&policy, mode, &action, &facts());
            let worst = verdict.parts.iter().map(|part| part.decision).max();
            prop_assert!(worst.is_none_or(|worst| worst <= verdict.decision));
            if let Action::Run(run) = &action
                && run.reading.doubt.is_some()
            {
                prop_assert_ne!(verdict.decision, Decision::Allow);
            }
        }
    }

    #[test]
    fn a_workspaces_settings_only_tighten(user in settings(), project in settings()) {
        let source = |layer: LayerName, text: &str| Source { name: layer.as_str().into(), text: text.into(), layer };
        let alone = load(&[source(LayerName::User, &user)], &|_| None).expect("loads").settings;
        let project = project.replace("\"bypass\"", "\"never\"").replace("\"acceptEdits\"", "\"onRequest\"").replace("\"auto\"", "\"granular\"");
        let both = [source(LayerName::User, &user), source(LayerName::Project, &project)];
        let met = load(&both, &|_| None).expect("loads").settings;
        prop_assert!(met.mode.at_most(alone.mode));
        prop_assert!(met.limits.wall <= alone.limits.wall && met.limits.memory <= alone.limits.memory);
        prop_assert!(met.limits.turns <= alone.limits.turns);
        for (right, floor) in &met.confinement.rights {
            prop_assert!(floor >= &alone.confinement.rights[right]);
        }
        for host in &met.network.allow {
            let outer = |allowed: &String| host == allowed || allowed.strip_prefix('*').is_some_and(|end| host.ends_with(end));
            prop_assert!(alone.network.allow.iter().any(outer), "{host}");
        }
        prop_assert!(alone.filesystem.hide.iter().all(|glob| met.filesystem.hide.contains(glob)));
    }

    #[test]
    fn no_line_makes_the_law_panic(line in "(?s).{0,200}", shellish in "[a-z $(){}<>|&;'\"`\\\\/.~*=\n-]{0,200}") {
        for line in [line, shellish] {
            let action = Action::Run(Run { reading: shell::read(&line), line, timeout_s: 1, background: false, stdin: None });
            let _ = judge(&Policy::plain(), Mode::OnRequest, &action);
        }
    }

    #[test]
    fn no_text_makes_a_policy_file_panic(text in "(?s).{0,400}", keys in "[a-z=\\[\\]\"{}., \n]{0,400}") {
        for text in [text, format!("version = 1\n{keys}")] {
            let source = policies::parse::Source { name: "p".into(), text, layer: LayerName::Project };
            let _ = policies::parse::load(&[source], &|_| None);
        }
    }

    #[test]
    fn no_query_makes_the_reader_panic(query in "(?s).{0,200}", marks in "['\"`;\\-/*\\[\\] a-z]{0,100}") {
        for query in [query, marks] {
            let _ = policies::sql::check(&query);
            let _ = policies::sql::tables(&query);
        }
    }
}
