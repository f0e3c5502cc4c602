//! Removing whatever a session left.

use std::fs;

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::mkfifo;
use protocol::reader::{Errand, Finding, ReaderFailure};

use crate::support::*;

#[test]
fn a_tree_of_a_hundred_thousand_levels_goes_away() {
    let scene = Scene::in_memory();
    let mut here = open(&scene.tree(), OFlag::O_RDONLY, Mode::empty()).expect("opens");
    for level in 0..100_000 {
        mkdirat(&here, "d", Mode::S_IRWXU).expect("makes");
        let next = openat(&here, "d", OFlag::O_RDONLY, Mode::empty()).expect("opens");
        if level % 1_000 == 0 {
            mkdirat(&here, "side", Mode::empty()).expect("makes");
            mkfifo_at(&here);
        }
        here = next;
    }
    drop(here);
    assert_eq!(
        one(&Errand::Remove {
            folder: scene.text("tree")
        }),
        Finding::Removed
    );
    assert!(snapshot(&scene.tree()).is_empty());
}

fn mkfifo_at(folder: &std::os::fd::OwnedFd) {
    nix::unistd::mkfifoat(folder, "pipe", Mode::S_IRWXU).expect("makes");
}

#[test]
fn what_links_lead_to_stays() {
    let scene = Scene::new();
    write(scene.at("precious/file"), "keep");
    let tree = scene.tree();
    furnish(&tree);
    link(scene.at("precious"), tree.join("escape"));
    link(scene.at("precious"), tree.join("old/escape"));
    mkfifo(&tree.join("pipe"), Mode::S_IRWXU).expect("makes");
    for n in 0..12_000 {
        fs::File::create(tree.join(format!("empty/{n}"))).expect("makes");
    }
    for n in 0..300 {
        write(tree.join(format!("wide/{n}/x")), "");
    }
    assert_eq!(
        one(&Errand::Remove {
            folder: scene.text("tree")
        }),
        Finding::Removed
    );
    assert!(snapshot(&tree).is_empty());
    assert_eq!(fs::read(scene.at("precious/file")).expect("reads"), b"keep");
}

#[test]
fn a_root_a_link_and_a_missing_folder_are_refused() {
    let scene = Scene::new();
    write(scene.at("precious/file"), "keep");
    link(scene.at("precious"), scene.at("link"));
    for folder in [
        "/",
        "//",
        "",
        "tree",
        &scene.text("none"),
        &scene.text("link"),
    ] {
        let errand = Errand::Remove {
            folder: folder.to_owned(),
        };
        assert_eq!(failed(one(&errand)).0, ReaderFailure::Unfit, "{folder}");
    }
    assert!(scene.at("precious/file").exists());
}
