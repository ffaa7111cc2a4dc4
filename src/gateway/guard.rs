//! What every request passes before anybody reads it: whether there is room, whether its head is
//! of a size anybody needs, whether it was meant for us, and which page sent it.
//!
//! It knows nothing of tokens: whoever fails here is refused whoever it is.

mod body;
mod places;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpResponse, web};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::HttpSettings;
use super::connections::Connection;
use super::problem::problem;
use body::{Deadlined, Held, Tracked};
use places::{Places, Source};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Stands at the door.
#[derive(Debug)]
pub struct Guard {
    places: Places,
    head_bytes: usize,
    body: Duration,
    room: Arc<Semaphore>,
}

/// Why a request goes no further.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("Too many requests are being answered. Try again in a moment.")]
    NoRoom,
    #[error("The head of the request has more than {0} bytes.")]
    HeadTooLarge(usize),
    #[error(
        "This server does not answer to that name. Call it by its address, or add the name to `hosts` in [http] of its configuration."
    )]
    NotOurs,
    #[error(
        "Pages of other origins may not call this server. Add yours to `origins` in [http] of its configuration if it should."
    )]
    CrossOrigin,
}

impl Refused {
    fn answer(&self) -> HttpResponse {
        let (status, code) = match self {
            Self::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
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
    /// For the server at `address`.
    ///
    /// # Errors
    /// A sentence about the setting that makes no sense.
    pub fn new(settings: &HttpSettings, tls: bool, address: SocketAddr) -> Result<Self, String> {
        Ok(Self {
            places: Places::new(tls, address, &settings.hosts, &settings.origins)?,
            head_bytes: settings.head_bytes,
            body: settings.body,
            room: Arc::new(Semaphore::new(settings.requests.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// Room to answer in, and the origin that may read the answer.
    fn check(
        &self,
        request: &ServiceRequest,
    ) -> Result<(OwnedSemaphorePermit, Option<HeaderValue>), Refused> {
        let room = Arc::clone(&self.room).try_acquire_owned().map_err(|_| Refused::NoRoom)?;
        if head_bytes(request) > self.head_bytes {
            return Err(Refused::HeadTooLarge(self.head_bytes));
        }
        let headers = request.headers();
        let host = self.host(request).ok_or(Refused::NotOurs)?;
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("not text"));
        match self.places.source(host, text(header::ORIGIN), text(SEC_FETCH_SITE)) {
            Source::Own => Ok((room, None)),
            Source::Listed(origin) => Ok((room, HeaderValue::from_str(origin).ok())),
            Source::Foreign if is_public(request) => Ok((room, None)),
            Source::Foreign => Err(Refused::CrossOrigin),
        }
    }

    /// The name the request is for, if it is one of ours. Both places that can name it must.
    fn host<'a>(&self, request: &'a ServiceRequest) -> Option<&'a str> {
        let mut given = request.headers().get_all(header::HOST);
        let header = given.next().map(|value| value.to_str().unwrap_or_default());
        let target = request.uri().authority().map(|authority| authority.as_str());
        let is_ours = |host: Option<&str>| host.is_none_or(|host| self.places.is_ours(host));
        if given.next().is_some() || !is_ours(header) || !is_ours(target) {
            return None;
        }
        target.or(header)
    }
}

fn head_bytes(request: &ServiceRequest) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let of_headers = |headers: &HeaderMap| {
        headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
    };
    target + of_headers(request.headers())
}

/// What anybody may know, and what changes nothing.
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
/// Only what the application itself raises; a refusal is an answer.
pub async fn guard<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> actix_web::Result<ServiceResponse<Tracked>> {
    let connection = request.conn_data::<Arc<Connection>>().map(Connection::begin);
    if *request.method() == Method::HEAD && (is_public(&request) || request.path() == "/metrics") {
        // Whatever a GET would say, without its body: that is left out on the way.
        request.head_mut().method = Method::GET;
    }
    let checked = match request.app_data::<web::Data<Guard>>() {
        Some(guard) => guard.check(&request).map(|passed| (passed, guard.body)),
        // Without a guard nobody gets in.
        None => Err(Refused::NotOurs),
    };
    let ((room, reader), longest) = match checked {
        Ok(passed) => passed,
        Err(refused) => {
            let held = Held::new(connection, None);
            let response = request.into_response(refused.answer());
            return Ok(response.map_body(|_, body| Tracked::new(body, held)));
        }
    };
    let held = Held::new(connection, Some(room));
    if let Some(origin) = reader.as_ref().filter(|_| is_preflight(&request)) {
        let mut response = preflight();
        allow(response.headers_mut(), origin);
        let response = request.into_response(response);
        return Ok(response.map_body(|_, body| Tracked::new(body, held)));
    }
    if !is_web_socket(&request) {
        let payload = request.take_payload();
        request.set_payload(Deadlined::within(longest, payload));
    }
    let mut response = next.call(request).await?;
    if let Some(origin) = &reader {
        allow(response.headers_mut(), origin);
    }
    Ok(response.map_body(|_, body| Tracked::new(body.boxed(), held)))
}

/// A WebSocket's payload is the conversation; how long that lasts is for its handler to say.
fn is_web_socket(request: &ServiceRequest) -> bool {
    let upgrade = request.headers().get(header::UPGRADE);
    *request.method() == Method::GET
        && upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether a browser asks if a page may call.
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

/// Lets pages of this origin, and of no other, read the answer.
fn allow(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
