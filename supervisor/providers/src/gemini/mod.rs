//! Gemini `generateContent` and `streamGenerateContent`, both ways and pure; on Vertex the same.
//!
//! A thought signature belongs to one part of an answer and must go back on that part. It travels as
//! a reasoning part in front of it: either a whole wire part (a thought, or whatever carries a
//! signature and is neither text nor a call), or `{"thoughtSignature": …}` alone, which the encoder puts
//! onto the text or the call that follows.

mod decode;
mod encode;
mod fault;
mod parts;
mod path;

pub(crate) use decode::decoder;
pub(crate) use encode::encode;
pub(crate) use fault::read as read_fault;
