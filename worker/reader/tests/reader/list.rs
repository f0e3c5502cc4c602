//! Listing what a session changed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use protocol::Digest;
use protocol::reader::{Errand, Finding, ReaderFailure};

use crate::support::*;

#[test]
fn every_kind_of_change_is_told_once_and_sorted() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    scene.copy(&[]);
    let tree = scene.tree();
    write(
        tree.join("src/main.rs"),
        "fn main() {\n    new();\n    more();\n}\n",
    );
    write(tree.join("src/new.rs"), "pub fn more() {}\n");
    fs::rename(tree.join("data/gone.txt"), tree.join("data/renamed.txt")).expect("renames");
    mode(tree.join("README.md"), 0o755);
    fs::remove_dir_all(tree.join("old")).expect("removes");
    write(tree.join("old"), "now a file");
    fs::remove_file(tree.join("readme-link")).expect("removes");
    link("src/main.rs", tree.join("readme-link"));
    fs::remove_file(tree.join("src/dangling")).expect("removes");
    fs::create_dir(tree.join("src/dangling")).expect("makes");
    fs::remove_dir(tree.join("empty")).expect("removes");
    fs::create_dir(tree.join("hollow")).expect("makes");
    mode(tree.join("hollow"), 0o700);
    mode(tree.join("data"), 0o700);
    let (changes, skipped) = scene.list(&[]);
    assert_eq!(
        changes.iter().map(brief).collect::<Vec<_>>(),
        vec![
            "m 644 755 README.md",
            "m 755 700 data",
            "D file data/gone.txt",
            "A file data/renamed.txt",
            "D folder empty",
            "A folder hollow",
            "T folder file old",
            "D file old/a.txt",
            "D folder old/deep",
            "D file old/deep/b.txt",
            "M symlink readme-link",
            "T symlink folder src/dangling",
            "M file src/main.rs",
            "A file src/new.rs",
        ]
    );
    assert!(skipped.is_empty());
    let lines = |path: &str| {
        changes
            .iter()
            .find(|c| c.path == path)
            .expect("is there")
            .lines
    };
    assert_eq!(lines("src/main.rs"), Some((2, 1)));
    assert_eq!(lines("src/new.rs"), Some((1, 0)));
    assert_eq!(lines("data/gone.txt"), Some((0, 3)));
    assert_eq!(lines("README.md"), Some((0, 0)));
    assert_eq!(lines("hollow"), None);
    let new = changes
        .iter()
        .find(|c| c.path == "src/new.rs")
        .and_then(|c| c.after.clone());
    assert_eq!(
        new.expect("is there").digest,
        Some(Digest::of(b"pub fn more() {}\n"))
    );
}

#[test]
fn a_change_that_keeps_size_and_time_is_found_by_its_content() {
    let scene = Scene::new();
    write(scene.workspace().join("a"), "same size");
    scene.copy(&[]);
    let file = scene.tree().join("a");
    let time = fs::metadata(&file)
        .expect("reads")
        .modified()
        .expect("a time");
    fs::write(&file, "SAME SIZE").expect("writes");
    fs::File::options()
        .append(true)
        .open(&file)
        .and_then(|f| f.set_modified(time))
        .expect("sets");
    assert_eq!(scene.brief(), vec!["M file a"]);
}

#[test]
fn what_can_never_be_applied_is_told_and_is_no_change() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    scene.copy(&[".env"]);
    let tree = scene.tree();
    fs::remove_file(tree.join("README.md")).expect("removes");
    mkfifo(&tree.join("README.md"), Mode::S_IRWXU).expect("makes");
    fs::remove_dir_all(tree.join("old")).expect("removes");
    let _held = UnixListener::bind(tree.join("old")).expect("binds");
    write(tree.join("src/.env"), "KEY=1");
    let (changes, skipped) = scene.list(&[".env"]);
    assert_eq!(
        changes,
        vec![],
        "the old content stays where a special file took its place"
    );
    assert_eq!(
        skipped,
        vec!["README.md (FIFO)", "old (socket)", "src/.env (hidden name)"]
    );
}

#[test]
fn bits_that_give_power_do_not_cross() {
    let scene = Scene::new();
    write(scene.workspace().join("tool"), "x");
    write(scene.workspace().join("shared"), "x");
    mode(scene.workspace().join("shared"), 0o666);
    scene.copy(&[]);
    mode(scene.tree().join("tool"), 0o6777);
    mode(scene.tree().join("shared"), 0o777);
    write(scene.tree().join("new"), "x");
    mode(scene.tree().join("new"), 0o7777);
    let (changes, _) = scene.list(&[]);
    let modes: Vec<(String, u32)> = changes
        .iter()
        .map(|c| (c.path.clone(), c.after.as_ref().expect("is there").mode))
        .collect();
    // Others may write only what they could write before.
    assert_eq!(
        modes,
        vec![
            ("new".into(), 0o755),
            ("shared".into(), 0o777),
            ("tool".into(), 0o755)
        ]
    );
}

#[test]
fn odd_names_come_escaped_and_deep_places_are_left_out() {
    let scene = Scene::new();
    scene.copy(&[]);
    let tree = scene.tree();
    for name in [
        &b"\xff\xfe"[..],
        b"new\nline",
        b"back\\slash",
        b"\x1b[31mred",
        b"-rf",
    ] {
        write(tree.join(OsStr::from_bytes(name)), "x");
    }
    let mut here =
        nix::fcntl::open(&tree, nix::fcntl::OFlag::O_RDONLY, Mode::empty()).expect("opens");
    for _ in 0..3_000 {
        nix::sys::stat::mkdirat(&here, "d", Mode::S_IRWXU).expect("makes");
        here = nix::fcntl::openat(&here, "d", nix::fcntl::OFlag::O_RDONLY, Mode::empty())
            .expect("opens");
    }
    let (changes, skipped) = scene.list(&[]);
    let names: Vec<&str> = changes
        .iter()
        .map(|c| c.path.as_str())
        .filter(|p| !p.starts_with('d'))
        .collect();
    assert_eq!(
        names,
        vec![
            "\u{1b}[31mred",
            "-rf",
            "\\xff\\xfe",
            "back\\\\slash",
            "new\nline"
        ]
    );
    assert_eq!(changes.len(), 5 + 255);
    assert!(skipped.len() == 1 && skipped[0].ends_with("(too many folders deep)"));
    let folder = scene.text("tree");
    assert_eq!(one(&Errand::Remove { folder }), Finding::Removed);
}

#[test]
fn many_changes_come_in_pages() {
    let scene = Scene::new();
    scene.copy(&[]);
    for n in 0..1_203 {
        write(scene.tree().join(format!("{n:05}")), "");
    }
    let errand = Errand::List {
        kind: protocol::reader::TreeKind::Copy,
        tree: scene.text("tree"),
        manifest: scene.text("manifest"),
        hide: vec![],
        workspace: None,
    };
    let pages = findings(&errand);
    assert_eq!(pages.len(), 3);
    let (changes, _) = scene.list(&[]);
    assert_eq!(changes.len(), 1_203);
    assert!(changes.is_sorted_by(|a, b| a.path < b.path));
}

#[test]
fn a_manifest_that_is_missing_or_broken_is_said() {
    let scene = Scene::new();
    let errand = Errand::List {
        kind: protocol::reader::TreeKind::Copy,
        tree: scene.text("tree"),
        manifest: scene.text("manifest"),
        hide: vec![],
        workspace: None,
    };
    let (class, _) = failed(one(&errand));
    assert_eq!(class, ReaderFailure::Io);
    fs::write(scene.at("manifest"), "{\"path\":1}\n").expect("writes");
    let (class, said) = failed(one(&errand));
    assert!(
        class == ReaderFailure::Unfit && said.contains("line 1"),
        "{said}"
    );
}

/// Closed folders and files: listed, applied and removed all the same, and left closed.
#[test]
fn closed_places_do_not_stop_a_reader() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    scene.copy(&[]);
    let tree = scene.tree();
    write(tree.join("src/main.rs"), "changed\n");
    mode(tree.join("src/main.rs"), 0o000);
    write(tree.join("shut/in/file"), "x");
    mode(tree.join("shut/in"), 0o000);
    mode(tree.join("shut"), 0o000);
    mode(tree.join("old"), 0o400);
    mode(&tree, 0o000);
    let brief = scene.brief();
    assert_eq!(
        brief,
        vec![
            "m 755 400 old",
            "A folder shut",
            "A folder shut/in",
            "A file shut/in/file",
            "M file src/main.rs"
        ]
    );
    assert_eq!(scene.brief(), brief, "a second look sees the same");
    assert_eq!(
        one(&Errand::Remove {
            folder: scene.text("tree")
        }),
        Finding::Removed
    );
    assert!(snapshot(&tree).is_empty());
}

#[test]
fn closed_places_do_not_stop_an_ordinary_account_either() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: this is an ordinary account, the test above was it");
        return;
    }
    use std::os::unix::process::CommandExt;
    let me = std::env::current_exe().expect("is known");
    // A copy, since the build folder may be closed to others.
    let folder = tempfile::tempdir().expect("a folder");
    mode(folder.path(), 0o755);
    let copy = folder.path().join("tests");
    fs::copy(me, &copy).expect("copies");
    mode(&copy, 0o755);
    let output = Command::new(copy)
        .args(["--exact", "list::closed_places_do_not_stop_a_reader"])
        .env_clear()
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
