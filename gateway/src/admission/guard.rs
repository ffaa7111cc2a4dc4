//! Guard middleware: work permit, head size, `Host` and `Origin` of every request; headers and
//! unread bytes of every response.
//!
//! It authenticates nothing: a request refused here is refused for every caller. Only when no
//! permit is left does it check for an operator's token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode, Version};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpResponse, web};

use super::body::{TimedBody, TrackedBody};
use super::origins::{OriginPolicy, RequestOrigin};
use super::permits::{WorkPermit, WorkPermits};
use crate::HttpSettings;
use crate::admission::connections::{Connection, REQUESTS_PER_CONNECTION};
use crate::admission::quota::{Exceeded, Quotas, Share};
use crate::auth::tokens::TokenRegistry;
use crate::auth::{counted_as, shows_operator};
use crate::observability::http_metrics::HttpMetrics;
use crate::problem::problem;

/// Responses up to this size are charged to the total only: charging a caller takes a lock.
const SMALL: usize = 16 << 10;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Settings and permits of the guard.
#[derive(Debug)]
pub struct Guard {
    origins: OriginPolicy,
    head_bytes: usize,
    body: Duration,
    permits: WorkPermits,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("Too many requests are being answered. Try again in a moment.")]
    NoPermit,
    #[error(
        "{REQUESTS_PER_CONNECTION} requests of this connection are being answered already. Wait for one of them, or open another connection."
    )]
    ConnectionBusy,
    #[error("The head of the request has more than {0} bytes.")]
    HeadTooLarge(usize),
    #[error(
        "The path writes {0:?} with percent signs, which no path needs. Write the character itself."
    )]
    NeedlesslyEncoded(char),
    #[error(
        "This server does not answer to that name. Call it by its address, or add the name to `hosts` in [http] of its configuration."
    )]
    NotOurs,
    #[error(
        "Pages of other origins may not call this server. Add yours to `origins` in [http] of its configuration if it should."
    )]
    CrossOrigin,
}

impl Rejection {
    fn answer(&self) -> HttpResponse {
        let (status, code) = match self {
            Self::NoPermit => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            Self::ConnectionBusy => (StatusCode::TOO_MANY_REQUESTS, "connection_busy"),
            Self::NeedlesslyEncoded(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            Self::HeadTooLarge(_) => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large")
            }
            Self::NotOurs => (StatusCode::MISDIRECTED_REQUEST, "misdirected"),
            Self::CrossOrigin => (StatusCode::FORBIDDEN, "cross_origin"),
        };
        problem(status, code, &self.to_string())
    }
}

impl Guard {
    /// The guard of the server at `address`.
    ///
    /// # Errors
    /// A sentence about the setting that is not valid.
    pub fn new(settings: &HttpSettings, tls: bool, address: SocketAddr) -> Result<Self, String> {
        Ok(Self {
            origins: OriginPolicy::new(tls, address, &settings.hosts, &settings.origins)?,
            head_bytes: settings.head_bytes,
            body: settings.body,
            permits: WorkPermits::new(settings.requests),
        })
    }

    /// Checks a request; its work permit, and the origin that may read the response.
    fn check(
        &self,
        request: &ServiceRequest,
    ) -> Result<(WorkPermit, Option<HeaderValue>), Rejection> {
        let is_operator = || {
            let tokens = request.app_data::<web::Data<TokenRegistry>>();
            tokens.is_some_and(|tokens| shows_operator(tokens, request.headers()))
        };
        let permit =
            self.permits.acquire(request.path(), is_operator).ok_or(Rejection::NoPermit)?;
        if head_bytes(request) > self.head_bytes {
            return Err(Rejection::HeadTooLarge(self.head_bytes));
        }
        if let Some(needless) = needlessly_encoded(request.uri().path()) {
            return Err(Rejection::NeedlesslyEncoded(needless));
        }
        let headers = request.headers();
        let host = self.host(request).ok_or(Rejection::NotOurs)?;
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("not text"));
        match self.origins.source(host, text(header::ORIGIN), text(SEC_FETCH_SITE)) {
            RequestOrigin::Own => Ok((permit, None)),
            RequestOrigin::Listed(origin) => Ok((permit, HeaderValue::from_str(origin).ok())),
            RequestOrigin::Foreign if is_public(request) => Ok((permit, None)),
            RequestOrigin::Foreign => Err(Rejection::CrossOrigin),
        }
    }

    /// The host the request is for, if it is one of ours. `Host` header and request target must
    /// both be.
    fn host<'a>(&self, request: &'a ServiceRequest) -> Option<&'a str> {
        let mut given = request.headers().get_all(header::HOST);
        let header = given.next().map(|value| value.to_str().unwrap_or_default());
        let target = request.uri().authority().map(|authority| authority.as_str());
        let is_ours = |host: Option<&str>| host.is_none_or(|host| self.origins.is_ours(host));
        if given.next().is_some() || !is_ours(header) || !is_ours(target) {
            return None;
        }
        target.or(header)
    }
}

/// An unreserved character (RFC 3986, 2.3) written with percent signs. A proxy that filters by path
/// must see the same path as this server.
fn needlessly_encoded(path: &str) -> Option<char> {
    path.split('%').skip(1).find_map(|rest| {
        let code = u8::from_str_radix(rest.get(..2)?, 16).ok()?;
        let letter = char::from(code);
        (letter.is_ascii_alphanumeric() || "-._~".contains(letter)).then_some(letter)
    })
}

fn head_bytes(request: &ServiceRequest) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let of_headers = |headers: &HeaderMap| {
        headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
    };
    target + of_headers(request.headers())
}

/// Public routes, which change nothing.
fn is_public(request: &ServiceRequest) -> bool {
    let path = request.path();
    matches!(*request.method(), Method::GET | Method::HEAD)
        && (matches!(path, "/healthz" | "/readyz" | "/openapi.json")
            || path.starts_with("/schemas/")
            || path.ends_with("/.well-known/agent-card.json"))
}

/// The guard as middleware of the whole application.
///
/// # Errors
/// Only errors of the application itself; a refusal is a response.
pub async fn guard<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> actix_web::Result<ServiceResponse<TrackedBody>> {
    let mut response = pass(request, next).await?;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    Ok(response)
}

async fn pass<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> actix_web::Result<ServiceResponse<TrackedBody>> {
    let begun = request.conn_data::<Arc<Connection>>().map(Connection::begin);
    let is_one_too_many = begun.as_ref().is_some_and(|(_, busy)| *busy > REQUESTS_PER_CONNECTION);
    if is_one_too_many {
        note_flood(&request);
    }
    let connection = begun.map(|(connection, _)| connection);
    if *request.method() == Method::HEAD && (is_public(&request) || request.path() == "/metrics") {
        // HEAD is answered like GET; the body is dropped on the way.
        request.head_mut().method = Method::GET;
    }
    let checked = match request.app_data::<web::Data<Guard>>() {
        Some(_) if is_one_too_many => Err(Rejection::ConnectionBusy),
        Some(guard) => guard.check(&request).map(|passed| (passed, guard.body)),
        // Without a guard every request is refused.
        None => Err(Rejection::NotOurs),
    };
    let ((permit, reader), longest) = match checked {
        Ok(passed) => passed,
        Err(refused) => {
            let response = request.into_response(refused.answer());
            return Ok(response.map_body(|_, body| TrackedBody::new(body, connection, None)));
        }
    };
    if let Some(origin) = reader.as_ref().filter(|_| is_preflight(&request)) {
        let mut response = preflight();
        allow(response.headers_mut(), origin);
        let response = request.into_response(response);
        return Ok(response.map_body(|_, body| TrackedBody::new(body, connection, None)));
    }
    if !is_web_socket(&request) {
        let (payload, incoming) = TimedBody::within(longest, request.take_payload());
        request.set_payload(payload);
        // On HTTP/1 the connection itself shows that the client left.
        if let Some(incoming) = incoming.filter(|_| request.version() == Version::HTTP_2) {
            request.extensions_mut().insert(incoming);
        }
    }
    request.extensions_mut().insert(permit.clone());
    let answered = next.call(request).await;
    // The work is done; unread bytes have a quota of their own.
    permit.release();
    let mut response = answered?.map_into_boxed_body();
    if let Some(origin) = &reader {
        allow(response.headers_mut(), origin);
    }
    Ok(match charge(&response) {
        Ok(unread) => response.map_body(|_, body| TrackedBody::new(body, connection, unread)),
        Err(exceeded) => response
            .into_response(exceeded.answer())
            .map_body(|_, body| TrackedBody::new(body, connection, None)),
    })
}

/// Charges a response to its caller until it is read. Streams have a quota of their own.
fn charge(response: &ServiceResponse) -> Result<Option<Share>, Exceeded> {
    let request = response.request();
    let quotas = request.app_data::<web::Data<Quotas>>();
    let (Some(quotas), BodySize::Sized(bytes @ 1..)) = (quotas, response.response().body().size())
    else {
        return Ok(None);
    };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let caller = if bytes > SMALL { counted_as(request) } else { None };
    quotas.unread.take(caller, bytes).map(Some)
}

/// Refuses a request of a connection with too many in flight.
fn note_flood(request: &ServiceRequest) {
    let connection = request.conn_data::<Arc<Connection>>();
    if let (Some(connection), Some(http_metrics)) =
        (connection, request.app_data::<web::Data<HttpMetrics>>())
    {
        http_metrics.connections().refused(connection);
    }
}

/// A WebSocket's payload lasts as long as its session, so it has no deadline here.
fn is_web_socket(request: &ServiceRequest) -> bool {
    let upgrade = request.headers().get(header::UPGRADE);
    *request.method() == Method::GET
        && upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether this is a CORS preflight.
fn is_preflight(request: &ServiceRequest) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> HttpResponse<BoxBody> {
    const HEADERS: &str = "authorization, content-type, accept, last-event-id, a2a-version, a2a-extensions, a2a-on-behalf-of, traceparent, tracestate";
    HttpResponse::NoContent()
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"))
        .finish()
}

/// Lets pages of this origin, and of no other, read the response.
fn allow(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
