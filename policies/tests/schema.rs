//! The schema for editors names the keys that the parser takes, no more and no fewer. The parser is
//! asked: a key that no table has makes it list those that it has.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;

use policies::{
    HookEvent, LayerName, Mode,
    parse::{Source, load},
};
use serde_json::Value;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../docs/schema/policy.json")).expect("JSON")
}

/// What the parser lists where a key is not known.
fn known(text: &str) -> BTreeSet<String> {
    let source = Source {
        name: "p.toml".into(),
        text: format!("version = 1\n{text}"),
        layer: LayerName::User,
    };
    let faults = load(&[source], &|_| None).expect_err("an unknown key");
    let fault = faults
        .iter()
        .find(|fault| fault.message.contains("unknown key"))
        .unwrap_or_else(|| panic!("{text}: {faults:?}"));
    let help = fault.help.as_deref().expect("the list");
    let list = help.strip_prefix("known here: ").expect("the list");
    list.split(", ").map(str::to_owned).collect()
}

const ODD: &str = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";

fn keys(value: &Value) -> BTreeSet<String> {
    let object = value["properties"].as_object().expect("properties");
    assert_eq!(value["additionalProperties"], Value::Bool(false));
    object.keys().cloned().collect()
}

#[test]
fn every_table_has_the_keys_of_the_parser() {
    let schema = schema();
    let at = |name: &str| &schema["properties"][name];
    let odd = |table: &str| known(&format!("{table}\n{ODD} = 1\n"));
    assert_eq!(keys(&schema), known(&format!("{ODD} = 1\n")));
    for name in ["confinement", "filesystem", "network", "limits", "models"] {
        assert_eq!(keys(at(name)), odd(&format!("[{name}]")), "{name}");
    }
    let granular = known(&format!("mode = \"granular\"\n[granular]\n{ODD} = 1\n"));
    assert_eq!(keys(at("granular")), granular);
    assert_eq!(
        keys(&at("confinement")["properties"]["rights"]),
        odd("[confinement.rights]")
    );
    assert_eq!(
        keys(&at("database")["items"]),
        odd("[[database]]\nname = \"x\"\npath = \"x\"")
    );
    assert_eq!(
        keys(&at("hook")["items"]),
        odd("[[hook]]\nid = \"x\"\nevent = \"stop\"\ncommand = \"/x\"")
    );
    let events: Vec<&str> = HookEvent::ALL.map(HookEvent::as_str).into();
    let listed = &at("hook")["items"]["properties"]["event"]["enum"];
    assert_eq!(listed, &Value::from(events));
    let rule = "[[rule]]\nid = \"x\"\ntool = \"bash\"\nverdict = \"ask\"\nreason = \"x\"";
    assert_eq!(keys(&at("rule")["items"]), odd(rule));
    let examples = known(&format!("{rule}\nexamples = {{ {ODD} = [] }}\n"));
    assert_eq!(
        keys(&at("rule")["items"]["properties"]["examples"]),
        examples
    );
}

#[test]
fn the_words_of_the_schema_are_those_of_the_law() {
    let schema = schema();
    let modes: Vec<Value> = Mode::ALL
        .iter()
        .map(|mode| Value::from(mode.as_str()))
        .collect();
    let listed = schema["properties"]["mode"]["enum"]
        .as_array()
        .expect("a list");
    assert_eq!(listed.len(), modes.len());
    assert!(modes.iter().all(|mode| listed.contains(mode)));
    let required = schema["properties"]["rule"]["items"]["required"]
        .as_array()
        .expect("a list");
    for key in required {
        let key = key.as_str().expect("a key");
        let rule = [
            "id = \"x\"",
            "tool = \"bash\"",
            "verdict = \"ask\"",
            "reason = \"x\"",
        ];
        let without: Vec<&str> = rule
            .into_iter()
            .filter(|line| !line.starts_with(key))
            .collect();
        let source = Source {
            name: "p.toml".into(),
            text: format!("version = 1\n[[rule]]\n{}\n", without.join("\n")),
            layer: LayerName::User,
        };
        let faults = load(&[source], &|_| None).expect_err("a missing key");
        assert!(
            faults
                .iter()
                .any(|fault| fault.message.contains(&format!("`{key}`"))),
            "{key}"
        );
    }
}
