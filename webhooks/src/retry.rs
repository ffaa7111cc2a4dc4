//! Errors of an attempt, and the decision to retry with backoff, drop, or disable.
//!
//! Pure: clock and randomness are arguments. The text of an error is for the operator's log. It
//! holds no secret, but it shows what the network answered, so it is not for the client that
//! registered the webhook.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::WebhookSettings;
use super::address::AddressRefused;
use super::limiter::Busy;
use super::url::UrlRefused;

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The URL may not be called, whatever it may have been when it was registered.
    #[error("the webhook's URL is refused: {0}")]
    Url(#[from] UrlRefused),
    /// The host name resolved to a refused address.
    #[error("the webhook's host is refused: {0}")]
    Address(#[from] AddressRefused),
    /// Too many deliveries wait for the host or the owner.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The host name could not be resolved.
    #[error("{0}")]
    Name(String),
    /// No connection, or no TLS.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// No response in time.
    #[error("the receiver did not answer in time")]
    Timeout,
    /// The connection broke, or what came back was not HTTP.
    #[error("the exchange broke off: {0}")]
    Broken(String),
    /// An answer other than success.
    #[error("the receiver answered with status {status}")]
    Status {
        /// The status code.
        status: u16,
        /// `Retry-After` of the receiver; `None` without the header.
        retry_after: Option<Duration>,
    },
}

/// Decision after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Another attempt, after a pause.
    Retry {
        /// The pause.
        after: Duration,
    },
    /// This notification is not delivered; later ones are tried.
    GiveUp,
    /// The receiver is gone for good: the push config is disabled.
    Disable,
}

impl DeliveryError {
    /// Whether another attempt could succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Url(_) | Self::Address(_) => false,
            Self::Busy(_) | Self::Name(_) | Self::Connect(_) | Self::Timeout | Self::Broken(_) => {
                true
            }
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Decides between retry, drop and disable after a failed attempt; the first is number 1. `random`
/// is a uniformly distributed number, for the jitter.
#[must_use]
pub fn after_failure(
    attempt: u32,
    error: &DeliveryError,
    settings: &WebhookSettings,
    random: u32,
) -> RetryDecision {
    if matches!(error, DeliveryError::Status { status: 410, .. }) {
        return RetryDecision::Disable;
    }
    if !error.is_temporary() || attempt >= settings.attempts.get() {
        return RetryDecision::GiveUp;
    }
    let asked = error.retry_after().unwrap_or_default();
    let asked = asked.min(settings.longest_retry_after);
    let after = pause_after(attempt, settings, random).max(asked);
    RetryDecision::Retry { after }
}

/// The pause after an attempt (the first is number 1): four times the one before, up to the
/// longest, and of that between a half and the whole, so that receivers that failed together are
/// not called together.
#[must_use]
pub fn pause_after(attempt: u32, settings: &WebhookSettings, random: u32) -> Duration {
    let factor = 4_u32.saturating_pow(attempt.saturating_sub(1));
    let whole = settings.initial_backoff.saturating_mul(factor);
    let half = whole.min(settings.max_backoff) / 2;
    half.saturating_add(half.mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

/// The seconds or the date of a `Retry-After` header; what cannot be read is ignored.
pub(super) fn retry_after(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a number holds are as good as the most it holds.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = DateTime::parse_from_rfc2822(value).ok()?;
    let wait = date.with_timezone(&Utc) - now;
    Some(wait.to_std().unwrap_or_default())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::address::AddressKind;
    use std::net::Ipv4Addr;

    fn status(status: u16) -> DeliveryError {
        let retry_after = None;
        DeliveryError::Status { status, retry_after }
    }

    #[test]
    fn what_follows_from_each_status() {
        let settings = WebhookSettings::default();
        for temporary in [408, 425, 429, 500, 502, 503, 504, 599] {
            let decision = after_failure(1, &status(temporary), &settings, 0);
            assert!(matches!(decision, RetryDecision::Retry { .. }), "{temporary}");
        }
        let lasting =
            [101, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 413, 422, 600];
        for lasting in lasting {
            assert_eq!(
                after_failure(1, &status(lasting), &settings, 0),
                RetryDecision::GiveUp,
                "{lasting}"
            );
        }
        assert_eq!(after_failure(1, &status(410), &settings, 0), RetryDecision::Disable);
    }

    #[test]
    fn what_follows_from_each_failure() {
        let settings = WebhookSettings::default();
        let refused =
            AddressRefused { address: Ipv4Addr::LOCALHOST.into(), kind: AddressKind::Loopback };
        for lasting in [refused.into(), DeliveryError::Url(UrlRefused::Scheme)] {
            assert_eq!(after_failure(1, &lasting, &settings, 0), RetryDecision::GiveUp);
        }
        let text = || "because".to_owned();
        let temporary = [
            DeliveryError::Busy(Busy::Host),
            DeliveryError::Busy(Busy::Owner),
            DeliveryError::Name(text()),
            DeliveryError::Connect(text()),
            DeliveryError::Timeout,
            DeliveryError::Broken(text()),
        ];
        for error in temporary {
            let decision = after_failure(1, &error, &settings, 0);
            assert!(matches!(decision, RetryDecision::Retry { .. }), "{error}");
        }
    }

    #[test]
    fn attempts_end() {
        let settings = WebhookSettings::default();
        let last = settings.attempts.get();
        let before = after_failure(last - 1, &DeliveryError::Timeout, &settings, 0);
        assert!(matches!(before, RetryDecision::Retry { .. }));
        assert_eq!(
            after_failure(last, &DeliveryError::Timeout, &settings, 0),
            RetryDecision::GiveUp
        );
        assert_eq!(
            after_failure(u32::MAX, &DeliveryError::Timeout, &settings, 0),
            RetryDecision::GiveUp
        );
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let settings = WebhookSettings {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(100),
            ..WebhookSettings::default()
        };
        let longest = |attempt| pause_after(attempt, &settings, u32::MAX).as_secs_f64();
        let shortest = |attempt| pause_after(attempt, &settings, 0).as_secs_f64();
        let whole = [1.0, 4.0, 16.0, 64.0, 100.0, 100.0];
        for (attempt, whole) in (1..).zip(whole) {
            assert!((longest(attempt) - whole).abs() < 1e-6, "{attempt}");
            assert!((shortest(attempt) - whole / 2.0).abs() < 1e-6, "{attempt}");
        }
        assert!((longest(u32::MAX) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_up_to_a_bound() {
        let settings = WebhookSettings::default();
        let asking = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            let error = DeliveryError::Status { status: 429, retry_after };
            match after_failure(1, &error, &settings, u32::MAX) {
                RetryDecision::Retry { after } => after,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(asking(0), pause_after(1, &settings, u32::MAX));
        assert_eq!(asking(120), Duration::from_secs(120));
        assert_eq!(asking(u64::MAX), settings.longest_retry_after);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        let read = |value| retry_after(value, now);
        assert_eq!(read("120"), Some(Duration::from_secs(120)));
        assert_eq!(read(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(read("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        let date = "Mon, 16 Nov 2026 12:01:00 GMT";
        assert_eq!(read(date), Some(Duration::from_secs(60)));
        let past = "Mon, 16 Nov 2026 11:59:00 GMT";
        assert_eq!(read(past), Some(Duration::ZERO));
        for nonsense in ["", "-1", "soon", "1.5", "0x10", "Mon, 99 Nov 2026 12:01:00 GMT"] {
            assert_eq!(read(nonsense), None, "{nonsense:?}");
        }
    }
}
