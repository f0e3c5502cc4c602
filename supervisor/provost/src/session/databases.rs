//! The databases that a session may ask: those of its policy and of the command line, with their files.

use std::path::{Path, PathBuf};

use policies::{Database, Policy};
use protocol::bounds;

use crate::exit::{CONFIG, Failure, USAGE};

/// Databases of the policy and of the command line, with their files.
pub(super) fn declared(
    policy: &mut Policy,
    given: &[String],
    workspace: &Path,
) -> Result<Vec<(Database, PathBuf)>, Failure> {
    let mut found = Vec::new();
    for word in given {
        let (name, path) = word
            .split_once('=')
            .filter(|(name, path)| is_name(name) && !path.is_empty())
            .ok_or_else(|| {
                Failure::new(USAGE, format!("--database `{word}` is not NAME=FILE")).help(
                    "for example --database reservo=reservo.db; a name has letters, digits and `_`",
                )
            })?;
        // From the command line a path is the caller's own, relative to the current folder.
        let absolute = std::path::absolute(path)
            .map_err(|error| Failure::new(USAGE, format!("--database `{word}`: {error}")))?;
        policy
            .settings
            .databases
            .retain(|declared| declared.name != name);
        policy.settings.databases.push(Database {
            name: name.to_owned(),
            path: absolute.display().to_string(),
            max_rows: u32::try_from(bounds::SQL_ROWS).unwrap_or(100),
            tables: Vec::new(),
            money: (name == "reservo").then(|| "Money is in cents (INTEGER).".to_owned()),
        });
    }
    for declared in &policy.settings.databases {
        let file = workspace.join(&declared.path);
        let file = file.canonicalize().map_err(|error| {
            Failure::new(
                CONFIG,
                format!(
                    "database `{}`: `{}`: {error}",
                    declared.name,
                    file.display()
                ),
            )
            .help("make the file first, or take the database out of the policy")
        })?;
        if !file.is_file() {
            return Err(Failure::new(
                CONFIG,
                format!(
                    "database `{}`: `{}` is not a file",
                    declared.name,
                    file.display()
                ),
            ));
        }
        found.push((declared.clone(), file));
    }
    Ok(found)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Makes a path literal in gitignore syntax.
pub(super) fn escape_glob(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_path_is_a_literal_in_a_glob() {
        assert_eq!(escape_glob("a b[1]*.db"), "a\\ b\\[1\\]\\*.db");
    }
}
