//! A2A extensions: declares, activates and reports them, and removes from responses what belongs to
//! inactive ones.

use std::borrow::Cow;

use a2a_protocol::PROGRESS_EXTENSION;
use a2a_protocol::card::Extension;
use a2a_protocol::operation::{Operation, Reply, StreamEvent};
use a2a_protocol::opt::{OPT_EXTENSION, key, without_opt};
use a2a_protocol::wire::Version;
use actix_web::HttpRequest;
use actix_web::http::header::{HeaderName, HeaderValue};

/// Extensions read per request; further ones are ignored.
const MOST: usize = 32;

/// Extensions that the server has whether required or not.
const OWN: [&str; 2] = [PROGRESS_EXTENSION, OPT_EXTENSION];

/// The extensions as a card declares them; `required` are those that every caller must activate.
pub(super) fn declared(required: &[String]) -> Vec<Extension> {
    let own = [Extension::task_progress(), Extension::opt()]
        .map(|own| Extension { required: required.contains(&own.uri), ..own });
    let others = required.iter().filter(|uri| !OWN.contains(&uri.as_str()));
    let others = others.map(|uri| Extension {
        uri: uri.clone(),
        description: None,
        required: true,
        params: None,
    });
    others.chain(own).collect()
}

/// The extensions of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    active: Vec<String>,
    /// The one header that the caller named them in; `None` when it used neither or both.
    named_in: Option<HeaderName>,
}

/// The header of A2A 1.0, and that of 0.3.
const HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("a2a-extensions"), HeaderName::from_static("x-a2a-extensions")];

impl Extensions {
    /// The known extensions among those the request names.
    pub(super) fn of(request: &HttpRequest, required: &[String]) -> Self {
        let headers = request.headers();
        // 0.3 uses the prefix `X-`; both are accepted for either version.
        let named = HEADERS.into_iter().flat_map(|name| headers.get_all(name));
        let used = HEADERS.map(|name| headers.contains_key(&name).then_some(name));
        let named_in = match used {
            [Some(name), None] | [None, Some(name)] => Some(name),
            _ => None,
        };
        let uris = named.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        let mut active: Vec<String> = Vec::new();
        for uri in uris.map(str::trim).take(MOST) {
            let is_known = OWN.contains(&uri) || required.iter().any(|other| other == uri);
            if is_known && !active.iter().any(|other| other == uri) {
                active.push(uri.to_owned());
            }
        }
        Self { active, named_in }
    }

    /// Whether this one is active.
    pub(super) fn is_active(&self, uri: &str) -> bool {
        self.active.iter().any(|active| active == uri)
    }

    /// Whether progress is active.
    pub(super) fn show_progress(&self) -> bool {
        self.is_active(PROGRESS_EXTENSION)
    }

    /// Whether OPT is active.
    pub(super) fn show_opt(&self) -> bool {
        self.is_active(OPT_EXTENSION)
    }

    /// A message with OPT hints activates OPT without a header.
    pub(super) fn activate_for(&mut self, operation: &Operation) {
        let (Operation::SendMessage(send) | Operation::StreamMessage(send)) = operation else {
            return;
        };
        let Some(metadata) = &send.message.metadata else { return };
        let wishes = [key::OBJECTIVE, key::PREFER_OBJECTIVE, key::SUGGESTED_NAME];
        let wished = |key: &&str| metadata.get(*key).is_some_and(|value| !value.is_null());
        if wishes.iter().any(wished) && !self.show_opt() {
            self.active.push(OPT_EXTENSION.to_owned());
        }
    }

    /// Removes from a reply what belongs to inactive extensions.
    pub(super) fn veiled(&self, mut reply: Reply) -> Reply {
        if !self.show_progress() {
            reply.hide_extension(PROGRESS_EXTENSION);
        }
        if self.show_opt() { reply } else { reply.without_opt() }
    }

    /// Removes from an event what belongs to inactive extensions; `None` if nothing is left. The
    /// final event is kept if it has a task, because clients of 0.3 wait for it.
    pub(super) fn shown<'a>(
        &self,
        event: &'a StreamEvent,
        last: bool,
    ) -> Option<Cow<'a, StreamEvent>> {
        let event = match event {
            _ if self.show_opt() => Cow::Borrowed(event),
            StreamEvent::StatusUpdate(update) if last && event.is_opt_only() => {
                let mut update = update.clone();
                without_opt(&mut update.metadata);
                Cow::Owned(StreamEvent::StatusUpdate(update))
            }
            event => event.without_opt()?,
        };
        Some(if self.show_progress() { event } else { without_progress(event) })
    }

    /// The response header, under the name that the caller used, or that of its version if it used
    /// both; `None` when no extension is active.
    pub(super) fn header(&self, version: Version) -> Option<(HeaderName, HeaderValue)> {
        if self.active.is_empty() {
            return None;
        }
        let [current, legacy] = HEADERS;
        let name = self.named_in.clone().unwrap_or(match version {
            Version::V0_3 => legacy,
            Version::V1_0 => current,
        });
        HeaderValue::from_str(&self.active.join(", ")).ok().map(|value| (name, value))
    }
}

/// Copies only what has progress.
pub(super) fn without_progress(event: Cow<'_, StreamEvent>) -> Cow<'_, StreamEvent> {
    match event {
        Cow::Borrowed(event) => event.without_extension(PROGRESS_EXTENSION),
        Cow::Owned(event) => match event.without_extension(PROGRESS_EXTENSION) {
            Cow::Owned(plain) => Cow::Owned(plain),
            Cow::Borrowed(_) => Cow::Owned(event),
        },
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

    #[test]
    fn header_of_the_answer_has_the_name_that_the_caller_used() {
        for (sent, version) in [
            ("A2A-Extensions", Version::V0_3),
            ("X-A2A-Extensions", Version::V0_3),
            ("A2A-Extensions", Version::V1_0),
            ("X-A2A-Extensions", Version::V1_0),
        ] {
            let request = TestRequest::get().insert_header((sent, OPT_EXTENSION)).to_http_request();
            let (name, _) = Extensions::of(&request, &[]).header(version).unwrap();
            assert_eq!(name.as_str(), sent.to_lowercase());
        }
        let both = TestRequest::get()
            .insert_header((HEADERS[0].clone(), OPT_EXTENSION))
            .insert_header((HEADERS[1].clone(), OPT_EXTENSION));
        let both = Extensions::of(&both.to_http_request(), &[]);
        assert_eq!(both.header(Version::V0_3).unwrap().0, HEADERS[1]);
        assert_eq!(both.header(Version::V1_0).unwrap().0, HEADERS[0]);
        let activated_by_metadata =
            Extensions { active: vec![OPT_EXTENSION.to_owned()], named_in: None };
        let name = |version| activated_by_metadata.header(version).unwrap().0;
        assert_eq!(name(Version::V0_3).as_str(), "x-a2a-extensions");
        assert_eq!(name(Version::V1_0).as_str(), "a2a-extensions");
    }

    fn event(metadata: serde_json::Value) -> StreamEvent {
        serde_json::from_value(serde_json::json!({"statusUpdate": {
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003", "contextId": "c",
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-02-21T18:30:00Z"},
            "metadata": metadata,
        }}))
        .unwrap()
    }

    #[test]
    fn each_extension_is_hidden_by_itself_and_the_last_event_stays() {
        use serde_json::json;
        let (opt, progress) = (json!({"opt/v1/news": true}), json!({ PROGRESS_EXTENSION: {} }));
        let both = json!({ "opt/v1/planId": "p", PROGRESS_EXTENSION: {}, "k": 1 });
        let (none, all) = (None::<serde_json::Value>, OWN.as_slice());
        let cases = [
            (all, &both, false, Some(Some(both.clone()))),
            (&OWN[..1], &both, false, Some(Some(json!({ PROGRESS_EXTENSION: {}, "k": 1 })))),
            (&OWN[1..], &both, false, Some(Some(json!({"opt/v1/planId": "p", "k": 1})))),
            (&[][..], &both, false, Some(Some(json!({"k": 1})))),
            (&[][..], &progress, false, Some(none.clone())),
            (&[][..], &opt, false, None),
            (&[][..], &opt, true, Some(none)),
            (&OWN[1..], &opt, false, Some(Some(opt.clone()))),
        ];
        for (uris, metadata, last, expected) in cases {
            let active = uris.iter().map(|uri| (*uri).to_owned()).collect();
            let extensions = Extensions { active, named_in: None };
            let event = event(metadata.clone());
            let shown = extensions.shown(&event, last).map(|shown| {
                let StreamEvent::StatusUpdate(update) = shown.into_owned() else { panic!() };
                update.metadata.map(serde_json::Value::Object)
            });
            assert_eq!(shown, expected, "{uris:?} {metadata} {last}");
        }
    }
}
