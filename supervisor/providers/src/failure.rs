//! Why a model call failed: one closed list of classes, and one sentence that holds no key.

use crate::Limit;

/// What kind of failure, by what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The request is at fault.
    Client,
    /// The conversation is longer than the model's window.
    ContextTooLong,
    /// No key, or one that is not accepted.
    Authentication,
    /// Too many requests; waiting helps.
    RateLimit,
    /// The account's money or contract is used up; waiting does not help.
    Quota,
    /// The provider could not be reached, or its answer broke off.
    Network,
    /// The provider is there and cannot serve.
    Overload,
    /// The provider refuses the content.
    Refusal,
    /// Anything else.
    Other,
}

impl Class {
    /// The word used in records and over the link.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::ContextTooLong => "context_too_long",
            Self::Authentication => "authentication",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Network => "network",
            Self::Overload => "overload",
            Self::Refusal => "refusal",
            Self::Other => "other",
        }
    }

    /// Whether the same request to the same provider may go well later.
    #[must_use]
    pub fn retryable(self) -> bool {
        matches!(self, Self::RateLimit | Self::Network | Self::Overload)
    }

    /// Whether it counts against the provider's breaker: what the provider did, not what we sent.
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Self::Network | Self::Overload)
    }
}

/// A model call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InferError {
    /// What kind.
    pub class: Class,
    /// Whether the same request may go well later.
    pub retryable: bool,
    /// For people: masked, one line, bounded.
    pub message: String,
    /// The provider's advice, or the breaker's, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The provider took the request and sent no byte of an answer: asking it again only multiplies the
    /// wait, another one may be quicker.
    pub silent: bool,
    /// Attempts that were made; 0 if no provider was touched.
    pub attempts: u32,
    /// Which limit of time was reached, if it was one.
    pub limit: Option<Limit>,
    /// The last provider was not asked at all: its breaker is open.
    pub untouched: bool,
}

impl InferError {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            retryable: class.retryable(),
            message: message.into(),
            retry_after_ms: None,
            silent: false,
            attempts: 0,
            limit: None,
            untouched: false,
        }
    }

    /// An answer that came whole and is not what was asked for; the same question may go better.
    #[must_use]
    pub fn damaged(message: impl Into<String>) -> Self {
        Self {
            attempts: 1,
            retryable: true,
            ..Self::new(Class::Other, message)
        }
    }

    /// The failure as the agent hears it.
    #[must_use]
    pub fn report(self, id: u64) -> protocol::InferFailure {
        protocol::InferFailure {
            id,
            class: self.class.as_str().to_owned(),
            retryable: self.retryable,
            message: self.message,
            retry_after_ms: self.retry_after_ms,
        }
    }
}

/// One line without control characters, cut to `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(max)
        .collect();
    if text.chars().nth(max).is_some() {
        line.push('…');
    }
    line
}
