//! What goes beside a question: pictures, documents, and the form of the answer.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use supervisor_core::escape::escape;
use supervisor_providers::{Attachment, Kind, Wish};

use crate::{
    exit::{Failure, USAGE},
    input,
};

/// Longest picture or document: a request stays below its 16 MiB with it, a third larger on the wire.
const ATTACHED: u64 = 8 * 1024 * 1024;
/// Longest schema.
const SCHEMA: u64 = 256 * 1024;

/// Reads what the command line names.
pub(super) fn wish(
    images: &[PathBuf],
    documents: &[PathBuf],
    schema: Option<&Path>,
) -> Result<Wish, Failure> {
    let images = images
        .iter()
        .map(|path| attachment(Kind::Image, "--image", path));
    let documents = documents
        .iter()
        .map(|path| attachment(Kind::Document, "--document", path));
    Ok(Wish {
        schema: schema
            .map(|path| self::schema("--schema", path))
            .transpose()?,
        attachments: images.chain(documents).collect::<Result<_, _>>()?,
    })
}

/// A schema from a file: a JSON object.
pub(in crate::cli) fn schema(option: &str, path: &Path) -> Result<Value, Failure> {
    let failed = |why: &str| Failure::new(USAGE, format!("{option} `{}`: {why}", path.display()));
    let text = input::read(path, SCHEMA, false).map_err(|why| failed(&why))?;
    let text = text.ok_or_else(|| failed("there is no such file"))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| failed(&format!("it is no JSON: {error}")))?;
    if value.get("type").and_then(Value::as_str) != Some("object") {
        return Err(failed("it is no schema of an object")
            .help("providers take {\"type\":\"object\",\"properties\":…} only"));
    }
    Ok(value)
}

fn attachment(kind: Kind, option: &str, path: &Path) -> Result<Attachment, Failure> {
    let failed = |why: &str| Failure::new(USAGE, format!("{option} `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
    file.take(ATTACHED + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > ATTACHED {
        return Err(failed("it is longer than 8 MiB"));
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "file".to_owned());
    let media = Attachment::media(kind, &name, &bytes).ok_or_else(|| {
        failed(match kind {
            Kind::Image => "it is neither png, jpeg, gif nor webp",
            Kind::Document => "it is neither a pdf nor text",
        })
    })?;
    Ok(Attachment {
        kind,
        media,
        name: escape(&name, false),
        data: STANDARD.encode(bytes),
    })
}

/// Whether a text is what a schema asked for: JSON, an object.
pub(in crate::cli) fn is_object(text: &str) -> bool {
    serde_json::from_str::<Value>(text.trim()).is_ok_and(|value| value.is_object())
}
