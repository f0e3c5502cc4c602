//! A private place for one test: Provost's own folders, a workspace, and an account to run as.

use std::{
    ffi::OsStr,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use super::{Done, Live, is_root, must, programs, residue, some};

/// An ordinary account that every machine has: nobody.
const ORDINARY: u32 = 65_534;
/// Longest time of one call of `provost`; a hang fails the test instead of stopping the suite.
const LONGEST: Duration = Duration::from_secs(120);

/// Whose session it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// Whoever runs the tests.
    Own,
    /// An account without rights; only root can become it.
    Ordinary,
}

impl Account {
    /// Every account that can be tried here.
    #[must_use]
    pub fn all() -> Vec<Self> {
        if is_root() {
            vec![Self::Own, Self::Ordinary]
        } else {
            vec![Self::Own]
        }
    }
}

/// The place. When it is dropped, nothing may be left of what ran in it.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    account: Account,
}

impl Place {
    /// An empty place of the current account.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Account::Own)
    }

    /// An empty place.
    #[must_use]
    pub fn of(account: Account) -> Self {
        let folder = must(
            "a folder",
            tempfile::Builder::new().prefix("provost-test-").tempdir(),
        );
        let place = Self { folder, account };
        place.own(place.root(), 0o755);
        for name in ["state", "config", "run", "work", "home"] {
            must("a folder", std::fs::create_dir(place.root().join(name)));
            let mode = if name == "work" { 0o755 } else { 0o700 };
            place.own(&place.root().join(name), mode);
        }
        place
    }

    /// The whole place.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The workspace.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// The configuration folder.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    /// The state folder.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root().join("state")
    }

    /// The tree that a session's agent sees as its workspace, as it lies on the host.
    #[must_use]
    pub fn tree(&self, session: &str) -> PathBuf {
        self.state().join("sessions").join(session).join("tree")
    }

    /// The id of the only session so far, once its folder is there.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        let folders = std::fs::read_dir(self.state().join("sessions")).ok()?;
        let mut names: Vec<String> = folders
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names.pop()
    }

    /// Writes a file of the place (`work/a.txt`), with its folders.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        let mut missing: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|f| !f.is_dir())
            .collect();
        missing.reverse();
        for folder in missing {
            must("a folder", std::fs::create_dir(folder));
            self.own(folder, 0o755);
        }
        must("a file", std::fs::write(&path, content));
        self.own(&path, 0o644);
        path
    }

    /// Sets the mode of a file of the place.
    pub fn mode(&self, name: &str, mode: u32) {
        self.own(&self.root().join(name), mode);
    }

    /// Reads a file of the place; `None` if it is not there.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.root().join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a shell script in the workspace, as the account.
    pub fn build(&self, script: &str) {
        let mut shell = self.program(Path::new("/bin/bash"), ["-euc", script]);
        let output = must("bash", shell.current_dir(self.work()).output());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {told}");
    }

    /// Copies the sample repository of the examples into the workspace.
    pub fn sample(&self) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/sample-repo");
        let status = Command::new("cp")
            .arg("-RT")
            .arg(&examples)
            .arg(self.work())
            .status();
        assert!(must("cp", status).success(), "the sample is copied");
        self.own_all(&self.work());
    }

    /// Makes the sample database `reservo.db` in the place.
    #[must_use]
    pub fn reservo(&self) -> PathBuf {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/reservo.sql");
        let text = must("the script", std::fs::read_to_string(script));
        let path = self.root().join("reservo.db");
        let made = rusqlite::Connection::open(&path).and_then(|db| db.execute_batch(&text));
        must("the database", made);
        self.own(&path, 0o644);
        path
    }

    /// Writes a conversation: each line is one answer of the model. `@WORK@` and `@ROOT@` stand for
    /// this place's folders.
    pub fn script(&self, text: &str) -> PathBuf {
        let text = text
            .replace("@WORK@", &self.work().display().to_string())
            .replace("@ROOT@", &self.root().display().to_string());
        self.write("script.jsonl", text)
    }

    /// Writes a policy.
    pub fn policy(&self, text: &str) -> PathBuf {
        self.write("policy.toml", text)
    }

    /// The name of a policy whose sessions work in a copy: for tests that write into a running session's
    /// tree from outside, which an overlay does not take note of.
    #[must_use]
    pub fn copying(&self) -> &'static str {
        let text = "version = 1\nname = \"copying\"\nextends = \"default\"\n[confinement]\nworkspace = \"copy\"\n";
        self.write("config/policies/copying.toml", text);
        "copying"
    }

    /// `provost ARGS`, ready to start; standard input is empty.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        self.program(&self.reachable(&programs().provost), args)
    }

    /// Any program, with the same account and environment.
    #[must_use]
    pub fn program<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("LANG", "C.UTF-8")
            .env("HOME", self.root().join("home"))
            .env("PROVOST_STATE_DIR", self.state())
            .env("PROVOST_CONFIG_DIR", self.config())
            .env("PROVOST_RUNTIME_DIR", self.root().join("run"))
            .env("PROVOST_WORKER", self.reachable(&programs().worker))
            .current_dir(self.root())
            .stdin(Stdio::null());
        if self.account == Account::Ordinary {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        command
    }

    /// Starts `provost ARGS`.
    pub fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Live {
        Live::start(self.command(args))
    }

    /// Runs `provost ARGS` to its end.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        self.start(args).wait(LONGEST)
    }

    /// `provost run` of a conversation in this workspace, with more arguments before the task.
    pub fn play(&self, script: &str, more: &[&str]) -> Done {
        self.start_play(script, more).wait(LONGEST)
    }

    /// The same, started.
    pub fn start_play(&self, script: &str, more: &[&str]) -> Live {
        Live::start(self.play_command(script, more))
    }

    /// The same, ready to start.
    #[must_use]
    pub fn play_command(&self, script: &str, more: &[&str]) -> Command {
        let script = self.script(script);
        let mut command = self.command(["run", "--workspace"]);
        command
            .arg(self.work())
            .arg("--script")
            .arg(script)
            .args(more)
            .arg("the task");
        command
    }

    /// `provost tools call` in this workspace.
    pub fn call(&self, tool: &str, input: &serde_json::Value, more: &[&str]) -> Done {
        let mut command = self.command(["tools", "call", tool, "--input"]);
        command
            .arg(input.to_string())
            .arg("--workspace")
            .arg(self.work())
            .args(more);
        Live::start(command).wait(LONGEST)
    }

    /// Everything that the record has of a session, oldest first.
    #[must_use]
    pub fn entries(&self, session: &str) -> Vec<serde_json::Value> {
        let shown = self.run(["sessions", "show", session, "--json"]);
        assert_eq!(shown.code, Some(0), "{shown}");
        shown
            .stdout
            .lines()
            .map(|line| must("an entry", serde_json::from_str(line)))
            .collect()
    }

    /// The same, without the frame around each entry.
    #[must_use]
    pub fn told(&self, session: &str) -> Vec<serde_json::Value> {
        let entries = self.entries(session).into_iter();
        entries
            .map(|stored| some("entry", stored.get("entry").cloned()))
            .collect()
    }

    /// What the record's own connection says to a query with one text column.
    #[must_use]
    pub fn ask_record(&self, query: &str) -> Vec<String> {
        let db = must(
            "the record",
            rusqlite::Connection::open(self.state().join("record.db")),
        );
        let mut statement = must(query, db.prepare(query));
        let rows = must(query, statement.query_map([], |row| row.get(0)));
        rows.map(|row| must(query, row)).collect()
    }

    /// A path of the built programs that the account can reach: the file itself, or a copy.
    fn reachable(&self, program: &Path) -> PathBuf {
        let open = |path: &Path| {
            path.metadata()
                .is_ok_and(|facts| facts.permissions().mode() & 0o001 != 0)
        };
        if self.account == Account::Own || program.ancestors().all(open) {
            return program.to_owned();
        }
        let copy = self.root().join(some("a name", program.file_name()));
        if !copy.exists() {
            must("a copy of the program", std::fs::copy(program, &copy));
            self.own(&copy, 0o755);
        }
        copy
    }

    /// Gives one path to the account.
    fn own(&self, path: &Path, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        must("a mode", std::fs::set_permissions(path, permissions));
        if self.account == Account::Ordinary {
            let owned = std::os::unix::fs::chown(path, Some(ORDINARY), Some(ORDINARY));
            must("an owner", owned);
        }
    }

    fn own_all(&self, folder: &Path) {
        if self.account == Account::Ordinary {
            let who = format!("{ORDINARY}:{ORDINARY}");
            let status = Command::new("chown")
                .arg("-R")
                .arg(who)
                .arg(folder)
                .status();
            assert!(
                must("chown", status).success(),
                "the workspace is given away"
            );
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = residue::of(self.root());
        if !std::thread::panicking() {
            assert!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        }
    }
}
