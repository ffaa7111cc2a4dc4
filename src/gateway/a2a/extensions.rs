//! Which extensions are offered, which of them a caller activates, the header that says so, and
//! what a caller does not see of the others.

use std::borrow::Cow;

use a2a_protocol::PROGRESS_EXTENSION;
use a2a_protocol::card::Extension;
use a2a_protocol::limits::{
    PROGRESS_UPDATES_PER_SECOND, TRACKER_ID_CHARS, TRACKER_MESSAGE_CHARS, TRACKERS,
};
use a2a_protocol::operation::{Reply, StreamEvent};
use a2a_protocol::task::Metadata;
use a2a_protocol::wire::Version;
use actix_web::HttpRequest;
use actix_web::http::header::{HeaderName, HeaderValue};

/// How many a request may name; the rest is not looked at.
const MOST: usize = 32;

/// The extensions as a card declares them; `required` are those that every caller must activate.
pub(super) fn declared(required: &[String]) -> Vec<Extension> {
    let progress = Extension {
        uri: PROGRESS_EXTENSION.to_owned(),
        description: Some("Structured task progress reporting".to_owned()),
        required: required.iter().any(|uri| uri == PROGRESS_EXTENSION),
        params: Some(Metadata::from_iter([
            ("maxTrackers".to_owned(), TRACKERS.into()),
            ("maxMessageChars".to_owned(), TRACKER_MESSAGE_CHARS.into()),
            ("maxIdChars".to_owned(), TRACKER_ID_CHARS.into()),
            ("recommendedMaxUpdatesPerSecond".to_owned(), PROGRESS_UPDATES_PER_SECOND.into()),
        ])),
    };
    let others = required.iter().filter(|uri| *uri != PROGRESS_EXTENSION);
    let others = others.map(|uri| Extension {
        uri: uri.clone(),
        description: None,
        required: true,
        params: None,
    });
    others.chain([progress]).collect()
}

/// The extensions of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extensions(Vec<String>);

impl Extensions {
    /// Those that the request names and the server knows: its own, and those it requires.
    pub(super) fn of(request: &HttpRequest, required: &[String]) -> Self {
        let headers = request.headers();
        // 0.3 puts an X before it; both are read from everybody.
        let named = headers.get_all("a2a-extensions").chain(headers.get_all("x-a2a-extensions"));
        let uris = named.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        let mut active: Vec<String> = Vec::new();
        for uri in uris.map(str::trim).take(MOST) {
            let is_known = uri == PROGRESS_EXTENSION || required.iter().any(|other| other == uri);
            if is_known && !active.iter().any(|other| other == uri) {
                active.push(uri.to_owned());
            }
        }
        Self(active)
    }

    /// Whether this one is activated.
    pub(super) fn is_active(&self, uri: &str) -> bool {
        self.0.iter().any(|active| active == uri)
    }

    /// Whether the caller wants to know how far its tasks are.
    pub(super) fn show_progress(&self) -> bool {
        self.is_active(PROGRESS_EXTENSION)
    }

    /// Leaves out of an answer what the caller has not asked for.
    pub(super) fn veil(&self, reply: &mut Reply) {
        if !self.show_progress() {
            reply.hide_extension(PROGRESS_EXTENSION);
        }
    }

    /// An event without what the caller has not asked for.
    pub(super) fn shown<'a>(&self, event: &'a StreamEvent) -> Cow<'a, StreamEvent> {
        if self.show_progress() {
            return Cow::Borrowed(event);
        }
        event.without_extension(PROGRESS_EXTENSION)
    }

    /// The header of the answer; none when nothing is activated.
    pub(super) fn header(&self, version: Version) -> Option<(HeaderName, HeaderValue)> {
        if self.0.is_empty() {
            return None;
        }
        let name = match version {
            Version::V0_3 => HeaderName::from_static("x-a2a-extensions"),
            Version::V1_0 => HeaderName::from_static("a2a-extensions"),
        };
        HeaderValue::from_str(&self.0.join(", ")).ok().map(|value| (name, value))
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn known_ones_are_activated_once_by_either_header() {
        let known = ["urn:a".to_owned(), "urn:b".to_owned()];
        let request = TestRequest::get()
            .insert_header(("A2A-Extensions", "urn:a, urn:x,urn:a"))
            .insert_header(("X-A2A-Extensions", "urn:b"))
            .to_http_request();
        let extensions = Extensions::of(&request, &known);
        assert!(extensions.is_active("urn:a") && extensions.is_active("urn:b"));
        assert!(!extensions.is_active("urn:x"));
        let (name, value) = extensions.header(Version::V1_0).unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("a2a-extensions", "urn:a, urn:b"));
        assert!(Extensions::default().header(Version::V1_0).is_none());
    }
}
