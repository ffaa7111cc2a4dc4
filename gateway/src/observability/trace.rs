//! The trace of a request, as its headers say it: `traceparent` and `tracestate` of W3C Trace
//! Context. What is not valid is none, never an error.

use std::sync::Arc;

use a2a_actors::Submission;
use a2a_protocol::Trace;
use actix_web::http::header::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The trace that a caller gave, if it gave one.
pub(crate) fn given(headers: &HeaderMap) -> Option<Arc<Trace>> {
    let mut parents = headers.get_all(TRACEPARENT);
    // Two of them would leave open which is meant.
    let parent = parents.next().filter(|_| parents.next().is_none())?.to_str().ok()?;
    // It may come in parts, which are one list.
    let states: Option<Vec<&str>> =
        headers.get_all(TRACESTATE).map(|value| value.to_str().ok()).collect();
    let state = states.filter(|states| !states.is_empty()).map(|states| states.join(","));
    Trace::read(parent, state.as_deref()).map(Arc::new)
}

/// Tells the span of the request which trace its message belongs to, where none was given.
pub(crate) fn noted(parcel: Submission) -> Submission {
    let span = tracing::Span::current();
    if !span.is_disabled()
        && let Some(id) = parcel.trace_id()
    {
        span.record("trace", tracing::field::display(id));
    }
    parcel
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(given_headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in given_headers {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        given(&headers).map(|trace| trace.to_string())
    }

    #[test]
    fn headers_say_one_trace_or_none() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("traceparent", PARENT)]).as_deref(), Some(PARENT));
        assert_eq!(read(&[("tracestate", "a=b")]), None);
        assert_eq!(read(&[("traceparent", "x"), ("tracestate", "a=b")]), None);
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
        let both = [("traceparent", PARENT), ("tracestate", "a=b"), ("tracestate", "c=d")];
        assert_eq!(read(&both), Some(format!("{PARENT} a=b,c=d")));
        let odd = [("traceparent", PARENT), ("tracestate", "nothing")];
        assert_eq!(read(&odd).as_deref(), Some(PARENT));
    }
}
