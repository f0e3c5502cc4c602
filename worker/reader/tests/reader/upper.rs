//! The layer of an overlay as a reader meets it: made by hand, so that it may hold what no honest
//! kernel would leave.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use protocol::Digest;
use protocol::reader::{Change, Errand, Finding, Node, NodeKind, ReaderFailure, TreeKind};

use crate::support::{Scene, brief, findings, one, strings};

fn prepare(scene: &Scene, hide: &[&str]) -> Finding {
    one(&Errand::Prepare {
        workspace: scene.text("workspace"),
        tree: scene.text("tree"),
        manifest: scene.text("manifest"),
        hide: strings(hide),
        max_entries: 1_000,
        owner: None,
    })
}

fn list(scene: &Scene, hide: &[&str]) -> (Vec<Change>, Vec<String>) {
    let mut found = findings(&Errand::List {
        tree: scene.text("tree"),
        kind: TreeKind::Upper,
        manifest: scene.text("manifest"),
        hide: strings(hide),
        workspace: Some(scene.text("workspace")),
    });
    match found.remove(0) {
        Finding::Changes {
            changes, skipped, ..
        } => (changes, skipped),
        other => panic!("{other:?}"),
    }
}

fn apply(scene: &Scene, changes: &[Change]) -> Finding {
    one(&Errand::Apply {
        tree: scene.text("tree"),
        kind: TreeKind::Upper,
        manifest: scene.text("manifest"),
        workspace: scene.text("workspace"),
        journal: scene.text("journal"),
        changes: changes.to_vec(),
    })
}

fn gone(scene: &Scene, name: &str) {
    let path = scene.tree().join(name);
    mknod(&path, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0)).expect("marked");
}

fn mark(scene: &Scene, folder: &str, name: &str, value: &[u8]) {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(scene.tree().join(folder), name, value, flags).expect("marked");
}

fn furnish(scene: &Scene) {
    let at = scene.workspace();
    fs::create_dir_all(at.join("d/sub")).expect("made");
    for name in ["a", "b", "d/one", "d/two", "d/sub/three", "secret"] {
        fs::write(at.join(name), name).expect("written");
    }
}

fn told(changes: &[Change]) -> Vec<String> {
    changes.iter().map(brief).collect()
}

#[test]
fn a_prepared_layer_changes_nothing_and_marks_what_must_not_be_seen() {
    let scene = Scene::new();
    furnish(&scene);
    fs::create_dir(scene.workspace().join("d/vault")).expect("made");
    nix::unistd::mkfifo(&scene.workspace().join("d/sub/pipe"), Mode::S_IRWXU).expect("made");
    fs::set_permissions(
        scene.workspace().join("d"),
        fs::Permissions::from_mode(0o750),
    )
    .expect("set");
    let Finding::Prepared {
        entries,
        hidden,
        skipped,
        ..
    } = prepare(&scene, &["secret", "vault/"])
    else {
        panic!("it is prepared");
    };
    assert_eq!(entries, 7);
    assert_eq!(hidden, ["d/vault", "secret"]);
    assert_eq!(skipped, ["d/sub/pipe (FIFO)"]);
    for name in ["secret", "d/vault", "d/sub/pipe"] {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let facts = fs::symlink_metadata(scene.tree().join(name)).expect("a mark");
        assert!(facts.file_type().is_char_device() && facts.rdev() == 0);
    }
    let bits = fs::metadata(scene.tree().join("d")).expect("there");
    assert_eq!(bits.permissions().mode() & 0o777, 0o750);
    assert_eq!(list(&scene, &["secret", "vault/"]), (vec![], vec![]));
}

#[test]
fn marks_delete_and_hide_what_lies_below_and_escaped_ones_do_not() {
    let scene = Scene::new();
    furnish(&scene);
    prepare(&scene, &[]);
    gone(&scene, "a");
    fs::create_dir_all(scene.tree().join("d")).expect("made");
    // What a session writes under the kernel's names is stored so.
    mark(&scene, "d", "user.overlay.overlay.opaque", b"y");
    mark(&scene, "d", "user.overlay.opaque", b"x");
    assert_eq!(told(&list(&scene, &[]).0), ["D file a"]);
    mark(&scene, "d", "user.overlay.opaque", b"y");
    fs::write(scene.tree().join("d/one"), "d/one").expect("written");
    let (changes, _) = list(&scene, &[]);
    let wanted = [
        "D file a",
        "D folder d/sub",
        "D file d/sub/three",
        "D file d/two",
    ];
    assert_eq!(told(&changes), wanted);
    assert_eq!(apply(&scene, &changes), Finding::Applied { changes: 4 });
    assert!(scene.workspace().join("d/one").exists() && !scene.workspace().join("d/two").exists());
}

#[test]
fn a_change_that_the_layer_does_not_hold_is_refused() {
    let scene = Scene::new();
    furnish(&scene);
    prepare(&scene, &[]);
    let node = |text: &str| Node {
        kind: NodeKind::File,
        mode: 0o644,
        size: text.len() as u64,
        digest: Some(Digest::of(text.as_bytes())),
    };
    fs::set_permissions(
        scene.workspace().join("b"),
        fs::Permissions::from_mode(0o644),
    )
    .expect("set");
    let forged = Change {
        path: "b".to_owned(),
        before: Some(node("b")),
        after: None,
        lines: None,
    };
    match apply(&scene, &[forged]) {
        Finding::Failed { class, .. } => assert_eq!(class, ReaderFailure::Hostile),
        other => panic!("{other:?}"),
    }
    assert!(scene.workspace().join("b").exists());
}

#[test]
fn special_files_over_what_was_there_are_skipped_and_say_nothing_of_it() {
    let scene = Scene::new();
    furnish(&scene);
    prepare(&scene, &[]);
    nix::unistd::mkfifo(&scene.tree().join("a"), Mode::S_IRWXU).expect("made");
    nix::unistd::mkfifo(&scene.tree().join("d"), Mode::S_IRWXU).expect("made");
    let (changes, skipped) = list(&scene, &[]);
    assert_eq!(told(&changes), Vec::<String>::new());
    assert_eq!(skipped, ["a (FIFO)", "d (FIFO)"]);
}

#[test]
fn what_moved_on_below_is_told_without_its_digest_and_never_applied() {
    let scene = Scene::new();
    furnish(&scene);
    prepare(&scene, &[]);
    fs::write(scene.tree().join("a"), "theirs").expect("written");
    gone(&scene, "b");
    // As long as before, so that only identity and times can tell.
    fs::write(scene.workspace().join("t"), "A").expect("written");
    fs::rename(scene.workspace().join("t"), scene.workspace().join("a")).expect("renamed");
    let (changes, _) = list(&scene, &[]);
    assert_eq!(told(&changes), ["M file a", "D file b"]);
    let before = changes.first().and_then(|change| change.before.clone());
    assert_eq!(before.and_then(|node| node.digest), None);
    match apply(&scene, &changes) {
        Finding::Failed { class, message } => {
            assert_eq!(class, ReaderFailure::Moved);
            assert!(message.contains("`a`"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert!(scene.workspace().join("b").exists(), "nothing was applied");
}

#[test]
fn a_mark_in_a_copy_is_a_device_and_deletes_nothing() {
    let scene = Scene::new();
    furnish(&scene);
    scene.copy(&[]);
    fs::remove_file(scene.tree().join("a")).expect("removed");
    gone(&scene, "a");
    let (changes, skipped) = scene.list(&[]);
    assert_eq!(told(&changes), Vec::<String>::new());
    assert_eq!(skipped, ["a (device)"]);
}
