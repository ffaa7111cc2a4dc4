//! Which extensions a caller activates, and the header that says which of them are.

use a2a_protocol::wire::Version;
use actix_web::HttpRequest;
use actix_web::http::header::{HeaderName, HeaderValue};

/// How many a request may name; the rest is not looked at.
const MOST: usize = 32;

/// The extensions of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extensions(Vec<String>);

impl Extensions {
    /// Those that the request names and the server knows.
    pub(super) fn of(request: &HttpRequest, known: &[String]) -> Self {
        let headers = request.headers();
        // 0.3 puts an X before it; both are read from everybody.
        let named = headers.get_all("a2a-extensions").chain(headers.get_all("x-a2a-extensions"));
        let uris = named.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        let mut active: Vec<String> = Vec::new();
        for uri in uris.map(str::trim).take(MOST) {
            if known.iter().any(|other| other == uri) && !active.iter().any(|other| other == uri) {
                active.push(uri.to_owned());
            }
        }
        Self(active)
    }

    /// Whether this one is activated.
    pub(super) fn is_active(&self, uri: &str) -> bool {
        self.0.iter().any(|active| active == uri)
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
