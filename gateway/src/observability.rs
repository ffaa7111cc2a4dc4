//! Observability: health checks, metrics, the span and the trace of each request.
//!
//! ```text
//! request_span   outermost middleware: counts and times every request, opens its span
//! http_metrics   the counters of the edge, and the phase of the server
//! metrics        GET /metrics, rendered by openmetrics; process reads /proc
//! health         GET /healthz and /readyz
//! trace          W3C Trace Context of a request
//! ```

pub(crate) mod health;
pub(crate) mod http_metrics;
pub(crate) mod metrics;
mod openmetrics;
mod process;
pub(crate) mod request_span;
pub(crate) mod trace;
