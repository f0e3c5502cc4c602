//! Where the account's circuit breakers stand.

use std::collections::BTreeMap;

use supervisor_core::breaker::Breaker;
use supervisor_record::Places;

use crate::{
    exit::{ENDED, Failure},
    session::open_record,
};

/// The breakers of the account; none before its first session.
pub(super) fn breakers(places: &Places) -> Result<BTreeMap<String, Breaker>, Failure> {
    if !places.record_file().exists() {
        return Ok(BTreeMap::new());
    }
    let record = open_record(places)?;
    record
        .breakers()
        .map_err(|error| Failure::new(ENDED, error.to_string()))
}
