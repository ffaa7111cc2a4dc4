//! One notification for one receiver, and the headers that carry its secrets.
//!
//! Secrets are held as header values marked sensitive: once made they can be sent, and neither
//! `Debug` nor an error shows them.

use std::fmt;

use a2a_protocol::Trace;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

/// The longest name of an authentication scheme.
pub const MAX_SCHEME_BYTES: usize = 64;

/// The longest credentials, and the longest token.
pub const MAX_SECRET_BYTES: usize = 4096;

/// What A2A 0.3 named, and what its Python and JavaScript libraries send for 1.0 too.
const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// What the Rust library sends for 1.0.
const TOKEN_PLAIN: HeaderName = HeaderName::from_static("a2a-notification-token");
/// W3C Trace Context.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const NOTIFICATION_ID: HeaderName = HeaderName::from_static("x-a2a-notification-id");

/// Why something cannot be sent as a header. Does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderRefused {
    /// Not the name of a scheme.
    #[error("the authentication scheme must be one word such as Bearer")]
    Scheme,
    /// Too long a name.
    #[error("the authentication scheme is longer than {MAX_SCHEME_BYTES} bytes")]
    SchemeTooLong,
    /// Not credentials that a header can hold.
    #[error("the credentials must be printable ASCII without spaces at the ends, and not empty")]
    Credentials,
    /// Too many of them.
    #[error("the credentials are longer than {MAX_SECRET_BYTES} bytes")]
    CredentialsTooLong,
    /// Not a token that a header can hold.
    #[error("the token must be printable ASCII without spaces at the ends, and not empty")]
    Token,
    /// Too long a token.
    #[error("the token is longer than {MAX_SECRET_BYTES} bytes")]
    TokenTooLong,
}

/// `Authorization: {scheme} {credentials}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization(HeaderValue);

impl Authorization {
    /// Scheme and credentials as they were registered.
    ///
    /// # Errors
    /// If a header cannot hold them.
    pub fn new(scheme: &str, credentials: &str) -> Result<Self, HeaderRefused> {
        if scheme.len() > MAX_SCHEME_BYTES {
            return Err(HeaderRefused::SchemeTooLong);
        }
        if scheme.is_empty() || !scheme.bytes().all(is_token_byte) {
            return Err(HeaderRefused::Scheme);
        }
        if credentials.len() > MAX_SECRET_BYTES {
            return Err(HeaderRefused::CredentialsTooLong);
        }
        if !is_printable(credentials) {
            return Err(HeaderRefused::Credentials);
        }
        let value = sensitive(&format!("{scheme} {credentials}"));
        value.map(Self).ok_or(HeaderRefused::Credentials)
    }
}

/// The token with which a receiver verifies that it asked for the notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationToken(HeaderValue);

impl NotificationToken {
    /// A token as it was registered.
    ///
    /// # Errors
    /// If a header cannot hold it.
    pub fn new(token: &str) -> Result<Self, HeaderRefused> {
        if token.len() > MAX_SECRET_BYTES {
            return Err(HeaderRefused::TokenTooLong);
        }
        if !is_printable(token) {
            return Err(HeaderRefused::Token);
        }
        sensitive(token).map(Self).ok_or(HeaderRefused::Token)
    }
}

/// Idempotency key: the same for every attempt of one notification, so that a receiver can drop
/// repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NotificationId(pub Uuid);

/// The form of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// A2A 0.3: a bare task.
    Json,
    /// A2A 1.0: a `StreamResponse`.
    A2aJson,
}

impl ContentType {
    /// The media type.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::A2aJson => "application/a2a+json",
        }
    }
}

/// One notification for one receiver.
#[derive(Clone)]
pub struct WebhookRequest {
    /// The idempotency key of the notification.
    pub id: NotificationId,
    /// The owner of the webhook, as a key of the limiter; not sent.
    pub owner: String,
    /// The URL; checked again before every attempt.
    pub url: String,
    /// The body.
    pub body: Bytes,
    /// The form of the body.
    pub content_type: ContentType,
    /// Credentials that the receiver asked for; `None` for no `Authorization` header.
    pub authorization: Option<Authorization>,
    /// Token that the receiver asked for; `None` when it registered none.
    pub token: Option<NotificationToken>,
    /// The trace it belongs to.
    pub trace: Option<Trace>,
}

impl WebhookRequest {
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(7);
        let content_type = HeaderValue::from_static(self.content_type.as_str());
        headers.insert(CONTENT_TYPE, content_type);
        // An id is letters, digits and hyphens, which any header can hold.
        if let Ok(id) = HeaderValue::from_str(&self.id.0.to_string()) {
            headers.insert(NOTIFICATION_ID, id);
        }
        if let Some(Authorization(value)) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        if let Some(NotificationToken(value)) = &self.token {
            headers.insert(TOKEN, value.clone());
            headers.insert(TOKEN_PLAIN, value.clone());
        }
        if let Some(trace) = &self.trace {
            // Hexadecimal digits, and a state that was printable when it was read.
            let parent = HeaderValue::from_str(&trace.traceparent()).ok();
            let state = trace.tracestate().and_then(|state| HeaderValue::from_str(state).ok());
            headers.extend(parent.map(|parent| (TRACEPARENT, parent)));
            headers.extend(state.map(|state| (TRACESTATE, state)));
        }
        headers
    }
}

/// The URL may hold secrets and the body is private: neither is shown.
impl fmt::Debug for WebhookRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookRequest")
            .field("id", &self.id)
            .field("bytes", &self.body.len())
            .field("content_type", &self.content_type)
            .field("authorization", &self.authorization)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether the text is a `token` of RFC 9110.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_printable(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn headers_cannot_be_forged() {
        let scheme = ["", " ", "Bearer ", "Bea rer", "Bearer\r\nX: y", "Bearer:", "Bärer", "B\0"];
        for bad in scheme {
            let refused = Authorization::new(bad, "secret").unwrap_err();
            assert_eq!(refused, HeaderRefused::Scheme, "{bad:?}");
        }
        let secrets = [
            "",
            " ",
            " a",
            "a ",
            "a\r\nX: y",
            "a\nb",
            "a\rb",
            "a\0b",
            "a\tb",
            "a\x7fb",
            "ä",
            "a\u{2028}b",
            "\u{1b}[2J",
        ];
        for bad in secrets {
            let refused = Authorization::new("Bearer", bad).unwrap_err();
            assert_eq!(refused, HeaderRefused::Credentials, "{bad:?}");
            let refused = NotificationToken::new(bad).unwrap_err();
            assert_eq!(refused, HeaderRefused::Token, "{bad:?}");
        }
    }

    #[test]
    fn every_limit_has_its_own_error() {
        let longest = "x".repeat(MAX_SECRET_BYTES);
        let longer = "x".repeat(MAX_SECRET_BYTES + 1);
        let scheme = "x".repeat(MAX_SCHEME_BYTES);
        assert!(Authorization::new(&scheme, &longest).is_ok());
        assert!(NotificationToken::new(&longest).is_ok());
        let refused = Authorization::new(&(scheme + "x"), "a").unwrap_err();
        assert_eq!(refused, HeaderRefused::SchemeTooLong);
        let refused = Authorization::new("Bearer", &longer).unwrap_err();
        assert_eq!(refused, HeaderRefused::CredentialsTooLong);
        let refused = NotificationToken::new(&longer).unwrap_err();
        assert_eq!(refused, HeaderRefused::TokenTooLong);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let call = WebhookRequest {
            id: NotificationId(Uuid::nil()),
            owner: "ann".into(),
            url: "https://example.com/hook?key=hidden-in-url".into(),
            body: Bytes::from_static(b"hidden-in-body"),
            content_type: ContentType::A2aJson,
            authorization: Some(Authorization::new("Bearer", "hidden-credentials").unwrap()),
            token: Some(NotificationToken::new("hidden-token").unwrap()),
            trace: None,
        };
        let shown = format!("{call:?} {call:#?}");
        assert!(shown.contains("A2aJson") && !shown.contains("hidden"), "{shown}");
        let headers = call.headers();
        assert_eq!(headers[AUTHORIZATION], "Bearer hidden-credentials");
        assert!(!format!("{headers:?}").contains("hidden"));
    }
}
