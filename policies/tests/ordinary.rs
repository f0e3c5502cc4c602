//! Ordinary lines of a developer's day raise no question under the shipped default profile: a law
//! that asks about them is soon answered without being read.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;

use policies::{
    Decision, Facts, Mode, Policy, Verdict,
    evaluate::evaluate,
    normalise::normalise,
    parse::{load, profile_source},
};
use protocol::{CallId, call::Call};
use serde_json::json;

const LINES: &str = include_str!("corpus/ordinary.txt");

fn lines() -> impl Iterator<Item = String> {
    LINES.lines().map(|line| line.replace('␤', "\n"))
}

fn shipped(name: &str) -> Policy {
    let source = profile_source(name).expect("shipped");
    load(&[source], &|_| None).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn judged(policy: &Policy, mode: Mode, line: &str) -> Verdict {
    let facts = Facts {
        workspace: "/srv/app".into(),
        home: "/home/u".into(),
        system: policies::project::SYSTEM
            .iter()
            .map(|path| (*path).to_owned())
            .collect(),
        interactive: true,
        tree: None,
    };
    let call = Call {
        id: CallId::parse("c1").expect("valid"),
        tool: "bash".to_owned(),
        input: json!({ "command": line }),
        prepared: None,
    };
    let action = normalise(&call, &facts).expect("an action");
    evaluate(policy, mode, &action, &facts)
}

#[test]
fn ordinary_lines_ask_nothing() {
    let policy = shipped("default");
    let asked: Vec<String> = lines()
        .map(|line| (judged(&policy, Mode::OnRequest, &line), line))
        .filter(|(verdict, _)| verdict.decision != Decision::Allow)
        .map(|(verdict, line)| format!("{line:?}: {:?}, {}", verdict.decision, verdict.reason))
        .collect();
    assert!(
        asked.is_empty(),
        "{} asked:\n{}",
        asked.len(),
        asked.join("\n")
    );
}

#[test]
fn ordinary_lines_are_allowed_where_nobody_is_asked() {
    let policy = shipped("ci");
    for line in lines() {
        let verdict = judged(&policy, policy.settings.mode, &line);
        assert_eq!(
            verdict.decision,
            Decision::Allow,
            "{line}: {}",
            verdict.reason
        );
    }
}

#[test]
fn what_leaves_the_workspace_for_others_to_see_still_asks() {
    let policy = shipped("default");
    for line in [
        "git push",
        "git push --force-with-lease origin HEAD",
        "cargo test && git push",
        "npm publish",
        "cargo publish",
        "docker push x/y:1",
        "kubectl apply -f k8s/",
        "terraform apply",
        "helm upgrade app chart",
        "sudo apt-get install -y jq",
        "twine upload dist/*",
        "gem push x.gem",
    ] {
        let verdict = judged(&policy, Mode::OnRequest, line);
        assert_eq!(
            verdict.decision,
            Decision::Ask,
            "{line}: {}",
            verdict.reason
        );
    }
}

#[test]
fn the_list_is_long_and_holds_nothing_twice() {
    let all: Vec<String> = lines().collect();
    let different: BTreeSet<&String> = all.iter().collect();
    assert_eq!(all.len(), different.len());
    assert!(all.len() >= 350, "{}", all.len());
}
