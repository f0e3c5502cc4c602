//! The Anthropic Messages dialect, both ways and pure: a request to a body, a stream to an answer.

mod blocks;
mod decode;
mod encode;

pub(crate) use decode::{Answer, decoder};
pub(crate) use encode::encode;

/// The dialect's version, sent with each request.
const VERSION: &str = "2023-06-01";
