//! What the engine is asked for, pure: a spec of the treaty in the engine's words.
//!
//! Nothing here can be widened by an image: its user, entry point, volumes, health check and stop signal
//! are all replaced, and what it declares as environment reaches the first process only.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount as EngineMount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use protocol::{
    SessionId, bounds,
    jail::{CONTAINED, JailSpec, Mount, WORKER_INSIDE},
};

use super::{DockerPlan, stage::Bind};

/// What of the kernel's own trees tells of the host or acts on it. The engine lays something empty over
/// each that exists; `/sys` has no place in a view.
const MASKED: [&str; 20] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/config.gz",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/interrupts",
    "/sys",
];
/// What stays readable and is written by nobody.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];
/// The place of our own mounts, which no image shows.
const RUN: &str = "rw,noexec,nosuid,nodev,size=65536,nr_inodes=64,mode=0755";

/// Everything that a container is made of.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// The spec.
    pub(super) spec: &'a JailSpec,
    /// The plan.
    pub(super) plan: &'a DockerPlan,
    /// The image's id: a name could mean another image by now.
    pub(super) image: &'a str,
    /// The runtime, if it was chosen.
    pub(super) runtime: Option<&'a str>,
    /// User and group inside.
    pub(super) user: (u32, u32),
    /// Whether the engine maps users, which this container must not have: its files are the host's.
    pub(super) own_ids: bool,
    /// The seccomp profile.
    pub(super) profile: &'a str,
    /// The bind mounts.
    pub(super) mounts: &'a [Bind],
    /// The labels.
    pub(super) labels: HashMap<String, String>,
}

/// The container's name, known before it is made, so that a start that fails can be taken back.
pub(super) fn name(session: &SessionId) -> String {
    format!("provost-{session}")
}

/// The request.
pub(super) fn body(asked: &Asked<'_>) -> ContainerCreateBody {
    let (uid, gid) = asked.user;
    ContainerCreateBody {
        hostname: Some("provost".to_owned()),
        domainname: Some(String::new()),
        user: Some(format!("{uid}:{gid}")),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        tty: Some(false),
        open_stdin: Some(false),
        env: Some(vec!["PATH=/usr/bin:/bin".to_owned()]),
        entrypoint: Some(vec![WORKER_INSIDE.to_owned()]),
        cmd: Some(vec!["jail".to_owned(), CONTAINED.to_owned()]),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(asked.image.to_owned()),
        working_dir: Some("/".to_owned()),
        network_disabled: Some(true),
        labels: Some(asked.labels.clone()),
        stop_signal: Some("SIGKILL".to_owned()),
        stop_timeout: Some(1),
        host_config: Some(host(asked)),
        ..ContainerCreateBody::default()
    }
}

fn host(asked: &Asked<'_>) -> HostConfig {
    let limits = asked.spec.limits;
    let memory = signed(asked.plan.memory);
    let words = |list: &[&str]| Some(list.iter().map(|&word| word.to_owned()).collect());
    HostConfig {
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        userns_mode: asked.own_ids.then(|| "host".to_owned()),
        privileged: Some(false),
        cap_drop: words(&["ALL"]),
        security_opt: Some(vec![
            "no-new-privileges".to_owned(),
            format!("seccomp={}", asked.profile),
        ]),
        masked_paths: words(&MASKED),
        readonly_paths: words(&READ_ONLY),
        readonly_rootfs: Some(true),
        mounts: Some(asked.mounts.iter().map(bind).collect()),
        tmpfs: Some(tmpfs(asked)),
        shm_size: Some(signed(bounds::SHM.min(asked.plan.memory / 4))),
        memory: Some(memory),
        // Equal: no swap beside it.
        memory_swap: Some(memory),
        nano_cpus: Some(signed(asked.plan.cpu_millis).saturating_mul(1_000_000)),
        pids_limit: Some(signed(limits.processes)),
        ulimits: Some(vec![
            ulimit("core", 0),
            ulimit("nofile", limits.open_files),
            ulimit("fsize", limits.file_size),
        ]),
        init: Some(false),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(false),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        runtime: asked.runtime.map(str::to_owned),
        ..HostConfig::default()
    }
}

fn bind(bind: &Bind) -> EngineMount {
    EngineMount {
        typ: Some(MountType::BIND),
        source: Some(bind.source.clone()),
        target: Some(bind.target.clone()),
        read_only: Some(bind.read_only),
        // What is mounted below a source stays out: it could not be made read-only everywhere.
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..EngineMount::default()
    }
}

fn tmpfs(asked: &Asked<'_>) -> HashMap<String, String> {
    let (uid, gid) = asked.user;
    let mut found = HashMap::from([("/run".to_owned(), RUN.to_owned())]);
    for mount in &asked.spec.view {
        if let Mount::Tmpfs {
            target,
            bytes,
            inodes,
            mode,
        } = mount
            // The engine makes that one itself, by `shm_size`.
            && target != "/dev/shm"
        {
            // Full folders are told to who writes; memory that is used up ends processes.
            let bytes = (*bytes).min(asked.plan.memory / 4);
            let options = format!(
                "rw,exec,nosuid,nodev,size={bytes},nr_inodes={inodes},mode={mode:04o},uid={uid},gid={gid}"
            );
            found.insert(target.clone(), options);
        }
    }
    found
}

fn ulimit(name: &str, value: u64) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(signed(value)),
        hard: Some(signed(value)),
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::{Host, SessionPlace, jail_spec};

    fn asked_for(act: impl FnOnce(ContainerCreateBody)) {
        let mut settings = policies::Settings::default();
        settings.confinement.backend = policies::Backend::Docker;
        let session = SessionId::parse("s-1-ab").expect("valid");
        let place = SessionPlace {
            situation: protocol::jail::Situation::Container,
            doors: protocol::jail::Doors::default(),
            session: &session,
            workspace: Path::new("/srv/work"),
            tree: Path::new("/state/tree"),
            overlay: None,
            settings: &settings,
            identity: None,
            own_reach: false,
            home: Path::new("/home/agent"),
            private: &[],
        };
        let spec = jail_spec(&place, &Host::look()).expect("fits");
        let plan = DockerPlan {
            image: "any".into(),
            runtime: None,
            memory: 1 << 30,
            cpu_millis: 1_500,
            folder: PathBuf::from("/run/x"),
        };
        let mounts = [Bind {
            source: "/state/tree".into(),
            target: "/srv/work".into(),
            read_only: false,
        }];
        act(body(&Asked {
            spec: &spec,
            plan: &plan,
            image: "sha256:00",
            runtime: Some("crun"),
            user: (61_200, 61_200),
            own_ids: false,
            profile: "{}",
            mounts: &mounts,
            labels: HashMap::new(),
        }));
    }

    #[test]
    fn every_wall_of_the_container_is_asked_for() {
        asked_for(|body| {
            let host = body.host_config.expect("host");
            assert_eq!(host.network_mode.as_deref(), Some("none"));
            assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
            assert_eq!(host.readonly_rootfs, Some(true));
            assert_eq!((host.privileged, host.init), (Some(false), Some(false)));
            assert_eq!(host.memory, host.memory_swap);
            assert_eq!(host.nano_cpus, Some(1_500_000_000));
            assert_eq!(host.pids_limit, Some(signed(bounds::PROCESSES)));
            let options = host.security_opt.expect("options");
            assert_eq!(options, ["no-new-privileges", "seccomp={}"]);
            assert_eq!(
                host.log_config.and_then(|log| log.typ).as_deref(),
                Some("none")
            );
            assert_eq!(host.runtime.as_deref(), Some("crun"));
            assert!(
                host.masked_paths
                    .expect("masked")
                    .contains(&"/sys".to_owned())
            );
            let tmpfs = host.tmpfs.expect("tmpfs");
            assert!(
                tmpfs["/tmp"].contains("size=268435456"),
                "a quarter of the memory"
            );
            assert!(
                tmpfs["/tmp"].contains("mode=1777") && tmpfs["/home/agent"].contains("uid=61200")
            );
            assert_eq!(body.user.as_deref(), Some("61200:61200"));
            assert_eq!(
                body.healthcheck.and_then(|health| health.test),
                Some(vec!["NONE".into()])
            );
        });
    }

    /// DK-001: nothing of the host comes in but what the session was given, least of all the engine.
    #[test]
    fn nothing_else_of_the_host_comes_in() {
        asked_for(|body| {
            let host = body.host_config.expect("host");
            let sources: Vec<_> = host
                .mounts
                .expect("mounts")
                .into_iter()
                .filter_map(|m| m.source)
                .collect();
            assert_eq!(sources, ["/state/tree"]);
            for none in [
                &host.binds,
                &host.volumes_from,
                &host.group_add,
                &host.cap_add,
            ] {
                assert!(none.is_none());
            }
            assert!(host.devices.is_none() && host.device_requests.is_none());
            for shared in [&host.pid_mode, &host.uts_mode, &host.cgroup_parent] {
                assert!(shared.is_none());
            }
            assert_eq!(host.ipc_mode.as_deref(), Some("private"));
        });
    }
}
