//! Posts bytes that are no model call: what the supervisor says of itself to a collector of its operator.

use crate::{
    Limits,
    http::{Http, HttpFault},
};

/// Posts by the same rules as every call here: no redirect, the proxies and roots of the start, limits.
#[derive(Debug)]
pub struct Courier(Http);

/// Why it did not arrive; the words hold neither address nor header.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Undelivered(#[from] HttpFault);

impl Default for Courier {
    fn default() -> Self {
        Self(Http::new(Limits::default()))
    }
}

impl Courier {
    /// Posts a body, and gives the status and what came back, up to the bound of an error's body.
    ///
    /// # Errors
    /// [`Undelivered`] when no answer came.
    pub async fn post(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), Undelivered> {
        Ok(self.0.carry(url, headers, body).await?)
    }
}
