//! What was acknowledged is there: many writers at once, writers that are killed, disks that are full.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::support::{begin, call, certificate, ended, intent, outcome, places, said, session};
use protocol::SessionId;
use supervisor_core::{Entry, budget::Amount};
use supervisor_record::{
    AppendError, BlobError, Holding, NewSession, Record, SessionLock, Spent, UsageBy, history,
};

/// Appends batches for ever, or `count` of them, and prints the number of each that was acknowledged.
#[test]
fn as_a_writer() {
    let Some((root, argument)) = crate::support::role() else {
        return;
    };
    let (name, count) = argument.split_once(' ').expect("name and count");
    let count: u64 = count.parse().expect("count");
    let (mut record, id, _lock) = begin(&places(&root), name);
    let mut out = std::io::stdout().lock();
    for number in 0..count {
        let word = format!("w{number}");
        let entries = [said(&word), intent(&word), outcome(&word)];
        let seq = record.append(&id, &entries, number).expect("appended");
        writeln!(out, "acknowledged {seq}").expect("told");
    }
    record.append(&id, &[intent("last")], 9).expect("appended");
    writeln!(out, "all written").expect("told");
    // Waits to be killed.
    out.flush().expect("told");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn sixteen_supervisors_on_one_record_lose_nothing() {
    let home = tempfile::tempdir().expect("folder");
    let names: Vec<String> = (0..16).map(|number| format!("s-{number}")).collect();
    let start = |name: &String| {
        crate::support::start(
            "durability::as_a_writer",
            home.path(),
            &format!("{name} 60"),
        )
    };
    let mut writers: Vec<_> = names.iter().map(start).collect();
    for writer in &mut writers {
        let out = BufReader::new(writer.stdout.take().expect("piped"));
        let finished = out
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("all written"));
        assert!(finished, "a writer failed");
    }
    let mut record = Record::open(&places(home.path())).expect("opens");
    assert!(
        record
            .sessions()
            .expect("listed")
            .iter()
            .all(|row| row.live)
    );
    assert!(
        record.orphans(1).expect("asked").is_empty(),
        "the living keep their sessions"
    );
    for writer in &mut writers {
        writer.kill().expect("killed");
        writer.wait().expect("reaped");
    }
    assert_eq!(record.verify_all(&[], &[]).expect("verified"), []);
    for name in &names {
        let stored = record.entries(&session(name)).expect("read");
        assert_eq!(stored.len(), 181, "{name}");
        let head = record
            .audit_head(&session(name))
            .expect("read")
            .expect("some");
        assert_eq!(head.seq, 121);
    }
    assert_eq!(record.orphans(2).expect("taken").len(), 16);
}

#[test]
fn sixteen_threads_on_one_session_lose_nothing() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (record, id, _lock) = begin(&places, "shared");
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (places, id) = (&places, &id);
            scope.spawn(move || {
                let mut record = Record::open(places).expect("opens");
                for number in 0..25 {
                    let word = format!("t{thread}-{number}");
                    let entries = [said(&word), intent(&word)];
                    record.append(id, &entries, number).expect("appended");
                }
            });
        }
    });
    assert_eq!(record.entries(&id).expect("read").len(), 16 * 25 * 2);
    assert_eq!(record.verify(&id, &[], &[]).expect("verified"), []);
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged_and_its_session_is_taken_over() {
    for round in 0..5 {
        let home = tempfile::tempdir().expect("folder");
        let mut writer =
            crate::support::start("durability::as_a_writer", home.path(), "s-1 1000000");
        let mut out = BufReader::new(writer.stdout.take().expect("piped"));
        let mut acknowledged = 0;
        let mut line = String::new();
        while acknowledged < 150 + round * 31 {
            line.clear();
            assert!(
                out.read_line(&mut line).expect("read") > 0,
                "the writer ended"
            );
            acknowledged = number(&line).unwrap_or(acknowledged);
        }
        writer.kill().expect("killed");
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("read");
        writer.wait().expect("reaped");
        acknowledged = rest.lines().rev().find_map(number).unwrap_or(acknowledged);

        let places = places(home.path());
        let mut record = Record::open(&places).expect("opens");
        let id = session("s-1");
        let stored = record.entries(&id).expect("read");
        assert!(
            stored.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            stored.len()
        );
        assert_eq!(stored.len() % 3, 0, "a batch is there whole or not at all");
        assert_eq!(record.verify_all(&[], &[]).expect("verified"), []);
        let orphans = record.orphans(5).expect("taken over");
        assert_eq!(orphans.len(), 1);
        assert!(
            orphans[0].unknown.is_empty(),
            "every intent has its outcome"
        );
    }
}

/// The sequence number of an acknowledgement; the test runner prints on the same line.
fn number(line: &str) -> Option<u64> {
    line.split_once("acknowledged ")?.1.trim().parse().ok()
}

#[test]
fn what_was_in_flight_is_unknown_once_and_the_lock_changes_hands() {
    let home = tempfile::tempdir().expect("folder");
    let mut writer = crate::support::start("durability::as_a_writer", home.path(), "s-1 2");
    let mut out = BufReader::new(writer.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("all written") {
        line.clear();
        assert!(
            out.read_line(&mut line).expect("read") > 0,
            "the writer ended"
        );
    }
    let places = places(home.path());
    let id = session("s-1");
    assert!(
        SessionLock::take(&places, &id).expect("asked").is_none(),
        "its writer lives"
    );
    writer.kill().expect("killed");
    writer.wait().expect("reaped");

    let mut record = Record::open(&places).expect("opens");
    let leftover = places.session_folder(&id).join(".blob-1-1");
    std::fs::write(&leftover, "half").expect("written");
    let mut orphans = record.orphans(7).expect("taken over");
    let orphan = orphans.pop().expect("one");
    assert_eq!(
        (orphan.session.clone(), orphan.unknown.clone()),
        (id.clone(), vec![call("last")])
    );
    assert_eq!(orphan.history.unknown, [call("last")]);
    assert!(orphan.history.in_flight.is_empty());
    assert!(!leftover.exists());
    assert!(
        SessionLock::take(&places, &id).expect("asked").is_none(),
        "the taker holds it"
    );
    drop(orphan);
    let again = record.orphans(8).expect("taken over").pop().expect("one");
    assert!(again.unknown.is_empty(), "told once");
    assert_eq!(again.history.unknown, [call("last")]);
    record.append(&id, &[ended()], 9).expect("appended");
    drop(again);
    assert!(record.orphans(10).expect("asked").is_empty(), "ended");
    assert_eq!(record.verify_all(&[], &[]).expect("verified"), []);
}

#[test]
fn a_model_call_in_flight_is_settled_as_unknown() {
    let home = tempfile::tempdir().expect("folder");
    let (mut record, id, lock) = begin(&places(home.path()), "s-1");
    let infer = Entry::InferIntent {
        id: 4,
        provider: "anthropic".into(),
        model: "m".into(),
        request: protocol::Digest::of(b""),
        permit: 2,
    };
    record.append(&id, &[infer], 1).expect("appended");
    let amount = Amount {
        micro_usd: 77,
        input: 10,
        output: 20,
        calls: 1,
    };
    let route = [("anthropic".to_owned(), "m".to_owned())];
    let holding = |infer| Holding {
        session: &id,
        infer,
        route: &route,
        now_ms: 1,
        day_ms: 0,
    };
    let held = record.hold(&holding(4), |spent| {
        assert_eq!(*spent, Spent::default());
        Ok::<_, ()>(amount)
    });
    assert_eq!(held.expect("held"), Ok(()));
    // What is held counts as spent for everybody, and a refusal holds nothing.
    let refused = record.hold(&holding(5), |spent| {
        assert_eq!(
            (spent.session, spent.day, spent.model_day),
            (amount, amount, amount)
        );
        Err("too dear")
    });
    assert_eq!(refused.expect("asked"), Err("too dear"));
    let orphan = record.take_over(lock, 2).expect("taken over");
    assert_eq!(orphan.history.last_infer, 4);
    let last = record.entries(&id).expect("read").pop().expect("one");
    let Entry::InferOutcome {
        id: 4,
        error: Some(error),
        micro_usd: Some(77),
        estimated: true,
        ..
    } = last.entry
    else {
        panic!("{last:?}")
    };
    assert!(error.starts_with("unknown"), "{error}");
    let usage = record.usage(Some(&id), 0, UsageBy::Model).expect("read");
    assert_eq!((usage[0].calls, usage[0].failed), (1, 1));
    assert_eq!((usage[0].estimated, usage[0].micro_usd), (1, 77));
    assert_eq!(usage[0].name, "anthropic/m");
    let again = record.hold(&holding(6), |spent| {
        assert_eq!(spent.account, amount, "spent once, held no more");
        Ok::<_, ()>(Amount::default())
    });
    assert_eq!(again.expect("held"), Ok(()));
}

/// Fills the record in a process whose files may have 256 KiB, and tells how the append fails.
#[test]
fn as_a_writer_on_a_full_disk() {
    let Some((root, _)) = crate::support::role() else {
        return;
    };
    let (mut record, id, _lock) = begin(&places(&root), "s-1");
    let text = "x".repeat(16 * 1024);
    let mut out = std::io::stdout().lock();
    let mut acknowledged = 0;
    for number in 0..100 {
        match record.append(&id, &[said(&text), intent("c")], number) {
            Ok(seq) => acknowledged = seq,
            Err(error) => {
                writeln!(out, "append: {error}").expect("told");
                break;
            }
        }
    }
    match record.put_blob(&id, &vec![7; 1024 * 1024]) {
        Ok(_) => writeln!(out, "blob: kept").expect("told"),
        Err(error @ BlobError::DiskFull { .. }) => {
            writeln!(out, "blob: full {error}").expect("told")
        }
        Err(error) => writeln!(out, "blob: {error}").expect("told"),
    }
    // Reading goes on, and so does ending, once there is space.
    let stored = record.entries(&id).expect("read");
    writeln!(out, "acknowledged {acknowledged} stored {}", stored.len()).expect("told");
}

fn write_on_a_full_disk(home: &std::path::Path, limit: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let line = format!(
        "{limit} exec '{}' --exact durability::as_a_writer_on_a_full_disk --nocapture",
        program.display()
    );
    let output = Command::new("bash")
        .args(["-c", &line])
        .env("RECORD_TEST_ROOT", home)
        .env("RECORD_TEST_ARGUMENT", "")
        .stdin(Stdio::null())
        .output()
        .expect("started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn holds_after_a_full_disk(home: &std::path::Path, told: &str) {
    assert!(told.contains("append: "), "the append must fail: {told}");
    let mut record = Record::open(&places(home)).expect("opens");
    let id = session("s-1");
    let stored = record.entries(&id).expect("read").len() as u64;
    let line = told
        .lines()
        .find_map(|line| line.split_once("acknowledged "))
        .expect("told")
        .1;
    assert_eq!(line, format!("{stored} stored {stored}"));
    assert_eq!(record.verify_all(&[], &[]).expect("verified"), []);
    record
        .append(&id, &[ended()], 1)
        .expect("works again with space");
}

#[test]
fn a_file_size_limit_fails_the_append_and_nothing_is_half_written() {
    let home = tempfile::tempdir().expect("folder");
    let told = write_on_a_full_disk(home.path(), "trap '' XFSZ; ulimit -f 256;");
    holds_after_a_full_disk(home.path(), &told);
}

#[test]
fn a_full_disk_fails_the_append_with_its_name() {
    let home = tempfile::tempdir().expect("folder");
    let mount = |arguments: &[&str]| {
        Command::new("mount")
            .args(arguments)
            .arg(home.path())
            .stderr(Stdio::null())
            .status()
    };
    let mounted = nix::unistd::geteuid().is_root()
        && mount(&["-t", "tmpfs", "-o", "size=400k,mode=700", "none"])
            .is_ok_and(|status| status.success());
    if !mounted {
        let required = std::env::var_os("PROVOST_REQUIRE_ALL").is_some();
        assert!(!required, "a small disk must be mountable here");
        // The file-size limit above holds the same promise where nothing can be mounted.
        println!("skipped: cannot mount a small disk here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let told = write_on_a_full_disk(home.path(), "");
        assert!(told.contains("is full: free space there"), "{told}");
        assert!(
            told.contains("blob: the disk") || told.contains("blob: full"),
            "{told}"
        );
        let remount = mount(&["-o", "remount,size=8m"]).expect("run");
        assert!(remount.success());
        holds_after_a_full_disk(home.path(), &told);
    });
    let unmounted = Command::new("umount")
        .arg("-l")
        .arg(home.path())
        .status()
        .expect("run");
    assert!(unmounted.success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_writer_waits_for_another_for_a_bounded_time() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, id, _lock) = begin(&places, "s-1");
    let other = rusqlite::Connection::open(places.record_file()).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("begun");
    let before = std::time::Instant::now();
    let error = record.append(&id, &[intent("c")], 1).expect_err("busy");
    assert!(matches!(error, AppendError::Busy { .. }), "{error}");
    let waited = before.elapsed().as_secs();
    assert!((4..30).contains(&waited), "{waited} s");
    other.execute_batch("ROLLBACK").expect("ended");
    record.append(&id, &[intent("c")], 1).expect("free again");
}

#[test]
fn a_newer_or_foreign_record_is_refused_and_left_alone() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    drop(begin(&places, "s-1"));
    let raw = rusqlite::Connection::open(places.record_file()).expect("opens");
    raw.pragma_update(None, "user_version", 4).expect("set");
    let error = Record::open(&places).expect_err("refused").to_string();
    assert!(
        error.contains("has version 4, this program knows 3"),
        "{error}"
    );
    raw.pragma_update(None, "user_version", 3).expect("set");
    raw.pragma_update(None, "application_id", 7).expect("set");
    let error = Record::open(&places).expect_err("refused").to_string();
    assert!(error.contains("is not a record of provost"), "{error}");
    drop(raw);
    for side in ["record.db", "record.db-wal", "record.db-shm"] {
        let _ = std::fs::remove_file(places.state().join(side));
    }
    std::fs::write(
        places.record_file(),
        "not a database at all, but long enough",
    )
    .expect("written");
    let error = Record::open(&places).expect_err("refused").to_string();
    assert!(error.contains("is damaged"), "{error}");
}

#[test]
fn a_session_is_a_fold_of_its_record() {
    let home = tempfile::tempdir().expect("folder");
    let (mut record, id, lock) = begin(&places(home.path()), "s-1");
    let again = record.create_session(&lock, &NewSession::default(), 1);
    assert!(matches!(again, Err(AppendError::Known { .. })));
    let unknown = record.append(&session("other"), &[ended()], 1);
    assert!(matches!(unknown, Err(AppendError::Unknown { .. })));
    assert!(
        record
            .append(&SessionId::parse("x").expect("valid"), &[], 1)
            .is_err()
    );

    let begun = Entry::TurnBegan {
        number: 1,
        text: Some("fix it".into()),
    };
    let entries = [
        certificate(),
        begun,
        said("fix it"),
        intent("c1"),
        outcome("c1"),
        intent("c2"),
    ];
    assert_eq!(record.append(&id, &entries, 1).expect("appended"), 6);
    let so_far = history(&record.entries(&id).expect("read"));
    assert_eq!(so_far.messages.len(), 1);
    assert_eq!((so_far.turns, so_far.open_turn), (1, true));
    assert_eq!(so_far.in_flight, [call("c2")]);
    assert!(so_far.certificate.is_some() && so_far.ended.is_none());

    record.append(&id, &[ended()], 2).expect("appended");
    let row = record.session(&id).expect("read").expect("some");
    assert_eq!(
        (row.outcome.as_deref(), row.ended_ms),
        (Some("done"), Some(2))
    );
    record
        .append(&id, &[Entry::Resumed { after_crash: false }], 3)
        .expect("appended");
    assert_eq!(
        record.session(&id).expect("read").expect("some").outcome,
        None
    );
}

#[test]
fn a_damaged_record_is_told_in_its_place_and_the_rest_is_read() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, id, _lock) = begin(&places, "s-1");
    let entries: Vec<Entry> = (0..100).map(|number| said(&format!("m{number}"))).collect();
    record.append(&id, &entries, 1).expect("appended");
    let raw = rusqlite::Connection::open(places.record_file()).expect("opens");
    raw.execute("UPDATE events SET body = '{\"kind' WHERE seq = 50", [])
        .expect("changed");
    let so_far = history(&record.entries(&id).expect("read"));
    assert_eq!(so_far.messages.len(), 99);
    assert_eq!(so_far.damaged.len(), 1);
    assert!(
        so_far.damaged[0].contains("record 50"),
        "{:?}",
        so_far.damaged
    );
}
