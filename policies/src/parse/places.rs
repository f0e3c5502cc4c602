//! `[filesystem]` and `[network]`: lists of places, each checked for what it can mean.

use super::{
    draft::Draft,
    rules,
    section::{Faults, Section, cut},
};
use crate::glob::{Pattern, Root};

/// `[filesystem]`.
pub(super) fn filesystem(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let known = ["read", "write", "hide", "protect"];
    let Some(section) = top.table("filesystem", &known, faults) else {
        return;
    };
    for key in ["read", "write"] {
        let Some(paths) = section.texts(key, faults) else {
            continue;
        };
        for path in &paths {
            if let Err((message, help)) = tree(&path.value) {
                faults.add(
                    &path.span,
                    format!("`{key}`: {message}"),
                    Some(help.to_owned()),
                );
            }
        }
        let list = paths.into_iter().map(|path| path.value).collect();
        if key == "read" {
            draft.read = Some(list)
        } else {
            draft.write = Some(list)
        }
    }
    for path in section.texts("hide", faults).unwrap_or_default() {
        match hidden(&path.value) {
            Ok(glob) => draft.hide.push(glob),
            Err((message, help)) => {
                faults.add(
                    &path.span,
                    format!("`hide`: {message}"),
                    Some(help.to_owned()),
                );
            }
        }
    }
    for path in section.texts("protect", faults).unwrap_or_default() {
        match Pattern::parse(&path.value) {
            Ok(pattern) if pattern.root == Root::Workspace => {
                draft.protect.push(path.value);
            }
            Ok(_) => faults.add(
                &path.span,
                "`protect` is about names in the workspace",
                Some("nothing outside it can be written anyway".to_owned()),
            ),
            Err(why) => faults.add(&path.span, format!("`protect`: {why}"), None),
        }
    }
}

/// A tree of the host for the view: an absolute path without wildcards, and not all of it.
fn tree(path: &str) -> Result<(), (String, &'static str)> {
    let plain = "name a folder by its absolute path";
    if !path.starts_with('/') || path.split('/').any(|part| part == ".." || part == ".") {
        return Err((format!("`{}` is not an absolute path", cut(path)), plain));
    }
    if path.contains(['*', '?', '[', '{', '\\']) || path.chars().any(char::is_control) {
        return Err((
            format!("`{}` has a wildcard or an odd character", cut(path)),
            plain,
        ));
    }
    let depth = path.split('/').filter(|part| !part.is_empty()).count();
    if depth == 0 {
        return Err((
            "the whole machine is not a view".to_owned(),
            "name what is needed",
        ));
    }
    let closed = ["/proc", "/sys", "/dev", "/run", "/boot"];
    let below = |root: &&str| {
        path.strip_prefix(*root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if closed.iter().any(below) {
        return Err((
            format!("`{path}` is made fresh in every jail"),
            "leave it out",
        ));
    }
    Ok(())
}

/// A `hide` glob in gitignore form.
fn hidden(text: &str) -> Result<String, (String, &'static str)> {
    let pattern = Pattern::parse(text).map_err(|why| (why, "name what is inside the workspace"))?;
    if pattern.root != Root::Workspace {
        return Err((
            format!("`{}` is outside the workspace", cut(text)),
            "what is outside is not in the view; a path in the workspace is written without `/` first",
        ));
    }
    if pattern.parts.iter().all(|part| part == "**" || part == "*") {
        return Err((
            format!("`{}` would hide the workspace itself", cut(text)),
            "name what must not be seen",
        ));
    }
    // `./x` is our way to write gitignore's leading slash.
    Ok(text
        .strip_prefix("./")
        .map_or_else(|| text.to_owned(), |rest| format!("/{rest}")))
}

/// `[network]`.
pub(super) fn network(top: &Section<'_, '_>, draft: &mut Draft, faults: &mut Faults<'_>) {
    let Some(section) = top.table("network", &["allow"], faults) else {
        return;
    };
    let Some(hosts) = section.texts("allow", faults) else {
        return;
    };
    for host in &hosts {
        if let Err(why) = rules::host(&host.value) {
            faults.add(
                &host.span,
                why,
                Some("write host, *.host or host:port".to_owned()),
            );
        }
    }
    draft.network = Some(
        hosts
            .into_iter()
            .map(|host| host.value.to_ascii_lowercase())
            .collect(),
    );
}
