//! Figures of an answer: input without what a cache gave, output with what reasoning took.

use protocol::Usage;
use serde_json::Value;

use crate::dialect::lenient::number;

/// Reads a usage object of Chat or Responses. What is not said stays unknown.
///
/// The input figure of both dialects includes what was read from a cache and written to it. A host
/// whose total shows that reasoning stands beside the output gets it added.
pub(super) fn read(usage: &Value) -> Usage {
    let figure = |paths: &[&str]| paths.iter().find_map(|path| number(usage.pointer(path)?));
    let input = figure(&["/prompt_tokens", "/input_tokens"]);
    let cache_read = figure(&[
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
        "/cache_read_input_tokens",
    ]);
    let cache_write = figure(&[
        "/prompt_tokens_details/cache_write_tokens",
        "/input_tokens_details/cache_write_tokens",
    ]);
    let mut output = figure(&["/completion_tokens", "/output_tokens"]);
    let reasoning = figure(&[
        "/completion_tokens_details/reasoning_tokens",
        "/output_tokens_details/reasoning_tokens",
    ]);
    let total = figure(&["/total_tokens"]);
    if let (Some(i), Some(o), Some(r), Some(t)) = (input, output, reasoning, total)
        && r > 0
        && t == i.saturating_add(o).saturating_add(r)
    {
        output = Some(o.saturating_add(r));
    }
    let cached = cache_read
        .unwrap_or(0)
        .saturating_add(cache_write.unwrap_or(0));
    Usage {
        input_uncached: input.map(|input| input.saturating_sub(cached)),
        cache_read,
        cache_write,
        output,
        reasoning,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_never_overlap_and_the_unknown_stays_unknown() {
        let of = |value: Value| {
            let u = read(&value);
            [
                u.input_uncached,
                u.cache_read,
                u.cache_write,
                u.output,
                u.reasoning,
            ]
        };
        assert_eq!(of(json!({})), [None; 5]);
        let chat = json!({"prompt_tokens": 100, "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120});
        assert_eq!(of(chat), [Some(30), Some(60), Some(10), Some(20), Some(5)]);
        let responses = json!({"input_tokens": 9, "output_tokens": 2,
            "input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 0}});
        assert_eq!(of(responses), [Some(5), Some(4), None, Some(2), Some(0)]);
        let deepseek = json!({"prompt_tokens": 492.0, "prompt_cache_hit_tokens": 384});
        assert_eq!(of(deepseek), [Some(108), Some(384), None, None, None]);
        let kimi = json!({"prompt_tokens": 5, "cached_tokens": 9});
        assert_eq!(of(kimi)[0], Some(0), "never below nothing");
        let beside = json!({"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 57,
            "completion_tokens_details": {"reasoning_tokens": 40}});
        assert_eq!(of(beside)[3], Some(47));
        assert_eq!(
            of(json!({"prompt_tokens": -1, "completion_tokens": 1.5})),
            [None; 5]
        );
    }
}
