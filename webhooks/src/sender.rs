//! HTTP sender of a single attempt.
//!
//! The client does as little as possible: no proxies, no redirects, no cookies, no decompression,
//! no retries. Whether a URL is allowed and whether to retry is decided elsewhere.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, redirect};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls_platform_verifier::Verifier;
use tokio::time::{Instant, timeout};

use super::address::AddressRefused;
use super::request::WebhookRequest;
use super::resolver::{CheckedResolver, Unresolved};
use super::retry::{DeliveryError, retry_after};
use super::url::CheckedUrl;

/// The `User-Agent` of every call.
const USER_AGENT: &str = concat!("openclaw-a2a/", env!("CARGO_PKG_VERSION"));

/// The answer's body is read only to keep the connection, which is not worth a longer wait.
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// Error texts of other programs are truncated to this length.
const MAX_REASON_CHARS: usize = 200;

/// The sender cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No certificates to trust, or unusable ones.
    #[error("cannot set up TLS for webhooks")]
    Tls(#[source] rustls::Error),
    /// The HTTP client.
    #[error("cannot set up the HTTP client for webhooks")]
    Client(#[source] reqwest::Error),
}

/// The client and its bounds.
#[derive(Debug)]
pub(super) struct Sender {
    client: Client,
    timeout: Duration,
    max_response_bytes: usize,
}

impl Sender {
    pub(super) fn new(
        resolver: CheckedResolver,
        extra_roots: &[CertificateDer<'static>],
        timeout: Duration,
        max_response_bytes: usize,
    ) -> Result<Self, SetupError> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls(extra_roots).map_err(SetupError::Tls)?)
            .dns_resolver(Arc::new(resolver))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .user_agent(USER_AGENT)
            // Kept for the next update of the same task.
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(Duration::from_secs(10))
            .build()
            .map_err(SetupError::Client)?;
        Ok(Self { client, timeout, max_response_bytes })
    }

    /// Sends the call once, within the deadline.
    pub(super) async fn attempt(
        &self,
        url: &CheckedUrl,
        call: &WebhookRequest,
    ) -> Result<(), DeliveryError> {
        let start = Instant::now();
        let request =
            self.client.post(url.to_url()).headers(call.headers()).body(call.body.clone());
        let response = timeout(self.timeout, request.send())
            .await
            .map_err(|_| DeliveryError::Timeout)?
            .map_err(|error| describe(&error))?;
        let status = response.status();
        let pause = response.headers().get(RETRY_AFTER);
        let pause = pause.and_then(|value| retry_after(value.to_str().ok()?, Utc::now()));
        // The status is the answer: a body that is too long, too slow or broken changes nothing.
        let left = self.timeout.saturating_sub(start.elapsed());
        let drained = timeout(left.min(DRAIN_TIME), self.drain(response)).await;
        drop(drained);
        if status.is_success() {
            return Ok(());
        }
        Err(DeliveryError::Status { status: status.as_u16(), retry_after: pause })
    }

    /// Reads and discards a short body, so that the connection can be used again. Of a long one
    /// the rest is not read, which closes the connection.
    async fn drain(&self, mut response: Response) {
        let mut left = self.max_response_bytes;
        let announced = response.content_length().unwrap_or_default();
        if announced > left as u64 {
            return;
        }
        while let Ok(Some(chunk)) = response.chunk().await {
            match left.checked_sub(chunk.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }
}

/// TLS 1.2 and 1.3 with ring, trusting what the system trusts and the roots given.
fn tls(extra_roots: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra_roots.to_vec(), Arc::clone(&provider))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The error without the URL, which the HTTP client's own text repeats.
fn describe(error: &reqwest::Error) -> DeliveryError {
    let mut deepest: &(dyn Error + 'static) = error;
    while let Some(source) = deepest.source() {
        deepest = source;
        if let Some(refused) = deepest.downcast_ref::<AddressRefused>() {
            return DeliveryError::Address(*refused);
        }
        if let Some(unresolved) = deepest.downcast_ref::<Unresolved>() {
            return DeliveryError::Name(reason(&unresolved.to_string()));
        }
    }
    if error.is_timeout() {
        return DeliveryError::Timeout;
    }
    let reason = reason(&deepest.to_string());
    if error.is_connect() { DeliveryError::Connect(reason) } else { DeliveryError::Broken(reason) }
}

/// One short line, whatever a certificate or a name server put into it.
fn reason(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        let long = format!("a\r\nb\u{1b}[2J{}", "x".repeat(1000));
        let reason = reason(&long);
        assert_eq!(reason.chars().count(), MAX_REASON_CHARS);
        assert!(reason.starts_with("a  b [2Jx"), "{reason}");
    }
}
