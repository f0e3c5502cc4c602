//! The only file here that opens a connection, and the only one that shows a key to anybody.
//!
//! No redirect is followed, no cookie kept, no compression asked for; proxies and trust roots come
//! from the environment as it was at start. Connecting, the first byte, silence and the whole answer
//! each have a limit and an error of their own. Dropping a future here closes its connection.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use protocol::bounds;
use reqwest::{
    Client, Response, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use supervisor_core::{Masker, Secret};

use crate::{
    Class, InferError, Limit, Limits, auth::Proof, classify::Hints, config, failure::one_line,
};

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpFault {
    #[error("cannot connect: {cause}")]
    Connect { cause: String },
    #[error("cannot connect within {} s", .0.as_secs_f32())]
    ConnectTime(Duration),
    #[error("no byte of an answer within {} s", .0.as_secs_f32())]
    FirstByte(Duration),
    #[error("no content of an answer within {} s", .0.as_secs_f32())]
    FirstContent(Duration),
    #[error("less than {bytes} bytes of an answer within {} s", .window.as_secs_f32())]
    Slow { bytes: u64, window: Duration },
    #[error("the answer fell silent for {} s", .0.as_secs_f32())]
    Idle(Duration),
    #[error("the answer was not whole within {} s", .0.as_secs_f32())]
    Total(Duration),
    #[error("the connection broke: {cause}")]
    Broken { cause: String },
    #[error(
        "the answer is packed ({0}), which was not asked for: check what stands between (base_url, HTTPS_PROXY)"
    )]
    Packed(String),
    #[error("the key cannot be sent in a header: it holds characters that no key has")]
    Key,
    #[error("a header of this provider cannot be sent: see headers in providers.toml")]
    Header,
    #[error("the base_url is not an address")]
    Address,
    #[error("HTTP cannot be set up (check SSL_CERT_FILE and HTTPS_PROXY): {cause}")]
    Setup { cause: String },
}

impl HttpFault {
    fn class(&self) -> Class {
        match self {
            Self::Connect { .. }
            | Self::ConnectTime(_)
            | Self::FirstByte(_)
            | Self::FirstContent(_)
            | Self::Slow { .. }
            | Self::Idle(_)
            | Self::Total(_)
            | Self::Broken { .. } => Class::Network,
            Self::Key => Class::Authentication,
            Self::Header | Self::Address | Self::Packed(_) | Self::Setup { .. } => Class::Other,
        }
    }

    fn limit(&self) -> Option<Limit> {
        match self {
            Self::ConnectTime(_) => Some(Limit::Connect),
            Self::FirstByte(_) => Some(Limit::FirstByte),
            Self::FirstContent(_) => Some(Limit::FirstContent),
            Self::Idle(_) => Some(Limit::Idle),
            Self::Slow { .. } => Some(Limit::Slow),
            Self::Total(_) => Some(Limit::Total),
            Self::Connect { .. }
            | Self::Broken { .. }
            | Self::Key
            | Self::Header
            | Self::Address
            | Self::Packed(_)
            | Self::Setup { .. } => None,
        }
    }

    pub(crate) fn failure(&self, provider: &str, masker: &Masker) -> InferError {
        let words = masker.mask_pieces(&format!("{provider}: {self}"));
        let mut failure = InferError::new(self.class(), one_line(&words, 400));
        failure.silent = matches!(self, Self::FirstByte(_));
        failure.limit = self.limit();
        failure
    }
}

/// The clients, each made when it is first needed: a session that only plays a script pays nothing.
#[derive(Debug, Default)]
pub(crate) struct Http {
    limits: Limits,
    proxied: OnceLock<Result<Client, HttpFault>>,
    direct: OnceLock<Result<Client, HttpFault>>,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    pub(crate) accept: &'static str,
    /// Headers of the dialect and of the provider's row.
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    /// Headers that prove the call.
    pub(crate) proof: Proof,
    pub(crate) body: Vec<u8>,
}

/// The verb of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Put,
    Post,
}

/// One short exchange with a service that gives tokens.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) verb: Verb,
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(&'static str, Secret)>,
    /// Media type and content.
    pub(crate) body: Option<(&'static str, Secret)>,
    /// On this machine or its host: never through a proxy, and answered at once or not at all.
    pub(crate) near: bool,
}

impl<'a> Exchange<'a> {
    /// A bare one.
    pub(crate) fn new(verb: Verb, url: &'a str) -> Self {
        Self {
            verb,
            url,
            headers: Vec::new(),
            body: None,
            near: false,
        }
    }
}

/// An answer whose head has arrived.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) hints: Hints,
    /// The media type, lower case, without parameters.
    pub(crate) media: String,
    response: Response,
    limits: Limits,
    began: Instant,
    first: bool,
    /// Whether content has come: who decodes says so.
    pub(crate) content: bool,
    /// Since when the guard against slow streams counts, and what came since then.
    window: (Instant, u64),
}

impl Http {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The general limits.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    fn client(&self, url: &Url, near: bool) -> Result<&Client, HttpFault> {
        // What is on this machine is never sent through a proxy elsewhere, key and all.
        let direct = near || config::is_loopback(url);
        let cell = if direct { &self.direct } else { &self.proxied };
        let made = cell.get_or_init(|| build(self.limits, direct));
        made.as_ref().map_err(Clone::clone)
    }

    /// Asks a service that gives tokens, and reads its whole answer: status and text.
    pub(crate) async fn exchange(
        &self,
        exchange: Exchange<'_>,
    ) -> Result<(u16, Secret), HttpFault> {
        let url = Url::parse(exchange.url).map_err(|_| HttpFault::Address)?;
        let client = self.client(&url, exchange.near)?;
        let within = if exchange.near {
            bounds::METADATA_TIME
        } else {
            bounds::TOKEN_TIME
        };
        let mut request = match exchange.verb {
            Verb::Get => client.get(url),
            Verb::Put => client.put(url),
            Verb::Post => client.post(url),
        };
        for (name, secret) in exchange.headers {
            request = request.header(name, sensitive(&secret)?);
        }
        request = match exchange.body {
            Some((media, body)) => request
                .header("content-type", media)
                .body(body.expose().to_owned()),
            // Some servers refuse a body of unknown length, even where there is none.
            None => request.body(""),
        };
        let answered = async {
            let mut response = request.send().await.map_err(|error| self.unsent(error))?;
            let status = response.status().as_u16();
            let mut body = zeroize::Zeroizing::new(Vec::with_capacity(bounds::TOKEN_BODY));
            while let Some(piece) = response.chunk().await.map_err(|error| HttpFault::Broken {
                cause: root_cause(error),
            })? {
                if body.len() + piece.len() > bounds::TOKEN_BODY {
                    let cause = "the answer is longer than any token".to_owned();
                    return Err(HttpFault::Broken { cause });
                }
                body.extend_from_slice(&piece);
            }
            let text = String::from_utf8_lossy(&body).into_owned();
            Ok((status, Secret::new(text)))
        };
        let answered = tokio::time::timeout(within, answered).await;
        answered.unwrap_or(Err(HttpFault::FirstByte(within)))
    }

    /// Posts bytes elsewhere than to a model, and reads what came back up to its bound.
    pub(crate) async fn carry(
        &self,
        url: &str,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), HttpFault> {
        let url = Url::parse(url).map_err(|_| HttpFault::Address)?;
        let mut request = self.client(&url, false)?.post(url).body(body);
        for (name, value) in headers {
            // Whatever it is, it may be a key.
            let mut value = HeaderValue::from_str(&value).map_err(|_| HttpFault::Header)?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let answered = async {
            let mut response = request.send().await.map_err(|error| self.unsent(error))?;
            let status = response.status().as_u16();
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(|error| HttpFault::Broken {
                cause: root_cause(error),
            })? {
                body.extend_from_slice(&piece);
                if body.len() > bounds::ERROR_BODY {
                    body.truncate(bounds::ERROR_BODY);
                    break;
                }
            }
            Ok((status, body))
        };
        let answered = tokio::time::timeout(bounds::TOKEN_TIME, answered).await;
        answered.unwrap_or(Err(HttpFault::FirstByte(bounds::TOKEN_TIME)))
    }

    /// Sends a call and waits for the head of its answer.
    pub(crate) async fn post(&self, post: Post<'_>, limits: Limits) -> Result<Answer, HttpFault> {
        let began = Instant::now();
        let url = Url::parse(post.url).map_err(|_| HttpFault::Address)?;
        let client = self.client(&url, false)?;
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static(post.accept));
        for (name, value) in post.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| HttpFault::Header)?;
            let value = HeaderValue::from_str(value).map_err(|_| HttpFault::Header)?;
            headers.insert(name, value);
        }
        for (name, secret) in post.proof {
            headers.insert(name, sensitive(&secret)?);
        }
        let sent = client.post(url).headers(headers).body(post.body).send();
        let wait = limits.connect.saturating_add(limits.first_byte);
        let response = match tokio::time::timeout(wait.min(limits.total), sent).await {
            Err(_) => return Err(HttpFault::FirstByte(limits.first_byte)),
            Ok(Err(error)) => return Err(self.unsent(error)),
            Ok(Ok(response)) => response,
        };
        let header = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(one_line(value, 100))
        };
        let packed = header("content-encoding").filter(|how| !how.eq_ignore_ascii_case("identity"));
        if let Some(how) = packed.filter(|how| !how.trim().is_empty()) {
            return Err(HttpFault::Packed(how));
        }
        let media = header("content-type").unwrap_or_default().to_lowercase();
        Ok(Answer {
            status: response.status().as_u16(),
            hints: Hints {
                retry_after: header("retry-after"),
                retry_after_ms: header("retry-after-ms"),
                should_retry: header("x-should-retry"),
                kind: header("x-amzn-errortype"),
            },
            media: media
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned(),
            response,
            limits,
            began,
            first: true,
            content: false,
            window: (Instant::now(), 0),
        })
    }

    fn unsent(&self, error: reqwest::Error) -> HttpFault {
        if error.is_connect() && error.is_timeout() {
            return HttpFault::ConnectTime(self.limits.connect);
        }
        let connect = error.is_connect();
        let cause = root_cause(error);
        if connect {
            HttpFault::Connect { cause }
        } else {
            HttpFault::Broken { cause }
        }
    }
}

impl Answer {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, HttpFault> {
        let spent = self.began.elapsed();
        let left = self.limits.total.saturating_sub(spent);
        let quiet = if self.first {
            self.limits.first_byte.saturating_sub(spent)
        } else {
            self.limits.idle
        };
        let content = match self.content {
            true => Duration::MAX,
            false => self.limits.first_content.saturating_sub(spent),
        };
        if !self.first && content.is_zero() {
            return Err(HttpFault::FirstContent(self.limits.first_content));
        }
        let wait = quiet.min(left).min(content);
        match tokio::time::timeout(wait, self.response.chunk()).await {
            Err(_) if left <= quiet.min(content) => Err(HttpFault::Total(self.limits.total)),
            Err(_) if content < quiet => Err(HttpFault::FirstContent(self.limits.first_content)),
            Err(_) if self.first => Err(HttpFault::FirstByte(self.limits.first_byte)),
            Err(_) => Err(HttpFault::Idle(self.limits.idle)),
            Ok(Err(error)) => Err(HttpFault::Broken {
                cause: root_cause(error),
            }),
            Ok(Ok(piece)) => {
                self.first = false;
                let piece = piece.map(|bytes| bytes.to_vec());
                if let Some(bytes) = &piece {
                    self.pace(bytes.len())?;
                }
                Ok(piece)
            }
        }
    }

    /// Counts what came: a drip that is never silent for long holds a session for an hour otherwise.
    fn pace(&mut self, bytes: usize) -> Result<(), HttpFault> {
        let (since, counted) = &mut self.window;
        *counted = counted.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if since.elapsed() < self.limits.slow_window {
            return Ok(());
        }
        if *counted < self.limits.slow_bytes {
            return Err(HttpFault::Slow {
                bytes: self.limits.slow_bytes,
                window: self.limits.slow_window,
            });
        }
        self.window = (Instant::now(), 0);
        Ok(())
    }

    /// What there is of an error body, up to its bound; a body that breaks off is what it is.
    pub(crate) async fn error_body(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < bounds::ERROR_BODY {
            match self.next().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) | Err(_) => break,
            }
        }
        body.truncate(bounds::ERROR_BODY);
        body
    }
}

/// Key material as a header's value, which is never shown.
fn sensitive(secret: &Secret) -> Result<HeaderValue, HttpFault> {
    let value = HeaderValue::from_str(secret.expose());
    let mut value = value.map_err(|_| HttpFault::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

fn build(limits: Limits, direct: bool) -> Result<Client, HttpFault> {
    let builder = Client::builder()
        .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(limits.connect)
        .pool_idle_timeout(Duration::from_secs(30))
        .pool_max_idle_per_host(4);
    let builder = if direct { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| HttpFault::Setup {
        cause: root_cause(error),
    })
}

/// The innermost cause: what the system said, without the address.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    one_line(&cause.to_string(), 200)
}
