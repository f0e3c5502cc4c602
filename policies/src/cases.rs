//! `*.cases.toml`: calls with the verdicts that a policy must give them, run by `provost policy test`.

use serde_json::{Value, json};

use crate::{
    Decision, Facts, Mode, Policy, Verdict,
    evaluate::{evaluate, evaluate_planning},
    normalise::normalise,
    parse::{At, Diagnostic, Faults, Section, Source, decision_word, document, mode_word},
};

/// A file of cases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cases {
    /// The policy that it is about, as written; `None` means whichever it is run with.
    pub policy: Option<String>,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// For people.
    pub name: String,
    /// File and line.
    pub at: String,
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// The mode, if not the policy's.
    pub mode: Option<Mode>,
    /// Whether the session is in plan mode.
    pub plan: bool,
    /// What must be said.
    pub verdict: Decision,
    /// Who must decide, if that matters.
    pub rule: Option<String>,
}

const KEYS: &[&str] = &[
    "name", "tool", "command", "path", "query", "input", "mode", "plan", "verdict", "rule",
];

/// Reads a file of cases.
///
/// # Errors
/// Every fault with its place.
pub fn read(source: &Source) -> Result<Cases, Vec<Diagnostic>> {
    let mut faults = Faults {
        source,
        list: Vec::new(),
    };
    if source.text.len() > protocol::bounds::POLICY_FILE {
        faults.add(&(0..0), "a file of cases has at most 1 MiB", None);
        return Err(faults.list);
    }
    let document = document(&source.text, &mut faults);
    if !faults.list.is_empty() {
        return Err(faults.list);
    }
    let top = Section::new(
        document.get_ref(),
        "a file of cases",
        &["version", "policy", "case"],
        &mut faults,
    );
    match top.count("version", &mut faults) {
        Some(version) if version.value == 1 => {}
        _ => faults.add(
            &(0..0),
            "`version` is missing or not known",
            Some("write `version = 1` first".to_owned()),
        ),
    }
    let policy = top.text("policy", &mut faults).map(|word| word.value);
    let mut cases = Vec::new();
    for At { value, span } in top.tables("case", KEYS, &mut faults) {
        cases.extend(one(&value, &span, &mut faults));
    }
    if cases.is_empty() && faults.list.is_empty() {
        faults.add(&(0..0), "no `[[case]]`: nothing would be tested", None);
    }
    if faults.list.is_empty() {
        Ok(Cases { policy, cases })
    } else {
        Err(faults.list)
    }
}

fn one(
    section: &Section<'_, '_>,
    span: &std::ops::Range<usize>,
    faults: &mut Faults<'_>,
) -> Option<Case> {
    let text = |key: &str, faults: &mut Faults<'_>| section.text(key, faults);
    let tool = text("tool", faults).map(|word| word.value);
    let forms = ["command", "path", "query", "input"];
    let given: Vec<&str> = forms
        .into_iter()
        .filter(|key| section.key(key).is_some())
        .collect();
    let [form] = given.as_slice() else {
        let message = "a case has one of `command`, `path`, `query` and `input`";
        faults.add(span, message, None);
        return None;
    };
    let value = text(form, faults)?;
    let (default, input) = match *form {
        "command" => ("bash", json!({ "command": value.value })),
        "query" => ("run_sql", json!({ "query": value.value })),
        "path" => {
            let tool = tool.as_deref().unwrap_or("read_file");
            let input = match tool {
                "write_file" => json!({ "file_path": value.value, "content": "" }),
                "edit_file" => {
                    json!({ "file_path": value.value, "old_string": "a", "new_string": "b" })
                }
                "read_file" => json!({ "file_path": value.value }),
                "glob" | "grep" => json!({ "pattern": "x", "path": value.value }),
                _ => json!({ "path": value.value }),
            };
            ("read_file", input)
        }
        _ => match serde_json::from_str::<Value>(&value.value) {
            Ok(input) => ("bash", input),
            Err(error) => {
                faults.add(&value.span, format!("`input` is not JSON: {error}"), None);
                return None;
            }
        },
    };
    let verdict = match text("verdict", faults) {
        Some(word) => decision_word(&word, faults)?,
        None => {
            faults.add(span, "a case has `verdict`", Some("add it".to_owned()));
            return None;
        }
    };
    let mode = match text("mode", faults) {
        Some(word) => Some(mode_word(&word, faults)?),
        None => None,
    };
    let plan = text("plan", faults).is_some_and(|word| word.value == "on");
    Some(Case {
        name: text("name", faults).map_or_else(|| value.value.clone(), |word| word.value),
        at: faults.place(span),
        tool: tool.unwrap_or_else(|| default.to_owned()),
        input,
        mode,
        plan,
        verdict,
        rule: text("rule", faults).map(|word| word.value),
    })
}

/// What a policy says of a case.
///
/// # Errors
/// The call has no action, and why.
pub fn judge(policy: &Policy, case: &Case, facts: &Facts) -> Result<Verdict, String> {
    let id = protocol::CallId::parse("case").map_err(|error| error.to_string())?;
    let call = protocol::call::Call {
        id,
        tool: case.tool.clone(),
        input: case.input.clone(),
        prepared: None,
    };
    let action = normalise(&call, facts).map_err(|error| error.to_string())?;
    let mode = case.mode.unwrap_or(policy.settings.mode);
    Ok(if case.plan {
        evaluate_planning(policy, mode, &action, facts)
    } else {
        evaluate(policy, mode, &action, facts)
    })
}

/// Whether the case holds; else what was said instead, in one sentence.
///
/// # Errors
/// What is wrong.
pub fn check(policy: &Policy, case: &Case, facts: &Facts) -> Result<(), String> {
    let verdict = judge(policy, case, facts)?;
    let rule = verdict.rule.as_deref().unwrap_or("default");
    let right = verdict.decision == case.verdict
        && case.rule.as_deref().is_none_or(|wanted| wanted == rule);
    if right {
        return Ok(());
    }
    let wanted = case
        .rule
        .as_deref()
        .map_or_else(String::new, |rule| format!(" by `{rule}`"));
    Err(format!(
        "wanted {}{wanted}, got {} by `{rule}`: {}",
        case.verdict.as_str(),
        verdict.decision.as_str(),
        verdict.reason
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LayerName;

    fn source(text: &str) -> Source {
        Source {
            name: "t.cases.toml".into(),
            text: format!("version = 1\n{text}"),
            layer: LayerName::User,
        }
    }

    fn facts() -> Facts {
        Facts {
            workspace: "/srv/app".into(),
            home: "/home/u".into(),
            system: vec!["/usr".into()],
            interactive: true,
            tree: None,
        }
    }

    #[test]
    fn cases_hold_or_say_what_was_said() {
        let policy = crate::parse::load(
            &[crate::parse::profile_source("ci").expect("shipped")],
            &|_| None,
        )
        .expect("loads");
        let cases = read(&source(
            "[[case]]\ncommand = \"git push\"\nverdict = \"deny\"\nrule = \"no-push\"\n\
             [[case]]\nname = \"reads\"\npath = \"src/a.rs\"\nverdict = \"allow\"\n\
             [[case]]\ntool = \"write_file\"\npath = \"a\"\nverdict = \"deny\"\nplan = \"on\"\n\
             [[case]]\ntool = \"grep\"\ninput = '{\"pattern\":\"x\"}'\nverdict = \"allow\"\nmode = \"bypass\"\n",
        ))
        .expect("reads");
        assert_eq!(cases.cases.len(), 4);
        for case in &cases.cases {
            assert_eq!(check(&policy, case, &facts()), Ok(()), "{}", case.name);
        }
        let wrong = read(&source(
            "[[case]]\ncommand = \"git push\"\nverdict = \"allow\"\n",
        ))
        .expect("reads");
        let told = check(&policy, &wrong.cases[0], &facts()).expect_err("wrong");
        assert!(
            told.starts_with("wanted allow, got deny by `no-push`: "),
            "{told}"
        );
        assert_eq!(wrong.cases[0].at, "t.cases.toml:2");
    }

    #[test]
    fn faults_are_told_with_their_place() {
        for (text, wanted) in [
            ("", "nothing would be tested"),
            ("[[case]]\nverdict = \"deny\"", "a case has one of"),
            ("[[case]]\ncommand = \"x\"", "a case has `verdict`"),
            (
                "[[case]]\ncommand = \"x\"\nverdict = \"no\"",
                "a verdict cannot be `no`",
            ),
            (
                "[[case]]\ncommand = \"x\"\nquery = \"y\"\nverdict = \"deny\"",
                "a case has one of",
            ),
            (
                "[[case]]\ncomand = \"x\"\nverdict = \"deny\"",
                "unknown key `comand`",
            ),
            ("[[case]]\ninput = \"{\"\nverdict = \"deny\"", "is not JSON"),
            (
                "[[case]]\ncommand = \"x\"\nverdict = \"deny\"\nmode = \"fast\"",
                "no mode is named",
            ),
        ] {
            let faults = read(&source(text)).expect_err(text);
            assert!(
                faults.iter().any(|fault| fault.rendered.contains(wanted)),
                "{text}: {faults:?}"
            );
        }
    }
}
