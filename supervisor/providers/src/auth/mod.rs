//! How a call proves whose it is: a key in a header, a signature, or a token that is fetched and
//! refreshed. What is lent here comes from the vault, against a permit.

mod aws;
mod clock;
mod codex;
mod device;
mod entra;
mod files;
mod fresh;
mod google;
mod sigv4;
mod token;

use std::sync::Arc;

use supervisor_core::{Masker, Secret};

pub use aws::Aws;
pub use codex::{Issuer, Session};
pub use device::SignIn;
pub use entra::Entra;
pub use google::Google;

use crate::{
    Auth, Class, InferError, Row,
    dialect::Outgoing,
    http::Http,
    keys::{KeyFailure, KeyFile},
};

/// Headers that prove a call; the values are key material.
pub(crate) type Proof = Vec<(&'static str, Secret)>;

/// The environment as it was at start.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What proves the calls to one provider.
#[derive(Debug)]
pub enum Credential {
    /// A key, shown as the provider's row says.
    Key(Secret),
    /// A token that is shown as bearer, whatever the row says of keys.
    Bearer(Secret),
    /// AWS keys, to sign with.
    Aws(Aws),
    /// A Google account.
    Google(Google),
    /// An application of Entra.
    Entra(Entra),
    /// A ChatGPT sign-in.
    Codex(Session),
}

impl Credential {
    /// Hands each secret that is held now to `each`.
    pub(crate) fn secrets(&self, each: &mut dyn FnMut(&Secret)) {
        match self {
            Self::Key(key) | Self::Bearer(key) => each(key),
            Self::Aws(aws) => aws.secrets(each),
            Self::Google(google) => google.secrets(each),
            Self::Entra(entra) => entra.secrets(each),
            Self::Codex(session) => session.secrets(each),
        }
    }

    /// Whether another token may come where the last one was not taken.
    pub(crate) fn is_renewable(&self) -> bool {
        match self {
            Self::Key(_) | Self::Bearer(_) => false,
            Self::Aws(aws) => aws.is_renewable(),
            Self::Google(_) | Self::Entra(_) | Self::Codex(_) => true,
        }
    }

    /// Whether nobody knows before asking that there is anything: a metadata service.
    pub(crate) fn is_guess(&self) -> bool {
        match self {
            Self::Aws(aws) => aws.is_guess(),
            Self::Google(google) => google.is_guess(),
            Self::Key(_) | Self::Bearer(_) | Self::Entra(_) | Self::Codex(_) => false,
        }
    }

    /// The provider did not take the last token: the next call fetches another.
    pub(crate) async fn spoil(&self) {
        match self {
            Self::Key(_) | Self::Bearer(_) => {}
            Self::Aws(aws) => aws.spoil().await,
            Self::Google(google) => google.spoil().await,
            Self::Entra(entra) => entra.spoil().await,
            Self::Codex(session) => session.spoil().await,
        }
    }
}

/// A masker of what a call carries: all that is held, and the values of its proof.
pub(crate) fn masker(credential: Option<&Credential>, proof: &Proof) -> Masker {
    let mut copies: Vec<Secret> = Vec::new();
    if let Some(credential) = credential {
        credential.secrets(&mut |secret| copies.push(copy(secret)));
    }
    for (name, secret) in proof {
        // A date and an account are no secrets, and would be found in ordinary words.
        if matches!(
            *name,
            "authorization" | "x-api-key" | "api-key" | "x-goog-api-key"
        ) {
            let bare = secret.expose();
            copies.push(Secret::new(
                bare.strip_prefix("Bearer ").unwrap_or(bare).to_owned(),
            ));
        }
    }
    Masker::new(&copies)
}

/// A key file's content as a credential of its row: a key, a Google credentials file, a sign-in.
pub(crate) fn from_file(
    row: &Row,
    text: Secret,
    file: KeyFile,
    from: &str,
) -> Result<Credential, KeyFailure> {
    let structured = text.expose().trim_start().starts_with('{');
    match row.auth {
        Auth::Google if structured => Ok(Credential::Google(Google::read(&text, from)?)),
        Auth::Codex if structured => Session::open(row.issuer(), file, &text)
            .map(Credential::Codex)
            .ok_or_else(|| KeyFailure::unfit(from, "holds no sign-in: provost login codex")),
        _ => Ok(Credential::Key(text)),
    }
}

/// What the usual places of a row's kind hold besides keys; with where it was found.
pub(crate) fn elsewhere(
    row: &Row,
    environment: Environment<'_>,
) -> Result<Option<(Credential, String)>, KeyFailure> {
    Ok(match row.auth {
        Auth::Aws => {
            let found = Aws::find(environment, !row.is_local())?;
            found.map(|(aws, from)| (Credential::Aws(aws), from))
        }
        Auth::Google
            if row.is_local() && environment("GOOGLE_APPLICATION_CREDENTIALS").is_none() =>
        {
            None
        }
        Auth::Google => {
            let (google, from) = Google::find(environment)?;
            Some((Credential::Google(google), from))
        }
        Auth::Azure => {
            let token =
                environment("AZURE_OPENAI_AD_TOKEN").filter(|token| !token.trim().is_empty());
            match token {
                Some(token) => {
                    let token = Secret::new(token.trim().to_owned());
                    let from = "AZURE_OPENAI_AD_TOKEN".to_owned();
                    Some((Credential::Bearer(token), from))
                }
                None => Entra::find(environment)?
                    .map(|entra| (Credential::Entra(entra), "AZURE_CLIENT_SECRET".to_owned())),
            }
        }
        Auth::XApiKey | Auth::XGoogApiKey | Auth::Bearer | Auth::Codex | Auth::None => None,
    })
}

/// Proves a call to `url`.
///
/// # Errors
/// [`Class::Authentication`] with the ways to give a key; a token service's own failure.
pub(crate) async fn prove(
    row: &Row,
    credential: Option<&Credential>,
    http: &Arc<Http>,
    url: &str,
    outgoing: &Outgoing,
) -> Result<Proof, InferError> {
    let name = &row.name;
    let Some(credential) = credential.filter(|_| row.auth != Auth::None) else {
        if row.auth == Auth::None || row.key_optional || row.is_local() {
            return Ok(Vec::new());
        }
        let words = match row.auth {
            Auth::Codex => format!("nobody is signed in to `{name}`: provost login {name}"),
            _ => format!("no key for `{name}`: put it into keys/{name} (mode 0600)"),
        };
        return Err(InferError::new(Class::Authentication, words));
    };
    Ok(match credential {
        Credential::Key(key) => match row.auth {
            Auth::XApiKey => vec![("x-api-key", copy(key))],
            Auth::XGoogApiKey => vec![("x-goog-api-key", copy(key))],
            Auth::Azure => vec![("api-key", copy(key)), ("x-api-key", copy(key))],
            Auth::Bearer | Auth::Aws | Auth::Google | Auth::Codex => vec![bearer(key)],
            Auth::None => Vec::new(),
        },
        Credential::Bearer(token) => vec![bearer(token)],
        Credential::Aws(aws) => {
            let region = row.values.get("region").map(String::as_str);
            aws.prove(http, region, url, &outgoing.body).await?
        }
        Credential::Google(google) => {
            let token = google.bearer(http).await?;
            let mut proof = vec![bearer(&token)];
            if let Some(project) = &google.project {
                proof.push(("x-goog-user-project", Secret::new(project.clone())));
            }
            proof
        }
        Credential::Entra(entra) => {
            let token = entra.bearer(http).await?;
            vec![bearer(&token)]
        }
        Credential::Codex(session) => {
            let (token, account) = session.bearer(http).await?;
            let account = account.map(|account| ("chatgpt-account-id", Secret::new(account)));
            [Some(bearer(&token)), account]
                .into_iter()
                .flatten()
                .collect()
        }
    })
}

/// Whether secrets may be sent to an address: https, or this machine itself.
fn may_get_secrets(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| match url.scheme() {
        "https" => true,
        "http" => crate::config::is_loopback(&url),
        _ => false,
    })
}

fn bearer(secret: &Secret) -> (&'static str, Secret) {
    let value = format!("Bearer {}", secret.expose());
    ("authorization", Secret::new(value))
}

fn copy(secret: &Secret) -> Secret {
    Secret::new(secret.expose().to_owned())
}

#[cfg(test)]
mod tests;
