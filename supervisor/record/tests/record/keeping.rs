//! Blobs within their quota, and keys that reach neither a row nor the file.

use crate::support::{begin, certificate, intent, places, said, session};
use protocol::{Digest, bounds};
use supervisor_core::{Entry, Secret};
use supervisor_record::{BlobError, MASKED, Masker, NewSession, Record};

#[test]
fn a_blob_is_kept_once_and_counted_once_a_session() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, one, lock) = begin(&places, "s-1");
    let content = b"the file as it was".repeat(1000);
    let digest = record.put_blob(&one, &content).expect("kept");
    assert_eq!(digest, Digest::of(&content));
    assert_eq!(record.put_blob(&one, &content).expect("kept"), digest);
    assert_eq!(
        record.kept(&one).expect("counted"),
        (1, content.len() as u64)
    );
    let (mut second, two, _lock) = begin(&places, "s-2");
    second.put_blob(&two, &content).expect("kept");
    assert_eq!(second.kept(&two).expect("counted").0, 1);
    assert_eq!(
        record.blob(&digest).expect("read").as_deref(),
        Some(content.as_slice())
    );
    assert_eq!(record.blob(&Digest::of(b"none")).expect("read"), None);
    let left = std::fs::read_dir(lock.folder()).expect("listed").count();
    assert_eq!(left, 1, "only the lock");

    let path = places
        .blobs()
        .join(&digest.as_str()[..2])
        .join(&digest.as_str()[2..]);
    std::fs::write(&path, "something else").expect("written");
    assert!(matches!(
        record.blob(&digest),
        Err(BlobError::Damaged { .. })
    ));
}

#[test]
fn the_quota_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, id, _lock) = begin(&places, "s-1");
    let raw = rusqlite::Connection::open(places.record_file()).expect("opens");
    let fill = format!(
        "UPDATE sessions SET kept_bytes = {}",
        bounds::KEPT_BYTES - 10
    );
    raw.execute_batch(&fill).expect("filled");
    record.put_blob(&id, b"0123456789").expect("fits exactly");
    let error = record.put_blob(&id, b"x").expect_err("full");
    assert!(
        error.to_string().contains("would pass its limit"),
        "{error}"
    );
    let fill = format!(
        "UPDATE sessions SET kept_bytes = 0, kept_entries = {}",
        bounds::KEPT_ENTRIES
    );
    raw.execute_batch(&fill).expect("filled");
    assert!(matches!(
        record.put_blob(&id, b"y"),
        Err(BlobError::Quota { .. })
    ));
    assert_eq!(record.blob(&Digest::of(b"y")).expect("read"), None);
    record
        .put_blob(&id, b"0123456789")
        .expect("what is kept already costs nothing");
}

#[test]
fn no_key_reaches_the_file_in_any_column() {
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let key = "sk-CANARY-\"quoted\\-0123456789";
    let secrets = [Secret::new(key.into())];
    let mut record = Record::open(&places)
        .expect("opens")
        .masked_by(Masker::new(secrets.iter()));
    let id = session("s-1");
    let lock = supervisor_record::SessionLock::take(&places, &id)
        .expect("locks")
        .expect("free");
    let new = NewSession {
        task: format!("use {key}"),
        ..NewSession::default()
    };
    record.create_session(&lock, &new, 1).expect("created");
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let entries = [
        certificate(),
        said(&format!("the key is {key}")),
        Entry::Notice {
            text: format!("hex {hex}"),
        },
        Entry::Refused {
            call: crate::support::call("c1"),
            tool: "bash".into(),
            refusal: protocol::call::Refusal {
                stage: protocol::call::Stage::Safety,
                rule: None,
                layer: None,
                reason: serde_json::to_string(key).expect("json"),
                instead: None,
            },
        },
        intent("c1"),
    ];
    record.append(&id, &entries, 1).expect("appended");
    assert_eq!(record.verify(&id, &[], &[]).expect("verified"), []);
    let text = serde_json::to_string(&record.entries(&id).expect("read")).expect("json");
    assert_eq!(text.matches(MASKED).count(), 3, "{text}");
    assert!(
        record
            .session(&id)
            .expect("read")
            .expect("some")
            .task
            .contains(MASKED)
    );

    for side in ["record.db", "record.db-wal", "record.db-shm"] {
        let bytes = std::fs::read(places.state().join(side)).expect("read");
        for needle in ["CANARY", &hex[..16]] {
            let found = bytes
                .windows(needle.len())
                .any(|window| window == needle.as_bytes());
            assert!(!found, "{needle} in {side}");
        }
    }
    let bytes = std::fs::read(places.state().join("record.db-wal")).expect("read");
    assert!(
        bytes
            .windows(MASKED.len())
            .any(|window| window == MASKED.as_bytes()),
        "looked at rows"
    );
}

#[test]
fn the_record_and_its_side_files_are_for_the_account_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().expect("folder");
    let places = places(home.path());
    let (mut record, id, _lock) = begin(&places, "s-1");
    let digest = record.put_blob(&id, b"content").expect("kept");
    let blob = places
        .blobs()
        .join(&digest.as_str()[..2])
        .join(&digest.as_str()[2..]);
    let mut files = vec![blob, places.session_folder(&id).join("lock")];
    files.extend(
        ["record.db", "record.db-wal", "record.db-shm"].map(|side| places.state().join(side)),
    );
    for file in files {
        let mode = std::fs::metadata(&file)
            .expect("there")
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}
