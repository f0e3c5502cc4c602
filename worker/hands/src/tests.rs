//! Resolve and put against real folders, quiet ones and ones that somebody swaps meanwhile.

use std::{
    fs,
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use protocol::{
    Digest, EntryKind, Failure, FailureClass, Put, PutDone, Resolved, bounds, jail::PUT_TEMP,
};
use rustix::fs::{Mode, OFlags};

use crate::{
    preimage::Progress,
    put::{Outcome, put},
    resolve::resolve,
};

/// A workspace and, beside it, what must never be touched.
struct Place {
    _folder: tempfile::TempDir,
    root: OwnedFd,
    inside: PathBuf,
    outside: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let (inside, outside) = (folder.path().join("w"), folder.path().join("outside"));
        fs::create_dir(&inside).expect("made");
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("f"), "outside").expect("written");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&inside, flags, Mode::empty()).expect("opened");
        Self {
            _folder: folder,
            root,
            inside,
            outside,
        }
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.inside.join(name), content).expect("written");
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.inside.join(name)).expect("read")
    }

    fn resolve(&self, path: &str) -> Result<Resolved, Failure> {
        resolve(self.root.as_fd(), path)
    }

    fn put(&self, order: &Put) -> Result<(PutDone, Vec<u8>), Failure> {
        let (mut read, write) = std::io::pipe().expect("pipe");
        let done = match put(self.root.as_fd(), order, write.into(), &[])? {
            Outcome::Done(done) => done,
            Outcome::Pending(mut image) => {
                assert_eq!(
                    image.pump(Instant::now()),
                    Progress::Through,
                    "small enough at once"
                );
                image.finish()
            }
        };
        let mut before = Vec::new();
        read.read_to_end(&mut before).expect("read");
        Ok((done, before))
    }

    fn class(&self, order: &Put) -> FailureClass {
        self.put(order).expect_err("refused").class
    }

    /// Names in the workspace's root, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.inside).expect("listed");
        let mut names: Vec<String> = entries
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn assert_outside_untouched(&self) {
        assert_eq!(
            fs::read_to_string(self.outside.join("f")).expect("read"),
            "outside"
        );
        assert_eq!(
            fs::read_dir(&self.outside).expect("listed").count(),
            1,
            "nothing new outside"
        );
    }
}

fn order(path: &str, expected: Option<&str>, content: &str) -> Put {
    Put {
        order: 1,
        path: path.to_owned(),
        expected: expected.map(|text| Digest::of(text.as_bytes())),
        content: content.to_owned(),
        make_parents: false,
    }
}

fn fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR).expect("fifo");
}

/// Repeats some renames on another processor until dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Swapper {
    fn start(folder: &Path, renames: &'static [(&str, &str)]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, folder) = (Arc::clone(&stop), folder.to_owned());
        let body = move || {
            let mut rounds = 0;
            while !seen.load(Ordering::Relaxed) {
                for (from, to) in renames {
                    // A put of the test may be in between: the next round goes on.
                    let _ = fs::rename(folder.join(from), folder.join(to));
                }
                rounds += 1;
            }
            rounds
        };
        Self {
            stop,
            thread: Some(std::thread::spawn(body)),
        }
    }

    fn rounds(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("once").join().expect("swapped")
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn resolve_tells_what_a_path_is() {
    let place = Place::new();
    place.write("f", "hello");
    fs::set_permissions(place.inside.join("f"), fs::Permissions::from_mode(0o640)).expect("mode");
    fs::create_dir(place.inside.join("d")).expect("made");
    symlink("f", place.inside.join("l")).expect("linked");
    symlink("d", place.inside.join("dl")).expect("linked");
    place.write("d/g", "deep");
    fifo(&place.inside.join("p"));
    let Resolved::File(entry) = place.resolve("f").expect("a file") else {
        panic!("a file")
    };
    assert_eq!(
        (entry.size, entry.mode, entry.links, entry.digest),
        (5, 0o640, 1, Some(Digest::of(b"hello")))
    );
    assert_eq!(
        entry.inode,
        fs::metadata(place.inside.join("f")).expect("there").ino()
    );
    assert_eq!(
        place.resolve("d").expect("told"),
        Resolved::Other(EntryKind::Folder)
    );
    assert_eq!(
        place.resolve("").expect("told"),
        Resolved::Other(EntryKind::Folder)
    );
    assert_eq!(
        place.resolve("l").expect("told"),
        Resolved::Other(EntryKind::Symlink)
    );
    assert_eq!(
        place.resolve("p").expect("told"),
        Resolved::Other(EntryKind::Special)
    );
    assert_eq!(place.resolve("none").expect("told"), Resolved::Absent);
    assert_eq!(
        place.resolve("none/deeper").expect("told"),
        Resolved::Absent
    );
    // A link on the way that stays beneath is followed; one that leaves is not.
    assert!(matches!(
        place.resolve("dl/g").expect("told"),
        Resolved::File(_)
    ));
    symlink(&place.outside, place.inside.join("out")).expect("linked");
    symlink("../outside", place.inside.join("up")).expect("linked");
    symlink("/proc/self/root", place.inside.join("magic")).expect("linked");
    for path in ["out/f", "up/f", "magic/etc"] {
        assert_eq!(
            place.resolve(path).expect_err(path).class,
            FailureClass::Outside,
            "{path}"
        );
    }
    assert_eq!(
        place.resolve("f/x").expect_err("a file").class,
        FailureClass::WrongKind
    );
    for path in ["../outside/f", "/etc/passwd", "d/../f"] {
        assert_eq!(
            place.resolve(path).expect_err(path).class,
            FailureClass::Outside,
            "{path}"
        );
    }
}

#[test]
fn a_file_beyond_the_bound_has_no_digest_and_is_not_replaced() {
    let place = Place::new();
    let file = fs::File::create(place.inside.join("big")).expect("made");
    file.set_len(bounds::FILE_READ + 1).expect("sparse");
    let Resolved::File(entry) = place.resolve("big").expect("told") else {
        panic!("a file")
    };
    assert_eq!((entry.size, entry.digest), (bounds::FILE_READ + 1, None));
    assert_eq!(
        place.class(&order("big", Some("?"), "x")),
        FailureClass::Limit
    );
    assert_eq!(
        fs::metadata(place.inside.join("big")).expect("there").len(),
        bounds::FILE_READ + 1
    );
    let large = "x".repeat(bounds::FILE_CONTENT + 1);
    assert_eq!(
        place.class(&order("new", None, &large)),
        FailureClass::Limit
    );
    assert_eq!(place.names(), ["big"]);
}

#[test]
fn a_new_file_is_made_whole_and_only_where_nothing_was() {
    let place = Place::new();
    let (done, before) = place.put(&order("f", None, "new")).expect("put");
    assert_eq!(
        done,
        PutDone {
            created: true,
            digest: Digest::of(b"new"),
            before: None
        }
    );
    assert!(before.is_empty());
    assert_eq!(
        fs::metadata(place.inside.join("f")).expect("there").mode() & 0o7777,
        0o644
    );
    assert_eq!(
        place.class(&order("f", None, "again")),
        FailureClass::Changed
    );
    assert_eq!(
        (place.read("f").as_str(), place.names()),
        ("new", vec!["f".to_owned()])
    );
    assert_eq!(
        place.class(&order("d/g", None, "x")),
        FailureClass::NotFound
    );
}

#[test]
fn a_replaced_file_comes_out_as_the_pre_image_and_keeps_its_mode_without_set_ids() {
    let place = Place::new();
    place.write("f", "old");
    fs::set_permissions(place.inside.join("f"), fs::Permissions::from_mode(0o6751)).expect("mode");
    let (done, before) = place.put(&order("f", Some("old"), "new")).expect("put");
    assert_eq!(done.before, Some((Digest::of(b"old"), 3)));
    assert_eq!((before.as_slice(), done.created), (&b"old"[..], false));
    assert_eq!(place.read("f"), "new");
    assert_eq!(
        fs::metadata(place.inside.join("f")).expect("there").mode() & 0o7777,
        0o751
    );
    assert_eq!(place.names(), ["f"], "no temporary file stays");
}

#[test]
fn another_digest_is_exchanged_back_and_the_very_same_file_lies_there() {
    let place = Place::new();
    place.write("f", "others wrote this");
    let inode = fs::metadata(place.inside.join("f")).expect("there").ino();
    assert_eq!(
        place.class(&order("f", Some("what was read"), "new")),
        FailureClass::Changed
    );
    assert_eq!(place.read("f"), "others wrote this");
    assert_eq!(
        fs::metadata(place.inside.join("f")).expect("there").ino(),
        inode
    );
    assert_eq!(
        place.class(&order("gone", Some("x"), "new")),
        FailureClass::Changed
    );
    assert_eq!(place.names(), ["f"]);
}

#[test]
fn links_folders_and_fifos_are_never_written_through() {
    let place = Place::new();
    symlink(place.outside.join("f"), place.inside.join("l")).expect("linked");
    symlink("nowhere", place.inside.join("dangling")).expect("linked");
    fs::create_dir(place.inside.join("d")).expect("made");
    fifo(&place.inside.join("p"));
    let names = place.names();
    for path in ["l", "dangling", "d", "p"] {
        for expected in [None, Some("outside")] {
            let refused = place.class(&order(path, expected, "x"));
            assert_eq!(refused, FailureClass::WrongKind, "{path} {expected:?}");
        }
    }
    symlink(&place.outside, place.inside.join("out")).expect("linked");
    assert_eq!(
        place.class(&order("out/f", Some("outside"), "x")),
        FailureClass::Outside
    );
    assert_eq!(
        place.class(&order("out/new", None, "x")),
        FailureClass::Outside
    );
    fs::remove_file(place.inside.join("out")).expect("removed");
    assert_eq!(place.names(), names);
    place.assert_outside_untouched();
}

#[test]
fn of_a_file_with_two_names_only_the_named_one_changes() {
    let place = Place::new();
    fs::hard_link(place.outside.join("f"), place.inside.join("h")).expect("linked");
    let Resolved::File(entry) = place.resolve("h").expect("told") else {
        panic!("a file")
    };
    assert_eq!(entry.links, 2, "the answer says so");
    place.put(&order("h", Some("outside"), "new")).expect("put");
    assert_eq!(place.read("h"), "new");
    place.assert_outside_untouched();
}

#[test]
fn missing_parents_are_made_when_asked_and_unmade_when_the_put_fails() {
    let place = Place::new();
    let deep = |content: &str| Put {
        make_parents: true,
        ..order("a/b/c/f", None, content)
    };
    place.put(&deep("x")).expect("put");
    assert_eq!(place.read("a/b/c/f"), "x");
    fs::remove_dir_all(place.inside.join("a")).expect("removed");
    let expecting = Put {
        expected: Some(Digest::of(b"?")),
        ..deep("x")
    };
    assert_eq!(place.class(&expecting), FailureClass::Changed);
    assert!(
        place.names().is_empty(),
        "nothing was changed, no folder either"
    );
    place.write("file", "");
    let through = Put {
        make_parents: true,
        ..order("file/b/f", None, "x")
    };
    assert_eq!(place.class(&through), FailureClass::WrongKind);
    symlink(&place.outside, place.inside.join("out")).expect("linked");
    let outside = Put {
        make_parents: true,
        ..order("out/new/f", None, "x")
    };
    assert_eq!(place.class(&outside), FailureClass::Outside);
    place.assert_outside_untouched();
}

#[test]
fn a_pre_image_that_cannot_be_handed_over_takes_the_put_back() {
    let place = Place::new();
    place.write("f", "old");
    let inode = fs::metadata(place.inside.join("f")).expect("there").ino();
    let (read, write) = std::io::pipe().expect("pipe");
    drop(read);
    let put = put(
        place.root.as_fd(),
        &order("f", Some("old"), "new"),
        write.into(),
        &[],
    );
    let Ok(Outcome::Pending(mut image)) = put else {
        panic!("pending")
    };
    assert_eq!(place.read("f"), "new");
    assert_eq!(image.pump(Instant::now()), Progress::Broken);
    assert_eq!(image.take_back().class, FailureClass::Other);
    assert_eq!(place.read("f"), "old");
    assert_eq!(
        fs::metadata(place.inside.join("f")).expect("there").ino(),
        inode
    );
    assert_eq!(place.names(), ["f"]);
}

#[test]
fn a_pre_image_larger_than_the_pipe_waits_and_stands_still_only_until_its_deadline() {
    let place = Place::new();
    let old = "o".repeat(1 << 20);
    place.write("f", &old);
    let (mut read, write) = std::io::pipe().expect("pipe");
    let put = put(
        place.root.as_fd(),
        &order("f", Some(&old), "new"),
        write.into(),
        &[],
    );
    let Ok(Outcome::Pending(mut image)) = put else {
        panic!("pending")
    };
    assert_eq!(image.pump(Instant::now()), Progress::Waiting);
    assert_eq!(
        image.pump(image.deadline()),
        Progress::Broken,
        "nobody reads"
    );
    let reading = std::thread::spawn(move || {
        let mut all = String::new();
        read.read_to_string(&mut all).expect("read");
        all
    });
    let start = Instant::now();
    while image.pump(Instant::now()) != Progress::Through {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    assert_eq!(
        image.finish().before,
        Some((Digest::of(old.as_bytes()), 1 << 20))
    );
    assert_eq!(reading.join().expect("read"), old);
}

#[test]
fn what_a_third_party_wrote_meanwhile_is_not_lost_by_taking_back() {
    let place = Place::new();
    place.write("f", "old");
    let (_read, write) = std::io::pipe().expect("pipe");
    let put = put(
        place.root.as_fd(),
        &order("f", Some("old"), "new"),
        write.into(),
        &[],
    );
    let Ok(Outcome::Pending(image)) = put else {
        panic!("pending")
    };
    place.write("third", "third");
    fs::rename(place.inside.join("third"), place.inside.join("f")).expect("renamed");
    let failure = image.take_back();
    assert_eq!(failure.class, FailureClass::Unknown);
    assert_eq!(place.read("f"), "third");
    let names = place.names();
    let kept = names
        .iter()
        .find(|name| name.starts_with(".provost-kept-"))
        .expect("kept");
    assert!(failure.message.contains(kept.as_str()));
    assert_eq!(place.read(kept), "old");
    // And when the new file was removed meanwhile, the old one goes home.
    let (_read, write) = std::io::pipe().expect("pipe");
    let put = crate::put::put(
        place.root.as_fd(),
        &order("f", Some("third"), "new"),
        write.into(),
        &[],
    );
    let Ok(Outcome::Pending(image)) = put else {
        panic!("pending")
    };
    fs::remove_file(place.inside.join("f")).expect("removed");
    image.take_back();
    assert_eq!(place.read("f"), "third");
}

#[test]
fn leftovers_of_a_killed_put_are_swept_and_nothing_else() {
    let place = Place::new();
    let (stale, busy) = (
        format!("{PUT_TEMP}0123456789abcdef"),
        format!("{PUT_TEMP}{:016x}", 1),
    );
    let other = format!("{PUT_TEMP}notes");
    for name in [&stale, &busy, &other] {
        place.write(name, "x");
    }
    let (_read, write) = std::io::pipe().expect("pipe");
    put(
        place.root.as_fd(),
        &order("f", None, "new"),
        write.into(),
        &[&busy],
    )
    .expect("put");
    assert_eq!(place.names(), [busy, other, "f".to_owned()]);
    assert_eq!(place.class(&order(&stale, None, "x")), FailureClass::Denied);
}

#[test]
fn a_swapped_parent_never_leads_outside() {
    // ST-005 and ST-007: `a` toggles between a folder and a link to outside.
    let place = Place::new();
    fs::create_dir(place.inside.join("a")).expect("made");
    place.write("a/f", "inside");
    symlink(&place.outside, place.inside.join("b")).expect("linked");
    let toggle = &[("a", "s"), ("b", "a"), ("a", "b"), ("s", "a")];
    let swapper = Swapper::start(&place.inside, toggle);
    let (mut seen, mut refused) = (0_u32, 0_u32);
    for _ in 0..10_000 {
        match place.resolve("a/f") {
            Ok(Resolved::File(entry)) => {
                assert_eq!(
                    entry.digest,
                    Some(Digest::of(b"inside")),
                    "only the file inside"
                );
                seen += 1;
            }
            Ok(Resolved::Absent) | Err(_) => refused += 1,
            Ok(Resolved::Other(kind)) => panic!("{kind:?}"),
        }
    }
    let (mut written, mut content) = (0_u32, "inside".to_owned());
    for turn in 0..2_000 {
        let new = format!("inside {turn}");
        if place.put(&order("a/f", Some(&content), &new)).is_ok() {
            (written, content) = (written + 1, new);
        }
        let _ = place.put(&order(&format!("a/n{turn}"), None, "x"));
    }
    // Last, because a made folder takes the name from the swapper.
    for turn in 0..500 {
        let path = format!("a/d{turn}/f");
        let _ = place.put(&Put {
            make_parents: true,
            ..order(&path, None, "x")
        });
    }
    let rounds = swapper.rounds();
    assert!(
        seen > 0 && refused > 0 && written > 0,
        "{seen} {refused} {written} {rounds}"
    );
    place.assert_outside_untouched();
}

#[test]
fn a_swapped_file_is_the_file_or_an_error() {
    // ST-006 and PA-010: the name toggles between a file and a link to a file outside.
    let place = Place::new();
    place.write("data", "inside");
    symlink(place.outside.join("f"), place.inside.join("link")).expect("linked");
    let toggle = &[
        ("data", "s"),
        ("link", "data"),
        ("data", "link"),
        ("s", "data"),
    ];
    let swapper = Swapper::start(&place.inside, toggle);
    let (mut files, mut others) = (0_u32, 0_u32);
    for _ in 0..10_000 {
        match place.resolve("data") {
            Ok(Resolved::File(entry)) => {
                assert_eq!(entry.digest, Some(Digest::of(b"inside")));
                files += 1;
            }
            Ok(Resolved::Other(EntryKind::Symlink) | Resolved::Absent) | Err(_) => others += 1,
            Ok(other) => panic!("{other:?}"),
        }
    }
    for _ in 0..1_500 {
        let _ = place.put(&order("data", Some("inside"), "inside"));
    }
    let rounds = swapper.rounds();
    assert!(files > 0 && others > 0, "{files} {others} {rounds}");
    place.assert_outside_untouched();
}
