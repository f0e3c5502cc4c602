//! Copying a workspace in.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use protocol::Digest;
use protocol::jail::Identity;
use protocol::reader::{Errand, Finding, ManifestEntry, NodeKind, ReaderFailure};

use crate::support::*;

fn manifest(scene: &Scene) -> Vec<ManifestEntry> {
    let text = fs::read_to_string(scene.at("manifest")).expect("reads");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an entry"))
        .collect()
}

#[test]
fn a_copy_equals_its_workspace_in_content_bits_links_and_times() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    write(
        scene.workspace().join("big.bin"),
        vec![7_u8; 3 * 1024 * 1024 + 17],
    );
    let odd = scene
        .workspace()
        .join(OsStr::from_bytes(b"odd\xff\\name\n"));
    write(&odd, "odd\n");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(scene.workspace().join("README.md"))
        .and_then(|file| file.set_modified(long_ago))
        .expect("sets");
    let (entries, hidden, skipped) = scene.copy(&[]);
    assert_eq!(snapshot(&scene.workspace()), snapshot(&scene.tree()));
    assert_eq!((hidden, skipped), (vec![], vec![]));
    let copied = fs::metadata(scene.tree().join("README.md")).expect("reads");
    assert_eq!(copied.modified().expect("a time"), long_ago);
    for name in ["src", "empty", "src/dangling"] {
        let (a, b) = (scene.workspace().join(name), scene.tree().join(name));
        let of = |path| {
            fs::symlink_metadata(path)
                .expect("reads")
                .modified()
                .expect("a time")
        };
        assert_eq!(of(a), of(b), "{name}");
    }
    let all = manifest(&scene);
    assert_eq!(all.len() as u64, entries);
    let readme = all
        .iter()
        .find(|entry| entry.path == "README.md")
        .expect("is there");
    let meta = fs::metadata(scene.workspace().join("README.md")).expect("reads");
    assert_eq!(readme.identity, (meta.dev(), meta.ino()));
    assert_eq!(readme.digest, Some(Digest::of(b"# project\n")));
    assert_eq!(
        (readme.kind, readme.size, readme.mode),
        (NodeKind::File, 10, 0o644)
    );
    assert_eq!(
        readme.ctime_ns,
        i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec())
    );
    assert!(
        all.iter().any(|entry| entry.path == "odd\\xff\\\\name\n"),
        "{all:?}"
    );
    assert!(scene.brief().is_empty(), "an untouched copy has no changes");
}

#[test]
fn setuid_and_special_files_stay_outside() {
    let scene = Scene::new();
    let root = scene.workspace();
    write(root.join("tool"), "x");
    mode(root.join("tool"), 0o6755);
    fs::create_dir(root.join("team")).expect("makes");
    mode(root.join("team"), 0o3775);
    mkfifo(&root.join("pipe"), Mode::S_IRWXU).expect("makes");
    let _held = UnixListener::bind(root.join("door.sock")).expect("binds");
    let (_, _, skipped) = scene.copy(&[]);
    assert_eq!(skipped, vec!["door.sock (socket)", "pipe (FIFO)"]);
    let copy = snapshot(&scene.tree());
    assert_eq!(copy.len(), 2);
    assert_eq!(copy[std::path::Path::new("tool")].1, 0o755);
    assert_eq!(copy[std::path::Path::new("team")].1, 0o775);
}

#[test]
fn hidden_names_are_left_out_at_any_depth_and_told() {
    let scene = Scene::new();
    let root = scene.workspace();
    for name in [
        ".env",
        "a/.env",
        "a/b/key.pem",
        "secrets/x",
        "a/secrets/y",
        "plain",
    ] {
        write(root.join(name), "secret");
    }
    let (entries, hidden, _) = scene.copy(&[".env", "*.pem", "/secrets/"]);
    assert_eq!(hidden, vec![".env", "a/.env", "a/b/key.pem", "secrets"]);
    assert_eq!(entries, 5, "a, a/b, a/secrets, a/secrets/y, plain");
    assert!(!scene.tree().join("secrets").exists() && !scene.tree().join("a/.env").exists());
    let (changes, skips) = scene.list(&[".env", "*.pem", "/secrets/"]);
    assert_eq!(
        (changes, skips),
        (vec![], vec![]),
        "what was hidden is not deleted"
    );
}

#[test]
fn a_glob_that_cannot_be_read_stops_the_copy() {
    let scene = Scene::new();
    let (class, said) = failed(one(&scene.errand_copy(&["[z-a]"])));
    assert_eq!(class, ReaderFailure::Unfit);
    assert!(said.contains("`[z-a]`"), "{said}");
}

#[test]
fn too_large_a_workspace_is_refused_by_its_three_largest_folders() {
    let scene = Scene::new();
    let root = scene.workspace();
    for (name, size) in [
        ("web/node_modules/x", 900),
        ("target/y", 500),
        ("docs/z", 300),
    ] {
        write(root.join(name), vec![0_u8; size * 1024]);
    }
    write(root.join("src/a"), "a");
    let Errand::CopyIn {
        workspace,
        tree,
        manifest,
        hide,
        max_entries,
        owner,
        ..
    } = scene.errand_copy(&[])
    else {
        panic!("another errand");
    };
    let errand = |max_bytes, max_entries| Errand::CopyIn {
        workspace: workspace.clone(),
        tree: tree.clone(),
        manifest: manifest.clone(),
        hide: hide.clone(),
        max_bytes,
        max_entries,
        owner,
    };
    let (class, said) = failed(one(&errand(1024 * 1024, max_entries)));
    assert_eq!(class, ReaderFailure::Limit);
    assert!(
        said.contains("`web/node_modules` (900.0 KiB), `target` (500.0 KiB), `docs` (300.0 KiB)"),
        "{said}"
    );
    assert!(
        snapshot(&scene.tree()).is_empty(),
        "refused before the first byte"
    );
    for n in 0..30 {
        write(root.join(format!("many/{n}")), "");
    }
    let (class, said) = failed(one(&errand(u64::MAX, 20)));
    assert_eq!(class, ReaderFailure::Limit);
    assert!(said.contains("`many` (30)"), "{said}");
}

#[test]
fn very_deep_trees_are_bounded() {
    let scene = Scene::new();
    let mut here = nix::fcntl::open(
        &scene.workspace(),
        nix::fcntl::OFlag::O_RDONLY,
        Mode::empty(),
    )
    .expect("opens");
    for _ in 0..2_000 {
        nix::sys::stat::mkdirat(&here, "d", Mode::S_IRWXU).expect("makes");
        here = nix::fcntl::openat(&here, "d", nix::fcntl::OFlag::O_RDONLY, Mode::empty())
            .expect("opens");
    }
    let (entries, _, skipped) = scene.copy(&[]);
    assert_eq!(entries, 255);
    assert!(skipped.len() == 1 && skipped[0].ends_with("(too many folders deep)"));
    for folder in ["workspace", "tree"] {
        assert_eq!(
            one(&Errand::Remove {
                folder: scene.text(folder)
            }),
            Finding::Removed
        );
    }
}

#[test]
fn the_tree_must_be_empty_and_the_workspace_a_folder() {
    let scene = Scene::new();
    write(scene.tree().join("left"), "");
    let (class, said) = failed(one(&scene.errand_copy(&[])));
    assert!(
        class == ReaderFailure::Unfit && said.contains("not empty"),
        "{said}"
    );
    fs::remove_file(scene.tree().join("left")).expect("removes");
    fs::remove_dir(scene.workspace()).expect("removes");
    let (class, said) = failed(one(&scene.errand_copy(&[])));
    assert!(
        class == ReaderFailure::Unfit && said.contains("does not exist"),
        "{said}"
    );
    link("/etc", scene.workspace());
    let (class, said) = failed(one(&scene.errand_copy(&[])));
    assert!(
        class == ReaderFailure::Unfit && said.contains("link"),
        "{said}"
    );
}

#[test]
fn the_session_own_tree_is_not_copied_into_itself() {
    let scene = Scene::new();
    let tree = scene.workspace().join("state/tree");
    fs::create_dir_all(&tree).expect("makes");
    write(scene.workspace().join("a"), "a");
    let Errand::CopyIn {
        workspace,
        manifest,
        hide,
        max_bytes,
        max_entries,
        owner,
        ..
    } = scene.errand_copy(&[])
    else {
        panic!("another errand");
    };
    let tree_text = tree.to_str().expect("text").to_owned();
    let errand = Errand::CopyIn {
        workspace,
        tree: tree_text,
        manifest,
        hide,
        max_bytes,
        max_entries,
        owner,
    };
    let Finding::Copied { skipped, .. } = one(&errand) else {
        panic!("not copied")
    };
    assert_eq!(skipped, vec!["state/tree (the session's own tree)"]);
    assert_eq!(snapshot(&tree).len(), 2);
}

#[test]
fn every_entry_belongs_to_the_owner_that_root_names() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root gives files away");
        return;
    }
    let scene = Scene::new();
    furnish(&scene.workspace());
    let Errand::CopyIn {
        workspace,
        tree,
        manifest,
        hide,
        max_bytes,
        max_entries,
        ..
    } = scene.errand_copy(&[])
    else {
        panic!("another errand");
    };
    let owner = Some(Identity {
        uid: 61_999,
        gid: 61_998,
    });
    let errand = Errand::CopyIn {
        workspace,
        tree,
        manifest,
        hide,
        max_bytes,
        max_entries,
        owner,
    };
    assert!(matches!(one(&errand), Finding::Copied { .. }));
    for name in [
        "",
        "src",
        "README.md",
        "readme-link",
        "old/deep/b.txt",
        "empty",
    ] {
        let meta = fs::symlink_metadata(scene.tree().join(name)).expect("reads");
        assert_eq!((meta.uid(), meta.gid()), (61_999, 61_998), "{name:?}");
    }
    assert!(scene.brief().is_empty());
}

#[test]
fn ten_thousand_small_files_are_copied_in_about_a_second() {
    let scene = Scene::in_memory();
    for folder in 0..100 {
        let folder = scene.workspace().join(format!("f{folder}"));
        fs::create_dir(&folder).expect("makes");
        for file in 0..100 {
            fs::write(folder.join(format!("{file}.txt")), format!("file {file}\n"))
                .expect("writes");
        }
    }
    let started = Instant::now();
    let (entries, _, _) = scene.copy(&["target/", ".env"]);
    let took = started.elapsed();
    eprintln!("10,000 files in {took:?}");
    assert_eq!(entries, 10_100);
    // Two shared cores and an unoptimised build: the bound catches another order of growth.
    assert!(took < Duration::from_secs(8), "{took:?}");
    let started = Instant::now();
    assert!(scene.brief().is_empty());
    eprintln!("listed in {:?}", started.elapsed());
}

#[test]
fn a_file_that_changes_while_it_is_copied_is_told() {
    let scene = Scene::in_memory();
    let log = scene.workspace().join("log");
    write(&log, vec![b'x'; 8 * 1024 * 1024]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let skipped = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = fs::File::options().append(true).open(&log).expect("opens");
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::io::Write::write_all(&mut file, b"line\n").expect("writes");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let (_, _, skipped) = scene.copy(&[]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        skipped
    });
    assert_eq!(
        skipped,
        vec!["log (kept as it was read: it changes all the time)"]
    );
    // What the session got is what the manifest names.
    assert!(scene.brief().is_empty());
}
