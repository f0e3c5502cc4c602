//! Tampering: each edit, gap, reorder and cut tail is named, and an honest chain is not.

use crate::support::{begin, certificate, ended, intent, outcome, places, said, session};
use rusqlite::Connection;
use supervisor_core::Entry;
use supervisor_record::{AuditFault, AuditHead, FaultKind, Places, Record};

struct Case {
    _home: tempfile::TempDir,
    places: Places,
    head: AuditHead,
}

/// A session with a certificate and ten calls: audit records 1 to 21; events 1 to 31.
fn honest() -> Case {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, id, _lock) = begin(&places, "s-1");
    record.append(&id, &[certificate()], 1).expect("appended");
    for number in 0..10 {
        let word = format!("c{number}");
        let entries = [said(&word), intent(&word), outcome(&word)];
        record.append(&id, &entries, 2 + number).expect("appended");
    }
    let head = record.audit_head(&id).expect("read").expect("some");
    assert_eq!(head.seq, 21);
    assert_eq!(
        record
            .verify(&id, std::slice::from_ref(&head), &[])
            .expect("verified"),
        []
    );
    Case {
        _home: home,
        places,
        head,
    }
}

impl Case {
    fn tamper(&self, lines: &str) {
        let raw = Connection::open(self.places.record_file()).expect("opens");
        raw.execute_batch(lines).expect("tampered");
    }

    fn faults(&self) -> Vec<(u64, FaultKind)> {
        self.verify(&[])
    }

    fn verify(&self, heads: &[AuditHead]) -> Vec<(u64, FaultKind)> {
        let record = Record::open(&self.places).expect("opens");
        let faults = record.verify_all(heads, &[]).expect("verified");
        for fault in &faults {
            assert!(!fault.to_string().is_empty());
        }
        faults
            .into_iter()
            .map(|AuditFault { seq, kind, .. }| (seq, kind))
            .collect()
    }
}

#[test]
fn an_edit_is_named() {
    for change in [
        "body = replace(body, 'line of', 'time of')",
        "time_ms = time_ms + 1",
        "kind = 'outcome'",
        "prev_hash = hash",
        "hash = prev_hash",
    ] {
        let case = honest();
        case.tamper(&format!("UPDATE audit SET {change} WHERE seq = 6"));
        let faults = case.faults();
        assert!(
            faults.contains(&(6, FaultKind::Edit)),
            "{change}: {faults:?}"
        );
        let elsewhere = faults
            .iter()
            .any(|(seq, kind)| *kind == FaultKind::Edit && *seq != 6);
        assert!(!elsewhere, "{change}: {faults:?}");
    }
}

#[test]
fn a_gap_is_named() {
    let case = honest();
    case.tamper("DELETE FROM audit WHERE seq IN (7, 8)");
    assert_eq!(case.faults(), [(7, FaultKind::Gap { to: 8 })]);
    let case = honest();
    case.tamper("DELETE FROM audit WHERE seq = 1");
    assert!(
        case.faults().contains(&(1, FaultKind::Gap { to: 1 })),
        "the certificate is gone"
    );
}

#[test]
fn a_gap_that_was_numbered_away_is_named() {
    let case = honest();
    case.tamper(
        "DELETE FROM audit WHERE seq = 7;
         UPDATE audit SET seq = -(seq - 1) WHERE seq > 7;
         UPDATE audit SET seq = -seq WHERE seq < 0;
         DELETE FROM events WHERE audit = 7;
         UPDATE events SET audit = audit - 1 WHERE audit > 7;",
    );
    let faults = case.faults();
    assert!(
        faults.contains(&(7, FaultKind::Gap { to: 7 })),
        "{faults:?}"
    );
    assert!(
        faults.iter().all(|(_, kind)| *kind != FaultKind::Edit),
        "{faults:?}"
    );
}

#[test]
fn a_reorder_is_named() {
    let case = honest();
    case.tamper(
        "UPDATE audit SET seq = -1 WHERE seq = 5;
         UPDATE audit SET seq = 5 WHERE seq = 9;
         UPDATE audit SET seq = 9 WHERE seq = -1;",
    );
    let faults = case.faults();
    assert!(
        faults.contains(&(5, FaultKind::Reorder { made_as: 9 })),
        "{faults:?}"
    );
    assert!(
        faults.contains(&(9, FaultKind::Reorder { made_as: 5 })),
        "{faults:?}"
    );
}

#[test]
fn a_cut_tail_is_named_by_the_checkpoint_of_an_end_and_by_a_head_kept_elsewhere() {
    let case = honest();
    case.tamper("DELETE FROM events WHERE seq > 25; DELETE FROM audit WHERE seq > 17;");
    assert_eq!(
        case.faults(),
        [],
        "an account that cuts both tails leaves no trace inside"
    );
    let head = case.head.clone();
    assert_eq!(
        case.verify(&[head]),
        [(21, FaultKind::Truncated { ends_at: 17 })]
    );

    let case = honest();
    let mut record = Record::open(&case.places).expect("opens");
    record
        .append(&session("s-1"), &[ended()], 50)
        .expect("appended");
    drop(record);
    case.tamper("DELETE FROM events WHERE seq > 25; DELETE FROM audit WHERE seq > 17;");
    assert_eq!(case.faults(), [(22, FaultKind::Truncated { ends_at: 17 })]);
}

#[test]
fn a_removed_session_is_named() {
    let case = honest();
    case.tamper("DELETE FROM events; DELETE FROM audit; DELETE FROM sessions;");
    assert_eq!(
        case.faults(),
        [(1, FaultKind::Truncated { ends_at: 0 })],
        "by its certificate's checkpoint"
    );
}

#[test]
fn a_chain_that_was_written_anew_is_named_by_a_head_kept_elsewhere() {
    let case = honest();
    let other = tempfile::tempdir().expect("folder");
    let theirs = places(other.path());
    let (mut record, id, _lock) = begin(&theirs, "s-1");
    record.append(&id, &[certificate()], 1).expect("appended");
    let forged: Vec<Entry> = (0..10)
        .flat_map(|n| [intent(&format!("x{n}")), outcome("x")])
        .collect();
    record.append(&id, &forged, 2).expect("appended");
    drop(record);
    let record = Record::open(&theirs).expect("opens");
    assert_eq!(record.verify_all(&[], &[]).expect("verified"), []);
    let faults = record
        .verify_all(std::slice::from_ref(&case.head), &[])
        .expect("verified");
    assert_eq!(faults[0].kind, FaultKind::Forked);
    assert!(
        faults[0].to_string().contains("written anew"),
        "{}",
        faults[0]
    );
}

#[test]
fn one_record_that_was_written_anew_with_its_hash_is_named() {
    let case = honest();
    let raw = Connection::open(case.places.record_file()).expect("opens");
    let (prev, body): (String, String) = raw
        .query_row(
            "SELECT prev_hash, body FROM audit WHERE seq = 6",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("read");
    let body = body.replace("line of", "time of");
    let parts: [&[u8]; 7] = [
        prev.as_bytes(),
        b"\0",
        &6_u64.to_be_bytes(),
        &4_u64.to_be_bytes(),
        b"intent",
        b"\0",
        body.as_bytes(),
    ];
    let hash = protocol::Digest::of_parts(parts);
    let changed = raw
        .execute(
            "UPDATE audit SET body = ?1, hash = ?2 WHERE seq = 6 AND kind = 'intent' AND time_ms = 4",
            (&body, hash.as_str()),
        )
        .expect("tampered");
    assert_eq!(changed, 1, "the case must name the record as it is");
    assert_eq!(case.faults(), [(6, FaultKind::Rewritten)]);
}

#[test]
fn events_are_covered_too() {
    let case = honest();
    case.tamper("DELETE FROM events WHERE seq = 5");
    assert!(
        case.faults().contains(&(5, FaultKind::EventGap { to: 5 })),
        "{:?}",
        case.faults()
    );
    let case = honest();
    case.tamper("UPDATE events SET body = '{}' WHERE seq = 3");
    assert!(
        case.faults().contains(&(3, FaultKind::Loose)),
        "a body beside the chain"
    );
    let case = honest();
    case.tamper("UPDATE events SET kind = 'ended' WHERE seq = 3");
    assert!(case.faults().contains(&(3, FaultKind::Loose)));
}

#[test]
fn the_checkpoints_are_a_chain_themselves() {
    let case = honest();
    let mut record = Record::open(&case.places).expect("opens");
    record
        .append(&session("s-1"), &[ended()], 50)
        .expect("appended");
    drop(record);
    case.tamper("UPDATE checkpoints SET audit_seq = 20 WHERE seq = 2");
    assert_eq!(case.faults(), [(2, FaultKind::Edit)]);
    case.tamper("DELETE FROM checkpoints WHERE seq = 1");
    assert!(case.faults().contains(&(1, FaultKind::Gap { to: 1 })));
}

#[test]
fn verification_of_a_destroyed_chain_stays_bounded() {
    let case = honest();
    let mut record = Record::open(&case.places).expect("opens");
    let entries: Vec<Entry> = (0..2_000)
        .map(|number| intent(&format!("m{number}")))
        .collect();
    record
        .append(&session("s-1"), &entries, 60)
        .expect("appended");
    drop(record);
    case.tamper("UPDATE audit SET body = body || ' '");
    let faults = case.faults();
    assert!(faults.len() <= 102, "{}", faults.len());
    assert!(faults.iter().any(|(_, kind)| *kind == FaultKind::More));
}
