//! Proves the box before anything untrusted runs in it: the probes of both domains, and the session's
//! certificate from what they found.

use std::{os::fd::AsFd as _, path::Path, time::Duration};

use policies::Policy;
use protocol::{
    CommandId, Digest, Floor, Order, Probe, ProbeDomain, Right,
    jail::{JailSpec, ProbePlan, Situation},
};
use supervisor_core::{Certificate, Container, RightState};
use supervisor_record::Places;
use supervisor_sandbox::{ContainerFacts, Facts, WorkerBinary};
use tokio::{io::AsyncReadExt as _, net::unix::pipe};

use super::{bait::Bait, links::Hands, now_ms};

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
    Ok(certificate(at, worker.clone(), &probes))
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
        RightState {
            right,
            floor: floor.unwrap_or(Floor::Required),
            held: is_held(right, &mine),
            by: held_by(right, at.facts.situation).to_owned(),
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

/// Held: every probe of it held, and each domain that has the right to lose was probed.
fn is_held(right: Right, probes: &[Probe]) -> bool {
    let probed = |domain: &ProbeDomain| probes.iter().any(|probe| probe.domain == *domain);
    right.domains().iter().all(probed) && probes.iter().all(Probe::held)
}

/// What enforces a right, for people: the table of the Landlock backend.
pub(crate) fn held_by(right: Right, situation: Situation) -> &'static str {
    if situation == Situation::Container {
        return held_in_container(right);
    }
    match (right, situation == Situation::Namespaces) {
        (Right::FilesRead | Right::FilesWrite, true) => "mount view + Landlock",
        (Right::FilesRead | Right::FilesWrite, false) => "Landlock",
        (Right::FilesMeta, true) => "mount view, read-only mounts",
        (Right::FilesMeta, false) => "unused uid",
        (Right::FilesHidden, _) => "left out of the copy",
        (Right::NetTcp | Right::NetUdp, true) => "network namespace + Landlock",
        (Right::NetTcp | Right::NetUdp, false) => "seccomp",
        (Right::NetUnixPath, true) => "mount view",
        (Right::NetUnixPath, false) => "seccomp",
        (Right::NetUnixAbstract, true) => "network namespace + Landlock scope",
        (Right::NetUnixAbstract, false) => "Landlock scope + seccomp",
        (Right::ProcSignal, true) => "pid namespace + Landlock scope",
        (Right::ProcSignal, false) => "Landlock scope",
        (Right::ProcTrace, _) => "Landlock domains + seccomp",
        (Right::ProcSee, true) => "pid namespace + hidepid",
        (Right::ProcSee, false) => "Landlock (no /proc)",
        (Right::ProcLimits, _) => "seccomp",
        (Right::Exec, _) => "seccomp + Landlock (agent)",
        (Right::Terminal, _) => "own session + seccomp",
        (Right::Syscalls, _) => "seccomp + no capabilities",
        (Right::Ipc, true) => "ipc namespace + seccomp",
        (Right::Ipc, false) => "seccomp",
        (Right::Devices, true) => "mount view + no capabilities",
        (Right::Devices, false) => "Landlock + no capabilities",
        (Right::Memory | Right::Processes | Right::Cpu | Right::Disk, _) => "limits",
    }
}

/// Column C of the table: what the engine makes, and the same layers within.
fn held_in_container(right: Right) -> &'static str {
    match right {
        Right::FilesRead | Right::FilesWrite => "container's mounts + Landlock",
        Right::FilesMeta => "container's mounts, read-only",
        Right::FilesHidden => "left out of the copy",
        Right::NetTcp | Right::NetUdp => "container's network (none) + Landlock",
        Right::NetUnixPath => "container's mounts",
        Right::NetUnixAbstract => "container's network (none) + Landlock scope",
        Right::ProcSignal => "container's pids + Landlock scope",
        Right::ProcTrace => "Landlock domains + seccomp",
        Right::ProcSee => "container's pids (its own see each other)",
        Right::ProcLimits => "seccomp",
        Right::Exec => "seccomp + Landlock (agent)",
        Right::Terminal => "own session + seccomp",
        Right::Syscalls => "seccomp twice + no capabilities",
        Right::Ipc => "container's ipc + seccomp",
        Right::Devices => "container's devices + no capabilities",
        Right::Memory | Right::Processes | Right::Cpu => "container's cgroup",
        Right::Disk => "limits",
    }
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
