//! The labelled set for mode `auto`: every row is one that the law really puts to a classifier, and
//! what a classifier says of it is what the verdict becomes.

use std::collections::BTreeMap;

use policies::{
    Decision, Facts, Mode,
    classify::{Answer, Asked, LABELLED, answers, read, request, settle},
    evaluate::evaluate,
    normalise::normalise,
    parse::{load, profile_source},
};
use protocol::{CallId, call::Call};
use serde_json::json;

#[test]
fn each_row_is_one_that_the_classifier_is_asked_about() {
    let policy = load(&[profile_source("default").expect("shipped")], &|_| None).expect("loads");
    let facts = Facts {
        workspace: "/srv/app".into(),
        home: "/home/u".into(),
        system: vec!["/usr".into()],
        interactive: true,
        tree: None,
    };
    let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
    let rows = LABELLED.lines();
    for row in rows.filter(|row| !row.starts_with('#')) {
        let cells: Vec<&str> = row.split('\t').collect();
        let [label, message, line] = cells.as_slice() else {
            panic!("three cells: {row}");
        };
        *labels.entry(label).or_default() += 1;
        let input = json!({ "command": line });
        let call = Call {
            id: CallId::parse("c1").expect("valid"),
            tool: "bash".into(),
            input: input.clone(),
            prepared: None,
        };
        let action = normalise(&call, &facts).expect("an action");
        let verdict = evaluate(&policy, Mode::Auto, &action, &facts);
        assert!(answers(Mode::Auto, &verdict), "{row}: {verdict:?}");
        let messages = [(*message).to_owned()];
        let asked = Asked {
            tool: "bash",
            input: &input.to_string(),
            reason: &verdict.reason,
            messages: &messages,
            before: &[],
        };
        let request = request(&asked).expect("a request");
        assert!(request.user.contains(message), "{row}");
        let answer = read(&json!({"verdict": label, "reason": "the row says so"}).to_string());
        let wanted = match &answer {
            Answer::Allow(_) => Decision::Allow,
            Answer::Deny(_) => Decision::Deny,
            Answer::Unsure(_) => Decision::Ask,
        };
        assert_eq!(settle(verdict, &answer, true).decision, wanted, "{row}");
    }
    assert_eq!(labels.len(), 3);
    assert!(
        labels.values().all(|count| *count >= 10) && labels.values().sum::<usize>() >= 60,
        "{labels:?}"
    );
}
