//! A session from its plan to its bill: places, copy, jail, certificate, the loop, the end.

mod account;
mod backend;
mod bait;
mod bring;
mod capture;
mod certify;
mod commands;
mod conduct;
mod databases;
mod disk;
mod files;
mod heads;
mod hooks;
mod links;
mod models;
mod open;
mod place;
mod purse;
mod queries;
pub(crate) mod review;
mod saved;
pub(crate) mod setup;
mod shared;
mod shell;
mod spans;
mod stand;
mod store;
mod trial;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use policies::tools::Tool;
use protocol::{
    CommandLimits, Hello, Reply, SessionId, Welcome, bounds,
    jail::{JailSpec, Situation},
};
use supervisor_core::{Certificate, Config, Entry, Session, Tick, budget::Budgets, standing};
use supervisor_providers::{Providers, Vault};
use supervisor_record::History;
use supervisor_sandbox::{Jail, command_environment};
use tokio::sync::mpsc;

pub(crate) use account::{Account, RunsAs};
pub(crate) use backend::sweep as sweep_containers;
pub(crate) use conduct::Conducted;
pub(crate) use heads::Heads;
pub(crate) use hooks::{Found as FoundHook, Program as HookProgram, find as find_hooks};
pub(crate) use links::Inbox;
pub(crate) use open::{WRITTEN, account_of, beside, leave as leave_tree, tree_of};
pub(crate) use place::{
    Place, digest_of, explained_facts, open_record, own_places, random_hex, session_id,
    sweep_unentered,
};
pub(crate) use saved::{Holding, Saved};
pub(crate) use shared::SharedBreakers;
pub(crate) use store::{Store, now_ms};
use trial::refuse_if_broken;
pub(crate) use trial::trial;

use crate::{
    approve::Approver,
    exit::{BUG, Failure, REFUSED_AT_START},
    operator::{Board, Operator, Standing},
    view::View,
};

/// Where people can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedWhere {
    /// Nowhere: every question is denied at once.
    Nowhere,
    /// At the terminal, and by `provost approve`.
    Terminal,
    /// By `provost approve` alone.
    Operator,
}

/// What to run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is kept for resume.
    pub(crate) saved: Saved,
    /// The task; `None` goes on with a turn that was cut.
    pub(crate) task: Option<String>,
    /// The providers.
    pub(crate) providers: Providers,
    /// The keys.
    pub(crate) vault: Vault,
    /// Provider and model that answer an ask in mode `auto`.
    pub(crate) classifier: Option<(String, String)>,
    /// The conversation so far.
    pub(crate) history: Option<History>,
    /// Everything recorded so far.
    pub(crate) entries: Vec<Entry>,
    /// Who can be asked.
    pub(crate) asking: AskedWhere,
    /// The view.
    pub(crate) view: View,
}

/// A session that ran: its jail is dead.
#[derive(Debug)]
pub(crate) struct Ran {
    /// How it went.
    pub(crate) conducted: Conducted,
    /// Which layers held.
    pub(crate) certificate: Certificate,
    /// Its place, lock held.
    pub(crate) place: Place,
    /// What it was, as it is kept.
    pub(crate) saved: Saved,
}

/// Runs a session in its place. The jail is dead when this returns, whatever it returns.
///
/// The place comes back with its lock held, so that nobody else serves the session during its review.
pub(crate) fn run(place: Place, plan: Plan) -> Result<Ran, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(BUG, format!("no runtime: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let result = local.block_on(&runtime, run_in(place, plan));
    // Threads that wait for a reader are bounded by it; a feeding thread ends with its command.
    runtime.shutdown_timeout(bounds::COMMAND_GRACE);
    result
}

async fn run_in(mut place: Place, mut plan: Plan) -> Result<Ran, Failure> {
    let began = Instant::now();
    let resumed = plan.history.is_some();
    let mut brought = String::new();
    if !resumed {
        brought = place.bring_in(&mut plan.saved).await?;
    }
    let worker = Arc::clone(&place.worker);
    let settings = plan.saved.setup.policy.settings.clone();
    let (backend, group) = backend::of(&place.places, &settings, place.session())?;
    let mut ground = stand::SessionGround {
        place: &mut place,
        saved: &mut plan.saved,
        brought: &mut brought,
        resumed,
    };
    let stands = stand::stand(&mut ground, &settings.confinement, &backend, &worker).await?;
    if !resumed {
        plan.view.head("workspace", &brought);
    }
    let saved = plan.saved.clone();
    for notice in &stands.told {
        plan.view.head("situation", notice);
    }
    let engine = stands.jail.facts.container.as_ref();
    for warning in engine.iter().flat_map(|facts| &facts.warnings) {
        plan.view.head("engine", warning);
    }
    let conducted = run_inside(&mut place, plan, &stands.spec, stands.jail, group, began).await;
    drop(stands.attendant);
    // However it ended, the jail is dead.
    place.clean().await;
    let (conducted, certificate) = conducted?;
    Ok(Ran {
        conducted,
        certificate,
        place,
        saved,
    })
}

/// From a box that stands to its end.
async fn run_inside(
    place: &mut Place,
    mut plan: Plan,
    spec: &JailSpec,
    jail: Jail,
    group: Arc<supervisor_sandbox::Group>,
    began: Instant,
) -> Result<(Conducted, Certificate), Failure> {
    let (worker, resumed) = (Arc::clone(&place.worker), plan.history.is_some());
    let bounds = certify::Bounds::of(&jail, group, spec.limits.processes)?;
    let (inbox, messages) = mpsc::unbounded_channel();
    let lost =
        |error: std::io::Error| Failure::new(REFUSED_AT_START, format!("a link failed: {error}"));
    let hands_link = jail.hands.try_clone().map_err(lost)?;
    let explainer = jail.process.explainer();
    let hands = links::Hands::start(hands_link, inbox.clone(), explainer).map_err(lost)?;
    let nonce = place::random_hex(16)?;
    let certificate = certify::certify(
        &hands,
        &certify::Circumstances {
            places: &place.places,
            spec,
            policy: &plan.saved.setup.policy,
            worker: &worker,
            facts: &jail.facts,
            nonce,
            hidden: plan.saved.hidden.clone(),
            folder: place.lock.folder(),
            bounds: &bounds,
        },
    )
    .await
    .map_err(|why| {
        Failure::new(
            REFUSED_AT_START,
            format!("the box could not be proven: {why}"),
        )
    })?;
    let session = place.session().clone();
    let saved = plan.saved.clone();
    let hooks = hooks::prepare(place, &saved, &worker).await?;
    let store = place.enter(
        &saved,
        plan.task.as_deref(),
        plan.vault.masker(),
        &certificate,
        resumed,
    )?;
    plan.view.head("certificate", &certificate.line());
    refuse_if_broken(&certificate, &store)?;
    for notice in &saved.setup.notices {
        plan.view.head("note", notice);
    }

    for told in &hooks.told {
        plan.view.head("hook", told);
    }
    let databases = queries::Databases::new(
        Arc::clone(&worker),
        session.clone(),
        saved.account.as_ref().map(|account| account.identity),
        saved.setup.databases.clone(),
    );
    let infos = databases
        .describe()
        .map_err(|why| Failure::new(crate::exit::CONFIG, why))?;
    let facts = setup::facts(
        &saved.setup.workspace.display().to_string(),
        spec,
        system(spec),
        plan.asking != AskedWhere::Nowhere,
    );
    let setup = &saved.setup;
    let (mode, planning) = standing(setup.mode, setup.plan, &plan.entries);
    let welcome = welcome(&session, spec, &plan, infos, &facts, (mode, planning));
    let welcome = welcome.map_err(|why| Failure::new(BUG, why))?;
    let config = Config {
        policy: saved.setup.policy.clone(),
        mode,
        ceiling: saved.setup.ceiling,
        planning,
        facts,
        welcome,
        provider: saved.provider.clone(),
        model: saved.model.clone(),
        classifier: plan.classifier.clone(),
        fallbacks: saved.fallbacks.clone(),
        absent_hooks: hooks.absent.clone(),
        seed: place::random_hex(32)?,
    };
    let mut frame = commands::Frame {
        cwd: spec.workspace.clone(),
        env: command_environment(spec),
        domain: spec.ceiling.clone(),
        limits: CommandLimits {
            cpu_seconds: bounds::COMMAND_TIME_MAX.as_secs(),
            data: saved.setup.policy.settings.limits.memory,
            file_size: spec.limits.file_size,
            open_files: spec.limits.open_files,
        },
        output: saved.setup.policy.settings.limits.output,
        shell: None,
    };
    let spans = spans::Spans::new(session.as_str(), &saved.provider, &saved.model);
    // Where a trace runs, a tool of the session that traces goes on with it.
    frame.env.extend(
        spans
            .traceparent()
            .map(|span| ("TRACEPARENT".to_owned(), span)),
    );
    frame.shell = shell::find(&hands, &frame, spec.situation)
        .await
        .map_err(|why| Failure::new(REFUSED_AT_START, why))?;
    let (hooks, house) = hooks.run_in(&hands, &frame, &inbox);
    jail.agent.set_nonblocking(true).map_err(lost)?;
    let agent = jail
        .agent
        .try_clone()
        .and_then(tokio::net::UnixStream::from_std)
        .map_err(lost)?;
    let (hear, speak) = agent.into_split();
    tokio::task::spawn_local(links::hear_agent(hear, inbox.clone()));
    let board = Board::new(Standing {
        mode,
        planning,
        ceiling: saved.setup.ceiling,
    });
    let operator = (plan.asking != AskedWhere::Nowhere)
        .then(|| Operator::open(&place.places, &session, board.clone(), inbox.clone()))
        .transpose();
    let operator = operator.map_err(|error| {
        let message = format!("the operator's socket cannot be opened: {error}");
        Failure::new(REFUSED_AT_START, message)
    })?;
    let commands = commands::Commands::new(
        hands.clone(),
        frame,
        inbox.clone(),
        store.clone(),
        Arc::clone(&bounds.group),
    );
    let watch = disk::Watch {
        worker: Arc::clone(&worker),
        session: session.clone(),
        folder: place.lock.folder().to_owned(),
        limit: saved.setup.policy.settings.limits.disk,
    };
    tokio::task::spawn_local(watch.run(commands.clone()));
    let conduct = conduct::Conduct {
        session: Session::new(config, Tick(0)).after(&plan.entries),
        approver: Approver::new(plan.asking == AskedWhere::Terminal),
        board,
        operator,
        agent: links::AgentSpeaker::start(speak),
        commands: commands.clone(),
        bounds: bounds.clone(),
        certificate: certificate.clone(),
        models: models::Models::new(
            plan.providers,
            plan.vault,
            purse::Purse {
                store: store.clone(),
                budgets: Budgets {
                    limits: saved.setup.policy.settings.limits,
                    max_cost: saved.max_cost,
                },
            },
            inbox.clone(),
        ),
        spans,
        wall: Duration::from_secs(saved.wall).saturating_sub(began.elapsed()),
        view: plan.view,
        store,
        hands,
        databases,
        hooks,
        inbox,
        messages,
    };
    let conducted = conduct.run(plan.task).await;
    end(jail).await;
    if let Some(house) = house {
        house.end().await;
    }
    let conducted = conducted.map_err(|why| Failure::new(BUG, why))?;
    Ok((conducted, certificate))
}

/// Ends the jail: in order for a moment, then by force.
async fn end(mut jail: Jail) {
    let until = Instant::now() + bounds::COMMAND_GRACE;
    while !jail.process.has_ended() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Kill waits within a bound of its own; a process that survives SIGKILL is stuck in the kernel,
    // and the next start takes its session over.
    let _ = tokio::task::spawn_blocking(move || jail.process.kill()).await;
}

/// The same of an image, which nobody has looked into: absent ones hold nothing.
const IMAGE_SYSTEM: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/proc",
];

/// Read-only system folders of a view.
fn system(spec: &JailSpec) -> Vec<String> {
    use protocol::jail::Mount;
    if spec.situation == Situation::Container {
        return IMAGE_SYSTEM.map(str::to_owned).into();
    }
    let places = spec.view.iter().filter_map(|mount| match mount {
        Mount::ReadOnly { target, .. }
        | Mount::Link { target, .. }
        | Mount::File { target, .. } => Some(target.clone()),
        Mount::Proc => Some("/proc".to_owned()),
        Mount::Writable { .. }
        | Mount::Overlay { .. }
        | Mount::Tmpfs { .. }
        | Mount::Device { .. }
        | Mount::Terminals
        | Mount::Worker => None,
    });
    places.filter(|target| target != "/var/tmp").collect()
}

/// What the agent is told after its greeting.
fn welcome(
    session: &SessionId,
    spec: &JailSpec,
    plan: &Plan,
    databases: Vec<protocol::DatabaseInfo>,
    facts: &policies::Facts,
    (mode, planning): (policies::Mode, bool),
) -> Result<Welcome, String> {
    let saved = &plan.saved;
    let settings = &saved.setup.policy.settings;
    let mut policy = saved.setup.policy.clone();
    // What hooks there are is nothing that the worker needs to know.
    policy.settings.hooks.clear();
    let law = serde_json::json!({ "policy": policy, "facts": facts, "mode": mode });
    let mut tools: Vec<String> = Tool::ALL
        .iter()
        .map(|tool| tool.as_str().to_owned())
        .collect();
    if databases.is_empty() {
        tools.retain(|tool| tool != "run_sql" && tool != "list_tables");
    }
    if !planning {
        tools.retain(|tool| tool != Tool::SubmitPlan.as_str());
    }
    if !saved.tools.is_empty() {
        tools.retain(|tool| saved.tools.contains(tool));
    }
    tools.sort();
    let (window, max_output) = plan
        .providers
        .config()
        .models
        .limits(&saved.provider, &saved.model);
    let history = plan.history.as_ref();
    let welcome = Welcome {
        hello: Hello::new("supervisor", session.clone()),
        workspace: spec.workspace.clone(),
        mode: crate::operator::in_words(mode, planning),
        model: format!("{}/{}", saved.provider, saved.model),
        window,
        max_output,
        tools,
        databases,
        interactive: plan.asking != AskedWhere::Nowhere,
        iterations: settings.limits.iterations,
        turns: settings.limits.turns,
        turns_done: history.map_or(0, |history| history.turns),
        history: history
            .map(|history| history.messages.clone())
            .unwrap_or_default(),
        unknown: history
            .map(|history| history.unknown.clone())
            .unwrap_or_default(),
        law,
    };
    // What does not fit a frame is said now, not when the agent waits for it.
    let reply = Reply::Welcome(Box::new(welcome.clone()));
    protocol::frame::encode(&reply, bounds::MODEL_FRAME)
        .map_err(|error| format!("the session's history does not fit a greeting: {error}"))?;
    Ok(welcome)
}
