//! Names that somebody swaps for links to outside while hands works on them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use protocol::{Digest, EntryKind, Put, Resolved};

use super::{Place, order};

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
