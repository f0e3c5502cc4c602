//! The Responses dialect, both ways and pure. Nothing is stored at the provider: each call carries the
//! whole conversation, reasoning sealed.

mod decode;
mod encode;

pub(crate) use decode::decoder;
pub(crate) use encode::encode;
