//! Bedrock: requests in the Converse form; answers as Converse events, as chunk frames of InvokeModel
//! (Messages, Nova, Titan and other plain text), or as one document of any of them. Pure.

mod carrier;
mod converse;
mod encode;
mod frame;
mod plain;

pub(crate) use carrier::decoder;
pub(crate) use encode::encode;

use serde_json::Value;

/// A figure; some models write `6.0`.
fn figure(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    let whole = |number: f64| {
        let fits = number >= 0.0 && number.fract() == 0.0 && number < 1e15;
        fits.then(|| format!("{number:.0}").parse().ok()).flatten()
    };
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}
