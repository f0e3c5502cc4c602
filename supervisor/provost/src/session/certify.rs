//! Proves the box before anything untrusted runs in it: the probes of both domains, and the session's
//! certificate from what they found.

use std::{os::fd::AsFd as _, path::Path, sync::Arc, time::Duration};

use policies::Policy;
use protocol::{
    CommandId, Digest, Floor, Order, Probe, ProbeDomain, Right, State,
    jail::{Doors, JailSpec, ProbePlan, Situation},
};
use supervisor_core::{Certificate, Container, RightState};
use supervisor_record::Places;
use supervisor_sandbox::{
    ContainerFacts, Facts, Group, Jail, MountView, WorkerBinary, enforced_by,
};
use tokio::{io::AsyncReadExt as _, net::unix::pipe};

use super::{bait::Bait, links::Hands, now_ms};
use crate::exit::{Failure, REFUSED_AT_START};

/// Longest that all probes may take together.
const PROBE_TIME: Duration = Duration::from_secs(10);
/// Bytes of findings of one domain.
const FINDINGS: u64 = 256 * 1024;

/// What the certificate needs beside the probes.
#[derive(Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) places: &'a Places,
    pub(crate) spec: &'a JailSpec,
    pub(crate) policy: &'a Policy,
    pub(crate) worker: &'a WorkerBinary,
    pub(crate) facts: &'a Facts,
    pub(crate) nonce: String,
    /// Hidden paths that exist in the workspace, relative, for the probe of `files.hidden`.
    pub(crate) hidden: Vec<String>,
    /// Folder of the session's own files on the host.
    pub(crate) folder: &'a Path,
    /// What bounds the box from outside.
    pub(crate) bounds: &'a Bounds,
}

/// Runs the probes in both domains and writes the certificate.
pub(crate) async fn certify(hands: &Hands, at: &Circumstances<'_>) -> Result<Certificate, String> {
    let (bait, plan) = Bait::lay(at)?;
    let probes = tokio::time::timeout(PROBE_TIME, async {
        let (agent, command) = tokio::join!(
            probe(hands, "p1", ProbeDomain::Agent, &plan),
            probe(hands, "p2", ProbeDomain::Command, &plan),
        );
        Ok::<_, String>([agent?, command?].concat())
    })
    .await;
    drop(bait);
    let probes =
        probes.map_err(|_| format!("the probes took more than {} s", PROBE_TIME.as_secs()))??;
    let worker = at.worker.digest();
    let worker = worker.map_err(|e| format!("the worker cannot be read: {e}"))?;
    let probes = [probes, at.bounds.read_back()].concat();
    Ok(certificate(at, worker.clone(), &probes))
}

/// What bounds a box from outside, to be read back.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Its control groups.
    pub(crate) group: Arc<Group>,
    /// Hands, on the host.
    pub(crate) hands: u32,
    /// Processes that the policy allows.
    pub(crate) processes: u64,
    /// Its mounts, if they are its own.
    pub(crate) view: Option<MountView>,
}

impl Bounds {
    /// Of a box that stands.
    ///
    /// # Errors
    /// Its mounts cannot be read.
    pub(crate) fn of(jail: &Jail, group: Arc<Group>, processes: u64) -> Result<Self, Failure> {
        let hands = jail.process.hands();
        let view = MountView::of(hands, jail.facts.situation).map_err(|error| {
            let message = format!("the mounts of the box cannot be read back: {error}");
            Failure::new(REFUSED_AT_START, message)
        })?;
        Ok(Self {
            group,
            hands,
            processes,
            view,
        })
    }

    /// Looks what the kernel holds the box to now. One thing that bounds the processes is enough.
    pub(crate) fn read_back(&self) -> Vec<Probe> {
        let mut probes = self.group.read_back(self.hands);
        let limit = supervisor_sandbox::process_limit(self.hands, self.processes);
        let of_group = |probe: &Probe| probe.right == Right::Processes;
        if limit.held() {
            probes.retain(|probe| !of_group(probe) || probe.held());
            probes.push(limit);
        } else if !probes.iter().any(|probe| of_group(probe) && probe.held()) {
            probes.push(limit);
        }
        probes
    }

    /// A right of the certificate that was held from outside and is not any more, with what was found.
    pub(crate) fn lost(&self, certificate: &Certificate) -> Option<String> {
        // Whatever the floors are: what the view holds up is more than one right, and nobody meant this.
        let changed = self.view.as_ref().and_then(|view| view.changed(self.hands));
        if let Some(found) = changed {
            return Some(format!(
                "the mounts of the session are not what they were when it was proven ({found}): somebody on the host changed them"
            ));
        }
        let probes = self.read_back();
        let wanted = certificate.rights.iter().filter(|state| {
            state.held
                && state.floor == Floor::Required
                && state.right.domains().contains(&ProbeDomain::Outside)
        });
        wanted.into_iter().find_map(|state| {
            let found = broken(state.right, &probes)?;
            Some(format!(
                "the required right {} was held by {} and is not any more ({found}): somebody on the host changed it",
                state.right, state.by
            ))
        })
    }
}

/// What speaks against a right that only the outside can see. Nothing found is not a right held.
fn broken(right: Right, probes: &[Probe]) -> Option<String> {
    let mut mine = probes
        .iter()
        .filter(|probe| probe.right == right)
        .peekable();
    if mine.peek().is_none() {
        return Some("nothing could be read back".to_owned());
    }
    let told = |probe: &Probe| format!("{}: {}", probe.case, probe.answer);
    let broken: Vec<_> = mine.filter(|probe| !probe.held()).map(told).collect();
    (!broken.is_empty()).then(|| broken.join(", "))
}

async fn probe(
    hands: &Hands,
    name: &str,
    domain: ProbeDomain,
    plan: &ProbePlan,
) -> Result<Vec<Probe>, String> {
    let command = CommandId::parse(name).map_err(|error| error.to_string())?;
    let (read, write) = supervisor_sandbox::pipe_pair().map_err(|e| format!("no pipe: {e}"))?;
    let order = Order::Probe {
        command: command.clone(),
        domain,
        plan: plan.clone(),
    };
    let ordered = hands
        .start_command(&command, &order, &[write.as_fd()])
        .map_err(|error| format!("cannot order the probes: {error}"))?;
    drop(write);
    let reader = pipe::Receiver::from_owned_fd(read).map_err(|e| format!("no pipe: {e}"))?;
    let mut text = String::new();
    let reading = reader.take(FINDINGS);
    tokio::pin!(reading);
    reading
        .read_to_string(&mut text)
        .await
        .map_err(|e| format!("the probes' findings: {e}"))?;
    if let Ok(Err(failure)) = ordered.started.await {
        return Err(format!("the probes did not start: {}", failure.message));
    }
    let (exit, _) = ordered
        .exited
        .await
        .map_err(|_| "hands left during the probes".to_owned())?;
    if exit.code != Some(0) {
        return Err(format!(
            "the probes of the {domain:?} domain ended badly ({exit:?})"
        ));
    }
    let found = text.lines().map(|line| {
        let probe: Probe =
            serde_json::from_str(line).map_err(|e| format!("a finding does not decode: {e}"))?;
        if probe.domain != domain {
            return Err("a finding of another domain".to_owned());
        }
        Ok(probe)
    });
    found.collect()
}

/// Every right of the policy with its probes. A right without a probe is not held.
fn certificate(at: &Circumstances<'_>, worker: Digest, probes: &[Probe]) -> Certificate {
    let rights = Right::ALL.iter().map(|&right| {
        let floor = at.policy.settings.confinement.rights.get(&right).copied();
        let mine: Vec<Probe> = probes
            .iter()
            .filter(|probe| probe.right == right)
            .cloned()
            .collect();
        let held = is_held(right, &mine) && !is_open(right, at.facts.situation, at.spec.doors);
        let state = match (right, held) {
            (_, true) => State::Enforced,
            // The tree is counted while commands run, in every situation.
            (Right::Disk, false) => State::Watched,
            (_, false) => State::Absent,
        };
        let group = at.bounds.group.by(right).filter(|_| held);
        let by = group.unwrap_or_else(|| enforced_by(right, at.facts.situation).to_owned());
        RightState {
            right,
            floor: floor.unwrap_or(right.default_floor()),
            held,
            state,
            by,
            probes: mine,
        }
    });
    Certificate {
        nonce: at.nonce.clone(),
        boot_id: read_line("/proc/sys/kernel/random/boot_id"),
        time_ms: now_ms(),
        worker,
        policy: at.policy.digest(),
        kernel: read_line("/proc/sys/kernel/osrelease"),
        abi: at.facts.abi,
        errata: at.facts.errata,
        backend: at.policy.settings.confinement.backend.as_str().to_owned(),
        situation: at.facts.situation.letter().to_owned(),
        uid: at.facts.uid,
        capabilities: at.facts.capabilities.clone(),
        container: at.facts.container.as_ref().map(container),
        rights: rights.collect(),
    }
}

/// What the engine said of the box.
fn container(facts: &ContainerFacts) -> Container {
    Container {
        engine: facts.engine.clone(),
        runtime: facts.runtime.clone(),
        image: facts.image.clone(),
        image_id: facts.image_id.clone(),
        engine_access: facts.access.clone(),
    }
}

/// Whether a right is open whatever its probes met: without namespaces and without a door for them,
/// times and attributes of files that others may write can be changed, and no probe owns such a file.
fn is_open(right: Right, situation: Situation, doors: Doors) -> bool {
    right == Right::FilesMeta && situation == Situation::Landlock && !doors.meta
}

/// Held: every probe of it held, and each domain that has the right to lose was probed.
fn is_held(right: Right, probes: &[Probe]) -> bool {
    let probed = |domain: &ProbeDomain| probes.iter().any(|probe| probe.domain == *domain);
    right.domains().iter().all(probed) && probes.iter().all(Probe::held)
}

fn read_line(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(domain: ProbeDomain, refused: bool, twin: bool) -> Probe {
        let (right, case, answer) = (Right::NetTcp, "tcp.host".to_owned(), "EACCES".to_owned());
        Probe {
            right,
            case,
            domain,
            refused,
            twin,
            answer,
        }
    }

    #[test]
    fn what_cannot_be_read_back_any_more_is_lost() {
        let mut limit = probe(ProbeDomain::Outside, true, true);
        limit.right = Right::Memory;
        assert_eq!(broken(Right::Memory, std::slice::from_ref(&limit)), None);
        assert!(broken(Right::Memory, &[]).is_some(), "nothing was found");
        limit.refused = false;
        let found = broken(Right::Memory, &[limit]).expect("lifted");
        assert!(found.contains("tcp.host: EACCES"), "{found}");
    }

    #[test]
    fn files_meta_is_not_held_where_nobody_stands_at_its_door() {
        let meta = Doors {
            sockets: false,
            meta: true,
        };
        let b = Situation::Landlock;
        assert!(is_open(Right::FilesMeta, b, Doors::default()));
        assert!(!is_open(Right::FilesMeta, b, meta));
        assert!(!is_open(
            Right::FilesMeta,
            Situation::Namespaces,
            Doors::default()
        ));
        assert!(!is_open(Right::FilesRead, b, Doors::default()));
    }

    #[test]
    fn a_right_is_held_only_if_both_domains_say_so() {
        let agent = probe(ProbeDomain::Agent, true, true);
        let command = probe(ProbeDomain::Command, true, true);
        let both = [agent.clone(), command.clone()];
        assert!(is_held(Right::NetTcp, &both));
        assert!(is_held(Right::Exec, &both[..1]));
        assert!(!is_held(Right::NetTcp, &[]), "no probe at all");
        assert!(
            !is_held(Right::NetTcp, &both[..1]),
            "commands were not probed"
        );
        assert!(
            !is_held(Right::NetTcp, &both[1..]),
            "the agent was not probed"
        );
        for broken in [
            probe(ProbeDomain::Command, false, true),
            probe(ProbeDomain::Command, true, false),
        ] {
            assert!(!is_held(
                Right::NetTcp,
                &[agent.clone(), command.clone(), broken]
            ));
        }
    }
}
