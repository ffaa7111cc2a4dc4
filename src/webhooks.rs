//! Webhook delivery: one POST of a notification to a URL that a caller registered.
//!
//! - Caller and receiver may be hostile. A URL is validated on registration ([`CheckedUrl`]), and
//!   its addresses are checked again for every connection, against SSRF.
//! - Every wait and every response is bounded.
//! - Nothing is stored here: the caller of [`Webhooks::deliver`] keeps the notification until
//!   [`next`] returns that there is no further attempt. Tasks and access rights are its business.

mod address;
mod call;
mod ends;
mod gate;
mod outcome;
mod resolver;
mod sender;
mod url;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

pub use self::url::{CheckedUrl, MAX_URL_BYTES, UrlRefused};
pub use address::{AddressKind, AddressRefused, kind_of};
pub use call::{
    Authorization, Call, ContentType, HeaderRefused, MAX_SCHEME_BYTES, MAX_SECRET_BYTES,
    NotificationId, NotificationToken,
};
pub use ends::CallEnd;
pub use gate::Busy;
pub use outcome::{DeliveryError, Next, next, pause_after};
pub use resolver::{Answer, Lookup, SystemLookup};
pub use sender::SetupError;

/// Concurrent lookups of host names; each blocks a thread.
const LOOKUPS_AT_ONCE: usize = 32;

/// Limits and timeouts of webhook delivery.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Whether loopback and private addresses, local names and `http` are allowed. For tests and
    /// closed networks.
    pub allow_private: bool,
    /// Timeout of one attempt, from name lookup to status. A2A recommends 10 to 30 s.
    pub timeout: Duration,
    /// Attempts per notification, including the first.
    pub attempts: NonZeroU32,
    /// The longest backoff after the first attempt; later ones are longer.
    pub first_pause: Duration,
    /// The longest backoff.
    pub longest_pause: Duration,
    /// The longest `Retry-After` that is respected.
    pub longest_retry_after: Duration,
    /// The most bytes read of a response body.
    pub max_response_bytes: usize,
    /// Concurrent attempts.
    pub at_once: NonZeroUsize,
    /// Concurrent attempts per owner: many host names can lead to one slow receiver.
    pub at_once_per_owner: NonZeroUsize,
    /// Concurrent attempts per owner and host.
    pub at_once_per_host: NonZeroUsize,
    /// Attempts that may wait for a permit of one owner.
    pub waiting_per_owner: usize,
    /// Attempts that may wait for a permit of one host. For a host that never responds, the last of
    /// them waits for `waiting_per_host / at_once_per_host` timeouts.
    pub waiting_per_host: usize,
    /// Root certificates to trust besides those of the system.
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
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
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

/// Client that delivers push notifications.
#[derive(Debug)]
pub struct Webhooks {
    settings: WebhookSettings,
    gate: gate::Gate,
    sender: sender::Sender,
    ends: ends::Ends,
}

impl Webhooks {
    /// A client with the system's resolver.
    ///
    /// # Errors
    /// When there are no root certificates.
    pub fn new(settings: WebhookSettings) -> Result<Self, SetupError> {
        Self::with_lookup(settings, Arc::new(SystemLookup::new(LOOKUPS_AT_ONCE)))
    }

    /// A client with another resolver, whose addresses are checked as well.
    ///
    /// # Errors
    /// When there are no root certificates.
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
        let gate = gate::Gate::new(&settings);
        Ok(Self { settings, gate, sender, ends: ends::Ends::default() })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &WebhookSettings {
        &self.settings
    }

    /// The number of attempts with each result, as counted by [`Self::count`].
    #[must_use]
    pub fn calls(&self, end: CallEnd) -> u64 {
        self.ends.of(end)
    }

    /// Counts the result of an attempt, which the caller decides from [`next`].
    pub fn count(&self, end: CallEnd) {
        self.ends.count(end);
    }

    /// Validates a URL without a name lookup.
    ///
    /// # Errors
    /// [`UrlRefused`] states the reason.
    pub fn check(&self, url: &str) -> Result<CheckedUrl, UrlRefused> {
        CheckedUrl::parse(url, self.settings.allow_private)
    }

    /// Makes one attempt. It waits for a permit first; the timeout starts after that.
    ///
    /// # Errors
    /// [`DeliveryError`] states the cause, and [`next`] whether to retry.
    pub async fn deliver(&self, call: &Call) -> Result<(), DeliveryError> {
        let url = self.check(&call.url)?;
        let _place = self.gate.enter(&call.owner, url.host()).await?;
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
