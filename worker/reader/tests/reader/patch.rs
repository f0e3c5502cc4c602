//! The patch, proven by git itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::Digest;
use protocol::reader::{Errand, Finding, ReaderFailure};

use crate::support::*;

fn errand(scene: &Scene, skip: &[&str]) -> Errand {
    Errand::Patch {
        kind: protocol::reader::TreeKind::Copy,
        tree: scene.text("tree"),
        manifest: scene.text("manifest"),
        workspace: scene.text("workspace"),
        out: scene.text("out.patch"),
        hide: vec![],
        skip: strings(skip),
    }
}

fn patch(scene: &Scene, skip: &[&str]) -> String {
    let finding = one(&errand(scene, skip));
    let content = fs::read(scene.at("out.patch")).expect("reads");
    assert_eq!(
        finding,
        Finding::Patched {
            bytes: content.len() as u64,
            digest: Digest::of(&content)
        }
    );
    String::from_utf8(content).expect("a patch of these files is UTF-8")
}

/// Runs `git apply` on a workspace, without any configuration but its own.
fn git_apply(scene: &Scene, more: &[&str]) -> Result<(), String> {
    let output = Command::new("git")
        .args(["apply", "--binary", "--whitespace=nowarn"])
        .args(more)
        .arg(scene.at("out.patch"))
        .current_dir(scene.workspace())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", scene.at(""))
        .output()
        .expect("git is there");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

type Held = (char, u32, Vec<u8>);

/// What git carries: no folders, and of the bits only whether the owner may execute.
fn as_git(root: &Path) -> BTreeMap<PathBuf, Held> {
    let all = snapshot(root)
        .into_iter()
        .filter(|(_, state)| state.0 != 'd');
    all.map(|(path, (kind, bits, content))| (path, (kind, bits & 0o100, content)))
        .collect()
}

fn change_everything(tree: &Path) {
    write(
        tree.join("src/main.rs"),
        "fn main() {\n    new();\n}\n// no end of line",
    );
    write(tree.join("src/crlf.txt"), "a\r\nb\r\n");
    write(tree.join("new/empty file"), "");
    write(
        tree.join("new/bin"),
        (0..=255).cycle().take(70_000).collect::<Vec<u8>>(),
    );
    write(tree.join("data/blob.bin"), [9_u8, 0, 9]);
    mode(tree.join("data/blob.bin"), 0o755);
    mode(tree.join("README.md"), 0o755);
    mode(tree.join("src/run.sh"), 0o644);
    fs::remove_file(tree.join("data/gone.txt")).expect("removes");
    fs::remove_dir_all(tree.join("old")).expect("removes");
    write(tree.join("old"), "a file now\n");
    fs::remove_file(tree.join("readme-link")).expect("removes");
    link("src/main.rs", tree.join("readme-link"));
    fs::remove_file(tree.join("src/dangling")).expect("removes");
    write(tree.join("src/dangling"), "no link any more");
    link("/etc/hostname", tree.join("outside"));
    for name in [
        &b"quo\"te"[..],
        b"sp ace",
        "gr\u{f6}\u{df}e".as_bytes(),
        b"tab\tand\\",
        b"\xff",
    ] {
        write(tree.join("odd").join(OsStr::from_bytes(name)), "odd\n");
    }
    let long: String = (0..400).map(|n| format!("line {n}\n")).collect();
    write(
        tree.join("long.txt"),
        long.replace("line 17\n", "")
            .replace("line 300", "LINE 300"),
    );
}

#[test]
fn git_makes_of_the_workspace_exactly_the_sessions_tree_and_back() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    let long: String = (0..400).map(|n| format!("line {n}\n")).collect();
    write(scene.workspace().join("long.txt"), long);
    let before = as_git(&scene.workspace());
    scene.copy(&[]);
    change_everything(&scene.tree());
    let text = patch(&scene, &[]);
    for words in [
        "GIT binary patch\n",
        "new file mode 120000\n",
        "old mode 100644\nnew mode 100755\n",
        "\\ No newline at end of file\n",
        "\"b/odd/\\377\"",
        "@@ -15,7 +15,6 @@",
    ] {
        assert!(text.contains(words), "{words}");
    }
    git_apply(&scene, &[]).expect("applies");
    let differ = |a: &BTreeMap<PathBuf, Held>, b: &BTreeMap<PathBuf, Held>| {
        let all: BTreeSet<&PathBuf> = a.keys().chain(b.keys()).collect();
        all.into_iter()
            .filter(|path| a.get(*path) != b.get(*path))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        differ(&as_git(&scene.workspace()), &as_git(&scene.tree())),
        Vec::<PathBuf>::new()
    );
    git_apply(&scene, &["--reverse"]).expect("applies backwards");
    // Git itself brings a link that had become a file back as a file.
    let only = [PathBuf::from("src/dangling")];
    assert_eq!(differ(&as_git(&scene.workspace()), &before), only);
}

#[test]
fn nothing_below_a_repositorys_folder_and_nothing_skipped_is_in_the_patch() {
    let scene = Scene::new();
    write(scene.workspace().join(".git/config"), "[core]\n");
    scene.copy(&[]);
    let tree = scene.tree();
    for name in [
        ".git/hooks/pre-commit",
        "sub/.git/config",
        "sub/.GIT/x",
        ".envrc",
        "ci/run.yml",
        "ci2",
        "a",
    ] {
        write(tree.join(name), "x\n");
    }
    let text = patch(&scene, &[".envrc", "ci"]);
    let named: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("diff "))
        .collect();
    assert_eq!(named, vec!["diff --git a/a b/a", "diff --git a/ci2 b/ci2"]);
}

#[test]
fn a_workspace_that_moved_on_gets_no_patch_and_no_half_of_one() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    scene.copy(&[]);
    write(scene.tree().join("README.md"), "# changed\n");
    write(scene.tree().join("src/main.rs"), "fn main() {}\n");
    write(
        scene.workspace().join("src/main.rs"),
        "somebody's own work\n",
    );
    let (class, said) = failed(one(&errand(&scene, &[])));
    assert!(
        class == ReaderFailure::Moved && said.contains("`src/main.rs`"),
        "{said}"
    );
    assert_eq!(fs::read(scene.at("out.patch")).expect("reads"), b"");
}

#[test]
fn no_changes_are_an_empty_patch() {
    let scene = Scene::new();
    furnish(&scene.workspace());
    scene.copy(&[]);
    assert_eq!(patch(&scene, &[]), "");
}

#[test]
fn a_patch_is_not_written_through_a_link() {
    let scene = Scene::new();
    scene.copy(&[]);
    write(scene.at("precious"), "keep");
    link(scene.at("precious"), scene.at("out.patch"));
    let (class, _) = failed(one(&errand(&scene, &[])));
    assert_eq!(class, ReaderFailure::Io);
    assert_eq!(fs::read(scene.at("precious")).expect("reads"), b"keep");
}
