//! What a workspace's own file may not say.

use super::section::{Faults, Section, Span};

/// What comes from the workspace may only tighten: the keys that would widen are refused by name.
pub(super) fn only_tightens(top: &Section<'_, '_>, faults: &mut Faults<'_>) {
    let mut refuse = |span: Option<Span>, what: &str| {
        if let Some(span) = span {
            let help = "say it in a policy of yours: `--policy FILE`".to_owned();
            let message = format!("{what} is not for a workspace's file: it can only tighten");
            faults.add(&span, message, Some(help));
        }
    };
    refuse(top.key("extends"), "`extends`");
    refuse(top.key("models"), "`[models]`");
    refuse(top.key("database"), "`[[database]]`");
    let mut quiet = Faults {
        source: faults.source,
        list: Vec::new(),
    };
    let known = [
        "backend",
        "image",
        "runtime",
        "workspace",
        "namespaces",
        "rights",
    ];
    let mut inner = Vec::new();
    if let Some(section) = top.table("confinement", &known, &mut quiet) {
        for key in ["backend", "image", "runtime", "workspace", "namespaces"] {
            inner.push((section.key(key), format!("`{key}`")));
        }
    }
    let known = ["read", "write", "hide", "protect"];
    if let Some(section) = top.table("filesystem", &known, &mut quiet) {
        for key in ["read", "write"] {
            inner.push((section.key(key), format!("`{key}`")));
        }
    }
    if let Some(mode) = top
        .text("mode", &mut quiet)
        .filter(|mode| !["never", "onRequest", "granular"].contains(&mode.value.as_str()))
    {
        inner.push((
            Some(mode.span),
            format!("mode `{}`", super::section::cut(&mode.value)),
        ));
    }
    for (span, what) in inner {
        if let Some(span) = span {
            let help = "say it in a policy of yours: `--policy FILE`".to_owned();
            let message = format!("{what} is not for a workspace's file: it can only tighten");
            faults.add(&span, message, Some(help));
        }
    }
}
