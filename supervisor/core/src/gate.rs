//! The gate: one call or one model request in, a permit or a refusal out. Permits are minted here only.

mod model;

use policies::{
    Action, Decision, FileVerb, Place,
    evaluate::{evaluate, evaluate_planning},
    normalise::normalise,
};
use protocol::{
    CommandId, Digest, bounds,
    call::{Call, Outcome, Refusal, SqlAnswer, Stage},
};

use crate::{
    AskPerson, Effect, KillJob, ListTables, Permit, PutFile, QueryDatabase, RunCommand, RunHook,
    Session,
};

pub(crate) use model::{pass_classify, pass_infer};

/// What the gate says of a call before a person is asked.
#[derive(Debug)]
pub(crate) enum Gate {
    /// It has no action, or a bound is crossed.
    Refused(Refusal),
    /// It was judged.
    Judged(Box<(Action, policies::Verdict)>),
}

/// Phase and bounds are checked by the caller; this is resolve → normalise → safety → permissions → mode.
pub(crate) fn judge(session: &Session, call: &Call) -> Gate {
    let config = &session.config;
    let refused = |stage, reason: String, instead: Option<&str>| {
        Gate::Refused(Refusal {
            stage,
            rule: None,
            layer: None,
            reason,
            instead: instead.map(str::to_owned),
        })
    };
    let size = serde_json::to_string(&call.input).map_or(usize::MAX, |text| text.len());
    if size > bounds::TOOL_INPUT {
        let reason = format!(
            "the input has {size} bytes, the bound is {}",
            bounds::TOOL_INPUT
        );
        return refused(Stage::Input, reason, Some("do it in smaller pieces"));
    }
    if !config.welcome.tools.contains(&call.tool) {
        let name: String = call.tool.chars().take(80).collect();
        let known = config.welcome.tools.join(", ");
        let reason = format!("no tool `{name}` is enabled; enabled are: {known}");
        return refused(Stage::Resolve, reason, None);
    }
    match normalise(call, &config.facts) {
        Ok(action) => {
            let verdict = verdict(session, &action);
            Gate::Judged(Box::new((action, verdict)))
        }
        Err(policies::Malformed::UnknownTool { name, known }) => refused(
            Stage::Resolve,
            format!("no tool is named `{name}`; the tools are: {known}"),
            None,
        ),
        Err(policies::Malformed::Input(why)) => refused(Stage::Input, why, None),
    }
}

/// What the law says of an action, in the mode that is in force.
pub(crate) fn verdict(session: &Session, action: &Action) -> policies::Verdict {
    let config = &session.config;
    let judge = if session.planning {
        evaluate_planning
    } else {
        evaluate
    };
    judge(&config.policy, session.mode, action, &config.facts)
}

/// A verdict that is not *allow*, as the model reads it.
pub(crate) fn refusal(verdict: &policies::Verdict) -> Refusal {
    Refusal {
        stage: match verdict.stage {
            policies::Stage::Safety => Stage::Safety,
            policies::Stage::Permissions => Stage::Permissions,
            policies::Stage::Mode => Stage::Mode,
        },
        rule: verdict.rule.clone(),
        layer: verdict.layer.clone(),
        reason: verdict.reason.clone(),
        instead: verdict.instead.clone(),
    }
}

/// The canonical key of an action: a grant for the session covers exactly this. What a file would
/// hold is part of it, since an edit's input does not say that.
pub(crate) fn key(call: &Call) -> Digest {
    let input = serde_json::to_vec(&call.input).unwrap_or_default();
    let (mark, base, content) = match &call.prepared {
        Some(prepared) => (
            &[1_u8][..],
            prepared.base.as_ref().map_or("", Digest::as_str),
            Digest::of(prepared.content.as_bytes()),
        ),
        None => (&[0_u8][..], "", Digest::of(b"")),
    };
    let (base, content) = (base.as_bytes(), content.as_str().as_bytes());
    Digest::of_parts([
        call.tool.as_bytes(),
        &[0],
        mark,
        base,
        &[0],
        content,
        &input,
    ])
}

/// What an allowed call becomes.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The agent does it itself: a pure read.
    Read {
        /// For the record.
        what: String,
    },
    /// An effect.
    Effect {
        /// The effect, owning its permit.
        effect: Effect,
        /// Its word in the record.
        name: &'static str,
        /// For the record.
        what: String,
        /// The permit's serial; 0 if the effect needs none.
        serial: u64,
        /// The command that it is, if it can be ended.
        command: Option<CommandId>,
    },
    /// The plan is approved: plan mode is over.
    Planned,
    /// It is answered at once: the text itself says that nothing can be asked of the database.
    Answered(Outcome),
    /// A bound is crossed, or the call is not what it was judged as.
    Refused(Refusal),
}

/// Mints the permit for a call that the law, the mode or a person allowed.
pub(crate) fn pass(session: &mut Session, call: &Call, action: Action) -> Passed {
    let id = call.id.clone();
    match action {
        Action::Run(run) => {
            let running = session.running_commands();
            if running >= bounds::COMMANDS {
                return Passed::Refused(limit(
                    format!(
                        "{running} commands of this session are running, the bound is {}",
                        bounds::COMMANDS
                    ),
                    "wait for one to end, or end a job with job_kill",
                ));
            }
            session.commands += 1;
            let word = format!("c{}", session.commands);
            let Ok(command) = CommandId::parse(&word) else {
                return Passed::Refused(limit(
                    "no more command ids".to_owned(),
                    "start a new session",
                ));
            };
            let what = crate::escape::cut(&run.line, 400);
            let permit = session.mint(RunCommand {
                call: id,
                command: command.clone(),
                line: run.line,
                time_ms: run.timeout_s.saturating_mul(1_000),
                background: run.background,
                stdin: run.stdin,
            });
            let serial = permit.serial();
            Passed::Effect {
                effect: Effect::Run(permit),
                name: "command",
                what,
                serial,
                command: Some(command),
            }
        }
        Action::File(access) => match (access.verb, access.place) {
            (FileVerb::Read, _) => Passed::Read {
                what: access.path.to_string(),
            },
            (FileVerb::Write, Place::Workspace(relative)) => {
                put(session, call, access.path.to_string(), relative)
            }
            (FileVerb::Write, _) => Passed::Refused(Refusal {
                stage: Stage::Permissions,
                rule: Some("place".to_owned()),
                layer: Some("built-in".to_owned()),
                reason: format!(
                    "file tools write below the workspace only, not `{}`",
                    access.path
                ),
                instead: Some("use bash for files of /tmp and HOME".to_owned()),
            }),
        },
        Action::Query { database, query } => query_call(session, call, database, query),
        Action::ListTables => {
            let permit = session.mint(ListTables { call: id });
            let serial = permit.serial();
            let what = "declared databases".to_owned();
            Passed::Effect {
                effect: Effect::Tables(permit),
                name: "tables",
                what,
                serial,
                command: None,
            }
        }
        Action::AskPerson { question, choices } => {
            let what = crate::escape::cut(&question, 400);
            let permit = session.mint(AskPerson {
                call: id,
                question,
                choices,
            });
            let serial = permit.serial();
            Passed::Effect {
                effect: Effect::AskPerson(permit),
                name: "ask",
                what,
                serial,
                command: None,
            }
        }
        Action::SubmitPlan { .. } if !session.planning => Passed::Answered(Outcome::Failed {
            class: protocol::FailureClass::Other,
            message: "no plan is waited for: plan mode is not on, so go on with the task"
                .to_owned(),
        }),
        Action::SubmitPlan { .. } => Passed::Planned,
        Action::Job { job, kill } => job_call(session, call, &job, kill),
    }
}

/// A query: its database, then its text in the contract's order, then the permit.
fn query_call(session: &mut Session, call: &Call, database: String, query: String) -> Passed {
    let declared = &session.config.policy.settings.databases;
    let names: Vec<&str> = declared
        .iter()
        .map(|database| database.name.as_str())
        .collect();
    let database = match names.as_slice() {
        [only] if database.is_empty() => (*only).to_owned(),
        _ if names.contains(&database.as_str()) => database,
        _ => {
            let known = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            return Passed::Refused(Refusal {
                stage: Stage::Input,
                rule: None,
                layer: None,
                reason: format!("`database` must name a declared one; declared: {known}"),
                instead: None,
            });
        }
    };
    if let Err(words) = policies::sql::check(&query) {
        return Passed::Answered(Outcome::Rows(SqlAnswer::error(words)));
    }
    let what = format!("{database}: {}", crate::escape::cut(&query, 400));
    let permit = session.mint(QueryDatabase {
        call: call.id.clone(),
        database,
        query,
    });
    let serial = permit.serial();
    Passed::Effect {
        effect: Effect::Query(permit),
        name: "query",
        what,
        serial,
        command: None,
    }
}

fn put(session: &mut Session, call: &Call, path: String, relative: String) -> Passed {
    let Some(prepared) = &call.prepared else {
        return Passed::Refused(Refusal {
            stage: Stage::Input,
            rule: None,
            layer: None,
            reason: "a file change without its content".to_owned(),
            instead: None,
        });
    };
    // What was judged is what is written: write_file's content stands in its input.
    let said = call
        .input
        .get("content")
        .and_then(serde_json::Value::as_str);
    if call.tool == "write_file" && said != Some(prepared.content.as_str()) {
        return Passed::Refused(Refusal {
            stage: Stage::Input,
            rule: None,
            layer: None,
            reason: "the prepared content is not the content of the input".to_owned(),
            instead: None,
        });
    }
    if prepared.content.len() > bounds::FILE_CONTENT {
        return Passed::Refused(limit(
            format!(
                "the file would have {} bytes, the bound of a file tool is {}",
                prepared.content.len(),
                bounds::FILE_CONTENT
            ),
            "write it in pieces with bash",
        ));
    }
    // What an edit makes of the file is reckoned again when the file's content is known.
    let edit = match policies::tools::Tool::parse(&call.tool)
        .map(|tool| policies::tools::input(tool, &call.input))
    {
        Some(Ok(policies::tools::Input::EditFile(edit))) => Some(edit),
        _ => None,
    };
    let what = format!("{path} ({} bytes)", prepared.content.len());
    let permit = session.mint(PutFile {
        call: call.id.clone(),
        path,
        relative,
        expected: prepared.base.clone(),
        content: prepared.content.clone(),
        edit,
    });
    let serial = permit.serial();
    Passed::Effect {
        effect: Effect::Put(permit),
        name: "put",
        what,
        serial,
        command: None,
    }
}

fn job_call(session: &mut Session, call: &Call, job: &str, kill: bool) -> Passed {
    let known = CommandId::parse(job)
        .ok()
        .filter(|command| session.jobs.contains_key(command));
    let Some(command) = known else {
        let jobs: Vec<_> = session.jobs.keys().map(CommandId::as_str).collect();
        let list = if jobs.is_empty() {
            "none".to_owned()
        } else {
            jobs.join(", ")
        };
        return Passed::Refused(Refusal {
            stage: Stage::Input,
            rule: None,
            layer: None,
            reason: format!(
                "no job `{}` in this session; jobs: {list}",
                crate::escape::escape(&crate::escape::cut(job, 40), false)
            ),
            instead: None,
        });
    };
    let what = command.to_string();
    if kill {
        let permit = session.mint(KillJob {
            call: call.id.clone(),
            command,
        });
        let serial = permit.serial();
        return Passed::Effect {
            effect: Effect::KillJob(permit),
            name: "kill",
            what,
            serial,
            command: None,
        };
    }
    let wait = call
        .input
        .get("timeout_ms")
        .and_then(serde_json::Value::as_u64)
        .unwrap_or(0);
    let wait_ms = wait.min(bounds::COMMAND_TIME_MAX.as_secs() * 1_000);
    let effect = Effect::LookAtJob {
        call: call.id.clone(),
        command,
        wait_ms,
    };
    Passed::Effect {
        effect,
        name: "look",
        what,
        serial: 0,
        command: None,
    }
}

/// Mints the permit of a hook that the policy declares.
pub(crate) fn pass_hook(
    session: &mut Session,
    run: u64,
    hook: usize,
    input: String,
) -> Permit<RunHook> {
    session.mint(RunHook { run, hook, input })
}

fn limit(reason: String, instead: &str) -> Refusal {
    Refusal {
        stage: Stage::Budget,
        rule: None,
        layer: None,
        reason,
        instead: Some(instead.to_owned()),
    }
}

/// The word of a decision.
pub(crate) fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

impl Session {
    /// The next permit. Serial numbers name intents in the record.
    fn mint<A>(&mut self, action: A) -> Permit<A> {
        self.serial += 1;
        Permit::mint(action, self.serial)
    }
}
