//! The Docker engine of this machine, as tests see it: whether it is there, what is left with it, and a
//! door in front of it that can be narrowed, slammed, or opened to an account.

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{must, skipped};

/// Where the engine listens.
pub const SOCKET: &str = "/var/run/docker.sock";
/// The image that the tests' sessions run in.
pub const IMAGE: &str = "provost-minimal:latest";

/// Whether sessions can run in containers here; says why not.
#[must_use]
pub fn has_engine() -> bool {
    let answers = UnixStream::connect(SOCKET).is_ok();
    if skipped(
        answers,
        "no Docker engine answers here (apt-get install docker.io, dockerd)",
    ) {
        return false;
    }
    let images = docker(&["image", "inspect", IMAGE]).is_some();
    !skipped(
        images,
        "the image provost-minimal is not there: `make images`",
    )
}

/// `docker ARGS`: its output if it worked.
#[must_use]
pub fn docker(args: &[&str]) -> Option<String> {
    let done = must("docker", Command::new("docker").args(args).output());
    let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    done.status.success().then_some(text)
}

/// Whether the engine has a container, dead or alive, of a session.
#[must_use]
pub fn has_container(session: &str) -> bool {
    docker(&["container", "inspect", &format!("provost-{session}")]).is_some()
}

/// What the door does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The engine answers.
    Through,
    /// The engine does not hear of it, and this is the answer.
    Answer(u16, &'static str),
    /// Nobody ever answers.
    Never,
}

type Judge = fn(&str) -> Pass;

/// A door in front of the engine.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    open: Arc<AtomicBool>,
    through: Arc<Mutex<Vec<UnixStream>>>,
}

impl Door {
    /// A door at `path` through which everybody may go; `judge` sees each request's first line.
    pub fn at(path: &Path, judge: Judge) -> Self {
        let listener = must("a door", UnixListener::bind(path));
        let all = std::fs::Permissions::from_mode(0o666);
        must("a mode", std::fs::set_permissions(path, all));
        let open = Arc::new(AtomicBool::new(true));
        let through: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let (ours, list) = (Arc::clone(&open), Arc::clone(&through));
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if !ours.load(Ordering::SeqCst) {
                    break;
                }
                if let (Ok(mut list), Ok(copy)) = (list.lock(), client.try_clone()) {
                    list.push(copy);
                }
                std::thread::spawn(move || serve(client, judge));
            }
        });
        Self {
            path: path.to_owned(),
            open,
            through,
        }
    }

    /// What DOCKER_HOST says.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    /// The engine is gone as far as anybody behind this door can tell.
    pub fn slam(&self) {
        self.open.store(false, Ordering::SeqCst);
        let _ = std::fs::remove_file(&self.path);
        if let Ok(list) = self.through.lock() {
            for stream in list.iter() {
                // One that has ended is gone already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Wakes the thread that waits for somebody to come.
        self.open.store(false, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(mut client: UnixStream, judge: Judge) {
    let mut head = Vec::new();
    let mut chunk = [0_u8; 8192];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut chunk) {
            Ok(got @ 1..) => head.extend_from_slice(chunk.get(..got).unwrap_or_default()),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    match judge(text.lines().next().unwrap_or_default()) {
        Pass::Through => {}
        Pass::Answer(code, message) => {
            let body = format!("{{\"message\":\"{message}\"}}");
            let answer = format!(
                "HTTP/1.1 {code} Told\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            // A client that gave up needs no answer.
            let _ = client.write_all(answer.as_bytes());
            return;
        }
        Pass::Never => {
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
    }
    let Ok(mut engine) = UnixStream::connect(SOCKET) else {
        return;
    };
    let (Ok(mut back), Ok(mut answers)) = (engine.try_clone(), client.try_clone()) else {
        return;
    };
    let returning = std::thread::spawn(move || {
        let _ = std::io::copy(&mut back, &mut answers);
        let _ = answers.shutdown(Shutdown::Both);
    });
    if engine.write_all(&head).is_ok() {
        let _ = std::io::copy(&mut client, &mut engine);
    }
    let _ = engine.shutdown(Shutdown::Both);
    let _ = returning.join();
}

/// Asks the engine plainly: the status and the body of its answer.
fn ask(method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut engine = UnixStream::connect(SOCKET)?;
    let head = format!(
        "{method} /v1.41{path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    engine.write_all(head.as_bytes())?;
    let mut text = String::new();
    engine.read_to_string(&mut text)?;
    let code = text
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    Ok((code.unwrap_or_default(), body.unwrap_or_default()))
}

/// The engine's own way through one container of the tests' image: created, started, waited for, removed.
///
/// # Errors
/// It refused one of them.
pub fn plain_run() -> std::io::Result<Duration> {
    let began = Instant::now();
    let body = format!(
        "{{\"Image\":\"{IMAGE}\",\"Cmd\":[\"/bin/true\"],\"NetworkDisabled\":true,\"HostConfig\":{{\"NetworkMode\":\"none\"}}}}"
    );
    let told = |what: &str, (code, body): (u16, String)| {
        if (200..300).contains(&code) {
            return Ok(body);
        }
        Err(std::io::Error::other(format!("{what}: {code} {body}")))
    };
    let made = told("create", ask("POST", "/containers/create", &body)?)?;
    let id = made.split('"').nth(3).unwrap_or_default().to_owned();
    told(
        "start",
        ask("POST", &format!("/containers/{id}/start"), "")?,
    )?;
    told("wait", ask("POST", &format!("/containers/{id}/wait"), "")?)?;
    told("remove", ask("DELETE", &format!("/containers/{id}"), "")?)?;
    Ok(began.elapsed())
}
