//! Push notifications: one POST to a URL that a client chose, with an SSRF guard.
//!
//! ```text
//! url       checks the text of a URL when it is registered, and before every attempt
//! resolver  resolves and checks the addresses of every connection (address: their classes)
//! limiter   permits per host, per owner and in all
//! request   one notification, and the headers that carry its secrets
//! sender    one attempt over HTTP, every wait and every response bounded
//! retry     errors of an attempt, and the decision to retry, drop or disable
//! counters  calls by outcome
//! ```
//!
//! The client may be hostile, and so may the receiver. This crate stores nothing and authorizes
//! no registration: the caller of [`Webhooks::deliver`] keeps the notification until
//! [`after_failure`] returns that it is over.

mod address;
mod counters;
mod limiter;
mod request;
mod resolver;
mod retry;
mod sender;
mod url;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

pub use self::url::{CheckedUrl, MAX_URL_BYTES, UrlRefused};
pub use address::{AddressKind, AddressRefused, kind_of};
pub use counters::DeliveryOutcome;
pub use limiter::Busy;
pub use request::{
    Authorization, ContentType, HeaderRefused, MAX_SCHEME_BYTES, MAX_SECRET_BYTES, NotificationId,
    NotificationToken, WebhookRequest,
};
pub use resolver::{Answer, Lookup, SystemLookup};
pub use retry::{DeliveryError, RetryDecision, after_failure, pause_after};
pub use sender::SetupError;

/// Concurrent look-ups of host names; each holds a thread.
const LOOKUPS_AT_ONCE: usize = 32;

/// Limits and deadlines of webhook calls.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Whether this machine and private networks may be called, names that are local to a network
    /// used, and `http` spoken. For tests and closed networks.
    pub allow_private: bool,
    /// For one attempt, from looking up the name to the status. A2A asks for 10 to 30 s.
    pub timeout: Duration,
    /// Attempts for one notification, the first included.
    pub attempts: NonZeroU32,
    /// The pause after the first attempt, at most; later ones are longer.
    pub initial_backoff: Duration,
    /// The longest pause that we choose.
    pub max_backoff: Duration,
    /// The longest pause that a receiver can ask for.
    pub longest_retry_after: Duration,
    /// Of an answer's body, no more than this is read.
    pub max_response_bytes: usize,
    /// Concurrent attempts in all.
    pub at_once: NonZeroUsize,
    /// Concurrent attempts of one owner: many names can resolve to one slow receiver.
    pub at_once_per_owner: NonZeroUsize,
    /// Concurrent attempts of one owner to one host.
    pub at_once_per_host: NonZeroUsize,
    /// Attempts that may wait for a permit of one owner.
    pub waiting_per_owner: usize,
    /// Attempts that may wait for a permit of one host. Behind a host that never answers, the last
    /// of them waits for `waiting_per_host / at_once_per_host` timeouts.
    pub waiting_per_host: usize,
    /// Certificates to trust besides those that the system trusts.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        const ATTEMPTS: NonZeroU32 = NonZeroU32::new(8).unwrap();
        const AT_ONCE: NonZeroUsize = NonZeroUsize::new(64).unwrap();
        const AT_ONCE_PER_OWNER: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        const AT_ONCE_PER_HOST: NonZeroUsize = NonZeroUsize::new(4).unwrap();
        Self {
            allow_private: false,
            timeout: Duration::from_secs(15),
            attempts: ATTEMPTS,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(300),
            longest_retry_after: Duration::from_secs(3600),
            max_response_bytes: 64 * 1024,
            at_once: AT_ONCE,
            at_once_per_owner: AT_ONCE_PER_OWNER,
            at_once_per_host: AT_ONCE_PER_HOST,
            waiting_per_owner: 1000,
            waiting_per_host: 100,
            extra_roots: Vec::new(),
        }
    }
}

/// Sends push notifications.
#[derive(Debug)]
pub struct Webhooks {
    settings: WebhookSettings,
    limiter: limiter::DeliveryLimiter,
    sender: sender::Sender,
    ends: counters::EndCounters,
}

impl Webhooks {
    /// A sender that resolves names with the system's resolver.
    ///
    /// # Errors
    /// If there are no certificates to trust.
    pub fn new(settings: WebhookSettings) -> Result<Self, SetupError> {
        Self::with_lookup(settings, Arc::new(SystemLookup::new(LOOKUPS_AT_ONCE)))
    }

    /// A sender with another resolver, whose addresses are checked all the same.
    ///
    /// # Errors
    /// If there are no certificates to trust.
    pub fn with_lookup(
        settings: WebhookSettings,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, SetupError> {
        let resolver = resolver::CheckedResolver::new(lookup, settings.allow_private);
        let sender = sender::Sender::new(
            resolver,
            &settings.extra_roots,
            settings.timeout,
            settings.max_response_bytes,
        )?;
        let limiter = limiter::DeliveryLimiter::new(&settings);
        Ok(Self { settings, limiter, sender, ends: counters::EndCounters::default() })
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &WebhookSettings {
        &self.settings
    }

    /// How many calls had this outcome, as counted by [`Self::count`].
    #[must_use]
    pub fn calls(&self, end: DeliveryOutcome) -> u64 {
        self.ends.of(end)
    }

    /// Counts the outcome of a call, which the caller decides from [`after_failure`].
    pub fn count(&self, end: DeliveryOutcome) {
        self.ends.count(end);
    }

    /// Checks the text of a URL; resolves nothing.
    ///
    /// # Errors
    /// [`UrlRefused`] with the reason.
    pub fn check(&self, url: &str) -> Result<CheckedUrl, UrlRefused> {
        CheckedUrl::parse(url, self.settings.allow_private)
    }

    /// One attempt. Waits for a permit first; the deadline of the attempt starts after that.
    ///
    /// # Errors
    /// [`DeliveryError`] with the cause; [`after_failure`] decides whether to retry.
    pub async fn deliver(&self, call: &WebhookRequest) -> Result<(), DeliveryError> {
        let url = self.check(&call.url)?;
        let _permit = self.limiter.acquire(&call.owner, url.host()).await?;
        let outcome = self.sender.attempt(&url, call).await;
        match &outcome {
            Ok(()) => tracing::debug!(id = %call.id.0, host = url.host(), "notification delivered"),
            Err(error) => tracing::debug!(
                id = %call.id.0, host = url.host(), %error, "notification not delivered"
            ),
        }
        outcome
    }
}
