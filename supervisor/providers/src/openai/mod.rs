//! The two dialects of OpenAI, which many other providers speak: Chat Completions and Responses.

pub(crate) mod chat;
pub(crate) mod responses;
mod usage;
