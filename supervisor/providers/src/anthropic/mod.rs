//! The Anthropic Messages dialect, both ways and pure: a request to a body, a stream to an answer.

mod blocks;
mod decode;
mod encode;

pub use decode::{Decoder, StreamFault, decode_document};
pub use encode::{Target, Unsendable, encode};

/// The dialect's version, sent with each request.
pub const VERSION: &str = "2023-06-01";
