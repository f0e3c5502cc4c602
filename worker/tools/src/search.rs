//! `grep`: contents by regular expression, with ripgrep's own crates on one thread.

use std::time::Instant;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch,
};
use policies::{
    ViewPath,
    tools::{Grep, OutputMode},
};
use protocol::bounds;
use serde::Serialize;

use crate::{
    cut,
    view::{Unreadable, View},
    walk::{Found, Go, walk},
};

/// Bytes of a line that are shown.
const LINE: usize = 500;
/// Bytes that a compiled pattern may take.
const PATTERN: usize = 4 * 1024 * 1024;
/// Bytes that the searcher may hold for one line.
const HEAP: usize = 16 * 1024 * 1024;

#[derive(Debug, Serialize)]
pub(crate) struct Matches {
    mode: &'static str,
    results: Vec<Match>,
    truncated: bool,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Match {
    Path(String),
    Count {
        path: String,
        count: u64,
    },
    Line {
        path: String,
        line: u64,
        text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        context: bool,
    },
}

/// Searches a file or the files below a folder.
pub(crate) fn grep(view: &View, input: &Grep, deadline: Instant) -> Result<Matches, Unreadable> {
    let root = view.resolve(&input.path)?;
    let matcher = RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN)
        .dfa_size_limit(PATTERN)
        .build(&input.pattern)
        .map_err(|error| Unreadable::Pattern(error.to_string()))?;
    let context = if input.output_mode == OutputMode::Content {
        input.context
    } else {
        0
    };
    let context = usize::try_from(context).unwrap_or(0);
    let searcher = SearcherBuilder::new()
        .memory_map(MmapChoice::never())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP))
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .build();
    let mut search = Search {
        view,
        matcher,
        searcher,
        mode: input.output_mode,
        limit: usize::try_from(input.head_limit).unwrap_or(usize::MAX),
        left: bounds::OUTPUT_TO_MODEL - 1024,
        results: Vec::new(),
        truncated: false,
    };
    let is_file = view.real(&root).is_file();
    let cut_short = if is_file {
        search.file(&root)?;
        false
    } else {
        walk(view, &root, deadline, &mut |Found { path, link }| {
            // As ripgrep: links are not followed, what cannot be read is passed over.
            if !link {
                let _ = search.file(&path);
            }
            if search.truncated { Go::Stop } else { Go::On }
        })?
    };
    Ok(Matches {
        mode: match input.output_mode {
            OutputMode::FilesWithMatches => "files_with_matches",
            OutputMode::Content => "content",
            OutputMode::Count => "count",
        },
        results: search.results,
        truncated: search.truncated || cut_short,
    })
}

struct Search<'a> {
    view: &'a View,
    matcher: RegexMatcher,
    searcher: Searcher,
    mode: OutputMode,
    limit: usize,
    left: usize,
    results: Vec<Match>,
    truncated: bool,
}

impl Search<'_> {
    fn file(&mut self, path: &ViewPath) -> Result<(), Unreadable> {
        let (file, meta) = self.view.open(path)?;
        let shown = self.view.shown(path).to_owned();
        if meta.len() > bounds::FILE_READ {
            return Err(Unreadable::TooLarge {
                path: shown,
                size: meta.len(),
            });
        }
        let mut lines = Lines {
            mode: self.mode,
            most: self
                .limit
                .saturating_sub(self.results.len())
                .saturating_add(1),
            lines: Vec::new(),
            count: 0,
            binary: false,
        };
        let searched = self
            .searcher
            .search_reader(&self.matcher, &file, &mut lines);
        searched.map_err(|error| self.view.explain(path, &error))?;
        // A NUL byte further on: not text after all.
        if lines.binary || lines.count == 0 {
            return Ok(());
        }
        match self.mode {
            OutputMode::FilesWithMatches => self.add(Match::Path(shown)),
            OutputMode::Count => self.add(Match::Count {
                path: shown,
                count: lines.count,
            }),
            OutputMode::Content => {
                for (line, text, context) in lines.lines {
                    self.add(Match::Line {
                        path: shown.clone(),
                        line,
                        text,
                        context,
                    });
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, found: Match) {
        // 64: the words and figures around the texts.
        let cost = 64
            + match &found {
                Match::Path(path) | Match::Count { path, .. } => cut::costs(path),
                Match::Line { path, text, .. } => cut::costs(path) + cut::costs(text),
            };
        if self.truncated || self.results.len() >= self.limit || cost > self.left {
            self.truncated = true;
            return;
        }
        self.left -= cost;
        self.results.push(found);
    }
}

/// Collects the matches of one file.
struct Lines {
    mode: OutputMode,
    most: usize,
    lines: Vec<(u64, String, bool)>,
    count: u64,
    binary: bool,
}

impl Lines {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], context: bool) -> bool {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        self.lines
            .push((number.unwrap_or(0), cut::line(text, LINE), context));
        self.lines.len() < self.most
    }
}

impl Sink for Lines {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.count += 1;
        Ok(match self.mode {
            OutputMode::FilesWithMatches => false,
            OutputMode::Count => true,
            OutputMode::Content => self.push(found.line_number(), found.bytes(), false),
        })
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        Ok(self.push(found.line_number(), found.bytes(), true))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(false)
    }
}
