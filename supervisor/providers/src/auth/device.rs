//! The ChatGPT sign-in by a code that a person types into a browser, on whatever machine that is.

use std::{sync::Arc, time::Duration};

use protocol::bounds;
use serde::Deserialize;
use supervisor_core::Secret;

use super::{
    codex::{Given, Issuer, Tokens},
    token,
};
use crate::{
    Class, InferError, Limits,
    http::{Exchange, Http, Verb},
};

const WHAT: &str = "the ChatGPT sign-in service";
/// Shortest pause between two questions.
const SHORTEST: u64 = 1;
/// Longest pause that the service may ask for.
const LONGEST: u64 = 60;

/// A sign-in that waits for its person.
#[derive(Debug)]
pub struct SignIn {
    http: Arc<Http>,
    issuer: Issuer,
    device: Secret,
    /// Where the person goes.
    pub url: String,
    /// What the person types there.
    pub code: String,
    pause: Duration,
}

#[derive(Deserialize)]
struct Begun {
    device_auth_id: String,
    #[serde(alias = "usercode")]
    user_code: String,
    #[serde(default)]
    interval: serde_json::Value,
}

#[derive(Deserialize)]
struct Done {
    authorization_code: String,
    code_verifier: String,
}

impl SignIn {
    /// Asks for a code.
    ///
    /// # Errors
    /// When the service cannot be reached or gives none.
    pub async fn begin(issuer: Issuer) -> Result<Self, InferError> {
        let http = Arc::new(Http::new(Limits::default()));
        let url = format!("{}/api/accounts/deviceauth/usercode", issuer.url);
        let body = serde_json::json!({"client_id": issuer.client});
        let answer = token::ask(&http, WHAT, &[], post(&url, &body)).await?;
        let begun: Begun = parse(&answer)?;
        let seconds = match &begun.interval {
            serde_json::Value::String(text) => text.trim().parse().ok(),
            other => other.as_u64(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if begun.user_code.is_empty()
            || begun.user_code.len() > 40
            || !begun.user_code.chars().all(plain)
        {
            return Err(odd());
        }
        Ok(Self {
            url: format!("{}/codex/device", issuer.url),
            http,
            issuer,
            device: Secret::new(begun.device_auth_id),
            code: begun.user_code,
            pause: Duration::from_secs(seconds.unwrap_or(5).clamp(SHORTEST, LONGEST)),
        })
    }

    /// Waits until the person is done; gives the text of the key file.
    ///
    /// # Errors
    /// When the person does not come in time, or the service does not give tokens.
    pub async fn finish(self) -> Result<Secret, InferError> {
        let waited = tokio::time::timeout(bounds::SIGN_IN, self.poll()).await;
        let done = waited.map_err(|_| {
            let words = "nobody typed the code within 15 minutes: begin anew";
            InferError::new(Class::Authentication, words)
        })??;
        let (code, verifier) = (
            Secret::new(done.authorization_code),
            Secret::new(done.code_verifier),
        );
        let back = format!("{}/deviceauth/callback", self.issuer.url);
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &back),
            ("client_id", &self.issuer.client),
            ("code_verifier", verifier.expose()),
        ];
        let url = format!("{}/oauth/token", self.issuer.url);
        let exchange = Exchange {
            body: Some(("application/x-www-form-urlencoded", token::form(&fields))),
            ..Exchange::new(Verb::Post, &url)
        };
        let answer = token::ask(&self.http, WHAT, &[&code, &verifier], exchange).await?;
        let given: Given = parse(&answer)?;
        let tokens = Tokens::given(given, None).ok_or_else(odd)?;
        Ok(tokens.text())
    }

    async fn poll(&self) -> Result<Done, InferError> {
        let url = format!("{}/api/accounts/deviceauth/token", self.issuer.url);
        loop {
            tokio::time::sleep(self.pause).await;
            let body = Secret::new(
                serde_json::json!({"device_auth_id": self.device.expose(), "user_code": self.code})
                    .to_string(),
            );
            let exchange = Exchange {
                body: Some(("application/json", body)),
                ..Exchange::new(Verb::Post, &url)
            };
            let answer = self.http.exchange(exchange).await;
            match answer {
                Ok((status, body)) if (200..300).contains(&status) => return parse(&body),
                // Not yet: the person is still on the way.
                Ok((403 | 404 | 429, _)) => {}
                Ok((status, _)) if status >= 500 => {}
                Ok((status, _)) => {
                    let words = format!("{WHAT} answered {status} while the code was waited for");
                    return Err(InferError::new(Class::Authentication, words));
                }
                // A hiccup of the line; the wait as a whole is bounded.
                Err(_) => {}
            }
        }
    }
}

fn post<'a>(url: &'a str, body: &serde_json::Value) -> Exchange<'a> {
    Exchange {
        body: Some(("application/json", Secret::new(body.to_string()))),
        ..Exchange::new(Verb::Post, url)
    }
}

fn parse<T: serde::de::DeserializeOwned>(answer: &Secret) -> Result<T, InferError> {
    serde_json::from_str(answer.expose()).map_err(|_| odd())
}

fn odd() -> InferError {
    let words = format!("{WHAT} answered something that is not understood");
    InferError::new(Class::Authentication, words)
}
