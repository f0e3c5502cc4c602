//! Resolve and put against real folders, quiet ones and ones that somebody swaps meanwhile.

use std::{
    fs,
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    time::Instant,
};

use protocol::{Digest, EntryKind, Failure, FailureClass, Put, PutDone, Resolved};
use rustix::fs::{Mode, OFlags};

mod puts;
mod swaps;

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

/// What a put's report says.
fn done(report: protocol::Report) -> PutDone {
    match report {
        protocol::Report::PutDone { done, .. } => done,
        other => panic!("{other:?}"),
    }
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
                done(image.finish())
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
