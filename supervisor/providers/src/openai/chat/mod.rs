//! Chat Completions, both ways and pure.

mod decode;
mod encode;
mod reasoning;

pub(crate) use decode::{Answer, decoder};
pub(crate) use encode::{arguments, encode};
