//! `provost audit verify|export` and `provost certificate`.

use std::{
    fs::OpenOptions,
    io::{BufReader, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::ExitCode,
};

use serde_json::json;
use supervisor_core::Entry;
use supervisor_record::{
    AuditFault, AuditHead, ExportError, Exported, Record, public_keys, verify_export,
};

use super::{
    args::{AuditCommand, AuditFormat, CertificateArgs, ExportArgs, VerifyArgs},
    ocsf, rights, sessions,
};
use crate::{
    exit::{CONFIG, ENDED, Failure, REFUSED_AT_START, USAGE},
    input, output,
    session::{self, own_places},
};

/// Longest file of heads or keys.
const KEPT_BYTES: u64 = 16 * 1024 * 1024;

fn refused(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(REFUSED_AT_START, error.to_string())
}

/// `provost audit …`
pub(super) fn run(command: AuditCommand) -> Result<ExitCode, Failure> {
    match command {
        AuditCommand::Verify(args) => verify(&args),
        AuditCommand::Export(args) => export(&args),
    }
}

fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let heads = args.head.iter().map(|word| heads(word));
    let heads = heads.collect::<Result<Vec<_>, _>>()?.concat();
    let keys = args.key.iter().map(|path| keys(path));
    let keys = keys.collect::<Result<Vec<_>, _>>()?.concat();
    let (checked, faults) = match &args.export {
        Some(path) => of_export(path, &heads, &keys)?,
        None => of_record(args.session.as_deref(), &heads, &keys)?,
    };
    if args.json {
        let list: Vec<_> = faults.iter().map(|fault| json!({ "session": fault.session, "seq": fault.seq, "kind": fault.kind, "what": fault.to_string() })).collect();
        output::out(&format!(
            "{}\n",
            json!({ "v": 1, "sessions": checked, "faults": list })
        ));
    } else if faults.is_empty() {
        output::out(&format!(
            "{checked} chain(s) verified: no edit, gap, reorder or cut; checkpoints signed by {}\n",
            if keys.is_empty() {
                "the key beside the record"
            } else {
                "a key that was given"
            }
        ));
    } else {
        for fault in &faults {
            output::out(&format!("{fault}\n"));
        }
    }
    Ok(ExitCode::from(if faults.is_empty() { 0 } else { ENDED }))
}

/// A head, or a file of lines that begin with one, as `--audit-head` writes them.
fn heads(word: &str) -> Result<Vec<AuditHead>, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::new(USAGE, error.to_string());
    if let Ok(head) = word.parse() {
        return Ok(vec![head]);
    }
    let text = input::read(Path::new(word), KEPT_BYTES, false)
        .map_err(|why| Failure::new(USAGE, format!("--head `{word}`: {why}")))?
        .ok_or_else(|| {
            Failure::new(
                USAGE,
                format!("--head `{word}` is neither a head nor a file"),
            )
            .help("a head is SESSION:SEQ:HASH, as each run prints it")
        })?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = |line: &str| {
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    lines
        .map(|line| first(line).parse().map_err(|error| usage(&error)))
        .collect()
}

/// The public keys of a file such as `audit.pub`.
fn keys(path: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: &str| Failure::new(USAGE, format!("--key `{}`: {why}", path.display()));
    let text = input::read(path, KEPT_BYTES, false)
        .map_err(|why| wrong(&why))?
        .ok_or_else(|| wrong("no such file"))?;
    let keys = public_keys(&text);
    if keys.is_empty() {
        return Err(wrong("no public key is in it")
            .help("give a copy of audit.pub, one key of 64 hexadecimal digits a line"));
    }
    Ok(keys)
}

fn of_record(
    word: Option<&str>,
    heads: &[AuditHead],
    keys: &[String],
) -> Result<(usize, Vec<AuditFault>), Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let Some(word) = word else {
        let count = record.sessions().map_err(|error| refused(&error))?.len();
        let faults = record.verify_all(heads, keys);
        return Ok((count, faults.map_err(|error| refused(&error))?));
    };
    let id = sessions::find(&record, word)?;
    let faults = record.verify(&id, heads, keys);
    Ok((1, faults.map_err(|error| refused(&error))?))
}

fn of_export(
    path: &Path,
    heads: &[AuditHead],
    keys: &[String],
) -> Result<(usize, Vec<AuditFault>), Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::new(USAGE, format!("--export `{}`: {why}", path.display()))
            .help("give a file that `provost audit export` wrote")
    };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| wrong(&error))?;
    verify_export(BufReader::new(file), heads, keys).map_err(|error| wrong(&error))
}

fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let id = args
        .session
        .as_deref()
        .map(|word| sessions::find(&record, word))
        .transpose()?;
    let lines = match &args.out {
        Some(path) => {
            let wrong = |error: std::io::Error| {
                Failure::new(
                    CONFIG,
                    format!("cannot write `{}`: {error}", path.display()),
                )
            };
            // Never over a file that is there: an export is evidence.
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(wrong)?;
            let mut writer = BufWriter::new(file);
            let lines = write(&record, id.as_ref(), args.format, &mut |line| {
                writer.write_all(line.as_bytes())
            })?;
            let file = writer
                .into_inner()
                .map_err(|error| wrong(error.into_error()))?;
            file.sync_all().map_err(wrong)?;
            lines
        }
        None => write(&record, id.as_ref(), args.format, &mut |line| {
            output::out(line);
            Ok(())
        })?,
    };
    output::err(&format!("{lines} line(s) exported\n"));
    Ok(ExitCode::SUCCESS)
}

fn write(
    record: &Record,
    session: Option<&protocol::SessionId>,
    format: AuditFormat,
    to: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<u64, Failure> {
    let mut written = 0;
    let mut each = |line: &Exported| {
        let text = match (format, line) {
            (AuditFormat::Jsonl, line) => serde_json::to_string(line)?,
            (AuditFormat::Ocsf, Exported::Record(record)) => ocsf::event(record).to_string(),
            // Checkpoints are no events; the chain's own form has them.
            (AuditFormat::Ocsf, Exported::Checkpoint { .. }) => return Ok(()),
        };
        written += 1;
        to(&format!("{text}\n"))
    };
    record
        .export(session, &mut each)
        .map_err(|error| match error {
            ExportError::Io(error) => {
                Failure::new(ENDED, format!("the export cannot be written: {error}"))
            }
            other => refused(&other),
        })?;
    Ok(written)
}

/// `provost certificate`
pub(super) fn certificate(args: &CertificateArgs) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let record = session::open_record(&places)?;
    let id = sessions::find(&record, &args.session)?;
    let entries = sessions::entries(&record, &id)?;
    let found = entries.iter().rev().find_map(|entry| match entry {
        Entry::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let certificate =
        found.ok_or_else(|| Failure::new(ENDED, format!("session {id} has no certificate")))?;
    if args.json {
        let text = serde_json::to_string_pretty(certificate).unwrap_or_default();
        output::out(&format!("{text}\n"));
    } else {
        output::out(&rights::certificate(id.as_str(), certificate));
    }
    Ok(ExitCode::SUCCESS)
}
