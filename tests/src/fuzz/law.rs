//! The readers of the law: a shell line, a query, a tool's input, a policy file.

use policies::{
    LayerName, address, cases,
    import::{Origin, import},
    parse::{self, Source},
    shell, sql,
    tools::{self, Tool},
};
use serde_json::Value;

use super::{Said, gist};

/// A line of bash: whatever it is, each part stands in the line's own terms.
pub(super) fn shell_line(bytes: &[u8]) -> Said {
    let line = String::from_utf8_lossy(bytes);
    let reading = shell::read(&line);
    let count = reading.simples.len();
    for (at, simple) in reading.simples.iter().enumerate() {
        assert!(simple.text.len() <= 400, "the text of a part is cut");
        for other in [simple.piped_from, simple.wrapped_by].into_iter().flatten() {
            assert!(
                other < count && other != at,
                "a part names one that is none"
            );
        }
    }
    for pipe in &reading.pipes {
        assert!(pipe.from.end <= count && pipe.into.end <= count);
    }
    let proven = reading
        .simples
        .iter()
        .filter(|part| shell::is_proven_read(part));
    let proven = proven.count().min(4);
    let redirects = reading.redirects.len().min(4);
    let doubt = reading.doubt.as_deref().map(gist).unwrap_or_default();
    Some(format!("{} {redirects} {proven} {doubt}", count.min(8)))
}

/// A query: what passes the check is one statement, whatever else it is.
pub(super) fn query(bytes: &[u8]) -> Said {
    let query = String::from_utf8_lossy(bytes);
    let checked = sql::check(&query);
    let tables = sql::tables(&query);
    for table in tables.iter().flatten() {
        assert!(sql::could_read(&query, table), "`{table}` stands in it");
    }
    // Without the word that it starts with, which is the stranger's.
    let word = checked
        .err()
        .map(|why| why.chars().take(12).collect::<String>());
    Some(format!(
        "{word:?} {:?}",
        tables.map(|list| list.len().min(4))
    ))
}

/// A call's input, for each tool.
pub(super) fn tool_input(bytes: &[u8]) -> Said {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let mut said = String::new();
    for tool in Tool::ALL {
        match tools::input(*tool, &value) {
            Ok(_) => said.push_str("ok "),
            Err(why) => {
                assert!(
                    why.len() < 4_096,
                    "a sentence, not the input: {}",
                    why.len()
                );
                said.push_str(&gist(&why).chars().take(12).collect::<String>());
            }
        }
    }
    Some(said)
}

/// A policy file, as the user's and as a stranger's project: every fault has a place in it.
pub(super) fn policy_file(bytes: &[u8]) -> Said {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut said = String::new();
    for layer in [LayerName::User, LayerName::Project] {
        let source = Source {
            name: "fuzz.toml".to_owned(),
            text: text.clone(),
            layer,
        };
        let own = (layer == LayerName::Project).then(|| parse::profile_source("default"));
        let sources: Vec<Source> = own.flatten().into_iter().chain([source]).collect();
        match parse::load(&sources, &|_| None) {
            Ok(policy) => said.push_str(&format!("ok {} ", policy.layers.len())),
            Err(faults) => {
                assert!(!faults.is_empty(), "refused without a fault");
                let first = faults.first().map(|fault| gist(&fault.message));
                said.push_str(&format!("{} {first:?} ", faults.len().min(4)));
            }
        }
    }
    Some(said)
}

/// A file of cases: every fault has a place in it.
pub(super) fn cases_file(bytes: &[u8]) -> Said {
    let source = Source {
        name: "fuzz.cases.toml".to_owned(),
        text: String::from_utf8_lossy(bytes).into_owned(),
        layer: LayerName::User,
    };
    match cases::read(&source) {
        Ok(found) => {
            assert!(
                !found.cases.is_empty(),
                "a file without a case tests nothing"
            );
            Some(format!("ok {}", found.cases.len().min(4)))
        }
        Err(faults) => {
            let first = faults.first().map(|fault| gist(&fault.message));
            Some(format!("{} {first:?}", faults.len().min(4)))
        }
    }
}

/// Another agent's rules: whatever they say, what comes of them is a policy that loads.
pub(super) fn imported(bytes: &[u8]) -> Said {
    let text = String::from_utf8_lossy(bytes);
    let mut said = String::new();
    for origin in Origin::ALL {
        match import(origin, &text, "fuzz") {
            Ok(found) => {
                let source = Source {
                    name: "imported.toml".to_owned(),
                    text: found.policy,
                    layer: LayerName::User,
                };
                let loaded = parse::load(&[source], &parse::profile_source);
                assert!(loaded.is_ok(), "an imported policy that does not load");
                said.push_str(&format!("ok {} ", found.left.len().min(4)));
            }
            Err(why) => said.push_str(&format!("{} ", gist(&why))),
        }
    }
    Some(said)
}

/// An address, as a host and as a URL.
pub(super) fn host(bytes: &[u8]) -> Said {
    let text = String::from_utf8_lossy(bytes);
    let spelling = address::of_host(&text);
    let url = address::host_of_url(&text).map(|(host, plain)| (address::of_host(&host), plain));
    Some(format!("{spelling:?} {url:?}"))
}
