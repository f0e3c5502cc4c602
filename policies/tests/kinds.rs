//! Kinds of fault, many spellings of each: every row of `corpus/kinds.tsv` names a case, a policy, a
//! call, and the verdict and rule that it must get.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};

use policies::{
    Decision, Facts, LayerName, Mode, Policy, Verdict,
    evaluate::evaluate,
    normalise::normalise,
    parse::{Source, load, profile_source},
};
use protocol::{CallId, call::Call};
use serde_json::json;

const TABLE: &str = include_str!("corpus/kinds.tsv");

/// Rules about paths, and an allow of the programs that the rows use: it lowers none of them.
const PATHS: &str = r#"
version = 1
[filesystem]
hide = ["secret/**"]
[[rule]]
id = "keep"
tool = "write_file"
path = ["keep/**", "LOCK.txt", "~/own/**", "/tmp/frozen/**"]
verdict = "deny"
reason = "x"
[[rule]]
id = "secret"
tool = "read_file"
path = ["secret/**"]
verdict = "deny"
reason = "x"
[[rule]]
id = "no-git-allow"
tool = "bash"
command = ["git", "sort", "cp", "curl", "tee"]
verdict = "allow"
reason = "x"
"#;

/// Rules about programs.
const PROGRAMS: &str = r#"
version = 1
[[rule]]
id = "no-curl"
tool = "bash"
command = ["curl", "rm -rf", "npm", "touch"]
verdict = "deny"
reason = "x"
[[rule]]
id = "fine"
tool = "bash"
command = ["git", "ls", "rm", "echo"]
verdict = "allow"
reason = "x"
"#;

struct Row<'t> {
    case: &'t str,
    policy: &'t str,
    decision: Decision,
    rule: &'t str,
    call: String,
}

fn rows() -> Vec<Row<'static>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut cells = line.splitn(5, '\t');
        let mut next = || cells.next().unwrap_or_else(|| panic!("five cells: {line}"));
        let (case, policy, decision, rule, call) = (next(), next(), next(), next(), next());
        let decision = match decision {
            "allow" => Decision::Allow,
            "ask" => Decision::Ask,
            "deny" => Decision::Deny,
            other => panic!("`{other}` is no verdict: {line}"),
        };
        let call = call.replace('␤', "\n").replace('␍', "\r");
        Row {
            case,
            policy,
            decision,
            rule,
            call,
        }
    };
    lines.map(row).collect()
}

fn loaded(source: Source) -> Policy {
    load(&[source], &profile_source).unwrap_or_else(|faults| {
        let told: Vec<&str> = faults.iter().map(|fault| fault.rendered.as_str()).collect();
        panic!("{}", told.join("\n"))
    })
}

fn policies() -> BTreeMap<&'static str, Policy> {
    let user = |name: &str, text: &str| {
        loaded(Source {
            name: name.to_owned(),
            text: text.to_owned(),
            layer: LayerName::User,
        })
    };
    let default = profile_source("default").expect("shipped");
    BTreeMap::from([
        ("default", loaded(default)),
        ("paths", user("paths.toml", PATHS)),
        ("programs", user("programs.toml", PROGRAMS)),
    ])
}

fn judged(policy: &Policy, mode: Mode, call: &str) -> Verdict {
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
    let (tool, input) = match call.strip_prefix("@@") {
        Some(call) => {
            let (tool, input) = call.split_once(' ').expect("a tool and its input");
            (tool, serde_json::from_str(input).expect("JSON"))
        }
        None => ("bash", json!({ "command": call })),
    };
    let call = Call {
        id: CallId::parse("c1").expect("valid"),
        tool: tool.to_owned(),
        input,
        prepared: None,
    };
    let action = normalise(&call, &facts).expect("an action");
    evaluate(policy, mode, &action, &facts)
}

#[test]
fn every_row_gets_its_verdict_by_its_rule() {
    let policies = policies();
    let mut wrong = Vec::new();
    for row in rows() {
        let policy = policies.get(row.policy).expect("a policy");
        let verdict = judged(policy, Mode::OnRequest, &row.call);
        let rule = verdict.rule.as_deref().unwrap_or("");
        if (verdict.decision, rule) != (row.decision, row.rule) {
            let wanted = format!("{:?} by {}", row.decision, row.rule);
            let got = format!("{:?} by {rule}: {}", verdict.decision, verdict.reason);
            wrong.push(format!(
                "{} {:?}\n  wanted {wanted}\n  got {got}",
                row.case, row.call
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn where_nobody_is_asked_no_row_that_asks_is_allowed() {
    let policies = policies();
    for row in rows().iter().filter(|row| row.decision != Decision::Allow) {
        let policy = policies.get(row.policy).expect("a policy");
        let verdict = judged(policy, Mode::Never, &row.call);
        assert_eq!(verdict.decision, Decision::Deny, "{}", row.call);
        assert!(!verdict.reason.is_empty(), "{}", row.call);
    }
}

#[test]
fn an_allow_of_everything_lowers_no_row_of_the_law_itself() {
    let text =
        "version = 1\n[[rule]]\nid = \"all\"\ntool = \"*\"\nverdict = \"allow\"\nreason = \"x\"\n";
    let policy = loaded(Source {
        name: "all.toml".to_owned(),
        text: text.to_owned(),
        layer: LayerName::User,
    });
    let of_the_law: BTreeSet<&str> = [
        "credential-material",
        "decode-and-run",
        "download-to-interpreter",
        "exfiltration",
        "internal-address",
        "loader-variable",
        "misleading-text",
        "not-understood",
        "outside-view",
        "own-places",
        "persistence",
        "privilege-tool",
        "protected-name",
        "raw-device",
        "resource-trap",
        "sql-effect",
        "started-by-option",
        "system-destruction",
    ]
    .into();
    let mut met = BTreeSet::new();
    for row in rows().iter().filter(|row| row.policy == "default") {
        let Some(rule) = of_the_law.get(row.rule) else {
            continue;
        };
        met.insert(*rule);
        let verdict = judged(&policy, Mode::OnRequest, &row.call);
        assert!(
            verdict.decision >= row.decision,
            "{}: {verdict:?}",
            row.call
        );
    }
    assert_eq!(met, of_the_law, "each of the law's own words has a row");
}

#[test]
fn the_table_is_whole() {
    let rows = rows();
    assert!(rows.len() >= 600, "{} rows", rows.len());
    let calls: BTreeSet<(&str, &str)> = rows
        .iter()
        .map(|row| (row.policy, row.call.as_str()))
        .collect();
    assert_eq!(calls.len(), rows.len(), "a row stands twice");
    for decision in [Decision::Allow, Decision::Ask, Decision::Deny] {
        assert!(
            rows.iter().filter(|row| row.decision == decision).count() >= 30,
            "{decision:?}"
        );
    }
}
