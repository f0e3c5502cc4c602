//! `provost policy check FILE`: every fault with its place.

use std::{path::Path, process::ExitCode};

use policies::{
    LayerName,
    parse::{self, Source},
};
use serde_json::json;

use crate::{
    exit::{CONFIG, Failure},
    output,
    session::{own_places, setup},
};

/// Checks a file.
pub(super) fn run(file: &Path, json: bool) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let name = file.display().to_string();
    let text = setup::read_policy(file, false)?;
    let text = text.ok_or_else(|| Failure::new(CONFIG, format!("no policy file `{name}`")))?;
    // A workspace's own policy is judged as what it is: it may only tighten.
    let project = file.file_name().is_some_and(|name| name == ".provost.toml");
    let layer = if project {
        LayerName::Project
    } else {
        LayerName::User
    };
    let mut sources = vec![Source {
        name: name.clone(),
        text,
        layer,
    }];
    if project {
        sources.extend(setup::find("default", &places));
    }
    match parse::load(&sources, &|name| setup::find(name, &places)) {
        Ok(policy) => {
            let rules: usize = policy.layers.iter().map(|layer| layer.rules.len()).sum();
            if json {
                output::out(&format!(
                    "{}\n",
                    json!({ "v": 1, "ok": true, "name": policy.name, "rules": rules, "hooks": policy.settings.hooks.len(), "digest": policy.digest(), "faults": [] })
                ));
            } else {
                output::out(&format!(
                    "{name}: policy `{}` is good: {rules} rule(s), {} hook(s), mode {}, every example holds\n",
                    policy.name,
                    policy.settings.hooks.len(),
                    policy.settings.mode.as_str()
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(faults) => {
            if json {
                let list: Vec<_> = faults.iter().map(|fault| json!({ "file": fault.file, "line": fault.line, "column": fault.column, "message": fault.message, "help": fault.help })).collect();
                output::out(&format!(
                    "{}\n",
                    json!({ "v": 1, "ok": false, "faults": list })
                ));
            } else {
                for fault in &faults {
                    output::err(&format!("{}\n", fault.rendered.trim_end()));
                }
            }
            Ok(ExitCode::from(CONFIG))
        }
    }
}
