//! The hooks of a session: which of them can run, with which bytes, and where. What cannot be read or
//! was not approved does not run, and that is said.

mod house;
mod run;

use std::{collections::BTreeMap, path::Path, rc::Rc, sync::Arc};

use policies::{Hook, HookEvent, LayerName, Policy};
use protocol::{Digest, bounds};
use supervisor_record::{GrantKind, Record};
use supervisor_sandbox::WorkerBinary;

use house::House;
use run::Runner;
pub(super) use run::Running;

use super::{
    Saved,
    commands::Frame,
    links::{Hands, Inbox},
    place::Place,
};
use crate::{
    exit::{Failure, REFUSED_AT_START},
    input,
};

/// Where programs of the view lie: they are named, not carried in.
const SYSTEM: [&str; 6] = [
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib64/",
    "/nix/store/",
];

/// What is executed.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// A program of the system, by its name in the view.
    System,
    /// A file's bytes as they were read at the start, whatever lies under its name now.
    File(Rc<Vec<u8>>),
}

/// One hook as it would run.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The hook.
    pub(crate) hook: Hook,
    /// What it executes, or why it cannot.
    pub(crate) program: Result<Program, String>,
    /// Names exactly this hook with exactly these bytes.
    pub(crate) digest: Digest,
}

/// The hooks of a session.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// By the policy's index.
    pub(crate) found: Vec<Found>,
    /// Those that cannot run, and why.
    pub(crate) absent: BTreeMap<usize, String>,
    /// What to tell the person.
    pub(crate) told: Vec<String>,
    house: Option<House>,
}

/// Finds every hook's program. Nothing is executed.
pub(crate) fn find(policy: &Policy, workspace: &Path) -> Vec<Found> {
    let hooks = policy.settings.hooks.iter();
    hooks.map(|hook| find_one(hook, workspace)).collect()
}

fn find_one(hook: &Hook, workspace: &Path) -> Found {
    let program = program(hook, workspace);
    let bytes = match &program {
        Ok(Program::File(bytes)) => bytes.as_slice(),
        Ok(Program::System) | Err(_) => b"",
    };
    // Where it was written does not matter, what it is does.
    let same = Hook {
        at: String::new(),
        file: String::new(),
        ..hook.clone()
    };
    let canonical = serde_json::to_vec(&same).unwrap_or_default();
    let digest = Digest::of_parts([canonical.as_slice(), &[0], bytes]);
    Found {
        hook: hook.clone(),
        program,
        digest,
    }
}

fn program(hook: &Hook, workspace: &Path) -> Result<Program, String> {
    let named = hook.command.first().map(String::as_str).unwrap_or_default();
    let project = !hook.layer.is_outer();
    if project {
        own_words(hook, workspace)?;
    }
    if SYSTEM.iter().any(|folder| named.starts_with(folder)) {
        return Ok(Program::System);
    }
    if project && named.starts_with('/') {
        return Err(format!(
            "`{named}` is neither a file of the workspace nor a program of the system"
        ));
    }
    let folder = match project {
        true => Some(workspace),
        false => Path::new(&hook.file).parent(),
    };
    let path = folder.unwrap_or(Path::new("/")).join(named);
    if project {
        through_no_link(workspace, named)?;
    }
    let shown = path.display();
    let bytes = input::read_bytes(&path, bounds::HOOK_FILE, project)
        .map_err(|why| format!("`{shown}` cannot be read: {why}"))?
        .ok_or_else(|| format!("there is no file `{shown}`"))?;
    if !bytes.starts_with(b"#!") && !bytes.starts_with(b"\x7fELF") {
        return Err(format!(
            "`{shown}` cannot be executed: begin it with a line such as `#!/bin/sh`"
        ));
    }
    Ok(Program::File(Rc::new(bytes)))
}

/// A project's hook is approved by its bytes: an argument that names another file of the workspace would
/// run what nobody has approved.
fn own_words(hook: &Hook, workspace: &Path) -> Result<(), String> {
    for word in hook.command.iter().skip(1) {
        let inside = workspace.join(word);
        if !word.is_empty() && inside.starts_with(workspace) && inside.is_file() {
            return Err(format!(
                "its argument `{word}` names a file of the workspace, whose bytes nobody would have approved: make that file the program itself, with its interpreter in its first line"
            ));
        }
    }
    Ok(())
}

fn through_no_link(workspace: &Path, named: &str) -> Result<(), String> {
    let mut path = workspace.to_owned();
    for part in Path::new(named).components() {
        path.push(part);
        if path.is_symlink() {
            return Err(format!("`{named}` leads through a link"));
        }
    }
    Ok(())
}

/// Which hooks may run in this session.
fn load(
    policy: &Policy,
    workspace: &Path,
    record: &Record,
) -> Result<Loaded, supervisor_record::ReadError> {
    let found = find(policy, workspace);
    let mut loaded = Loaded::default();
    let needs = |found: &Found| !found.hook.layer.is_outer();
    let approved = match found.iter().any(needs) {
        true => record.grants(GrantKind::Hook, Some(&workspace.display().to_string()))?,
        false => Vec::new(),
    };
    for (index, one) in found.iter().enumerate() {
        let hook = &one.hook;
        let why = match &one.program {
            Err(why) => Some(why.clone()),
            Ok(_) if needs(one) && !approved.iter().any(|grant| grant.digest == one.digest) => {
                Some(format!(
                    "it comes from the workspace, and nobody has approved it as it is now: `provost hooks list` shows it, `provost hooks approve {}` approves it",
                    hook.id
                ))
            }
            Ok(_) => None,
        };
        if let Some(why) = why {
            let meaning = match (hook.required, hook.event.has_tool()) {
                (false, _) => "it does not run",
                (true, true) => "it is required: what it would be asked about is denied",
                (true, false) => "it is required: the session stops where it would be asked",
            };
            let name = hook.name();
            loaded.told.push(format!("hook {name}: {why}; {meaning}"));
            loaded.absent.insert(index, why);
        } else if hook.event == HookEvent::Compaction {
            let name = hook.name();
            let text = format!("hook {name} waits for `compaction`, which this release never does");
            loaded.told.push(text);
        }
    }
    loaded.found = found;
    Ok(loaded)
}

/// Finds out which hooks may run, and builds the jail of the organisation's.
pub(super) async fn prepare(
    place: &Place,
    saved: &Saved,
    worker: &Arc<WorkerBinary>,
) -> Result<Loaded, Failure> {
    let (policy, workspace) = (&saved.setup.policy, &saved.setup.workspace);
    let mut loaded = load(policy, workspace, place.record()?)
        .map_err(|error| Failure::new(REFUSED_AT_START, error.to_string()))?;
    let organisation = LayerName::Organisation;
    if policy
        .settings
        .hooks
        .iter()
        .any(|hook| hook.layer == organisation)
    {
        match House::build(&place.places, place.session(), worker).await {
            Ok(house) => loaded.house = Some(house),
            Err(why) => {
                let why = format!("the jail of the organisation's hooks does not stand: {why}");
                loaded.told.push(format!("{why}; required ones deny"));
                loaded.take_out(organisation, &why);
            }
        }
    }
    Ok(loaded)
}

impl Loaded {
    /// Ready to run: the user's and the project's in the session's own jail.
    pub(super) fn run_in(
        self,
        hands: &Hands,
        frame: &Frame,
        inbox: &Inbox,
    ) -> (Running, Option<House>) {
        let inside = Runner {
            hands: hands.clone(),
            frame: Rc::new(frame.clone()),
        };
        let house = self.house.as_ref().map(|house| house.runner.clone());
        let running = Running::new(self.found, inside, house, inbox.clone());
        (running, self.house)
    }

    /// The hooks of a layer cannot run, and why.
    fn take_out(&mut self, layer: LayerName, why: &str) {
        for (index, one) in self.found.iter().enumerate() {
            if one.hook.layer == layer {
                self.absent.insert(index, why.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(layer: LayerName, command: &[&str]) -> Hook {
        Hook {
            id: "h".into(),
            layer,
            at: "x.toml:1".into(),
            file: "x.toml".into(),
            event: HookEvent::PreTool,
            command: command.iter().map(|&word| word.to_owned()).collect(),
            tool: Vec::new(),
            required: false,
            timeout: 10,
        }
    }

    #[test]
    fn one_changed_byte_is_another_hook_and_another_line_is_not() {
        let folder = tempfile::tempdir().expect("folder");
        let script = folder.path().join("h.sh");
        std::fs::write(&script, "#!/bin/sh\n").expect("written");
        let asked = hook(LayerName::Project, &["./h.sh"]);
        let first = find_one(&asked, folder.path());
        assert!(matches!(first.program, Ok(Program::File(_))), "{first:?}");
        let moved = Hook {
            at: "x.toml:7".into(),
            ..asked.clone()
        };
        assert_eq!(find_one(&moved, folder.path()).digest, first.digest);
        let laxer = Hook {
            timeout: 11,
            ..asked.clone()
        };
        assert_ne!(find_one(&laxer, folder.path()).digest, first.digest);
        std::fs::write(&script, "#!/bin/sh\n ").expect("written");
        assert_ne!(find_one(&asked, folder.path()).digest, first.digest);
    }

    #[test]
    fn a_projects_hook_runs_approved_bytes_or_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
        std::fs::create_dir(root.join("in")).expect("made");
        std::fs::write(root.join("in/h.py"), "#!/usr/bin/python3\n").expect("written");
        std::fs::write(root.join("plain"), "echo\n").expect("written");
        std::os::unix::fs::symlink(root.join("in"), root.join("out")).expect("link");
        std::os::unix::fs::symlink(root.join("in/h.py"), root.join("h.py")).expect("link");
        let of = |words: &[&str]| find_one(&hook(LayerName::Project, words), root).program;
        assert!(of(&["./in/h.py", "x"]).is_ok());
        assert!(of(&["/usr/bin/true", "x"]).is_ok());
        for words in [
            &["/usr/bin/python3", "in/h.py"][..],
            &["./out/h.py"],
            &["./h.py"],
            &["./plain"],
            &["./none"],
            &["/etc/passwd"],
        ] {
            of(words).expect_err(&words.join(" "));
        }
        let inside = root.join("in/h.py").display().to_string();
        of(&["/usr/bin/python3", &inside]).expect_err("by its whole name");
    }
}
