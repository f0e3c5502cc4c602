//! The engine's side of the wire: a thread with a small event loop, and blocking calls with bounds.

use std::{
    collections::HashMap,
    future::Future,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use bollard::{
    ClientVersion, Docker,
    errors::Error,
    models::{ContainerCreateBody, ContainerInspectResponse, ContainerSummary},
    query_parameters::{
        CreateContainerOptionsBuilder, InspectContainerOptions, ListContainersOptionsBuilder,
        RemoveContainerOptionsBuilder, StartContainerOptions,
    },
};
use tokio::{runtime::Handle, sync::oneshot};

use super::{fault::EngineFault, owner::SESSION};

/// Where engines listen unless DOCKER_HOST says otherwise.
const SOCKET: &str = "/var/run/docker.sock";
/// The API that is spoken: Debian 12's engine has it, and newer ones keep it.
const API: ClientVersion = ClientVersion {
    major_version: 1,
    minor_version: 41,
};
/// Longest time that the client itself waits; each call's own bound is shorter.
const CLIENT: u64 = 120;

/// An engine that answered. Its event loop ends with it.
#[derive(Debug)]
pub struct Engine {
    docker: Docker,
    handle: Handle,
    socket: PathBuf,
    _alive: oneshot::Sender<()>,
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineLook {
    /// Its version.
    pub version: String,
    /// The runtime that it uses unless told otherwise.
    pub runtime: String,
    /// All runtimes that it knows, sorted.
    pub runtimes: Vec<String>,
    /// Whether it runs as an account.
    pub rootless: bool,
    /// Whether it maps the users of containers.
    pub remapped: bool,
    /// Version of the `runc` that it starts containers with, if it tells.
    pub runc: Option<String>,
}

/// First versions of `runc` without the faults of November 2025 by which a container reaches files of the
/// host's own proc: of the lines 1.2 and 1.3, and every later line.
const MENDED: [(u32, u32); 2] = [(2, 8), (3, 3)];

impl EngineLook {
    /// Known escapes of the runtime, by its version: what to know and what to do. A distribution may have
    /// mended an older one, which its number does not tell; so this is said and nothing is refused.
    #[must_use]
    pub fn runtime_too_old(&self, runtime: &str) -> Option<String> {
        let version = self.runc.as_deref().filter(|_| runtime == "runc")?;
        is_too_old(version).then(|| {
            format!(
                "runtime too old: runc {version} has known escapes (CVE-2025-31133, CVE-2025-52565, CVE-2025-52881) unless the distribution has mended it; 1.2.8, 1.3.3 and later have not"
            )
        })
    }

    /// The runtime that a session gets.
    ///
    /// # Errors
    /// [`EngineFault::NoRuntime`] names those that there are.
    pub fn runtime(&self, wanted: Option<&str>) -> Result<String, EngineFault> {
        match wanted {
            None => Ok(self.runtime.clone()),
            Some(wanted) if self.runtimes.iter().any(|known| known == wanted) => {
                Ok(wanted.to_owned())
            }
            Some(wanted) => Err(EngineFault::NoRuntime {
                runtime: wanted.to_owned(),
                known: self.runtimes.join(", "),
            }),
        }
    }
}

/// An image that the engine has.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// Its id.
    pub(super) id: String,
}

impl Engine {
    /// The engine of this machine: DOCKER_HOST if it names a Unix socket, else the usual place.
    ///
    /// # Errors
    /// [`EngineFault`] says why there is none, and what to do.
    pub fn find() -> Result<Self, EngineFault> {
        let host = std::env::var("DOCKER_HOST").unwrap_or_default();
        if host.is_empty() {
            return Self::at(Path::new(SOCKET));
        }
        match host.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') => Self::at(Path::new(path)),
            _ => Err(EngineFault::Remote { host }),
        }
    }

    /// The engine that listens on `socket`.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn at(socket: &Path) -> Result<Self, EngineFault> {
        let failed = |error: &std::io::Error| EngineFault::connecting(socket.to_owned(), error);
        // The kernel's own answer is the exact one; the client would wrap it three times.
        UnixStream::connect(socket).map_err(|error| failed(&error))?;
        let broken = |why: String| EngineFault::Lost {
            what: "be spoken to",
            why,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| broken(error.to_string()))?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                // Ends when the sender is dropped; what is under way then is given up.
                let _ = runtime.block_on(ended);
                runtime.shutdown_background();
            })
            .map_err(|error| broken(error.to_string()))?;
        let docker = Docker::connect_with_unix(&socket.to_string_lossy(), CLIENT, &API)
            .map_err(|error| EngineFault::calling("be spoken to", &error))?;
        Ok(Self {
            docker,
            handle,
            socket: socket.to_owned(),
            _alive: alive,
        })
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The client, for what is awaited on the engine's own loop.
    pub(super) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Runs something on the engine's loop, as long as the engine is held.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Calls and waits for the answer within a bound.
    fn call<T, F>(
        &self,
        what: &'static str,
        bound: Duration,
        make: impl FnOnce(Docker) -> F,
    ) -> Result<Result<T, Error>, EngineFault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        let call = make(self.docker.clone());
        self.spawn(async move {
            let result = tokio::time::timeout(bound, call).await;
            // Whoever asked may have given up.
            let _ = answer.send(result);
        });
        match answered.recv_timeout(bound + Duration::from_secs(1)) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) | Err(_) => Err(EngineFault::late(what, bound)),
        }
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// It does not answer.
    pub fn look(&self) -> Result<EngineLook, EngineFault> {
        let what = "tell what it is";
        let info = self
            .call(what, super::LONGEST_CALL, |docker| async move {
                docker.info().await
            })?
            .map_err(|error| EngineFault::calling(what, &error))?;
        let options = info.security_options.unwrap_or_default();
        let has = |name: &str| {
            options
                .iter()
                .any(|option| option.split(',').any(|word| word == format!("name={name}")))
        };
        let told = self
            .call(what, super::LONGEST_CALL, |docker| async move {
                docker.version().await
            })?
            .map_err(|error| EngineFault::calling(what, &error))?;
        let mut parts = told.components.into_iter().flatten();
        let runc = parts.find(|part| part.name == "runc");
        let mut runtimes: Vec<String> = info.runtimes.unwrap_or_default().into_keys().collect();
        runtimes.sort();
        Ok(EngineLook {
            version: info.server_version.unwrap_or_default(),
            runtime: info.default_runtime.unwrap_or_default(),
            runtimes,
            rootless: has("rootless"),
            remapped: has("userns"),
            runc: runc.map(|part| part.version),
        })
    }

    /// An image by name or digest; it is never pulled.
    pub(super) fn image(&self, name: &str) -> Result<Image, EngineFault> {
        if !is_reference(name) {
            return Err(EngineFault::BadImage {
                image: name.to_owned(),
            });
        }
        let what = "look an image up";
        let wanted = name.to_owned();
        let found = self.call(what, super::LONGEST_CALL, move |docker| async move {
            docker.inspect_image(&wanted).await
        })?;
        let found = found.map_err(|error| match error {
            Error::DockerResponseServerError {
                status_code: 404, ..
            } => EngineFault::NoImage {
                image: name.to_owned(),
            },
            other => EngineFault::calling(what, &other),
        })?;
        let (os, arch) = (
            found.os.unwrap_or_default(),
            found.architecture.unwrap_or_default(),
        );
        let here = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        if os != "linux" || arch != here {
            return Err(EngineFault::Foreign {
                image: name.to_owned(),
                found: format!("{os}/{arch}"),
                wanted: format!("linux/{here}"),
            });
        }
        let id = found.id.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| EngineFault::Refused {
            what,
            message: "it gave no id".to_owned(),
        })?;
        Ok(Image { id })
    }

    /// Makes a container; gives the engine's warnings.
    pub(super) fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<Vec<String>, EngineFault> {
        let what = "make the container";
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let made = self.call(what, super::LONGEST_CALL, move |docker| async move {
            docker.create_container(Some(options), body).await
        })?;
        let made = made.map_err(|error| EngineFault::calling(what, &error))?;
        Ok(made.warnings)
    }

    /// Starts a container.
    pub(super) fn start(&self, name: &str) -> Result<(), EngineFault> {
        let what = "start the container";
        let name = name.to_owned();
        self.call(what, super::LONGEST_CALL, move |docker| async move {
            docker
                .start_container(&name, None::<StartContainerOptions>)
                .await
        })?
        .map_err(|error| EngineFault::calling(what, &error))
    }

    /// The first process of a running container, as this process sees it.
    pub(super) fn pid(&self, name: &str) -> Result<u32, EngineFault> {
        let found = self.inspect(name, super::LONGEST_CALL)?;
        let pid = found.and_then(|found| found.state?.pid);
        pid.and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid > 0)
            .ok_or_else(|| EngineFault::Refused {
                what: "name the container's first process",
                message: "it says that none runs".to_owned(),
            })
    }

    /// A container's state; `None` if there is none of that name.
    pub(super) fn inspect(
        &self,
        name: &str,
        bound: Duration,
    ) -> Result<Option<ContainerInspectResponse>, EngineFault> {
        let what = "tell of the container";
        let name = name.to_owned();
        let found = self.call(what, bound, move |docker| async move {
            docker
                .inspect_container(&name, None::<InspectContainerOptions>)
                .await
        })?;
        absent_is_none(what, found)
    }

    /// Ends and removes a container with its anonymous volumes. One that is not there is no fault.
    pub(super) fn remove(&self, name: &str, bound: Duration) -> Result<(), EngineFault> {
        let what = "remove the container";
        let name = name.to_owned();
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true);
        let options = options.build();
        let removed = self.call(what, bound, move |docker| async move {
            docker.remove_container(&name, Some(options)).await
        })?;
        match removed {
            // Its removal is under way already.
            Err(Error::DockerResponseServerError {
                status_code: 409, ..
            }) => Ok(()),
            other => absent_is_none(what, other).map(drop),
        }
    }

    /// Every container, dead or alive, that a session was ever made in.
    pub(super) fn ours(&self) -> Result<Vec<ContainerSummary>, EngineFault> {
        let what = "list its containers";
        let filters = HashMap::from([("label", vec![SESSION])]);
        let options = ListContainersOptionsBuilder::new()
            .all(true)
            .filters(&filters)
            .build();
        self.call(what, super::LONGEST_CALL, move |docker| async move {
            docker.list_containers(Some(options)).await
        })?
        .map_err(|error| EngineFault::calling(what, &error))
    }
}

fn absent_is_none<T>(
    what: &'static str,
    result: Result<T, Error>,
) -> Result<Option<T>, EngineFault> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::DockerResponseServerError {
            status_code: 404, ..
        }) => Ok(None),
        Err(error) => Err(EngineFault::calling(what, &error)),
    }
}

/// Whether a word can name an image. It becomes part of a request's path.
fn is_reference(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
    (1..=512).contains(&word.len())
        && word.bytes().all(plain)
        && word
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && !word
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == "..")
}

/// Whether a version of `runc` is older than [`MENDED`]; one that cannot be read is.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit());
        part.get(..end.unwrap_or(part.len()))
            .and_then(|digits| digits.parse::<u32>().ok())
    });
    let mut next = || numbers.next().flatten();
    let (Some(major), Some(minor)) = (next(), next()) else {
        return true;
    };
    let patch = next().unwrap_or(0);
    let line = MENDED.iter().find(|(line, _)| *line == minor);
    match (major, line) {
        (1, Some((_, first))) => patch < *first,
        (1, None) => MENDED.iter().all(|(line, _)| minor < *line),
        (major, _) => major < 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_cannot_lead_elsewhere_in_the_api() {
        for good in [
            "debian:12",
            "a/b/c@sha256:00ff",
            "sha256:00ff",
            "host:5000/x_y.z-1",
        ] {
            assert!(is_reference(good), "{good}");
        }
        for bad in [
            "",
            "/x",
            "../x",
            "a/../b",
            "a//b",
            "a b",
            "a?force=1",
            "a#b",
            "-x",
            "a%2f",
        ] {
            assert!(!is_reference(bad), "{bad}");
        }
    }

    #[test]
    fn an_unknown_runtime_is_told_with_those_that_there_are() {
        let look = EngineLook {
            version: "20".into(),
            runtime: "runc".into(),
            runtimes: vec!["crun".into(), "runc".into()],
            rootless: false,
            remapped: false,
            runc: None,
        };
        assert_eq!(look.runtime(None), Ok("runc".to_owned()));
        assert_eq!(look.runtime(Some("crun")), Ok("crun".to_owned()));
        let fault = look.runtime(Some("kata")).expect_err("unknown");
        assert!(fault.to_string().contains("crun, runc"));
    }

    #[test]
    fn es_012_a_runtime_with_known_escapes_is_told() {
        for old in [
            "1.1.5+ds1",
            "1.2.7",
            "1.3.2",
            "1.0.0-rc93",
            "0.9",
            "unknown",
        ] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["1.2.8", "1.3.3+ds", "1.4.0", "2.0"] {
            assert!(!is_too_old(new), "{new}");
        }
        let mut look = EngineLook {
            version: "28".to_owned(),
            runtime: "runc".to_owned(),
            runtimes: vec!["runc".to_owned()],
            rootless: false,
            remapped: false,
            runc: Some("1.2.7".to_owned()),
        };
        let told = look.runtime_too_old("runc").expect("told");
        assert!(
            told.contains("runtime too old") && told.contains("1.2.8"),
            "{told}"
        );
        assert_eq!(look.runtime_too_old("runsc"), None, "another runtime");
        look.runc = None;
        assert_eq!(look.runtime_too_old("runc"), None, "not told");
    }
}
