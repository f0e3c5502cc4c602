//! The laws of the algebra, held for made-up policies and lines.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use policies::{
    Action, CommandPattern, Decision, Examples, Facts, FileAccess, FileVerb, Layer, LayerName,
    Mode, Policy, Rule, Run, ViewPath, evaluate::evaluate, shell, tools::Tool,
};
use proptest::prelude::*;

fn facts() -> Facts {
    Facts {
        workspace: "/srv/app".into(),
        home: "/home/u".into(),
        system: vec!["/usr".into()],
        interactive: true,
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
        Just(LayerName::Session)
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
    fn what_never_allows_on_request_allows_and_what_that_allows_bypass_does(policy in policy(), action in action()) {
        let [ask, bypass, never] = Mode::ALL.map(|mode| judge(&policy, mode, &action));
        if never == Decision::Allow { prop_assert_eq!(ask, Decision::Allow); }
        if ask == Decision::Allow { prop_assert_eq!(bypass, Decision::Allow); }
        if ask == Decision::Deny { prop_assert_eq!(bypass, Decision::Deny); }
        prop_assert!(never != Decision::Ask && bypass != Decision::Ask);
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
