//! Puts into quiet folders: what is made, what is kept, what is refused.

use std::{
    fs,
    io::Read as _,
    os::{
        fd::AsFd as _,
        unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    time::{Duration, Instant},
};

use protocol::{Digest, FailureClass, Put, PutDone, Resolved, bounds, jail::PUT_TEMP};

use super::{Place, done, fifo, order};
use crate::{
    preimage::Progress,
    put::{Outcome, put},
};

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
        done(image.finish()).before,
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
