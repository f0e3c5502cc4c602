//! Applying what was shown and chosen.

use std::fs;
use std::os::unix::fs::MetadataExt;

use protocol::Digest;
use protocol::reader::{Change, Finding, Node, NodeKind, ReaderFailure};

use crate::support::*;

fn session() -> Scene {
    let scene = Scene::new();
    furnish(&scene.workspace());
    scene.copy(&[]);
    scene
}

/// Every kind of change at once.
fn work(scene: &Scene) {
    let tree = scene.tree();
    write(tree.join("src/main.rs"), "fn main() {}\n");
    write(tree.join("new/deep/er/file"), "new\n");
    mode(tree.join("new/deep"), 0o700);
    write(tree.join("data/blob.bin"), [0_u8; 300_000]);
    mode(tree.join("README.md"), 0o755);
    fs::remove_file(tree.join("data/gone.txt")).expect("removes");
    fs::remove_dir_all(tree.join("old")).expect("removes");
    write(tree.join("old"), "a file now");
    fs::remove_file(tree.join("readme-link")).expect("removes");
    link("src/main.rs", tree.join("readme-link"));
    fs::remove_file(tree.join("src/dangling")).expect("removes");
    write(tree.join("src/dangling/inner"), "a folder now");
    fs::remove_dir(tree.join("empty")).expect("removes");
    fs::create_dir(tree.join("hollow")).expect("makes");
    mode(tree.join("src"), 0o500);
}

#[test]
fn what_was_shown_is_what_the_workspace_becomes() {
    let scene = session();
    work(&scene);
    let (changes, _) = scene.list(&[]);
    assert_eq!(
        scene.apply(&changes),
        Finding::Applied {
            changes: changes.len() as u64
        }
    );
    assert_eq!(snapshot(&scene.workspace()), snapshot(&scene.tree()));
    let journal = scene.journal();
    for change in &changes {
        let path = serde_json::to_string(&change.path).expect("encodes");
        assert!(
            journal.contains(&format!("{{\"path\":{path},\"deed\":")),
            "{path}"
        );
    }
    assert_eq!(
        scene.apply(&changes),
        Finding::Applied { changes: 0 },
        "a second time: already"
    );
    assert_eq!(
        scene.journal().matches("\"deed\":\"already\"").count(),
        changes.len()
    );
}

#[test]
fn only_what_was_chosen_is_applied() {
    let scene = session();
    work(&scene);
    let (changes, _) = scene.list(&[]);
    let chosen: Vec<Change> = changes
        .into_iter()
        .filter(|c| ["new/deep/er/file", "data/gone.txt"].contains(&c.path.as_str()))
        .collect();
    assert_eq!(scene.apply(&chosen), Finding::Applied { changes: 2 });
    let now = snapshot(&scene.workspace());
    assert_eq!(now[std::path::Path::new("new/deep/er/file")].2, b"new\n");
    assert!(!scene.workspace().join("data/gone.txt").exists());
    assert_eq!(
        fs::read(scene.workspace().join("src/main.rs"))
            .expect("reads")
            .len(),
        25
    );
    assert!(scene.workspace().join("old/deep/b.txt").exists());
}

#[test]
fn a_workspace_that_moved_on_stops_before_the_first_write_and_says_where() {
    for moved in ["content", "mode", "gone", "kind", "new", "link", "stranger"] {
        let scene = session();
        work(&scene);
        let (changes, _) = scene.list(&[]);
        let root = scene.workspace();
        let place = match moved {
            "content" => {
                write(root.join("src/main.rs"), "somebody's own work\n");
                "src/main.rs"
            }
            "mode" => {
                mode(root.join("src/main.rs"), 0o600);
                "src/main.rs"
            }
            "gone" => {
                fs::remove_file(root.join("readme-link")).expect("removes");
                "readme-link"
            }
            "kind" => {
                fs::remove_file(root.join("data/blob.bin")).expect("removes");
                fs::create_dir(root.join("data/blob.bin")).expect("makes");
                "data/blob.bin"
            }
            "new" => {
                write(root.join("hollow"), "in the way");
                "hollow"
            }
            "link" => {
                fs::rename(root.join("data"), root.join("elsewhere")).expect("renames");
                link("elsewhere", root.join("data"));
                "data/blob.bin"
            }
            _ => {
                write(root.join("old/deep/mine.txt"), "not the session's");
                "old/deep/mine.txt"
            }
        };
        let before = snapshot(&root);
        let (class, said) = failed(scene.apply(&changes));
        assert_eq!(class, ReaderFailure::Moved, "{moved}");
        assert!(said.contains(&format!("`{place}`")), "{moved}: {said}");
        assert_eq!(snapshot(&root), before, "{moved}");
        assert_eq!(scene.journal(), "", "{moved}");
    }
}

#[test]
fn a_tree_that_is_not_what_was_shown_stops_before_the_first_write() {
    for lie in ["content", "mode", "extra"] {
        let scene = session();
        work(&scene);
        let (mut changes, _) = scene.list(&[]);
        match lie {
            "content" => write(
                scene.tree().join("new/deep/er/file"),
                "swapped after the review",
            ),
            "mode" => mode(scene.tree().join("data/blob.bin"), 0o755),
            _ => changes.push(Change {
                path: "never/there".into(),
                before: None,
                after: Some(Node {
                    kind: NodeKind::File,
                    mode: 0o644,
                    size: 1,
                    digest: Some(Digest::of(b"x")),
                }),
                lines: None,
            }),
        }
        let before = snapshot(&scene.workspace());
        let (class, said) = failed(scene.apply(&changes));
        assert_eq!(class, ReaderFailure::Hostile, "{lie}: {said}");
        assert_eq!(snapshot(&scene.workspace()), before, "{lie}");
    }
}

#[test]
fn a_change_that_is_not_of_this_session_or_leaves_the_root_is_refused() {
    let scene = session();
    write(scene.tree().join("a"), "a");
    let (changes, _) = scene.list(&[]);
    let with = |edit: &dyn Fn(&mut Change)| {
        let mut change = changes[0].clone();
        edit(&mut change);
        vec![change]
    };
    let cases = [
        with(&|c| c.path = "../a".into()),
        with(&|c| c.path = "/etc/passwd".into()),
        with(&|c| c.path = "README.md".into()),
        with(&|c| c.after = None),
        [changes.clone(), changes.clone()].concat(),
    ];
    for case in cases {
        let (class, said) = failed(scene.apply(&case));
        assert_eq!(class, ReaderFailure::Unfit, "{said}");
    }
    assert!(!scene.at("a").exists() && !scene.workspace().join("a").exists());
}

#[test]
fn a_hard_link_outside_is_not_written_through() {
    let scene = Scene::new();
    write(scene.at("outside"), "shared\n");
    fs::hard_link(scene.at("outside"), scene.workspace().join("inside")).expect("links");
    scene.copy(&[]);
    write(scene.tree().join("inside"), "changed\n");
    let (changes, _) = scene.list(&[]);
    assert_eq!(scene.apply(&changes), Finding::Applied { changes: 1 });
    assert_eq!(fs::read(scene.at("outside")).expect("reads"), b"shared\n");
    assert_eq!(
        fs::read(scene.workspace().join("inside")).expect("reads"),
        b"changed\n"
    );
}

#[test]
fn st_015_a_folder_that_became_a_link_to_outside_is_never_entered() {
    let scene = Scene::new();
    write(scene.workspace().join("x/a"), "a\n");
    write(scene.at("home/a"), "a\n");
    scene.copy(&[]);
    write(scene.tree().join("x/a"), "b\n");
    write(scene.tree().join("x/new"), "c\n");
    let (changes, _) = scene.list(&[]);
    fs::remove_dir_all(scene.workspace().join("x")).expect("removes");
    link(scene.at("home"), scene.workspace().join("x"));
    let (class, _) = failed(scene.apply(&changes));
    assert_eq!(class, ReaderFailure::Moved);
    assert_eq!(fs::read(scene.at("home/a")).expect("reads"), b"a\n");
    assert!(!scene.at("home/new").exists());
}

#[test]
fn links_that_lead_outside_are_put_as_links_and_not_followed() {
    let scene = session();
    write(scene.at("outside"), "keep");
    let tree = scene.tree();
    fs::remove_file(tree.join("README.md")).expect("removes");
    link(scene.at("outside"), tree.join("README.md"));
    let (changes, _) = scene.list(&[]);
    assert_eq!(scene.apply(&changes), Finding::Applied { changes: 1 });
    assert_eq!(fs::read(scene.at("outside")).expect("reads"), b"keep");
    let target = fs::read_link(scene.workspace().join("README.md")).expect("a link");
    assert_eq!(target, scene.at("outside"));
}

#[test]
fn a_removed_folder_keeps_what_the_session_never_saw() {
    let scene = Scene::new();
    write(scene.workspace().join("conf/.env"), "KEY=1");
    write(scene.workspace().join("conf/a"), "a");
    scene.copy(&[".env"]);
    fs::remove_dir_all(scene.tree().join("conf")).expect("removes");
    let (changes, _) = scene.list(&[".env"]);
    assert_eq!(
        changes.iter().map(brief).collect::<Vec<_>>(),
        vec!["D folder conf", "D file conf/a"]
    );
    assert_eq!(scene.apply(&changes), Finding::Applied { changes: 2 });
    assert_eq!(
        fs::read(scene.workspace().join("conf/.env")).expect("reads"),
        b"KEY=1"
    );
    assert!(!scene.workspace().join("conf/a").exists());
    assert!(scene.journal().contains(r#"{"path":"conf","deed":"kept"}"#));
}

#[test]
fn an_interrupted_apply_goes_on_and_leaves_no_temporary_name() {
    let scene = session();
    work(&scene);
    let (changes, _) = scene.list(&[]);
    // As if it had been killed: one file exchanged but its old content not yet removed, another
    // half written, the folder that becomes a file already gone.
    let root = scene.workspace();
    let mut journal = String::new();
    let mut begin = |path: &str, temporary: &str| {
        journal.push_str(&format!(
            "{{\"path\":\"{path}\",\"deed\":\"begin\",\"temporary\":\"{temporary}\"}}\n"
        ));
    };
    begin("src/main.rs", "src/.provost-put-1-1");
    fs::rename(root.join("src/main.rs"), root.join("src/.provost-put-1-1")).expect("renames");
    write(root.join("src/main.rs"), "fn main() {}\n");
    begin("data/blob.bin", "data/.provost-put-1-2");
    write(root.join("data/.provost-put-1-2"), [0_u8; 10]);
    mode(root.join("data/.provost-put-1-2"), 0o600);
    for path in ["old/deep/b.txt", "old/deep", "old/a.txt", "old"] {
        journal.push_str(&format!("{{\"path\":\"{path}\",\"deed\":\"begin\"}}\n"));
    }
    fs::remove_dir_all(root.join("old")).expect("removes");
    journal.push_str("{\"path\":\"hal");
    fs::write(scene.at("journal"), journal).expect("writes");
    let finding = scene.apply(&changes);
    assert!(
        matches!(finding, Finding::Applied { changes } if changes > 0),
        "{finding:?}"
    );
    assert_eq!(snapshot(&root), snapshot(&scene.tree()));
}

#[test]
fn an_interrupted_apply_never_removes_somebodys_work() {
    let scene = session();
    write(scene.tree().join("src/main.rs"), "fn main() {}\n");
    let (changes, _) = scene.list(&[]);
    let root = scene.workspace();
    write(root.join("src/main.rs"), "fn main() {}\n");
    write(
        root.join("src/.provost-put-1-1"),
        "saved by somebody in the last moment",
    );
    let line = r#"{"path":"src/main.rs","deed":"begin","temporary":"src/.provost-put-1-1"}"#;
    fs::write(scene.at("journal"), format!("{line}\n")).expect("writes");
    let (class, said) = failed(scene.apply(&changes));
    assert!(
        class == ReaderFailure::Moved && said.contains("src/.provost-put-1-1"),
        "{said}"
    );
    assert!(root.join("src/.provost-put-1-1").exists());
}

#[test]
fn what_root_applies_belongs_to_the_workspaces_owner() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root gives files away");
        return;
    }
    let scene = Scene::new();
    furnish(&scene.workspace());
    let own = |name: &str| {
        std::os::unix::fs::lchown(scene.workspace().join(name), Some(61_001), Some(61_002))
            .expect("gives");
    };
    for name in ["", "src", "src/main.rs", "readme-link"] {
        own(name);
    }
    scene.copy(&[]);
    write(scene.tree().join("src/main.rs"), "changed\n");
    write(scene.tree().join("src/more/new.rs"), "new\n");
    fs::remove_file(scene.tree().join("readme-link")).expect("removes");
    link("src", scene.tree().join("readme-link"));
    let (changes, _) = scene.list(&[]);
    assert_eq!(scene.apply(&changes), Finding::Applied { changes: 4 });
    for name in ["src/main.rs", "src/more", "src/more/new.rs", "readme-link"] {
        let meta = fs::symlink_metadata(scene.workspace().join(name)).expect("reads");
        assert_eq!((meta.uid(), meta.gid()), (61_001, 61_002), "{name}");
    }
}

/// Where the child of the next test finds its scene; unset in a usual run.
const SCENE: &str = "READER_TEST_SCENE";

#[test]
fn the_child_that_applies_until_it_is_killed() {
    let Ok(place) = std::env::var(SCENE) else {
        return;
    };
    let text = fs::read_to_string(std::path::Path::new(&place)).expect("reads");
    let errand: protocol::reader::Errand = serde_json::from_str(&text).expect("an errand");
    // The parent waits for this line before it counts the time.
    println!("begin");
    findings(&errand);
}

#[test]
fn killed_at_any_moment_an_apply_is_completed_by_the_next_one() {
    use std::io::BufRead;
    use std::process::{Command, Stdio};
    let mut finished = 0;
    for round in 0..30_u64 {
        let scene = Scene::new();
        furnish(&scene.workspace());
        for n in 0..20 {
            write(scene.workspace().join(format!("many/{n}")), format!("{n}"));
        }
        scene.copy(&[]);
        work(&scene);
        for n in 0..20 {
            write(scene.tree().join(format!("many/{n}")), format!("{n} new"));
        }
        let (changes, _) = scene.list(&[]);
        let errand = serde_json::to_string(&scene.errand_apply(&changes)).expect("encodes");
        fs::write(scene.at("errand"), errand).expect("writes");
        let mut child = Command::new(std::env::current_exe().expect("is known"))
            .args([
                "--exact",
                "--nocapture",
                "apply::the_child_that_applies_until_it_is_killed",
            ])
            .env(SCENE, scene.at("errand"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut said = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("begin") {
            line.clear();
            assert!(
                said.read_line(&mut line).expect("reads") > 0,
                "the child began"
            );
        }
        std::thread::sleep(std::time::Duration::from_micros(round * round * 150));
        child.kill().expect("kills");
        finished += usize::from(child.wait().expect("ends").success());
        let finding = scene.apply(&changes);
        assert!(
            matches!(finding, Finding::Applied { .. }),
            "round {round}: {finding:?}"
        );
        assert!(
            snapshot(&scene.workspace()) == snapshot(&scene.tree()),
            "round {round}"
        );
    }
    eprintln!("{finished} of 30 were through before they were killed");
    assert!(finished < 30, "some were killed in the middle");
}
