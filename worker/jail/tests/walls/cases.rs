//! The tests: what a box promises, each as root for an account and as an account itself.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use protocol::{
    Probe, ProbeDomain, Right,
    jail::{Mount, Situation},
};
use worker_jail::attack::ATTACKS;

use crate::{
    Verdict,
    scene::{ACCOUNT, As, Scene, ways},
};

/// One test.
type Test = fn() -> Verdict;

/// All tests by name.
pub(crate) const ALL: &[(&str, Test)] = &[
    ("a_box_stands_without_capabilities", stands),
    (
        "every_right_is_probed_and_held_in_both_domains",
        probes_hold,
    ),
    ("without_hands_walls_the_probes_say_so", unconfined_is_seen),
    ("commands_run_behind_their_walls", commands),
    ("a_warden_ends_everything_and_only_its_own", kills),
    ("older_landlocks_end_everything_too", kills_without_scopes),
    ("the_agent_reads_its_list_and_nothing_else", agent),
    ("every_attack_is_refused_inside", attacks_inside),
    ("every_attack_of_ours_succeeds_bare", attacks_bare),
    ("a_box_dies_with_its_jail_and_with_its_supervisor", dies),
    (
        "a_reader_touches_what_it_was_given_and_nothing_else",
        reader,
    ),
    ("b_stands_and_holds_every_right", open_probes),
    ("b_ends_everything_with_every_landlock", open_kills),
    ("b_refuses_every_attack", open_attacks),
    ("b_dies_with_its_jail_and_with_its_supervisor", open_dies),
    ("what_cannot_be_built_names_step_and_remedy", unfit),
];

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

/// Plays a scenario in each way.
fn both(scenario: &str, judge: impl Fn(&str, &Scene) -> Verdict) -> Verdict {
    for way in ways() {
        let scene = Scene::new(way)?;
        let said = scene.play(scenario)?;
        judge(&said, &scene).map_err(|why| format!("{way:?}: {why}"))?;
    }
    Ok(())
}

fn stands() -> Verdict {
    both("stands", |said, _| {
        let report: protocol::Report = serde_json::from_str(said.trim()).map_err(told)?;
        let protocol::Report::Ready {
            abi,
            uid,
            capabilities,
            situation,
            ..
        } = report
        else {
            return Err(said.to_owned());
        };
        let zero = "0000000000000000";
        let fine = abi >= 1 && capabilities == zero && situation == Situation::Namespaces;
        let account = !nix::unistd::geteuid().is_root() || uid == ACCOUNT;
        check(fine && account, || said.to_owned())
    })
}

fn read_probes(said: &str) -> Result<Vec<Probe>, String> {
    let lines = said.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).map_err(told))
        .collect()
}

fn probes_hold() -> Verdict {
    both("probes", |said, _| {
        let probes = read_probes(said)?;
        let missing: Vec<String> = probes
            .iter()
            .filter(|probe| !probe.held())
            .map(|probe| format!("{probe:?}"))
            .collect();
        check(missing.is_empty(), || missing.join("\n    "))?;
        for domain in [ProbeDomain::Agent, ProbeDomain::Command] {
            for &right in Right::ALL {
                if !right.domains().contains(&domain) {
                    continue;
                }
                let probed = probes
                    .iter()
                    .any(|probe| (probe.right, probe.domain) == (right, domain));
                check(probed, || format!("{right} is not probed in {domain:?}"))?;
            }
        }
        let names: BTreeSet<_> = probes
            .iter()
            .map(|probe| (probe.domain, probe.right, &probe.case))
            .collect();
        check(names.len() == probes.len(), || {
            "two probes of one name".to_owned()
        })
    })
}

fn unconfined_is_seen() -> Verdict {
    both("unconfined", |said, _| {
        let probes = read_probes(said)?;
        for right in [
            Right::ProcSignal,
            Right::ProcTrace,
            Right::ProcLimits,
            Right::Syscalls,
        ] {
            let mut of = probes.iter().filter(|probe| probe.right == right);
            check(of.any(|probe| !probe.held()), || {
                format!("{right} seems held without walls")
            })?;
        }
        // What the view itself holds.
        let outside = |probe: &&Probe| probe.case == "read.outside";
        let held = probes.iter().find(outside).is_some_and(Probe::held);
        check(held, || "the view shows the outside".to_owned())
    })
}

fn commands() -> Verdict {
    both("commands", |_, _| Ok(()))
}

fn kills() -> Verdict {
    both("ends", |_, _| Ok(()))?;
    both("scopes", |_, _| Ok(()))
}

fn kills_without_scopes() -> Verdict {
    for way in ways() {
        let mut scene = Scene::new(way)?;
        scene.spec.pretend_abi = Some(5);
        // Another command stays in reach there; the ends are promised all the same.
        scene.play("ends")?;
    }
    Ok(())
}

fn agent() -> Verdict {
    both("agent", |said, _| {
        let line = |name: &str| {
            said.lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or("absent")
                .trim()
        };
        check(line("/workspace/readme") == "hello", || said.to_owned())?;
        for refused in ["/workspace/out", "/proc/self/status", "/etc/passwd"] {
            let answer = line(refused);
            let closed = answer.contains("denied") || answer.contains("No such file");
            check(closed, || format!("{refused}: {answer}"))?;
        }
        check(line("thread") == "false", || {
            "the agent made a thread".to_owned()
        })
    })
}

fn attacks_inside() -> Verdict {
    both("attacks", |said, _| {
        let through: Vec<&str> = said
            .lines()
            .filter(|line| !line.contains(" refused "))
            .collect();
        check(through.is_empty(), || through.join("\n    "))?;
        let tried = said.lines().count();
        check(tried == worker_jail::attack::names().len(), || {
            format!("{tried} tried")
        })
    })
}

fn attacks_bare() -> Verdict {
    // As the account, not as root: what root may, nobody learns from.
    let scene = Scene::new(As::Account)?;
    let plan = serde_json::to_string(&scene.plan).map_err(told)?;
    let victim = scene.plan.supervisor_pid.to_string();
    let mut broken = Vec::new();
    for attack in ATTACKS.iter().filter(|attack| attack.ours) {
        let mut command = scene.this_binary(&["attack", attack.name, &plan, &victim])?;
        let output = command.output().map_err(told)?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !said.starts_with("succeeded") {
            broken.push(format!("{} {said}", attack.name));
        }
    }
    check(broken.is_empty(), || broken.join("\n    "))
}

/// Whether the hanging command of a box is still there.
fn hangs() -> bool {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line == b"/bin/sleep\x0098765\0")
}

fn gone_in_time() -> bool {
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        if !hangs() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The Landlocks that are pretended: the kernel's own, and every older one.
const LANDLOCKS: [Option<u32>; 7] = [None, Some(6), Some(5), Some(4), Some(3), Some(2), Some(1)];

/// Files of this very account outside keep their mode by the supervisor's answer only, and nobody
/// answers here.
const ANSWERED: &[&str] = &["chmod.outside", "chmod-outside"];

fn open_probes() -> Verdict {
    for way in ways() {
        for abi in LANDLOCKS {
            let scene = Scene::in_the_open(way, abi)?;
            let said = scene.play("supervised")?;
            let probes = read_probes(&said)?;
            let missing: Vec<String> = probes
                .iter()
                .filter(|probe| !probe.held() && !ANSWERED.contains(&probe.case.as_str()))
                .map(|probe| format!("{probe:?}"))
                .collect();
            check(missing.is_empty() && probes.len() > 60, || {
                format!(
                    "{way:?}, ABI {abi:?}: {} probes\n    {}",
                    probes.len(),
                    missing.join("\n    ")
                )
            })?;
        }
    }
    Ok(())
}

fn open_kills() -> Verdict {
    for way in ways() {
        Scene::in_the_open(way, None)?.play("scopes")?;
        for abi in LANDLOCKS {
            for scenario in ["ends", "rest"] {
                let played = Scene::in_the_open(way, abi)?.play(scenario);
                played.map_err(|why| format!("ABI {abi:?}: {why}"))?;
            }
        }
    }
    Ok(())
}

fn open_attacks() -> Verdict {
    for way in ways() {
        let said = Scene::in_the_open(way, None)?.play("attacks")?;
        let through: Vec<&str> = said
            .lines()
            .filter(|line| !line.contains(" refused "))
            .filter(|line| !ANSWERED.iter().any(|name| line.starts_with(name)))
            .collect();
        check(through.is_empty(), || {
            format!("{way:?}: {}", through.join("\n    "))
        })?;
        let tried = said.lines().count();
        check(tried == worker_jail::attack::names().len(), || {
            format!("{tried} tried")
        })?;
    }
    Ok(())
}

fn open_dies() -> Verdict {
    ways().into_iter().try_for_each(|way| {
        [None, Some(5)]
            .into_iter()
            .try_for_each(|abi| dies_with(way, || Scene::in_the_open(way, abi)))
    })
}

fn dies() -> Verdict {
    ways()
        .into_iter()
        .try_for_each(|way| dies_with(way, || Scene::new(way)))
}

fn dies_with(way: As, scene: impl Fn() -> Result<Scene, String>) -> Verdict {
    {
        let scene = scene()?;
        let mut jail = scene
            .enter("hang")?
            .stdout(Stdio::piped())
            .spawn()
            .map_err(told)?;
        let mut line = String::new();
        if let Some(out) = jail.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(told)?;
        }
        check(line == "up\n", || format!("{way:?}: {line}"))?;
        check(hangs(), || {
            "the command is not there: the test is broken".to_owned()
        })?;
        jail.kill().map_err(told)?;
        jail.wait().map_err(told)?;
        check(gone_in_time(), || {
            format!("{way:?}: a command outlived its jail")
        })?;

        // The supervisor: a shell in between, which starts the box and waits.
        let words: Vec<String> = {
            let command = scene.enter("hang")?;
            std::iter::once(command.get_program())
                .chain(command.get_args())
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        let mut shell = scene
            .shell(&words)?
            .stdout(Stdio::piped())
            .spawn()
            .map_err(told)?;
        let mut line = String::new();
        if let Some(out) = shell.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(told)?;
        }
        check(line == "up\n", || format!("{way:?}: {line}"))?;
        let pid = i32::try_from(shell.id()).map_err(told)?;
        kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(told)?;
        shell.wait().map_err(told)?;
        check(gone_in_time(), || {
            format!("{way:?}: a command outlived its supervisor")
        })?;
    }
    Ok(())
}

fn reader() -> Verdict {
    for way in ways() {
        let scene = Scene::new(way)?;
        let folder = Path::new(&scene.plan.outside_folder);
        let workspace = folder.with_file_name("workspace");
        let (folder, workspace) = (
            scene.plan.outside_folder.as_str(),
            told(workspace.display()),
        );
        // The reader of a root supervisor works as root; of an account, as that account.
        let output = scene
            .this_binary(&["reader", folder, &workspace])?
            .output()
            .map_err(told)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let root = way == As::RootForAccount;
        let wanted = [
            ("write", true),
            ("rename", true),
            ("read", true),
            ("chown", true),
            ("capabilities", true),
            ("write-read-only", false),
            ("read-elsewhere", false),
            ("list-root", false),
            ("socket", false),
            ("exec", false),
            ("fork", false),
            ("signal", false),
            ("limits", false),
        ];
        for (name, worked) in wanted {
            let line = format!("{name} {worked}");
            check(said.lines().any(|said| said == line), || {
                format!("{way:?} (root: {root}): wanted `{line}` in {said}")
            })?;
        }
    }
    Ok(())
}

fn unfit() -> Verdict {
    for way in ways() {
        let mut scene = Scene::new(way)?;
        let absent = "/nothing/here".to_owned();
        let mount = Mount::ReadOnly {
            source: absent.clone(),
            target: "/x".to_owned(),
        };
        scene.spec.view.push(mount);
        let why = scene.play("stands").err().unwrap_or_default();
        check(why.contains(&absent), || why.clone())?;

        for odd in [
            Mount::Device {
                name: "sda".to_owned(),
            },
            Mount::Device {
                name: "../etc/shadow".to_owned(),
            },
            Mount::Link {
                target: "/a/../b".to_owned(),
                to: "x".to_owned(),
            },
            // Through a link that the workspace holds.
            Mount::File {
                target: "/workspace/out/x".to_owned(),
                content: String::new(),
            },
        ] {
            let mut scene = Scene::new(way)?;
            let shown = format!("{odd:?}");
            scene.spec.view.push(odd);
            let why = scene.play("stands").err().unwrap_or_default();
            check(why.contains("unfit"), || format!("{shown}: {why}"))?;
        }

        let mut scene = Scene::new(way)?;
        scene.spec.build = "another".to_owned();
        let why = scene.play("stands").err().unwrap_or_default();
        check(why.contains("one release"), || why.clone())?;
    }
    Ok(())
}
