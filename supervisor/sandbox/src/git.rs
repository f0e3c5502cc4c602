//! What git is told inside: who commits, as the account's own configuration says, and nothing that
//! would start a program.

use std::{io::Read as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use protocol::jail::Mount;

/// Where the pinned configuration lies inside.
pub(crate) const PLACE: &str = "/etc/gitconfig";
/// Longest configuration that is read.
const BYTES: u64 = 64 * 1024;
/// Longest name or address that is carried in.
const LONGEST: usize = 200;

/// The pinned configuration, at the place of the system's own: a repository's and the session's still
/// count.
pub(crate) fn configuration(home: &Path) -> Mount {
    let places = [home.join(".gitconfig"), home.join(".config/git/config")];
    let texts: Vec<String> = places.iter().filter_map(|path| read(path)).collect();
    let first = |key: &str| texts.iter().find_map(|text| user(text, key));
    let name = first("name").unwrap_or_else(|| "Provost agent".to_owned());
    let email = first("email").unwrap_or_else(|| "agent@provost.invalid".to_owned());
    Mount::File {
        target: PLACE.to_owned(),
        content: format!(
            "[user]\n\tname = \"{}\"\n\temail = \"{}\"\n[core]\n\tfsmonitor = false\n[gc]\n\tauto = \
             0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n[tag]\n\tgpgSign = false\n",
            quoted(&name),
            quoted(&email)
        ),
    }
}

/// A regular file's text; whatever else lies there is none.
fn read(path: &Path) -> Option<String> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(i32::try_from(flags).ok()?)
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A value of `[user]`, the last one as git reads it. Includes are not followed.
fn user(text: &str, key: &str) -> Option<String> {
    let mut inside = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.eq_ignore_ascii_case("[user]");
        } else if let (true, Some((word, value))) = (inside, line.split_once('='))
            && word.trim().eq_ignore_ascii_case(key)
        {
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found.filter(|value| {
        let fits = value.len() <= LONGEST && !value.contains(char::is_control);
        fits && !value.trim().is_empty() && !value.contains('\\')
    })
}

fn quoted(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_name_is_carried_in_and_nothing_else() {
        let home = tempfile::tempdir().expect("a folder");
        let text = |home: &Path| match configuration(home) {
            Mount::File { content, .. } => content,
            other => panic!("{other:?}"),
        };
        assert!(text(home.path()).contains("name = \"Provost agent\""));
        let config = "[alias]\n\tname = evil\n[user]\n\tname = Ada \"L\" Byron\n  email=ada@example.org\n[core]\n\thooksPath = /tmp/x\n[user \"x\"]\n\tname = other\n";
        std::fs::write(home.path().join(".gitconfig"), config).expect("written");
        let told = text(home.path());
        assert!(told.contains("name = \"Ada \\\"L\\\" Byron\""), "{told}");
        assert!(told.contains("email = \"ada@example.org\""), "{told}");
        assert!(
            !told.contains("hooksPath") && !told.contains("evil"),
            "{told}"
        );
    }

    #[test]
    fn a_value_that_would_be_more_than_one_line_is_left_out() {
        assert_eq!(user("[user]\nname = a\\nb\n", "name"), None);
        assert_eq!(user("[user]\nname = \n", "name"), None);
        assert_eq!(
            user(&format!("[user]\nname = {}\n", "x".repeat(300)), "name"),
            None
        );
    }
}
