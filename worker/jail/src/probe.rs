//! The probes: for each right an attempt that must fail, beside a twin that must succeed, tried from
//! inside a domain.
//!
//! In the agent's domain many attempts are answered by death. The probe role enters the agent's
//! Landlock domain itself, then forks one child per deadly attempt, and each child installs the
//! agent's filter on itself: forking is not in the agent's list, so it must come before. Killed by
//! SIGSYS counts as refused. The children run side by side.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
};

use nix::{
    fcntl::OFlag,
    sys::{
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, alarm, pipe2},
};
use protocol::{
    Probe, ProbeDomain,
    jail::{ProbePlan, Situation},
};

use crate::{
    agent,
    attempt::{Ground, Outcome},
    cases::{self, Case},
    descriptors,
    sys::{self, Fork},
};

/// What the probe role is charged with, beside the plan.
#[derive(Debug)]
pub(crate) struct Charge<'a> {
    /// In whose domain.
    pub(crate) domain: ProbeDomain,
    /// Hands, as seen inside.
    pub(crate) hands: i32,
    /// What the agent may read.
    pub(crate) read: &'a [String],
    /// The pretended ABI.
    pub(crate) pretend_abi: Option<u32>,
    /// What holds the box together.
    pub(crate) situation: Situation,
}

/// What commands can do in a container: see that the session's other processes are there, and their
/// arguments. An engine's proc has no `hidepid`, and none of our own can be laid over it. Neither holds
/// a secret; processes outside the container are in another pid namespace.
const SEEN_IN_CONTAINERS: &str = "see.hands";

/// The role's argument.
pub(crate) fn encode(charge: &Charge<'_>, plan: &ProbePlan) -> io::Result<String> {
    let charge = (
        charge.domain,
        charge.hands,
        charge.read,
        charge.pretend_abi,
        charge.situation,
        plan,
    );
    serde_json::to_string(&charge).map_err(Into::into)
}

/// The probe role: raises the walls that its argument names, tries everything, and writes the
/// findings (one JSON [`protocol::Probe`] a line) to descriptor 3 in the agent's domain, to standard
/// output in a command's. Gives the exit code: 0, 70 if it could not try, 77 if a wall is missing.
#[must_use]
pub fn probe_role(argument: &str) -> u8 {
    type Told = (
        ProbeDomain,
        i32,
        Vec<String>,
        Option<u32>,
        Situation,
        ProbePlan,
    );
    let Ok((domain, hands, read, pretend, situation, plan)) =
        serde_json::from_str::<Told>(argument)
    else {
        return 70;
    };
    let out = match domain {
        ProbeDomain::Agent => descriptors::agent_link(),
        ProbeDomain::Command => sys::inherited(1),
        ProbeDomain::Outside => return 70,
    };
    let Ok(out) = out else { return 70 };
    if domain == ProbeDomain::Agent && agent::enter_domain(&read, pretend).is_err() {
        return 77;
    }
    let raise = match domain {
        ProbeDomain::Agent => Raise::AgentFilter,
        ProbeDomain::Command | ProbeDomain::Outside => Raise::Nothing,
    };
    let found = try_all(domain, hands, &plan, raise).and_then(|mut probes| {
        if situation == Situation::Container && domain == ProbeDomain::Command {
            probes.retain(|probe| probe.case != SEEN_IN_CONTAINERS);
        }
        write(&probes, out)
    });
    match found {
        Ok(()) => 0,
        Err(_) => 70,
    }
}

fn write(probes: &[Probe], out: OwnedFd) -> io::Result<()> {
    let mut text = Vec::new();
    for probe in probes {
        serde_json::to_writer(&mut text, probe)?;
        text.push(b'\n');
    }
    File::from(out).write_all(&text)
}

/// What each trying child does to itself first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raise {
    /// It stands behind its walls already.
    Nothing,
    /// The agent's seccomp filter.
    AgentFilter,
}

/// Tries everything from the domain that the current process stands in. `hands` is hands' pid as
/// seen from here. The process must be single-threaded.
///
/// # Errors
/// The kernel refused a pipe or a fork.
pub fn try_all(
    domain: ProbeDomain,
    hands: i32,
    plan: &ProbePlan,
    raise: Raise,
) -> io::Result<Vec<Probe>> {
    let cases = match domain {
        ProbeDomain::Agent => cases::agent(plan),
        ProbeDomain::Command => cases::command(plan),
        ProbeDomain::Outside => Vec::new(),
    };
    let ground = Ground { plan, hands };
    let (alone, together): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.alone);
    // All are started before the first is awaited: they run side by side.
    let mut running = Vec::new();
    for case in &alone {
        running.push((vec![*case], start(&[*case], &ground, raise)?));
    }
    let mut probes = Vec::new();
    let mut rest: &[&Case] = &together;
    // Each round ends at the group's end or at one case that killed its child.
    while !rest.is_empty() {
        let found = finish(rest, start(rest, &ground, raise)?, domain)?;
        let count = found.len().max(1);
        probes.extend(found);
        rest = rest.get(count..).unwrap_or_default();
    }
    for (cases, child) in running {
        probes.extend(finish(&cases, child, domain)?);
    }
    Ok(probes)
}

/// Seconds that a trying child may take; together they take about two milliseconds.
const TRYING: u32 = 5;

/// A trying child: its pid and its findings' pipe.
type Trying = (i32, File);

fn start(cases: &[&Case], ground: &Ground<'_>, raise: Raise) -> io::Result<Trying> {
    let (found, told) = pipe2(OFlag::O_CLOEXEC)?;
    match sys::fork()? {
        Fork::Child => {
            drop(found);
            let mut told = File::from(told);
            // An attempt that hangs ends as one that was not refused.
            alarm::set(TRYING);
            if raise == Raise::AgentFilter && agent::enter_filter().is_err() {
                sys::leave(77);
            }
            for case in cases {
                // The twin is told before the attempt: the attempt may be the end.
                let twin = (case.twin)(ground);
                if told.write_all(if twin { b"1" } else { b"0" }).is_err() {
                    sys::leave(70);
                }
                let Outcome { refused, answer } = case.attempt(ground);
                let line = format!("{} {answer}\n", u8::from(refused));
                if told.write_all(line.as_bytes()).is_err() {
                    sys::leave(70);
                }
            }
            sys::leave(0)
        }
        Fork::Parent(pid) => Ok((pid, found.into())),
    }
}

/// Reads what a child told. The case after its last whole line is answered by how it left.
fn finish(cases: &[&Case], child: Trying, domain: ProbeDomain) -> io::Result<Vec<Probe>> {
    let (pid, mut found) = child;
    let mut text = String::new();
    found.read_to_string(&mut text)?;
    let status = waitpid(Pid::from_raw(pid), None)?;
    let mut probes = Vec::new();
    let mut rest = text.as_str();
    for case in cases {
        let mut chars = rest.chars();
        let Some(twin) = chars.next() else { break };
        let (line, next, whole) = match chars.as_str().split_once('\n') {
            Some((line, next)) => (line, next, true),
            None => ("", "", false),
        };
        let (refused, answer) = match line.split_once(' ') {
            Some((refused, answer)) if whole => (refused == "1", answer.to_owned()),
            _ => by_death(status),
        };
        probes.push(Probe {
            right: case.right,
            case: case.name.clone(),
            domain,
            refused,
            twin: twin == '1',
            answer,
        });
        if !whole {
            break;
        }
        rest = next;
    }
    if probes.is_empty()
        && let Some(case) = cases.first()
    {
        // It never came to its twin.
        let (_, answer) = by_death(status);
        let (right, case) = (case.right, case.name.clone());
        probes.push(Probe {
            right,
            case,
            domain,
            refused: false,
            twin: false,
            answer,
        });
    }
    Ok(probes)
}

/// An attempt that was not survived: only the filter's own signal is a refusal.
fn by_death(status: WaitStatus) -> (bool, String) {
    match status {
        WaitStatus::Signaled(_, Signal::SIGSYS, _) => (true, "SIGSYS".to_owned()),
        WaitStatus::Signaled(_, signal, _) => (false, format!("died of {signal}")),
        _ => (false, "succeeded: another program ran".to_owned()),
    }
}
