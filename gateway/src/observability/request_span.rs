//! Outermost middleware: counts, times and traces every request.

use std::time::Instant;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web;
use tracing::Instrument;
use tracing::field::{Empty, display};

use crate::observability::http_metrics::{HttpMetrics, Route};
use crate::observability::trace;

/// Counts and times requests; wraps the whole application.
///
/// # Errors
/// Only errors of the application itself.
pub async fn observe<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> actix_web::Result<ServiceResponse<B>> {
    let begun = Instant::now();
    let route = Route::of(request.path());
    let http_metrics = request.app_data::<web::Data<HttpMetrics>>().cloned();
    let span = tracing::debug_span!(
        "request",
        method = %request.method(),
        route = route.as_str(),
        trace = Empty,
        status = Empty,
    );
    if !span.is_disabled()
        && let Some(given) = trace::given(request.headers())
    {
        span.record("trace", display(given.id()));
    }
    let answer = next.call(request).instrument(span.clone()).await;
    let status = match &answer {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    span.record("status", status.as_u16());
    if let Some(http_metrics) = http_metrics {
        http_metrics.answered(route, status, begun.elapsed());
    }
    answer
}
