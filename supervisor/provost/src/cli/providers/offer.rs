//! The tools that one call offers to the model, from a file.

use std::path::Path;

use protocol::ToolSpec;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    exit::{Failure, USAGE},
    input,
};

/// Longest file of tools.
const TOOLS: u64 = 1024 * 1024;

/// A file of tools: a list, or an object with one, as `provost tools list --json` prints it.
pub(super) fn tools(path: &Path) -> Result<Vec<ToolSpec>, Failure> {
    #[derive(Deserialize)]
    struct One {
        name: String,
        #[serde(default)]
        description: String,
        input_schema: Value,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum File {
        List(Vec<One>),
        Object { tools: Vec<One> },
    }
    let failed = |why: &str| Failure::new(USAGE, format!("--tools `{}`: {why}", path.display()));
    let text = input::read(path, TOOLS, false).map_err(|why| failed(&why))?;
    let text = text.ok_or_else(|| failed("there is no such file"))?;
    let file = serde_json::from_str(&text).map_err(|_| {
        failed("it is no JSON list of tools").help(
            "each needs \"name\" and \"input_schema\", and may have \"description\"; see provost tools list --json",
        )
    })?;
    let (File::List(list) | File::Object { tools: list }) = file;
    let specs = list.into_iter().map(|one| ToolSpec {
        name: one.name,
        description: one.description,
        input_schema: one.input_schema,
    });
    Ok(specs.collect())
}
