//! W3C Trace Context of a request: `traceparent` and `tracestate`. An invalid header is ignored.

use std::sync::Arc;

use a2a_actors::Submission;
use a2a_protocol::Trace;
use actix_web::http::header::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The trace of the caller, if the request has a valid one.
pub(crate) fn given(headers: &HeaderMap) -> Option<Arc<Trace>> {
    let mut parents = headers.get_all(TRACEPARENT);
    // Two of them would be ambiguous.
    let parent = parents.next().filter(|_| parents.next().is_none())?.to_str().ok()?;
    // It may be split over several headers, which form one list.
    let states: Option<Vec<&str>> =
        headers.get_all(TRACESTATE).map(|value| value.to_str().ok()).collect();
    let state = states.filter(|states| !states.is_empty()).map(|states| states.join(","));
    Trace::read(parent, state.as_deref()).map(Arc::new)
}

/// Records the trace of the message in the span of the request, where the caller gave none.
pub(crate) fn record_in_span(submission: Submission) -> Submission {
    let span = tracing::Span::current();
    if !span.is_disabled()
        && let Some(id) = submission.trace_id()
    {
        span.record("trace", tracing::field::display(id));
    }
    submission
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
