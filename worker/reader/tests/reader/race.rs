//! A second hand that swaps names while a reader works: nothing outside is read, nothing outside is
//! written.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use protocol::reader::{Errand, Finding};

use crate::support::*;

/// Exchanges two names as fast as it can while `work` runs; answers how often.
fn while_swapping(one: &Path, other: &Path, work: impl FnOnce()) -> u64 {
    let stop = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let flags = RenameFlags::RENAME_EXCHANGE;
                if renameat2(AT_FDCWD, one, AT_FDCWD, other, flags).is_ok() {
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // A failed assertion inside must not leave the swapper running for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    swaps.load(Ordering::Relaxed)
}

fn holds_secret(root: &Path) -> bool {
    snapshot(root)
        .values()
        .any(|(_, _, content)| content.starts_with(b"SECRET"))
}

fn clear(scene: &Scene) {
    assert_eq!(
        one(&Errand::Remove {
            folder: scene.text("tree")
        }),
        Finding::Removed
    );
}

#[test]
fn st_005_a_folder_swapped_with_a_link_to_outside_is_never_read_through() {
    let scene = Scene::in_memory();
    let root = scene.workspace();
    write(scene.at("outside/passwd"), "SECRET");
    write(scene.at("outside/deep/passwd"), "SECRET");
    for name in ["passwd", "deep/passwd", "deep/other"] {
        write(root.join("sub").join(name), "safe");
    }
    link(scene.at("outside"), scene.at("swap"));
    let mut entered = 0;
    let swaps = while_swapping(&root.join("sub"), &scene.at("swap"), || {
        for _ in 0..600 {
            let finding = one(&scene.errand_copy(&[]));
            assert!(matches!(finding, Finding::Copied { .. }), "{finding:?}");
            assert!(!holds_secret(&scene.tree()));
            entered += usize::from(scene.tree().join("sub/passwd").symlink_metadata().is_ok());
            clear(&scene);
        }
    });
    eprintln!("{swaps} swaps, entered {entered} of 600");
    assert!(swaps > 100, "the swapper had its turns");
}

#[test]
fn st_006_a_file_swapped_with_a_link_to_outside_is_never_read_through() {
    let scene = Scene::in_memory();
    let root = scene.workspace();
    write(scene.at("outside"), "SECRET");
    write(root.join("data.js"), "safe");
    link(scene.at("outside"), scene.at("swap"));
    let swaps = while_swapping(&root.join("data.js"), &scene.at("swap"), || {
        for _ in 0..1_000 {
            let finding = one(&scene.errand_copy(&[]));
            assert!(matches!(finding, Finding::Copied { .. }), "{finding:?}");
            for (kind, _, content) in snapshot(&scene.tree()).values() {
                assert!(*kind == 'l' || content == b"safe", "{content:?}");
            }
            clear(&scene);
        }
    });
    assert!(swaps > 100, "the swapper had its turns");
}

#[test]
fn st_007_a_parent_swapped_while_applying_never_lets_a_write_out() {
    let scene = Scene::in_memory();
    let root = scene.workspace();
    write(root.join("w/ok"), "old");
    scene.copy(&[]);
    write(scene.tree().join("w/ok"), "new");
    write(scene.tree().join("w/made"), "new");
    let (changes, _) = scene.list(&[]);
    write(scene.at("outside/ok"), "old");
    link(scene.at("outside"), scene.at("swap"));
    let (mut applied, mut refused) = (0, 0);
    let swaps = while_swapping(&root.join("w"), &scene.at("swap"), || {
        for _ in 0..1_000 {
            match scene.apply(&changes) {
                Finding::Applied { .. } => applied += 1,
                Finding::Failed { .. } => refused += 1,
                other => panic!("{other:?}"),
            }
            assert_eq!(fs::read(scene.at("outside/ok")).expect("reads"), b"old");
            assert_eq!(fs::read_dir(scene.at("outside")).expect("lists").count(), 1);
            // The next round starts again from the old state, wherever the folder is just now.
            for place in [root.join("w"), scene.at("swap")] {
                if fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_dir()) {
                    let _ = fs::write(place.join("ok"), "old");
                    let _ = fs::remove_file(place.join("made"));
                }
            }
            fs::write(scene.at("outside/ok"), "old").expect("writes");
            let _ = fs::remove_file(scene.at("outside/made"));
            fs::write(scene.at("journal"), "").expect("writes");
        }
    });
    eprintln!("{swaps} swaps, {applied} applied, {refused} refused");
    assert!(swaps > 100, "the swapper had its turns");
}

#[test]
fn a_file_saved_over_while_applying_is_never_lost() {
    let scene = Scene::in_memory();
    let root = scene.workspace();
    write(root.join("file"), "old");
    scene.copy(&[]);
    write(scene.tree().join("file"), "new");
    let (changes, _) = scene.list(&[]);
    write(scene.at("swap"), "somebody's");
    let swaps = while_swapping(&root.join("file"), &scene.at("swap"), || {
        for _ in 0..500 {
            let finding = scene.apply(&changes);
            // The old content may be gone, replaced by the new one; what somebody saved may not.
            let mut held: Vec<Vec<u8>> = Vec::new();
            for _ in 0..50 {
                let files = fs::read_dir(&root).expect("lists");
                held = files
                    .map(|entry| entry.expect("an entry").path())
                    .chain([scene.at("swap")])
                    .filter_map(|path| fs::read(path).ok())
                    .collect();
                if held.iter().any(|content| content == b"somebody's") {
                    break;
                }
            }
            assert!(
                held.iter().any(|content| content == b"somebody's"),
                "{held:?}"
            );
            // A temporary name stays only where two saves fell into one exchange, and is told.
            for entry in fs::read_dir(&root).expect("lists") {
                let name = entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text");
                if name != "file" {
                    let (_, said) = failed(finding.clone());
                    assert!(said.contains(&name), "{said}");
                    fs::remove_file(root.join(name)).expect("removes");
                }
            }
            for place in [root.join("file"), scene.at("swap")] {
                make_old(&place);
            }
            fs::write(scene.at("journal"), "").expect("writes");
        }
    });
    assert!(swaps > 100, "the swapper had its turns");
}

/// Turns "new" back into "old" through one handle, since the name may mean another file a moment
/// later.
fn make_old(place: &Path) {
    let Ok(mut file) = fs::File::options().read(true).write(true).open(place) else {
        return;
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content).expect("reads");
    if content == b"new" {
        file.seek(SeekFrom::Start(0)).expect("seeks");
        file.write_all(b"old").expect("writes");
    }
}
