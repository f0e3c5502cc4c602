//! `glob`: paths by pattern.

use std::time::Instant;

use ignore::gitignore::GitignoreBuilder;
use policies::tools::Glob;
use protocol::bounds;
use serde::Serialize;

use crate::{
    cut,
    view::{Unreadable, View},
    walk::{Go, walk},
};

#[derive(Debug, Serialize)]
pub(crate) struct Paths {
    paths: Vec<String>,
    truncated: bool,
}

/// Finds files whose path from the root matches a pattern in gitignore syntax.
pub(crate) fn glob(view: &View, input: &Glob, deadline: Instant) -> Result<Paths, Unreadable> {
    let root = view.resolve(&input.path)?;
    let bad = |why: String| Unreadable::Pattern(why);
    // `!` and `#` mean something else in an ignore file than in a pattern.
    if input.pattern.starts_with(['!', '#']) {
        return Err(bad("it may not begin with `!` or `#`".to_owned()));
    }
    let mut builder = GitignoreBuilder::new(root.as_str());
    builder
        .add_line(None, &input.pattern)
        .map_err(|error| bad(error.to_string()))?;
    let pattern = builder.build().map_err(|error| bad(error.to_string()))?;
    let mut left = bounds::OUTPUT_TO_MODEL - 1024;
    let (mut paths, mut truncated) = (Vec::new(), false);
    let cut_short = walk(view, &root, deadline, &mut |found| {
        if !pattern
            .matched_path_or_any_parents(found.path.as_str(), false)
            .is_ignore()
        {
            return Go::On;
        }
        let shown = view.shown(&found.path).to_owned();
        let cost = cut::costs(&shown) + 3;
        if paths.len() >= bounds::PATHS_SHOWN || cost > left {
            truncated = true;
            return Go::Stop;
        }
        left -= cost;
        paths.push(shown);
        Go::On
    })?;
    Ok(Paths {
        paths,
        truncated: truncated || cut_short,
    })
}
