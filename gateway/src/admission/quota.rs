//! Quotas on what callers hold of the server: open streams, waiting calls, unread bytes of
//! responses. Each is bounded per caller and in all, and has an error and metrics of its own.
//!
//! Working requests are bounded by the permits of the guard instead: a call that begins to wait
//! releases its permit and holds a share of the waiting calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use a2a_protocol::fault::Fault;
use actix_web::http::StatusCode;
use parking_lot::Mutex;

use crate::HttpSettings;
use crate::problem::{problem, refuse};

/// `Retry-After` of a refusal: shares are released at any moment.
const RETRY_AFTER_MS: u64 = 1_000;

/// The resource that a quota bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Responses without an end.
    Streams,
    /// Calls whose response waits for an event.
    Waiting,
    /// Bytes of responses that the caller has not read yet.
    Unread,
}

/// All quotas of the edge.
#[derive(Debug)]
pub struct Quotas {
    /// Open streams.
    pub streams: Quota,
    /// Waiting calls.
    pub waiting: Quota,
    /// Unread bytes of responses.
    pub unread: Quota,
}

/// A limit on one resource, per caller and in all.
#[derive(Debug)]
pub struct Quota {
    resource: Resource,
    most: usize,
    most_per_caller: usize,
    held: Arc<Usage>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Usage {
    total: AtomicUsize,
    per_caller: Mutex<HashMap<String, usize>>,
}

/// The quota is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    resource: Resource,
    /// The limit per caller; `None` where the total was exhausted.
    own: Option<usize>,
}

/// A share of a quota, released on drop.
#[derive(Debug)]
pub struct Share {
    held: Arc<Usage>,
    caller: Option<String>,
    amount: usize,
}

impl Resource {
    /// Its label in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Waiting => "waiting_calls",
            Self::Unread => "unread_bytes",
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Streams => "too_many_streams",
            Self::Waiting => "too_many_waiting",
            Self::Unread => "too_much_unread",
        }
    }
}

impl std::error::Error for Exceeded {}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.resource, self.own) {
            (Resource::Streams, None) => {
                f.write_str("Too many streams are open already. Try again when one of them has ended.")
            }
            (Resource::Streams, Some(most)) => {
                write!(f, "You have {most} streams open already. Close one of them first.")
            }
            (Resource::Waiting, None) => f.write_str(
                "Too many calls are waiting already. Ask without waiting, or try again in a moment.",
            ),
            (Resource::Waiting, Some(most)) => write!(
                f,
                "{most} of your calls are waiting already. Let one of them end first, or ask without waiting."
            ),
            (Resource::Unread, None) => f.write_str(
                "Too many bytes of answers wait to be read by their callers. Try again in a moment.",
            ),
            (Resource::Unread, Some(most)) => write!(
                f,
                "More than {most} bytes of answers wait to be read by you. Read them, then ask again."
            ),
        }
    }
}

impl Exceeded {
    /// 429 where the caller can free the resource, 503 where it cannot.
    fn status(self) -> StatusCode {
        match self.own {
            Some(_) => StatusCode::TOO_MANY_REQUESTS,
            None => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The refusal as a response.
    pub(crate) fn answer(self) -> actix_web::HttpResponse {
        problem(self.status(), self.resource.code(), &self.to_string())
    }
}

impl From<Exceeded> for actix_web::Error {
    fn from(error: Exceeded) -> Self {
        refuse(error.status(), error.resource.code(), &error.to_string())
    }
}

impl From<Exceeded> for Fault {
    fn from(error: Exceeded) -> Self {
        let reason = format!("{}: {error}", error.resource.code());
        match error.own {
            Some(_) => Self::RateLimited { reason, retry_after_ms: RETRY_AFTER_MS },
            None => Self::Unavailable { reason, retry_after_ms: RETRY_AFTER_MS },
        }
    }
}

impl Quotas {
    /// With the limits of the settings.
    #[must_use]
    pub fn new(settings: &HttpSettings) -> Self {
        let quota = Quota::new;
        Self {
            streams: quota(Resource::Streams, settings.streams, settings.streams_per_caller),
            waiting: quota(Resource::Waiting, settings.waiting, settings.waiting_per_caller),
            unread: quota(Resource::Unread, settings.unread, settings.unread_per_caller),
        }
    }

    /// Every quota.
    pub(crate) fn all(&self) -> [&Quota; 3] {
        [&self.streams, &self.waiting, &self.unread]
    }
}

impl Quota {
    /// A limit in all, and per caller.
    #[must_use]
    pub fn new(resource: Resource, most: usize, most_per_caller: usize) -> Self {
        let (held, refused) = Default::default();
        Self { resource, most, most_per_caller, held, refused }
    }

    /// The bounded resource.
    #[must_use]
    pub fn resource(&self) -> Resource {
        self.resource
    }

    /// How much is held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.total.load(Relaxed)
    }

    /// How many requests for a share were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Takes a share of this amount. With `caller` `None`, where callers share one key, only the
    /// total counts.
    ///
    /// # Errors
    /// When the quota of the caller or the total is exhausted.
    pub fn take(&self, caller: Option<String>, amount: usize) -> Result<Share, Exceeded> {
        let exceeded = |own| {
            self.refused.fetch_add(1, Relaxed);
            Err(Exceeded { resource: self.resource, own })
        };
        if let Some(name) = &caller {
            let mut held = self.held.lock();
            let of_caller = held.get(name).copied().unwrap_or_default();
            if of_caller.saturating_add(amount) > self.most_per_caller {
                return exceeded(Some(self.most_per_caller));
            }
            held.insert(name.clone(), of_caller + amount);
        }
        let before = self.held.total.fetch_add(amount, Relaxed);
        let share = Share { held: Arc::clone(&self.held), caller, amount };
        // Dropping the share undoes it.
        if before.saturating_add(amount) > self.most { exceeded(None) } else { Ok(share) }
    }
}

impl Usage {
    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, usize>> {
        self.per_caller.lock()
    }
}

impl Share {
    /// Releases part of it, and no more than is left.
    pub(crate) fn release(&mut self, amount: usize) {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        self.held.total.fetch_sub(amount, Relaxed);
        let Some(caller) = &self.caller else { return };
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(caller) {
            *count -= amount;
            if *count == 0 {
                held.remove(caller);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_in_all_and_for_each_and_given_back() {
        let quota = Quota::new(Resource::Streams, 4, 2);
        let of = |name: &str| quota.take(Some(name.to_owned()), 1);
        let first = of("agent:a").unwrap();
        let _second = of("agent:a").unwrap();
        assert_eq!(of("agent:a").unwrap_err().own, Some(2));
        let third = of("agent:b").unwrap();
        let fourth = quota.take(None, 1).unwrap();
        assert_eq!(quota.take(None, 1).unwrap_err().own, None);
        assert_eq!(of("agent:c").unwrap_err().own, None);
        drop((first, fourth));
        let _fifth = of("agent:a").unwrap();
        drop(third);
        assert_eq!(quota.held.lock().len(), 1, "who left is forgotten");
        assert_eq!((quota.held(), quota.refused()), (2, 3));
    }

    #[test]
    fn a_share_shrinks_as_it_is_used() {
        let quota = Quota::new(Resource::Unread, 100, 60);
        let mut share = quota.take(Some("client:acme".into()), 60).unwrap();
        assert!(quota.take(Some("client:acme".into()), 1).is_err());
        share.release(20);
        share.release(0);
        let _more = quota.take(Some("client:acme".into()), 20).unwrap();
        share.release(1_000);
        assert_eq!(quota.held(), 20);
        drop(share);
        assert_eq!(quota.held(), 20);
    }
}
