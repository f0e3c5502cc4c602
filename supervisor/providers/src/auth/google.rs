//! Google: a service account's signed assertion, a user's default credentials, or the metadata server.

use std::sync::Arc;

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde::Deserialize;
use supervisor_core::Secret;

use super::{
    Environment,
    clock::now_s,
    files,
    fresh::{Fresh, Timed},
    token,
};
use crate::{
    Class, InferError,
    http::{Exchange, Http, Verb},
    keys::KeyFailure,
};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const METADATA: &str = "metadata.google.internal";
/// An assertion's life; the service allows an hour.
const ASSERTION_S: u64 = 3_600;

/// Where tokens come from, and the one that is held.
#[derive(Debug)]
pub struct Google {
    source: Source,
    token: Fresh<Secret>,
    /// Whose quota is used, if the credentials say so.
    pub(super) project: Option<String>,
}

enum Source {
    ServiceAccount {
        email: String,
        key_id: String,
        key: RsaKeyPair,
        token_uri: String,
    },
    User {
        client_id: String,
        client_secret: Secret,
        refresh_token: Secret,
        token_uri: String,
    },
    Metadata {
        url: String,
    },
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ServiceAccount { .. } => "ServiceAccount",
            Self::User { .. } => "User",
            Self::Metadata { .. } => "Metadata",
        })
    }
}

#[derive(Deserialize)]
struct File {
    r#type: String,
    client_email: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    quota_project_id: Option<String>,
}

impl Google {
    /// Reads a credentials file's text; `from` names it in errors.
    ///
    /// # Errors
    /// One sentence that holds none of it.
    pub(super) fn read(text: &Secret, from: &str) -> Result<Self, KeyFailure> {
        let unfit = |problem: &str| KeyFailure::unfit(from, problem);
        let file: File = serde_json::from_str(text.expose())
            .map_err(|_| unfit("is no Google credentials file (JSON with a type)"))?;
        let token_uri = file.token_uri.unwrap_or_else(|| TOKEN_URI.to_owned());
        if !super::may_get_secrets(&token_uri) {
            return Err(unfit(
                "names a token_uri that is neither https nor on this machine",
            ));
        }
        let wanted = |field: Option<String>, problem| {
            field
                .filter(|text| !text.is_empty())
                .ok_or_else(|| unfit(problem))
        };
        let source = match file.r#type.as_str() {
            "service_account" => Source::ServiceAccount {
                email: wanted(file.client_email, "lacks client_email")?,
                key_id: file.private_key_id.unwrap_or_default(),
                key: rsa_key(&Secret::new(wanted(file.private_key, "lacks private_key")?))
                    .ok_or_else(|| unfit("holds a private_key that is no RSA key in PKCS #8"))?,
                token_uri,
            },
            "authorized_user" => Source::User {
                client_id: wanted(file.client_id, "lacks client_id")?,
                client_secret: Secret::new(wanted(file.client_secret, "lacks client_secret")?),
                refresh_token: Secret::new(wanted(file.refresh_token, "lacks refresh_token")?),
                token_uri,
            },
            _ => {
                return Err(unfit(
                    "is of a type that is not supported: use a service account or `gcloud auth application-default login`",
                ));
            }
        };
        Ok(Self {
            source,
            token: Fresh::empty(),
            project: file.quota_project_id,
        })
    }

    /// Application default credentials: the file that the variable names, that of gcloud, else the
    /// metadata server. Answers where they come from.
    pub(super) fn find(environment: Environment<'_>) -> Result<(Self, String), KeyFailure> {
        let set = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        if let Some(path) = set("GOOGLE_APPLICATION_CREDENTIALS") {
            let text = files::foreign(path.as_ref())?.ok_or_else(|| {
                KeyFailure::unfit(
                    &path,
                    "does not exist (GOOGLE_APPLICATION_CREDENTIALS names it)",
                )
            })?;
            return Ok((Self::read(&text, &path)?, path));
        }
        let folder =
            set("CLOUDSDK_CONFIG").or_else(|| Some(format!("{}/.config/gcloud", set("HOME")?)));
        if let Some(folder) = folder {
            let path = format!("{folder}/application_default_credentials.json");
            if let Some(text) = files::foreign(path.as_ref())? {
                return Ok((Self::read(&text, &path)?, path));
            }
        }
        let host = set("GCE_METADATA_HOST").unwrap_or_else(|| METADATA.to_owned());
        let google = Self {
            source: Source::Metadata {
                url: format!(
                    "http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
                ),
            },
            token: Fresh::empty(),
            project: None,
        };
        Ok((google, "the metadata server".to_owned()))
    }

    /// A bearer token that holds for some minutes at least.
    pub(super) async fn bearer(&self, http: &Http) -> Result<Arc<Secret>, InferError> {
        self.token.get(self.fetch(http)).await
    }

    /// The provider did not take the token.
    pub(super) async fn spoil(&self) {
        self.token.spoil().await;
    }

    /// Whether nobody knows before asking that there are any credentials.
    pub(super) fn is_guess(&self) -> bool {
        matches!(self.source, Source::Metadata { .. })
    }

    /// What must not be shown.
    pub(super) fn secrets(&self, each: &mut dyn FnMut(&Secret)) {
        if let Source::User {
            client_secret,
            refresh_token,
            ..
        } = &self.source
        {
            each(client_secret);
            each(refresh_token);
        }
        if let Some(token) = self.token.peek() {
            each(&token);
        }
    }

    async fn fetch(&self, http: &Http) -> Result<Timed<Secret>, InferError> {
        match &self.source {
            Source::ServiceAccount { token_uri, .. } => {
                let assertion = self.assertion(now_s())?;
                let fields = [
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", assertion.expose()),
                ];
                token::fetch(
                    http,
                    "Google's token service",
                    token_uri,
                    &[&assertion],
                    &fields,
                )
                .await
            }
            Source::User {
                client_id,
                client_secret,
                refresh_token,
                token_uri,
            } => {
                let fields = [
                    ("grant_type", "refresh_token"),
                    ("client_id", client_id),
                    ("client_secret", client_secret.expose()),
                    ("refresh_token", refresh_token.expose()),
                ];
                let secrets = [client_secret, refresh_token];
                token::fetch(http, "Google's token service", token_uri, &secrets, &fields).await
            }
            Source::Metadata { url } => {
                let exchange = Exchange {
                    headers: vec![("metadata-flavor", Secret::new("Google".into()))],
                    near: true,
                    ..Exchange::new(Verb::Get, url)
                };
                let what = "the metadata server of this machine";
                let body = token::ask(http, what, &[], exchange).await.map_err(|mut failure| {
                    if failure.class == Class::Network {
                        failure.message.push_str(
                            "; without one, set GOOGLE_APPLICATION_CREDENTIALS or put a service account's file into keys/",
                        );
                        failure.class = Class::Authentication;
                        failure.retryable = false;
                    }
                    failure
                })?;
                token::read(what, &body)
            }
        }
    }

    /// The signed word of a service account.
    fn assertion(&self, now_s: u64) -> Result<Secret, InferError> {
        let failed = || {
            InferError::new(
                Class::Authentication,
                "a service account cannot sign its assertion",
            )
        };
        let Source::ServiceAccount {
            email,
            key_id,
            key,
            token_uri,
        } = &self.source
        else {
            return Err(failed());
        };
        let head = serde_json::json!({"alg": "RS256", "typ": "JWT", "kid": key_id});
        let claims = serde_json::json!({
            "iss": email, "scope": SCOPE, "aud": token_uri, "iat": now_s, "exp": now_s + ASSERTION_S,
        });
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&head), part(&claims));
        let mut signature = vec![0; key.public_modulus_len()];
        key.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            text.as_bytes(),
            &mut signature,
        )
        .map_err(|_| failed())?;
        Ok(Secret::new(format!(
            "{text}.{}",
            URL_SAFE_NO_PAD.encode(signature)
        )))
    }
}

/// `-----BEGIN PRIVATE KEY-----` and its kind.
fn rsa_key(pem: &Secret) -> Option<RsaKeyPair> {
    let inner = pem.expose().split_once("-----BEGIN PRIVATE KEY-----")?.1;
    let inner = inner.split_once("-----END PRIVATE KEY-----")?.0;
    let packed = Secret::new(inner.split_whitespace().collect());
    let der = zeroize::Zeroizing::new(STANDARD.decode(packed.expose()).ok()?);
    RsaKeyPair::from_pkcs8(&der).ok()
}
