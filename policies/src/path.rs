//! Lexical paths of a session's view: absolute, normalised, compared by components only.

use serde::{Deserialize, Serialize};

/// An absolute, lexically normalised path inside the view: no `.`, `..`, empty component or NUL.
///
/// Symlinks are not its business: hands resolves beneath the workspace and the jail decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ViewPath(String);

/// Where a path lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In the workspace; the relative path, empty for the root itself.
    Workspace(String),
    /// The session's own HOME, /tmp or /dev/shm.
    Private,
    /// A read-only system folder of the view, or a device.
    System,
    /// Not in the view.
    Outside,
}

impl ViewPath {
    /// Normalises `word` against `base` (an absolute path). A leading `~` or `~/` stands for `home`.
    ///
    /// Returns `None` for a NUL byte or a path longer than 4,096 bytes. `..` above the root stays at
    /// the root, as the kernel does it.
    #[must_use]
    pub fn new(word: &str, base: &str, home: &str) -> Option<Self> {
        if word.contains('\0') || word.len() > 4096 {
            return None;
        }
        let joined = match word.strip_prefix('~') {
            Some("") => home.to_owned(),
            Some(rest) if rest.starts_with('/') => format!("{home}{rest}"),
            _ if word.starts_with('/') => word.to_owned(),
            _ => format!("{base}/{word}"),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in joined.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                _ => parts.push(part),
            }
        }
        Some(Self(format!("/{}", parts.join("/"))))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path relative to `root`, by components: `Some("")` for the root itself.
    #[must_use]
    pub fn below<'a>(&'a self, root: &str) -> Option<&'a str> {
        if root == "/" {
            return self.0.strip_prefix('/');
        }
        let rest = self.0.strip_prefix(root.trim_end_matches('/'))?;
        if rest.is_empty() {
            Some("")
        } else {
            rest.strip_prefix('/')
        }
    }

    /// The last component, empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }
}

impl std::fmt::Display for ViewPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containment_is_by_components() {
        let path = |word: &str| ViewPath::new(word, "/srv/app", "/home/u").expect("valid");
        assert_eq!(path("/srv/app-secret/k").below("/srv/app"), None);
        assert_eq!(path("../app-backup/x").below("/srv/app"), None);
        assert_eq!(path("a/./b//c/..").below("/srv/app"), Some("a/b"));
        assert_eq!(path("").below("/srv/app"), Some(""));
        assert_eq!(path("~/.ssh/id").as_str(), "/home/u/.ssh/id");
        assert_eq!(path("../../../../etc/passwd").as_str(), "/etc/passwd");
        assert_eq!(ViewPath::new("a\0b", "/", "/"), None);
    }
}
