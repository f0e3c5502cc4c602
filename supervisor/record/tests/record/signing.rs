//! Signatures of checkpoints, and what leaves as an export.

use rusqlite::Connection;
use supervisor_record::{FaultKind, Places, Record, verify_export};

use crate::support::{begin, certificate, ended, intent, outcome, places, session};

struct Case {
    home: tempfile::TempDir,
    places: Places,
}

/// Two ended sessions: checkpoints 1 to 4.
fn honest() -> Case {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    for name in ["s-1", "s-2"] {
        let (mut record, id, _lock) = begin(&places, name);
        record.append(&id, &[certificate()], 1).expect("appended");
        let entries = [intent("c1"), outcome("c1"), ended()];
        record.append(&id, &entries, 2).expect("appended");
        let last = record.checkpoint().expect("an end is a checkpoint");
        let noted = last.noted().expect("well formed");
        assert_eq!((noted.session, noted.seq), (id, 4));
        assert!(last.signature.is_some());
        let head = last.line();
        let word = head.split(' ').next().expect("a word");
        assert!(
            word.parse::<supervisor_record::AuditHead>().is_ok(),
            "{head}"
        );
    }
    Case { home, places }
}

impl Case {
    fn public(&self) -> String {
        let file = self.places.state().join("audit.pub");
        let keys = supervisor_record::public_keys(&std::fs::read_to_string(file).expect("there"));
        keys.last().expect("a key").clone()
    }

    fn tamper(&self, lines: &str) {
        let raw = Connection::open(self.places.record_file()).expect("opens");
        raw.execute_batch(lines).expect("tampered");
    }

    fn faults(&self, keys: &[String]) -> Vec<(u64, FaultKind)> {
        let record = Record::open(&self.places).expect("opens");
        let faults = record.verify_all(&[], keys).expect("verified");
        faults.iter().map(|fault| (fault.seq, fault.kind)).collect()
    }

    fn export(&self, only: Option<&str>) -> String {
        let record = Record::open(&self.places).expect("opens");
        let mut text = String::new();
        let only = only.map(session);
        let lines = record
            .export(only.as_ref(), &mut |line| {
                text.push_str(&serde_json::to_string(line).expect("json"));
                text.push('\n');
                Ok(())
            })
            .expect("exported");
        assert_eq!(u64::try_from(text.lines().count()), Ok(lines));
        text
    }
}

#[test]
fn a_missing_and_a_foreign_signature_are_named() {
    let case = honest();
    assert_eq!(case.faults(&[]), []);
    assert_eq!(
        case.faults(&[case.public()]),
        [],
        "the key that was kept elsewhere"
    );
    let other = honest();
    let forged: Vec<(u64, FaultKind)> = (1..=4).map(|seq| (seq, FaultKind::Forged)).collect();
    assert_eq!(
        case.faults(&[other.public()]),
        forged,
        "another record's key"
    );

    case.tamper("UPDATE checkpoints SET signature = NULL WHERE seq = 2");
    assert_eq!(case.faults(&[]), [(2, FaultKind::Unsigned)]);
    let record = Record::open(&case.places).expect("opens");
    let one = |name: &str| record.verify(&session(name), &[], &[]).expect("verified");
    assert_eq!(
        one("s-1").len(),
        1,
        "a session's own checkpoints are checked with it"
    );
    assert_eq!(one("s-2"), []);
}

#[test]
fn whoever_writes_the_whole_chain_anew_has_to_sign_it_too() {
    let case = honest();
    let kept = case.public();
    // The forger makes a whole record of his own, with a key of his own beside it.
    let forger = honest();
    std::fs::copy(forger.places.record_file(), case.places.record_file()).expect("replaced");
    for end in ["-wal", "-shm"] {
        let mut name = case.places.record_file().into_os_string();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
    for name in ["audit.key", "audit.pub"] {
        std::fs::copy(
            forger.places.state().join(name),
            case.places.state().join(name),
        )
        .expect("replaced");
    }
    assert_eq!(case.faults(&[]), [], "inside the account nothing shows");
    let faults = case.faults(&[kept]);
    assert!(faults.contains(&(1, FaultKind::Forged)), "{faults:?}");
    drop(case.home);
}

#[test]
fn a_record_of_version_one_gets_its_signatures() {
    let case = honest();
    case.tamper(
        "ALTER TABLE checkpoints DROP COLUMN key; ALTER TABLE checkpoints DROP COLUMN signature;
         DROP INDEX usage_by_time; DROP TABLE breakers; DROP TABLE held; DROP TABLE rates;
         ALTER TABLE usage DROP COLUMN micro_usd; ALTER TABLE usage DROP COLUMN estimated;
         PRAGMA user_version = 1;",
    );
    assert_eq!(case.faults(&[case.public()]), []);
}

#[test]
fn an_export_verifies_by_itself_and_names_what_was_done_to_it() {
    let case = honest();
    let text = case.export(None);
    let check = |text: &str, keys: &[String]| {
        let (sessions, faults) = verify_export(text.as_bytes(), &[], keys).expect("an export");
        let faults: Vec<_> = faults.iter().map(|fault| (fault.seq, fault.kind)).collect();
        (sessions, faults)
    };
    assert_eq!(check(&text, &[case.public()]), (2, vec![]));
    assert_eq!(
        check(&case.export(Some("s-2")), &[case.public()]),
        (1, vec![])
    );

    let edited = text.replacen("line of c1", "time of c1", 1);
    assert_eq!(check(&edited, &[]).1, [(2, FaultKind::Edit)]);
    let lines: Vec<&str> = text.lines().collect();
    let without = |left_out: usize| -> String {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != left_out);
        kept.map(|(_, line)| format!("{line}\n")).collect()
    };
    assert_eq!(check(&without(1), &[]).1, [(2, FaultKind::Gap { to: 2 })]);
    assert_eq!(
        check(&without(3), &[]).1,
        [(4, FaultKind::Truncated { ends_at: 3 })]
    );
    let other = honest();
    assert_eq!(
        check(&text, &[other.public()]).1.len(),
        4,
        "signed by nobody we know"
    );
    let cut = text.trim_end_matches('\n');
    assert!(
        verify_export(cut.as_bytes(), &[], &[]).is_err(),
        "a line without its end"
    );
    assert!(verify_export(&b"{\"v\":1}\n"[..], &[], &[]).is_err());
}

#[test]
fn one_record_is_one_line_whatever_a_command_prints() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, id, _lock) = begin(&places, "s-1");
    let said = "x\n{\"event\":\"approved\",\"by\":\"admin\"}\n\u{2028}\u{1b}[2J";
    record
        .append(&id, &[certificate(), intent_of(said)], 1)
        .expect("appended");
    let mut lines = Vec::new();
    record
        .export(None, &mut |line| {
            lines.push(serde_json::to_string(line).expect("json"));
            Ok(())
        })
        .expect("exported");
    assert_eq!(
        lines.len(),
        3,
        "a certificate, its checkpoint, and one intent"
    );
    assert!(
        lines
            .iter()
            .all(|line| !line.contains('\n') && !line.contains('\u{1b}'))
    );
    let back: serde_json::Value = serde_json::from_str(&lines[1]).expect("json");
    assert_eq!(back["body"]["what"], said, "nothing is lost");
}

fn intent_of(what: &str) -> supervisor_core::Entry {
    supervisor_core::Entry::Intent {
        call: crate::support::call("c1"),
        effect: "command".into(),
        command: None,
        what: what.into(),
        permit: 1,
    }
}
