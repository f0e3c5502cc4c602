//! The ChatGPT sign-in: its tokens, kept in one file, refreshed before they run out.
//!
//! A refresh token works once. So a refresh happens under the file's lock (another supervisor may
//! have been first), in a task of its own (a call that is cancelled does not lose the answer), and the
//! new pair is on disk before it is used.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use supervisor_core::Secret;
use tokio::sync::Mutex;

use super::{clock::now_s, token};
use crate::{
    Class, InferError,
    http::{Exchange, Http, Verb},
    keys::{KeyFailure, KeyFile},
};

/// How long before an access token's end it is refreshed.
const MARGIN_S: u64 = 300;
/// Refreshed at the latest after this, as the service's own program does.
const REFRESH_S: u64 = 8 * 86_400;

/// Whom a sign-in is with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Base address of the sign-in service.
    pub url: String,
    /// The public id of the program that signs in.
    pub client: String,
}

impl Default for Issuer {
    fn default() -> Self {
        Self {
            url: "https://auth.openai.com".to_owned(),
            client: "app_EMoamEEZ73f0CkXaXp7hrann".to_owned(),
        }
    }
}

/// A sign-in that is kept in a file.
#[derive(Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    issuer: Issuer,
    file: KeyFile,
    tokens: Mutex<Tokens>,
}

/// The tokens of a sign-in.
#[derive(Debug)]
pub(super) struct Tokens {
    access: Arc<Secret>,
    refresh: Secret,
    /// The account that they are for.
    account: Option<String>,
    /// When they were given.
    given_s: u64,
    /// The provider did not take them.
    spoilt: bool,
}

/// Tokens as they lie in the file.
#[derive(Serialize, Deserialize)]
struct Stored {
    kind: String,
    access_token: String,
    refresh_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account_id: Option<String>,
    given_s: u64,
}

/// Tokens as the service gives them; what it leaves out stays as it was.
#[derive(Deserialize)]
pub(super) struct Given {
    id_token: Option<String>,
    access_token: Option<String>,
    refresh_token: Option<String>,
}

const KIND: &str = "chatgpt";

impl Tokens {
    /// Reads what a file holds; `None` if it is no sign-in.
    pub(super) fn read(text: &Secret) -> Option<Self> {
        let stored: Stored = serde_json::from_str(text.expose()).ok()?;
        (stored.kind == KIND).then(|| Self {
            access: Arc::new(Secret::new(stored.access_token)),
            refresh: Secret::new(stored.refresh_token),
            account: stored.account_id,
            given_s: stored.given_s,
            spoilt: false,
        })
    }

    /// What the service gave, over what was known before.
    pub(super) fn given(given: Given, before: Option<&Self>) -> Option<Self> {
        let id = given.id_token.map(Secret::new);
        let access = Arc::new(Secret::new(given.access_token.filter(|t| !t.is_empty())?));
        let account = id.as_ref().and_then(account).or_else(|| account(&access));
        let old = before.map(|tokens| tokens.refresh.expose().to_owned());
        Some(Self {
            access,
            refresh: Secret::new(given.refresh_token.or(old)?),
            account: account.or_else(|| before?.account.clone()),
            given_s: now_s(),
            spoilt: false,
        })
    }

    /// The text of the file.
    pub(super) fn text(&self) -> Secret {
        let stored = Stored {
            kind: KIND.to_owned(),
            access_token: self.access.expose().to_owned(),
            refresh_token: self.refresh.expose().to_owned(),
            account_id: self.account.clone(),
            given_s: self.given_s,
        };
        // Plain texts always encode.
        let text = Secret::new(serde_json::to_string(&stored).unwrap_or_default());
        for mut token in [stored.access_token, stored.refresh_token] {
            zeroize::Zeroize::zeroize(&mut token);
        }
        text
    }

    fn due(&self, now_s: u64) -> bool {
        let ends = claims(&self.access).and_then(|claims| claims.get("exp")?.as_u64());
        self.spoilt
            || ends.is_some_and(|ends| now_s.saturating_add(MARGIN_S) >= ends)
            || now_s >= self.given_s.saturating_add(REFRESH_S)
    }
}

/// The claims of a token, which nobody here trusts: they say when it ends and whose it is.
fn claims(token: &Secret) -> Option<serde_json::Value> {
    let middle = token.expose().split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(middle.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn account(token: &Secret) -> Option<String> {
    let claims = claims(token)?;
    let auth = claims.get("https://api.openai.com/auth")?;
    Some(auth.get("chatgpt_account_id")?.as_str()?.to_owned())
}

impl Session {
    /// A sign-in as `file` holds it; `None` if the file holds something else.
    pub(super) fn open(issuer: Issuer, file: KeyFile, text: &Secret) -> Option<Self> {
        let tokens = Mutex::new(Tokens::read(text)?);
        Some(Self {
            inner: Arc::new(Inner {
                issuer,
                file,
                tokens,
            }),
        })
    }

    /// An access token that holds for some minutes, and the account that it is for.
    pub(super) async fn bearer(
        &self,
        http: &Arc<Http>,
    ) -> Result<(Arc<Secret>, Option<String>), InferError> {
        let (inner, http) = (Arc::clone(&self.inner), Arc::clone(http));
        let task = tokio::spawn(async move { inner.bearer(&http).await });
        task.await.unwrap_or_else(|_| {
            Err(InferError::new(
                Class::Other,
                "the refresh of the sign-in broke off",
            ))
        })
    }

    /// The provider did not take the token.
    pub(super) async fn spoil(&self) {
        self.inner.tokens.lock().await.spoilt = true;
    }

    /// What must not be shown.
    pub(super) fn secrets(&self, each: &mut dyn FnMut(&Secret)) {
        if let Ok(tokens) = self.inner.tokens.try_lock() {
            each(&tokens.access);
            each(&tokens.refresh);
        }
    }
}

impl Inner {
    async fn bearer(&self, http: &Http) -> Result<(Arc<Secret>, Option<String>), InferError> {
        let mut tokens = self.tokens.lock().await;
        if tokens.due(now_s()) {
            // The lock ends with its handle, also if the file cannot be read.
            let lock = self.file.lock().await.map_err(failure)?;
            let stored = self.file.read().map_err(failure)?;
            let newer = stored.and_then(|text| Tokens::read(&text));
            if let Some(newer) =
                newer.filter(|newer| newer.refresh.expose() != tokens.refresh.expose())
            {
                *tokens = newer;
            }
            if tokens.due(now_s()) {
                let fresh = refresh(http, &self.issuer, &tokens).await?;
                self.file.write(&fresh.text()).map_err(failure)?;
                *tokens = fresh;
            }
            drop(lock);
        }
        Ok((Arc::clone(&tokens.access), tokens.account.clone()))
    }
}

fn failure(failure: KeyFailure) -> InferError {
    InferError::new(Class::Authentication, failure.to_string())
}

async fn refresh(http: &Http, issuer: &Issuer, tokens: &Tokens) -> Result<Tokens, InferError> {
    #[derive(Serialize)]
    struct Body<'a> {
        client_id: &'a str,
        grant_type: &'a str,
        refresh_token: &'a str,
        scope: &'a str,
    }
    let body = Body {
        client_id: &issuer.client,
        grant_type: "refresh_token",
        refresh_token: tokens.refresh.expose(),
        scope: "openid profile email",
    };
    let body = serde_json::to_string(&body).unwrap_or_default();
    let url = format!("{}/oauth/token", issuer.url);
    let exchange = Exchange {
        body: Some(("application/json", Secret::new(body))),
        ..Exchange::new(Verb::Post, &url)
    };
    let what = "the ChatGPT sign-in service";
    let secrets = [&tokens.refresh, &*tokens.access];
    let answer = token::ask(http, what, &secrets, exchange)
        .await
        .map_err(|mut failure| {
            if failure.class == Class::Authentication {
                failure
                    .message
                    .push_str(" (sign in anew: provost login codex)");
            }
            failure
        })?;
    let given = serde_json::from_str(answer.expose()).ok();
    given
        .and_then(|given| Tokens::given(given, Some(tokens)))
        .ok_or_else(|| {
            InferError::new(
                Class::Authentication,
                format!("{what} answered something else than tokens"),
            )
        })
}
