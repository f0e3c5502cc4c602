//! Bedrock: requests in the Converse form; answers as Converse events, as chunk frames of InvokeModel
//! (Messages, Nova, Chat, Titan and other plain text), or as one document of any of them. Pure.

mod carrier;
mod converse;
mod encode;
mod frame;
mod plain;

pub(crate) use carrier::decoder;
pub(crate) use encode::encode;
#[cfg(test)]
pub(crate) use frame::build;

use serde_json::Value;

use crate::dialect::lenient;

/// A figure; some models write `6.0`.
fn figure(value: Option<&Value>) -> Option<u64> {
    lenient::number(value?)
}
