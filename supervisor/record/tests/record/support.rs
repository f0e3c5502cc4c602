//! A record in a folder of its own, sample entries, and processes that write and are killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use protocol::{CallId, Digest, Message, SessionId, Usage};
use supervisor_core::{Certificate, Entry};
use supervisor_record::{NewSession, Places, Record, SessionLock};

pub(crate) fn places(root: &Path) -> Places {
    Places::from_environment(|name| (name == "HOME").then(|| root.as_os_str().to_owned()))
        .expect("places")
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::parse(name).expect("valid")
}

pub(crate) fn call(name: &str) -> CallId {
    CallId::parse(name).expect("valid")
}

/// Opens the record and begins a session in it.
pub(crate) fn begin(places: &Places, name: &str) -> (Record, SessionId, SessionLock) {
    let mut record = Record::open(places).expect("opens");
    let id = session(name);
    let lock = SessionLock::take(places, &id)
        .expect("locks")
        .expect("free");
    record
        .create_session(&lock, &NewSession::default(), 1_000)
        .expect("created");
    (record, id, lock)
}

pub(crate) fn intent(name: &str) -> Entry {
    Entry::Intent {
        call: call(name),
        effect: "command".into(),
        command: None,
        what: format!("line of {name}"),
        permit: 1,
    }
}

pub(crate) fn outcome(name: &str) -> Entry {
    Entry::Outcome {
        call: call(name),
        ok: true,
        what: "exit 0".into(),
        ms: 3,
        before: None,
        spool: None,
        written: None,
    }
}

pub(crate) fn said(text: &str) -> Entry {
    Entry::Message {
        message: Message::user(text),
    }
}

pub(crate) fn ended() -> Entry {
    Entry::Ended {
        outcome: "done".into(),
        reason: "all done".into(),
        usage: Usage::default(),
        calls: 1,
        refusals: 0,
    }
}

pub(crate) fn certificate() -> Entry {
    Entry::Certificate(Box::new(Certificate {
        nonce: "00".into(),
        boot_id: "b".into(),
        time_ms: 1,
        worker: Digest::of(b"worker"),
        policy: Digest::of(b"policy"),
        kernel: "6.1".into(),
        abi: 7,
        errata: 0,
        backend: "landlock".into(),
        situation: "A".into(),
        uid: 1000,
        capabilities: "0".into(),
        container: None,
        rights: Vec::new(),
    }))
}

/// Starts this test program again in one of its roles, which are tests that do nothing unless the
/// variable is set.
pub(crate) fn start(role: &str, root: &Path, argument: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", role, "--nocapture", "--test-threads=1"]);
    child
        .env("RECORD_TEST_ROOT", root)
        .env("RECORD_TEST_ARGUMENT", argument);
    child
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("started")
}

/// The role's root and argument; `None` in an ordinary run.
pub(crate) fn role() -> Option<(std::path::PathBuf, String)> {
    let root = std::env::var_os("RECORD_TEST_ROOT")?;
    Some((
        root.into(),
        std::env::var("RECORD_TEST_ARGUMENT").expect("argument"),
    ))
}
