//! Names that are left out of a session's copy, in gitignore's own language.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::failure::Trouble;
use crate::name;

/// The globs of one errand.
pub(crate) struct Hide(Gitignore);

impl Hide {
    /// Reads the globs; one that cannot be read hides nothing, so it stops the errand.
    pub(crate) fn new(globs: &[String]) -> Result<Self, Trouble> {
        let mut builder = GitignoreBuilder::new("");
        for glob in globs {
            if glob.is_empty() || glob.starts_with('#') || glob.contains(['\n', '\0']) {
                return Err(unfit(glob, "it is empty, a comment, or more than one line"));
            }
            builder
                .add_line(None, glob)
                .map_err(|source| unfit(glob, &source.to_string()))?;
        }
        Ok(Self(
            builder
                .build()
                .map_err(|source| unfit("", &source.to_string()))?,
        ))
    }

    /// Whether the entry itself is named by a glob; what lies below a hidden folder is not asked.
    pub(crate) fn hides(&self, path: &[u8], is_folder: bool) -> bool {
        self.0.matched(name::path(path), is_folder).is_ignore()
    }
}

fn unfit(glob: &str, why: &str) -> Trouble {
    Trouble::Unfit(format!(
        "the glob `{}` cannot hide anything: {why}",
        name::shorten(glob)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_hide_at_any_depth_unless_they_are_anchored() {
        let globs = [
            ".env",
            "*.pem",
            "/secrets/",
            "docs/**/private.md",
            "!public.pem",
        ];
        let hide = Hide::new(&globs.map(String::from)).expect("reads");
        for (path, folder, hidden) in [
            (&b".env"[..], false, true),
            (b"a/b/.env", false, true),
            (b"a/b/.envrc", false, false),
            (b"x/key.pem", false, true),
            (b"x/public.pem", false, false),
            (b"secrets", true, true),
            (b"secrets", false, false),
            (b"a/secrets", true, false),
            (b"docs/a/b/private.md", false, true),
            (b"odd\xff.pem", false, true),
        ] {
            assert_eq!(hide.hides(path, folder), hidden, "{:?}", name::escape(path));
        }
    }

    #[test]
    fn a_glob_that_would_hide_nothing_is_refused() {
        for glob in ["", "# note", "a\nb", "[z-a]"] {
            assert!(Hide::new(&[glob.to_owned()]).is_err(), "{glob:?}");
        }
    }
}
