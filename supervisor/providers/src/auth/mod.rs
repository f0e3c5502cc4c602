//! How a call proves whose it is, where a key in one header is not the whole of it.

use supervisor_core::Secret;

use crate::{Auth, Class, InferError, Row, dialect::Outgoing};

/// Headers that prove a call; the values are key material.
pub(crate) type Proof = Vec<(&'static str, Secret)>;

/// Proves a call to `url`.
///
/// # Errors
/// [`Class::Authentication`] with the ways to give a key.
pub(crate) async fn prove(
    row: &Row,
    secret: Option<&Secret>,
    url: &str,
    outgoing: &Outgoing,
) -> Result<Proof, InferError> {
    let _ = (url, outgoing);
    let bearer = |secret: &Secret| {
        (
            "authorization",
            Secret::new(format!("Bearer {}", secret.expose())),
        )
    };
    let name = &row.name;
    match (row.auth, secret) {
        (Auth::None, _) => Ok(Vec::new()),
        (Auth::Bearer | Auth::Aws | Auth::Google | Auth::Codex, Some(secret)) => {
            Ok(vec![bearer(secret)])
        }
        (Auth::XApiKey, Some(secret)) => Ok(vec![("x-api-key", copy(secret))]),
        (Auth::XGoogApiKey, Some(secret)) => Ok(vec![("x-goog-api-key", copy(secret))]),
        (Auth::Azure, Some(secret)) => {
            Ok(vec![("api-key", copy(secret)), ("x-api-key", copy(secret))])
        }
        (_, None) if row.key_optional || row.is_local() => Ok(Vec::new()),
        (_, None) => Err(InferError::new(
            Class::Authentication,
            format!("no key for `{name}`: put it into keys/{name} (mode 0600)"),
        )),
    }
}

fn copy(secret: &Secret) -> Secret {
    Secret::new(secret.expose().to_owned())
}
