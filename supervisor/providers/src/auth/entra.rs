//! Entra: a bearer token for an application by its client secret.

use std::sync::Arc;

use supervisor_core::Secret;

use super::{Environment, fresh::Fresh, token};
use crate::{InferError, http::Http, keys::KeyFailure};

const AUTHORITY: &str = "https://login.microsoftonline.com";
const SCOPE: &str = "https://cognitiveservices.azure.com/.default";

/// An application, and the token that is held.
#[derive(Debug)]
pub struct Entra {
    url: String,
    client: String,
    secret: Secret,
    scope: String,
    token: Fresh<Secret>,
}

impl Entra {
    /// From `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and `AZURE_CLIENT_SECRET`; `None` if they are not all set.
    pub(super) fn find(environment: Environment<'_>) -> Result<Option<Self>, KeyFailure> {
        let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let all = (
            set("AZURE_TENANT_ID"),
            set("AZURE_CLIENT_ID"),
            set("AZURE_CLIENT_SECRET"),
        );
        let (Some(tenant), Some(client), Some(secret)) = all else {
            return Ok(None);
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if !tenant.bytes().all(plain) {
            return Err(KeyFailure::unfit(
                "AZURE_TENANT_ID",
                "is no tenant: letters, digits, `-`, `.` only",
            ));
        }
        let authority = set("AZURE_AUTHORITY_HOST").unwrap_or_else(|| AUTHORITY.to_owned());
        let authority = match authority.contains("://") {
            true => authority,
            false => format!("https://{authority}"),
        };
        if !super::may_get_secrets(&authority) {
            let problem = "is neither https nor on this machine";
            return Err(KeyFailure::unfit("AZURE_AUTHORITY_HOST", problem));
        }
        Ok(Some(Self {
            url: format!(
                "{}/{tenant}/oauth2/v2.0/token",
                authority.trim_end_matches('/')
            ),
            client,
            secret: Secret::new(secret),
            scope: set("AZURE_OPENAI_SCOPE").unwrap_or_else(|| SCOPE.to_owned()),
            token: Fresh::empty(),
        }))
    }

    /// A bearer token that holds for some minutes at least.
    pub(super) async fn bearer(&self, http: &Http) -> Result<Arc<Secret>, InferError> {
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_id", self.client.as_str()),
            ("client_secret", self.secret.expose()),
            ("scope", self.scope.as_str()),
        ];
        let (what, secrets) = ("Entra's token service", [&self.secret]);
        let fetch = token::fetch(http, what, &self.url, &secrets, &fields);
        self.token.get(fetch).await
    }

    /// The provider did not take the token.
    pub(super) async fn spoil(&self) {
        self.token.spoil().await;
    }

    /// What must not be shown.
    pub(super) fn secrets(&self, each: &mut dyn FnMut(&Secret)) {
        each(&self.secret);
        if let Some(token) = self.token.peek() {
            each(&token);
        }
    }
}
