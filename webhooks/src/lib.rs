//! Push notifications: one POST to a URL that somebody else chose.
//!
//! That somebody may be hostile, and so may the receiver. A URL is judged when it is registered, by
//! what can be seen in it ([`CheckedUrl`]), and again whenever a connection is made, by the
//! addresses that the connection uses. Every wait and every answer is bounded. This room sends;
//! it knows no tasks, decides nothing about who may register what, and stores nothing: whoever
//! calls [`Webhooks::deliver`] keeps the notification until [`next`] says that it is over.

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

/// Look-ups of host names at once; each holds a thread.
const LOOKUPS_AT_ONCE: usize = 32;

/// How webhooks are sent.
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
    pub first_pause: Duration,
    /// The longest pause that we choose.
    pub longest_pause: Duration,
    /// The longest pause that a receiver can ask for.
    pub longest_retry_after: Duration,
    /// Of an answer's body, no more than this is read.
    pub max_response_bytes: usize,
    /// Attempts at once.
    pub at_once: NonZeroUsize,
    /// Attempts at once for one owner: many names can lead to one slow receiver.
    pub at_once_per_owner: NonZeroUsize,
    /// Attempts at once for one owner to one host.
    pub at_once_per_host: NonZeroUsize,
    /// Attempts that may wait for a place of one owner.
    pub waiting_per_owner: usize,
    /// Attempts that may wait for a place at one host. Behind a host that never answers, the last
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

/// Sends push notifications.
#[derive(Debug)]
pub struct Webhooks {
    settings: WebhookSettings,
    gate: gate::Gate,
    sender: sender::Sender,
    ends: ends::Ends,
}

impl Webhooks {
    /// A sender that asks the system for addresses.
    ///
    /// # Errors
    /// If there are no certificates to trust.
    pub fn new(settings: WebhookSettings) -> Result<Self, SetupError> {
        Self::with_lookup(settings, Arc::new(SystemLookup::new(LOOKUPS_AT_ONCE)))
    }

    /// A sender that asks somebody else for addresses. What it is told is checked all the same.
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
        let gate = gate::Gate::new(&settings);
        Ok(Self { settings, gate, sender, ends: ends::Ends::default() })
    }

    /// How webhooks are sent.
    #[must_use]
    pub fn settings(&self) -> &WebhookSettings {
        &self.settings
    }

    /// How many calls ended so, as far as [`Self::count`] was told.
    #[must_use]
    pub fn calls(&self, end: CallEnd) -> u64 {
        self.ends.of(end)
    }

    /// Whoever calls and decides what follows says here what came of it.
    pub fn count(&self, end: CallEnd) {
        self.ends.count(end);
    }

    /// Judges a URL by what can be seen in it; asks no name server.
    ///
    /// # Errors
    /// [`UrlRefused`] says what is wrong with it.
    pub fn check(&self, url: &str) -> Result<CheckedUrl, UrlRefused> {
        CheckedUrl::parse(url, self.settings.allow_private)
    }

    /// One attempt. Waits for a place first; the time for the attempt begins after that.
    ///
    /// # Errors
    /// [`DeliveryError`] says what happened, and [`next`] what follows from it.
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
