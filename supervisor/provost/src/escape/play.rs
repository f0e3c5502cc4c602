//! The suite's session: a conversation that makes the calls, a real agent and hands that carry them out,
//! and a bulk apply of what they left.

use policies::tools::Tool;
use protocol::{
    Part, SessionId,
    escape::{Attack, Way},
};
use serde_json::json;
use supervisor_core::{Certificate, Entry};
use supervisor_record::Places;

use super::scene::FOLDER;
use crate::{
    cli::Format,
    exit::{ENDED, Failure},
    harden::Keys,
    session::{self, Place, Plan, RunsAs, Saved, review::Layer, session_id, setup::Setup},
    view::View,
};

/// Scripts of one command: each ends by its own limit long before the command's.
const SCRIPTS: usize = 8;
/// Seconds of one command.
const COMMAND: u64 = 300;
/// Wall time of the whole session, in seconds.
const WALL: u64 = 1_500;

/// What was played.
#[derive(Debug)]
pub(super) struct Played {
    /// Everything that the commands printed, in order.
    pub(super) said: String,
    /// What the session proved of itself first.
    pub(super) certificate: Certificate,
}

/// Plays the session and applies what it left, protected names apart.
pub(super) fn play(
    places: &Places,
    setup: Setup,
    attacks: &[Attack],
    keys: &Keys,
) -> Result<Played, Failure> {
    let script = conversation(attacks);
    let asked = crate::cli::Asked {
        route: Vec::new(),
        script: Some(&script),
        done: 0,
        max_cost: None,
    };
    let models = crate::cli::choose(&asked, (&setup.policy, setup.mode), keys, places)?;
    let id = session_id()?;
    let place = Place::new(places.clone(), &id, RunsAs::Own)?;
    let saved = Saved {
        setup,
        provider: models.provider,
        model: models.model,
        fallbacks: models.fallbacks,
        script: Some(script),
        wall: WALL,
        max_cost: None,
        uid: None,
        account: None,
        hidden: Vec::new(),
        tools: Vec::new(),
        holding: session::Holding::Copy,
    };
    let plan = Plan {
        saved: saved.clone(),
        task: Some("selftest --escape".to_owned()),
        providers: models.providers,
        vault: models.vault,
        classifier: models.classifier,
        history: None,
        entries: Vec::new(),
        asking: session::AskedWhere::Nowhere,
        view: View::new(Format::Json, id.as_str()),
    };
    let result = session::run(place, plan).inspect_err(|_| crate::cli::sweep(places, &id, &saved));
    let session::Ran {
        conducted,
        certificate,
        place,
        saved,
    } = result?;
    let said = said(places, &id)?;
    let worker = std::sync::Arc::clone(&place.worker);
    let layer = Layer::of(places, &id, saved, worker, None)?;
    let changes = layer.changes()?;
    let applied = layer.apply(changes.plain);
    layer.discard()?;
    applied?;
    if said.is_empty() {
        let reason = conducted.end.reason;
        return Err(
            Failure::new(ENDED, format!("the session said nothing: {reason}"))
                .help(format!("provost sessions show {id} tells what happened")),
        );
    }
    Ok(Played { said, certificate })
}

/// The scripts in the commands that run them, then what is planted. They go by number: a name in a
/// command line is a word that the law reads.
pub(super) fn batches(attacks: &[Attack]) -> Vec<Vec<&str>> {
    let of = |wanted: fn(&Way) -> bool| -> Vec<&str> {
        let attacks = attacks.iter().filter(|attack| wanted(&attack.way));
        attacks.map(|attack| attack.name.as_str()).collect()
    };
    let scripts = of(|way| matches!(way, Way::Script { .. }));
    let plants = of(|way| matches!(way, Way::Plant { .. }));
    let batches = scripts.chunks(SCRIPTS).chain(plants.chunks(SCRIPTS));
    batches.map(<[&str]>::to_vec).collect()
}

/// One call for all that the probe tries itself, then one for each batch.
fn conversation(attacks: &[Attack]) -> String {
    let mut lines = vec![format!(
        "exec {FOLDER}/probe probe attack {FOLDER}/ground.json"
    )];
    let batches = 0..batches(attacks).len();
    lines.extend(batches.map(|number| format!("sh {FOLDER}/run.sh {number}")));
    let call = |line: &String| json!({ "name": Tool::Bash.as_str(), "input": { "command": line, "timeout_s": COMMAND } });
    let mut script = String::new();
    for line in &lines {
        script.push_str(&format!(
            "{}\n",
            json!({ "tool_calls": [call(line)], "stop": "tool" })
        ));
    }
    script.push_str(&format!("{}\n", json!({ "text": "done", "stop": "end" })));
    script
}

/// What the commands printed, as the model would have read it.
fn said(places: &Places, id: &SessionId) -> Result<String, Failure> {
    let record = session::open_record(places)?;
    let entries = crate::cli::entries(&record, id)?;
    let parts = entries.iter().filter_map(|entry| match entry {
        Entry::Message { message } => Some(&message.parts),
        _ => None,
    });
    let mut said = String::new();
    for part in parts.flatten() {
        let Part::ToolResult { content, .. } = part else {
            continue;
        };
        let object = content.find('{').and_then(|start| {
            let end = content.rfind('}')?;
            serde_json::from_str::<serde_json::Value>(content.get(start..=end)?).ok()
        });
        let output = object.as_ref().and_then(|object| object["output"].as_str());
        // A refusal has no output: its words explain why nothing was answered.
        said.push_str(output.unwrap_or(content));
        said.push('\n');
    }
    Ok(said)
}
