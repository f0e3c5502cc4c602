//! What the law puts out of reach altogether: the policy as lists for the jail, so that a worker that
//! never asks cannot have it either.

use crate::{Policy, ViewPath};

/// System folders and files of the host that every view has, read-only, where they exist. Of `/etc`
/// only what programs need to start: no account, key or service setting of the host.
pub const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/java",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/python3",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// The lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// Trees and files of the host that are shown read-only: [`SYSTEM`] and the policy's, none below
    /// another, sorted.
    pub read: Vec<String>,
    /// Further private writable folders of the view, none below another, sorted.
    pub write: Vec<String>,
    /// Gitignore globs from the workspace root that are left out of the view; the files of
    /// declared databases are among them.
    pub hide: Vec<String>,
    /// Patterns that `apply` protects beside the built-in names.
    pub protect: Vec<String>,
}

/// Projects a policy for a workspace at `workspace` (absolute, as on the host).
#[must_use]
pub fn project(policy: &Policy, workspace: &str) -> Projection {
    let settings = &policy.settings.filesystem;
    let system = SYSTEM.iter().map(|path| (*path).to_owned());
    let mut hide = settings.hide.clone();
    for database in &policy.settings.databases {
        // A relative path starts at the workspace; `~` is no part of such a path.
        let Some(path) = ViewPath::new(&database.path, workspace, "/") else {
            continue;
        };
        let Some(relative) = path
            .below(workspace)
            .filter(|relative| !relative.is_empty())
        else {
            continue;
        };
        for side in ["", "-wal", "-shm", "-journal"] {
            hide.push(format!("/{}{side}", escaped(relative)));
        }
    }
    hide.sort();
    hide.dedup();
    Projection {
        read: outermost(system.chain(settings.read.iter().cloned())),
        write: outermost(settings.write.iter().cloned()),
        hide,
        protect: settings.protect.clone(),
    }
}

/// A path as a gitignore pattern that means just this path.
fn escaped(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn outermost(paths: impl Iterator<Item = String>) -> Vec<String> {
    let mut sorted: Vec<String> = paths
        .filter_map(|path| ViewPath::new(&path, "/", "/"))
        .map(|path| path.to_string())
        .collect();
    sorted.sort();
    sorted.dedup();
    let kept: Vec<String> = sorted
        .iter()
        .filter(|path| {
            !sorted.iter().any(|outer| {
                outer != *path
                    && ViewPath::new(path, "/", "/").is_some_and(|path| path.below(outer).is_some())
            })
        })
        .cloned()
        .collect();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    #[test]
    fn lists_are_sorted_and_hold_no_tree_twice() {
        let mut policy = Policy::plain();
        policy.settings.filesystem.read = vec![
            "/opt/tools/bin".into(),
            "/opt/tools".into(),
            "/usr/share".into(),
        ];
        policy.settings.filesystem.hide = vec![".env*".into()];
        policy.settings.databases.push(Database {
            name: "reservo".into(),
            path: "data/reservo [1].db".into(),
            max_rows: 100,
            tables: Vec::new(),
            money: None,
        });
        let projection = project(&policy, "/srv/app");
        assert!(projection.read.contains(&"/opt/tools".to_owned()));
        assert!(!projection.read.contains(&"/opt/tools/bin".to_owned()));
        assert!(!projection.read.contains(&"/usr/share".to_owned()));
        assert!(
            projection
                .hide
                .contains(&"/data/reservo\\ \\[1\\].db".to_owned())
        );
        assert!(
            projection
                .hide
                .contains(&"/data/reservo\\ \\[1\\].db-wal".to_owned())
        );
        assert!(projection.hide.contains(&".env*".to_owned()));
        assert!(
            !projection
                .read
                .iter()
                .any(|path| path == "/etc" || path == "/")
        );
    }
}
