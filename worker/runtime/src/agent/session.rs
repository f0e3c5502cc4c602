//! One session of the agent: greeting, set-up, and turn after turn until the link ends.

use std::time::Instant;

use policies::{Facts, Mode, Policy, tools::Tool};
use protocol::{Hello, Note, ROLE_AGENT, Reply, Request, SessionId, Welcome, bounds};
use serde::Deserialize;
use worker_agent::{Instructions, Intent, Setup, Stage, State, ToolFacts, system_prompt};
use worker_tools::Reads;

use super::{
    calls::Desk,
    link::{Link, Lost, Stream},
    turn::{Turns, append},
};

/// The law as the worker reads it: a courtesy, the supervisor's own reading counts.
#[derive(Debug, Deserialize)]
pub(super) struct Law {
    pub(super) policy: Policy,
    pub(super) mode: Mode,
    pub(super) facts: Facts,
}

/// Serves a session over `stream` until the supervisor closes it.
pub(super) fn serve<S: Stream>(stream: S, session: SessionId, seed: u64) -> Result<(), Lost> {
    let mut link = Link::new(stream);
    link.say(&Request::Hello(Hello::new(ROLE_AGENT, session.clone())))?;
    let until = Instant::now() + bounds::GREETING;
    let Some(Reply::Welcome(welcome)) = link.hear(Some(until))? else {
        // Silence, or something before the greeting.
        return Err(Lost::Closed);
    };
    welcome.hello.check("supervisor", &session)?;
    let (desk, setup) = set_up(*welcome, seed, &mut link)?;
    let (state, repairs) = State::new(setup);
    for intent in repairs {
        if let Intent::Append(message) = intent {
            append(&mut link, message)?;
        }
    }
    let mut turns = Turns::new(link, desk, state);
    loop {
        turns.next()?;
    }
}

/// Makes what the loop and the tools need of the greeting.
fn set_up<S: Stream>(
    welcome: Welcome,
    seed: u64,
    link: &mut Link<S>,
) -> Result<(Desk, Setup), Lost> {
    let (law, facts) = match serde_json::from_value::<Law>(welcome.law) {
        Ok(law) => {
            let facts = law.facts.clone();
            (Some(law), facts)
        }
        Err(error) => {
            let text = format!("the law cannot be read here, every call is asked: {error}");
            link.note(Note::Log {
                text: text.chars().take(500).collect(),
            })?;
            let facts = Facts {
                workspace: welcome.workspace.clone(),
                home: welcome.workspace.clone(),
                system: Vec::new(),
                interactive: welcome.interactive,
                tree: None,
            };
            (None, facts)
        }
    };
    let reads = Reads::new(facts);
    let tools: Vec<Tool> = Tool::ALL
        .iter()
        .copied()
        .filter(|t| welcome.tools.iter().any(|n| n == t.as_str()))
        .collect();
    let found = reads
        .project_instructions()
        .map(|(file, text)| Instructions { file, text });
    let person = if welcome.interactive {
        "somebody watches and can answer questions and approve requests"
    } else {
        "nobody can be asked; what needs approval is refused"
    };
    let facts = [
        ("Workspace", welcome.workspace.as_str()),
        ("Mode", welcome.mode.as_str()),
        ("Model", welcome.model.as_str()),
        ("Person", person),
        ("System", "Linux"),
    ];
    let system = system_prompt(&facts, Stage::of(&welcome.history), found.as_ref());
    let tool_facts = tools.iter().map(|tool| ToolFacts {
        spec: tool.contract().spec(&welcome.databases),
        waits: *tool == Tool::JobOutput,
    });
    let setup = Setup {
        system,
        tools: tool_facts.collect(),
        max_output: welcome.max_output,
        iterations: welcome.iterations,
        turns: welcome.turns,
        turns_done: welcome.turns_done,
        history: welcome.history,
        unknown: welcome.unknown,
        seed,
    };
    Ok((Desk::new(reads, law, tools), setup))
}
