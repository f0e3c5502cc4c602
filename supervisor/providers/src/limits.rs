//! How long each part of a call may take, and which of these limits was reached. A provider's row may
//! set its own.

use std::time::Duration;

use protocol::bounds;
use serde::{Deserialize, Serialize};

/// How long each part of a call may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Name, connection and TLS.
    pub connect: Duration,
    /// From the request to the first byte of the answer's body.
    pub first_byte: Duration,
    /// From the request to the first content: text, reasoning or a call. Lifecycle events and
    /// keep-alives are none.
    pub first_content: Duration,
    /// Between two pieces of the body.
    pub idle: Duration,
    /// Within this time ...
    pub slow_window: Duration,
    /// ... at least so many bytes of the body must come, keep-alives included.
    pub slow_bytes: u64,
    /// The whole call.
    pub total: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: bounds::CONNECT_TIME,
            first_byte: bounds::FIRST_BYTE_TIME,
            first_content: bounds::FIRST_CONTENT_TIME,
            idle: bounds::STREAM_IDLE,
            slow_window: bounds::SLOW_WINDOW,
            slow_bytes: bounds::SLOW_BYTES,
            total: bounds::ANSWER_TIME,
        }
    }
}

/// A limit of time that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No connection.
    Connect,
    /// No byte.
    FirstByte,
    /// No content.
    FirstContent,
    /// Silence.
    Idle,
    /// Too few bytes.
    Slow,
    /// Not whole.
    Total,
}

impl Limit {
    /// The word of records and of the JSON outputs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first_byte",
            Self::FirstContent => "first_content",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Total => "total",
        }
    }

    /// Whether the provider was reached and let its time pass.
    #[must_use]
    pub fn is_late(self) -> bool {
        self != Self::Connect
    }
}

/// A row's own limits, in seconds; what it does not say is the general one. The limit of connecting
/// belongs to the connection pool and is the same for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RowLimits {
    /// First byte.
    pub first_byte: Option<f64>,
    /// First content.
    pub first_content: Option<f64>,
    /// Silence.
    pub idle: Option<f64>,
    /// Window of the guard against slow streams.
    pub slow_window: Option<f64>,
    /// Bytes that must come within it; 0 turns the guard off.
    pub slow_bytes: Option<u64>,
    /// The whole call.
    pub total: Option<f64>,
}

impl RowLimits {
    /// A newer word over an older one.
    #[must_use]
    pub(crate) fn merged(self, older: Self) -> Self {
        Self {
            first_byte: self.first_byte.or(older.first_byte),
            first_content: self.first_content.or(older.first_content),
            idle: self.idle.or(older.idle),
            slow_window: self.slow_window.or(older.slow_window),
            slow_bytes: self.slow_bytes.or(older.slow_bytes),
            total: self.total.or(older.total),
        }
    }

    /// What is wrong with them.
    pub(crate) fn check(&self) -> Result<(), String> {
        let all = [
            ("first_byte", self.first_byte),
            ("first_content", self.first_content),
            ("idle", self.idle),
            ("slow_window", self.slow_window),
            ("total", self.total),
        ];
        let most = bounds::ANSWER_TIME.as_secs_f64();
        for (name, seconds) in all {
            if seconds.is_some_and(|s| !s.is_finite() || s < 0.01 || s > most) {
                return Err(format!(
                    "limits.{name} is in seconds, from 0.01 to {most:.0}"
                ));
            }
        }
        Ok(())
    }

    /// These over the general ones.
    #[must_use]
    pub(crate) fn over(&self, general: Limits) -> Limits {
        // Checked when the row was read: finite and within an hour.
        let or = |own: Option<f64>, general: Duration| {
            own.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .unwrap_or(general)
        };
        Limits {
            connect: general.connect,
            first_byte: or(self.first_byte, general.first_byte),
            first_content: or(self.first_content, general.first_content),
            idle: or(self.idle, general.idle),
            slow_window: or(self.slow_window, general.slow_window),
            slow_bytes: self.slow_bytes.unwrap_or(general.slow_bytes),
            total: or(self.total, general.total),
        }
    }
}
