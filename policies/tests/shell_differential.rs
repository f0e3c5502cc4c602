//! What bash starts must be what the reader lists, or the reader must say that it does not
//! understand: held on a corpus and on lines made at random, against bash itself.
//!
//! Every program is a stub that logs its arguments; common builtins are functions that log and go
//! on. Each line runs twice, with stubs that succeed and with stubs that fail, in an empty folder.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it skips"
)]

use std::{
    cell::Cell,
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use policies::shell::{Reading, Simple, read};

/// Programs that are stubs.
const STUBS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "apt-get",
    "awk",
    "base64",
    "basename",
    "cargo",
    "cat",
    "chmod",
    "cmake",
    "cp",
    "curl",
    "cut",
    "date",
    "diff",
    "dirname",
    "docker",
    "du",
    "expr",
    "git",
    "go",
    "grep",
    "head",
    "id",
    "jq",
    "ln",
    "ls",
    "make",
    "mkdir",
    "mktemp",
    "mv",
    "node",
    "npm",
    "nproc",
    "pip",
    "psql",
    "pytest",
    "python",
    "python3",
    "readlink",
    "realpath",
    "rg",
    "rm",
    "rustc",
    "sed",
    "seq",
    "sleep",
    "sort",
    "sqlite3",
    "ssh",
    "stat",
    "sudo",
    "tail",
    "tar",
    "tee",
    "touch",
    "tr",
    "tree",
    "uniq",
    "unzip",
    "wc",
    "wget",
    "which",
    "yes",
    "zip",
    "[[",
    "if",
    "x y",
    "it's",
    "caf\u{e9}",
];
/// Builtins that log and go on.
const BUILTINS: &[&str] = &["echo", "printf", "true", "false", "pwd", "kill", "type"];
/// Programs that are themselves, because they start others.
const REAL: &[&str] = &[
    "bash", "env", "find", "nice", "nohup", "setsid", "sh", "timeout", "xargs",
];

struct Bench {
    root: PathBuf,
    runs: Cell<u32>,
    bash: PathBuf,
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

impl Bench {
    /// `None` where there is no bash.
    fn new(name: &str) -> Option<Self> {
        let Some(bash) = on_path("bash") else {
            eprintln!("skipped: no bash on PATH to compare with");
            return None;
        };
        let root = std::env::temp_dir().join(format!("shell-{name}-{}", std::process::id()));
        let bin = root.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let log = root.join("log");
        let stub = bin.join(".stub");
        let text = format!(
            "#!{} -p\nbuiltin printf '%s\\0' \"$#\" \"${{0##*/}}\" \"$@\" >>\"${{SHELL_LOG:-{}}}\"\nexit \"$(<{})\"\n",
            bash.display(),
            log.display(),
            root.join("status").display()
        );
        fs::write(&stub, text).unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        for name in STUBS {
            symlink(&stub, bin.join(name)).unwrap();
        }
        for name in REAL {
            let target = if *name == "sh" {
                Some(bash.clone())
            } else {
                on_path(name)
            };
            if let Some(target) = target {
                symlink(target, bin.join(name)).unwrap();
            }
        }
        Some(Self {
            root,
            bash,
            runs: Cell::new(0),
        })
    }

    /// Runs a line and returns the argument lists of what was started. Loggers in the background may
    /// tear each other's records: then the line is run again.
    fn started(&self, line: &str, status: u8) -> Vec<Vec<String>> {
        for _ in 0..5 {
            if let Some(found) = self.run_once(line, status) {
                return found;
            }
        }
        panic!("the log of {line:?} was torn five times");
    }

    /// One run; `None` if its log is torn.
    fn run_once(&self, line: &str, status: u8) -> Option<Vec<Vec<String>>> {
        let folder = self.root.join("empty");
        let _absent = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        // A log of its own, so that what an earlier line left running does not count; where the
        // environment is lost the common one is used.
        self.runs.set(self.runs.get() + 1);
        let log = self.root.join(format!("log{}", self.runs.get()));
        let common = self.root.join("log");
        fs::write(&log, "").unwrap();
        fs::write(&common, "").unwrap();
        fs::write(self.root.join("status"), status.to_string()).unwrap();
        let mut command = Command::new(&self.bash);
        command
            .args(["--norc", "--noprofile", "-c", line])
            .current_dir(&folder)
            .env_clear()
            .env("PATH", self.root.join("bin"))
            .env("HOME", &folder)
            .env("LANG", "C.UTF-8")
            .env("SHELL_LOG", &log)
            // A function that calls itself in a pipe would be a fork bomb.
            .env("FUNCNEST", "3")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in BUILTINS {
            let body = format!(
                "() {{ builtin printf '%s\\0' \"$#\" {name} \"$@\" >>{}; builtin {name} \"$@\"; }}",
                log.display()
            );
            command.env(format!("BASH_FUNC_{name}%%"), body);
        }
        let missing = format!(
            "() {{ builtin printf '%s\\0' \"$(($#-1))\" \"$@\" >>{}; return {status}; }}",
            log.display()
        );
        command.env("BASH_FUNC_command_not_found_handle%%", missing);
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                child.kill().unwrap();
                child.wait().unwrap();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Jobs in the background may still be logging.
        if line.contains('&') || line.contains("coproc") || line.contains(">(") {
            std::thread::sleep(Duration::from_millis(60));
        }
        // What a line left running ends with it; the group is gone if nothing was left.
        let end = format!("kill -9 -- -{}", child.id());
        let _gone = Command::new(&self.bash)
            .args(["--norc", "--noprofile", "-c", &end])
            .stderr(Stdio::null())
            .status();
        let mut found = records(&fs::read(&log).unwrap())?;
        found.extend(records(&fs::read(&common).unwrap())?);
        Some(found)
    }

    /// Says what is wrong with the reading of a line, if anything.
    fn judge(&self, line: &str, reading: &Reading) -> Option<String> {
        if reading.doubt.is_some() {
            return None;
        }
        for status in [0, 1] {
            for argv in self.started(line, status) {
                if !reading
                    .simples
                    .iter()
                    .any(|simple| matches(simple, &argv, &self.root))
                {
                    let listed: Vec<&str> =
                        reading.simples.iter().map(|s| s.text.as_str()).collect();
                    return Some(format!("{line:?} started {argv:?}, listed were {listed:?}"));
                }
            }
        }
        None
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.root);
    }
}

/// The records of a log; `None` if one is torn.
fn records(log: &[u8]) -> Option<Vec<Vec<String>>> {
    let mut fields = log
        .split(|byte| *byte == 0)
        .map(|field| String::from_utf8_lossy(field).into_owned());
    let mut records = Vec::new();
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let count: usize = count.parse().ok()?;
        let record: Vec<String> = fields.by_ref().take(count + 1).collect();
        if record.len() <= count {
            return None;
        }
        records.push(record);
    }
    Some(records)
}

/// Whether an argument list is one that the simple command can become.
fn matches(simple: &Simple, argv: &[String], root: &Path) -> bool {
    let home = root.join("empty").display().to_string();
    let (Some(name), Some((program, args))) = (simple.name(), argv.split_first()) else {
        return false;
    };
    if name != program.rsplit('/').next().unwrap_or(program) {
        return false;
    }
    // A literal is itself; anything else is any number of words.
    let mut reachable = vec![false; args.len() + 1];
    reachable[0] = true;
    for word in &simple.args {
        let mut next = vec![false; args.len() + 1];
        for at in (0..=args.len()).filter(|at| reachable[*at]) {
            match &word.literal {
                Some(text) => {
                    let expanded = text.replacen('~', &home, 1);
                    if args
                        .get(at)
                        .is_some_and(|arg| arg == text || *arg == expanded)
                    {
                        next[at + 1] = true;
                    }
                }
                None => next[at..].fill(true),
            }
        }
        reachable = next;
    }
    reachable[args.len()]
}

/// Lines of the corpus: `+` must be understood, `?` must be a doubt; `⏎` is a line break.
fn corpus() -> Vec<(bool, String)> {
    let text = include_str!("corpus/lines.txt");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("##"));
    lines
        .map(|line| {
            let (mark, rest) = line.split_at(2);
            assert!(matches!(mark, "+ " | "? "), "no mark: {line}");
            (mark == "+ ", rest.replace('⏎', "\n"))
        })
        .collect()
}

#[test]
fn the_corpus_is_understood_or_doubted_as_marked() {
    let lines = corpus();
    assert!(lines.len() >= 300, "{} lines", lines.len());
    let mut wrong = Vec::new();
    for (understood, line) in &lines {
        let reading = read(line);
        if reading.doubt.is_none() != *understood {
            wrong.push(format!("{line:?}: {:?}", reading.doubt));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn bash_starts_nothing_of_the_corpus_that_is_not_listed() {
    let Some(bench) = Bench::new("corpus") else {
        return;
    };
    let wrong: Vec<String> = corpus()
        .iter()
        .filter_map(|(_, line)| bench.judge(line, &read(line)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Lines of a developer's day, from two lists; what would touch more than the empty folder is left
/// out, because these run. A login shell runs the host's own profile, which is no part of the line.
fn usual() -> Vec<String> {
    let day = include_str!("corpus/ordinary.txt").lines();
    let made = include_str!("corpus/usual.txt").lines();
    let reaches = [
        "kill", "/tmp", "/usr", "/etc", "/var", "/opt", "~", "HOME", "mktemp", "watch ",
        "bash -lc", "sh -lc",
    ];
    day.map(|line| line.replace('␤', "\n"))
        .chain(made.map(|line| line.replace('⏎', "\n")))
        .filter(|line| !reaches.iter().any(|place| line.contains(place)))
        .collect()
}

#[test]
fn usual_lines_are_understood() {
    let lines = usual();
    assert!(
        corpus().len() + lines.len() >= 2_000,
        "{} lines",
        lines.len()
    );
    let doubted: Vec<String> = lines
        .iter()
        .filter_map(|line| read(line).doubt.map(|doubt| format!("{line:?}: {doubt}")))
        .collect();
    assert!(
        doubted.len() * 20 <= lines.len(),
        "{} of {} doubted:\n{}",
        doubted.len(),
        lines.len(),
        doubted.join("\n")
    );
}

#[test]
fn bash_starts_nothing_of_usual_lines_that_is_not_listed() {
    const BENCHES: usize = 4;
    let lines = usual();
    let share = lines.len().div_ceil(BENCHES);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = lines
            .chunks(share)
            .enumerate()
            .map(|(number, lines)| {
                scope.spawn(move || -> Vec<String> {
                    let Some(bench) = Bench::new(&format!("usual{number}")) else {
                        return Vec::new();
                    };
                    let judged = lines
                        .iter()
                        .filter_map(|line| bench.judge(line, &read(line)));
                    judged.collect()
                })
            })
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_comparison_itself_can_fail() {
    let Some(bench) = Bench::new("sabotage") else {
        return;
    };
    let mut reading = read("true; rm x");
    reading.simples.pop();
    assert!(
        bench.judge("true; rm x", &reading).is_some(),
        "a command left out was not noticed"
    );
    let other = read("true; rm y");
    assert!(
        bench.judge("true; rm x", &other).is_some(),
        "another argument was not noticed"
    );
}

/// Pieces that random lines are made of. No piece names a place outside the folder.
const PIECES: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "echo",
    "true",
    "x",
    "y",
    " ",
    " ",
    " ",
    " ",
    ";",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "\n",
    "\n",
    "(",
    ")",
    "{ ",
    " }",
    "; }",
    "if ",
    "; then ",
    "; fi",
    "else ",
    "while false; do ",
    "; done",
    "for i in ",
    "; do ",
    "case x in ",
    "x) ",
    ";;",
    " esac",
    "[[ ",
    " ]]",
    "((",
    "))",
    "! ",
    "time ",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\\n",
    "$'",
    "$\"",
    "$(",
    "`",
    "${x:-",
    "${x}",
    "${x#",
    "}",
    "$((",
    "1",
    "+",
    "$x",
    "$",
    "<(",
    ">(",
    "<f",
    ">f",
    ">>f",
    "2>&1",
    "&>f",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "\nE\n",
    "E",
    "<<<",
    "#",
    " # ",
    "*",
    "?",
    "{a,b}",
    "~",
    "x=1 ",
    "x=$(",
    "x=(",
    "eval ",
    "env ",
    "sh -c ",
    "xargs ",
    "f() { a; }; ",
    "f",
    "=~ ",
    "-eq ",
    "\t",
    "=",
    "é",
    "@(",
    "!(",
    "coproc ",
    "timeout 1 ",
    "$[",
    "]",
    "[",
    "x[",
    "]=",
    "\\'",
    "\\\"",
    "\\`",
    "\\$",
    "function f ",
    "in ",
    "do ",
];

#[test]
fn bash_starts_nothing_of_random_lines_that_is_not_listed() {
    let Some(bench) = Bench::new("random") else {
        return;
    };
    // A fixed sequence, so that a failure is the same everywhere; ROUNDS makes it longer.
    let rounds: u64 = std::env::var("ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(120);
    let mut state: u64 = std::env::var("SEED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(7);
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for _ in 0..rounds {
        // Most random lines make no sense; take those that are understood.
        let line = loop {
            let length = 2 + next(12);
            let line: String = (0..length).map(|_| PIECES[next(PIECES.len())]).collect();
            if read(&line).doubt.is_none() && !line.contains("f |") {
                break line;
            }
        };
        compared += 1;
        wrong.extend(bench.judge(&line, &read(&line)));
    }
    assert!(
        compared > 0 && wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Makes lines by a grammar of its own, so that most of them mean something to bash.
struct Maker {
    state: u64,
}

impl Maker {
    fn next(&mut self, below: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).unwrap() % below
    }

    fn pick(&mut self, from: &[&str]) -> String {
        let at = self.next(from.len());
        from[at].to_owned()
    }

    fn blank(&mut self) -> String {
        self.pick(&[" ", " ", " ", "  ", "\t", " \\\n", "\\\n "])
    }

    fn end(&mut self) -> String {
        self.pick(&["; ", ";", "\n", " ;\n\n", " # c ) } ' \"\n", "\n# `c\n"])
    }

    fn program(&mut self) -> String {
        self.pick(&[
            "a", "b", "c", "d", "echo", "true", "a", "b", "\\a", "'b'", "\"c\"", "d\\\n", "'x y'",
            "e''cho", "$'a'", "$'\\x62'",
        ])
    }

    fn word(&mut self, depth: usize) -> String {
        if depth == 0 || self.next(3) > 0 {
            return self
                .pick(&[
                    "x",
                    "-n",
                    "'q r'",
                    "\"s t\"",
                    "a\\ b",
                    "\\'",
                    "\\\"",
                    "\"\\\"\"",
                    "'\"'",
                    "\"'\"",
                    "#x\\",
                    "x#y",
                    "''",
                    "$x",
                    "\"$x\"",
                    "${x}",
                    "${#x}",
                    "$'\\''",
                    "$((1+2))",
                    "{p,q}",
                    "*",
                    "~",
                    "if",
                    "}",
                    "!",
                    "=",
                    "x=y",
                    "[",
                    "]",
                    "\"a\nb\"",
                    "'a;b'",
                    "\\;",
                    "\"\\$(a)\"",
                    "'$(b)'",
                    "\\$x",
                    "\\`",
                    "$",
                    "1",
                    "2x",
                    "é",
                    "[[",
                    "\"#\"",
                    "${x:-y}",
                    "${x//a/b}",
                    "\"${x:-\"y z\"}\"",
                    "a\"b\"'c'$'d'",
                    "@",
                    "%",
                    "^",
                    ",",
                ])
                .replace("#x\\", "\\#x");
        }
        let inner = self.list(depth - 1);
        match self.next(8) {
            0 => format!("$({inner})"),
            1 => format!("\"$({inner})\""),
            2 => format!("x$( {inner} )y"),
            3 => format!("<({inner})"),
            4 => format!("${{x:-$({inner})}}"),
            5 => format!("\"${{x:-$({inner})}}\""),
            6 if !inner.contains(['`', '\\', '"', '$']) => format!("`{inner}`"),
            _ => format!("\"y $( {inner}\n) z\""),
        }
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut text = String::new();
        if self.next(6) == 0 {
            text += &format!("v={} ", self.word(depth));
        }
        if self.next(8) == 0 {
            text += &self.pick(&[
                "env ",
                "timeout 5 ",
                "nice ",
                "command ",
                "env A=1 ",
                "nohup ",
            ]);
            text += &self.pick(&["a", "b", "c"]);
        } else {
            text += &self.program();
        }
        for _ in 0..self.next(4) {
            text += &self.blank();
            text += &self.word(depth);
        }
        if self.next(4) == 0 {
            text += &self.pick(&[
                " >f",
                " > f",
                " 2>&1",
                " </dev/null",
                " >>f",
                " 2>f",
                " &>f",
                " <<<w",
                " <<<\"a b\"",
                " 3>f",
                ">f",
                " >|f",
                " {k}>f",
            ]);
        }
        if self.next(12) == 0 {
            let body = if depth > 0 {
                format!("$({})", self.list(depth - 1))
            } else {
                "z".to_owned()
            };
            text += &match self.next(4) {
                0 => format!(" <<E\n{body}\nE\n"),
                1 => format!(" <<'E'\n{body} ' \" `\nE\n"),
                2 => format!(" <<-E\n\t{body} \\$(q)\n\tE\n"),
                _ => format!(" <<E; a\nx\\\nE\n{body}\nE\n"),
            };
        }
        text
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 || self.next(3) > 0 {
            return self.simple(depth);
        }
        let (one, two) = (self.list(depth - 1), self.list(depth - 1));
        let end = self.pick(&[";", "\n", " ;", ";\n"]);
        match self.next(24) {
            0 => format!("({one})"),
            1 => format!("{{ {one}{end} }}"),
            2 => format!("if {one}{end} then {two}{end} fi"),
            3 => format!("if {one}{end} then {two}{end} else\n{one}{end} fi"),
            4 => format!(
                "for i in {} 2{end} do {one}{end} done",
                self.word(depth - 1)
            ),
            5 => format!("while {one}{end} do {two}{end} break{end} done"),
            6 => format!(
                "case {} in x) {one};; (y|z) {two} ;; *) {one}\nesac",
                self.word(depth - 1)
            ),
            7 => format!("g() {{ {one}{end} }}{end} g"),
            8 => format!(
                "[[ {} == x && -n y ]]",
                self.pick(&["x", "\"$x\"", "'a b'", "$(a)"])
            ),
            9 => format!("! {}", self.simple(depth - 1)),
            10 => format!("time {}", self.simple(depth - 1)),
            11 => format!("( ({one}) ; {two} )"),
            12 => format!("until {one}{end} do {two}{end} break{end} done >f"),
            13 => format!("for ((i=0; i < 2; i++)); do {one}{end} done"),
            14 => format!("(( 1 + x{} ))", self.pick(&["", " * 2", " || (y)", "++"])),
            15 => format!(
                "[[ ab =~ {} ]] && {}",
                self.pick(&["^a(b|c)$", "$x", "'a b'", "(a|b)+"]),
                self.simple(depth - 1)
            ),
            16 => format!(
                "case x in {}) {one} ;& (\"y)\"|z) {two} ;;& esac",
                self.word(0)
            ),
            17 => format!("function h { }{end} h", format_args!("{{ {one}{end} }}")),
            18 => format!("h () ({one}){end}h"),
            19 => format!("select i in x; do {one}{end} break; done </dev/null"),
            20 => format!("sh -c '{}'", one.replace('\'', "'\\''")),
            21 => format!("eval '{}'", one.replace('\'', "'\\''")),
            22 => format!("{{ {one}{end} }} >f 2>&1 | {}", self.simple(depth - 1)),
            _ => format!(
                "[[ x == @(x|{}) || ( ! -f z && a < b ) ]]",
                self.pick(&["y", "*", "'q r'"])
            ),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let mut text = self.command(depth);
        for _ in 0..self.next(3) {
            let heredoc = text.ends_with('\n');
            text += &match self.next(6) {
                _ if heredoc => String::new(),
                0 => " && ".to_owned(),
                1 => "||".to_owned(),
                2 => " | ".to_owned(),
                3 => " |&\n".to_owned(),
                _ => self.end(),
            };
            text += &self.command(depth);
        }
        text
    }
}

#[test]
fn bash_starts_nothing_of_made_lines_that_is_not_listed() {
    let Some(bench) = Bench::new("made") else {
        return;
    };
    let rounds: u64 = std::env::var("ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(120);
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3);
    let mut maker = Maker { state: seed };
    let (mut wrong, mut understood) = (Vec::new(), 0_u64);
    for round in 0..rounds {
        let line = maker.list([1, 1, 2, 2, 3][usize::try_from(round % 5).unwrap()]);
        let reading = read(&line);
        understood += u64::from(reading.doubt.is_none());
        wrong.extend(bench.judge(&line, &reading));
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        understood * 2 > rounds,
        "only {understood} of {rounds} made lines were understood"
    );
}
