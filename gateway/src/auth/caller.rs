//! Extractors of the caller: check the bearer token of a request. Without configured tokens,
//! authentication is off and every local caller is accepted.

use std::future::{Ready, ready};
use std::sync::Arc;

use a2a_actors::BusSystem;
use a2a_policy::{Caller, Directory};
use a2a_protocol::AgentId;
use actix_web::dev::Payload;
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use chrono::{SecondsFormat, Utc};

use super::BadTokenLimiter;
use super::tokens::{AuthGrant, Principal, TokenCheck, TokenRegistry, UNNAMED_CLIENT};
use crate::observability::http_metrics::{HttpMetrics, Unauthorized};
use crate::openapi::known_calls;
use crate::problem::{agent_id, problem, refuse};

/// Header in which an operator names the agent it sends for.
const ON_BEHALF_OF: &str = "A2A-On-Behalf-Of";

/// Name in the log of a person who showed no token: a person of this machine, not proven.
const LOCAL_PERSON: &str = "local";

/// The authenticated caller of the bus API; A2A clients are refused.
pub(crate) struct BusCaller {
    caller: Caller,
    grant: AuthGrant,
}

impl BusCaller {
    /// The caller as admission of the bus takes it.
    pub(crate) fn caller(self) -> Caller {
        self.caller
    }

    /// The agent in whose name a task is cancelled; `None` for people.
    pub(crate) fn agent(&self) -> Option<&AgentId> {
        match &self.caller {
            Caller::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    /// The key of this caller's quotas; `None` without tokens, where all callers share one.
    pub(crate) fn owner(&self) -> Option<String> {
        match &self.caller {
            Caller::Agent(agent) => Some(format!("agent:{agent}")),
            Caller::Operator { name, .. } => Some(format!("operator:{name}")),
            _ => None,
        }
    }

    /// Resolves when the token of this caller is revoked or expires.
    pub(crate) async fn until_revoked(&self) {
        self.grant.clone().until_revoked().await;
    }

    /// Refuses a caller that is neither this agent nor a person.
    pub(crate) fn must_be(&self, agent: &AgentId) -> actix_web::Result<()> {
        match &self.caller {
            Caller::Agent(caller) if caller != agent => {
                let detail = format!("You are `{caller}`; this is for `{agent}` alone.");
                Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail))
            }
            _ => Ok(()),
        }
    }

    /// The caller as this agent: an agent as itself, an operator only on its behalf, any caller
    /// without tokens.
    pub(crate) fn speaking_for(&self, agent: &AgentId) -> actix_web::Result<Caller> {
        self.must_be(agent)?;
        match &self.caller {
            Caller::Operator { on_behalf_of, .. } if on_behalf_of.as_ref() != Some(agent) => {
                let detail = format!(
                    "You are a person, and this makes you `{agent}`. If you mean that, say so with `{ON_BEHALF_OF}: {agent}`."
                );
                Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail))
            }
            Caller::Local => Ok(Caller::Agent(agent.clone())),
            caller => Ok(caller.clone()),
        }
    }

    /// Refuses agents.
    pub(crate) fn must_be_a_person(&self) -> actix_web::Result<()> {
        match &self.caller {
            Caller::Agent(agent) => {
                let detail =
                    format!("You are the agent `{agent}`; this is for people. Ask an operator.");
                Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail))
            }
            _ => Ok(()),
        }
    }
}

impl FromRequest for BusCaller {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(identify(request).and_then(|who| only_known_parameters(request).map(|()| who)))
    }
}

/// Refuses unknown query parameters. The routes of the log parse their own.
fn only_known_parameters(request: &HttpRequest) -> actix_web::Result<()> {
    let (path, query) = (request.path(), request.query_string());
    if query.is_empty() || path.starts_with("/bus/log") || path.ends_with("/log") {
        return Ok(());
    }
    match known_calls::unknown_parameter(request.method().as_str(), path, query) {
        Some(detail) => Err(refuse(StatusCode::BAD_REQUEST, "bad_request", &detail)),
        None => Ok(()),
    }
}

fn identify(request: &HttpRequest) -> actix_web::Result<BusCaller> {
    let (principal, grant) = authenticate(request)?;
    let caller = match principal {
        None => match meant_person(request) {
            true => Caller::Operator { name: LOCAL_PERSON.into(), on_behalf_of: None },
            false => Caller::Local,
        },
        Some(Principal::Agent(agent)) => Caller::Agent(agent),
        Some(Principal::Client(client)) => {
            let detail =
                format!("You are the A2A client `{client}`; this is for agents and operators.");
            return Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail));
        }
        Some(Principal::Operator(name)) => {
            let on_behalf_of = match request.headers().get(ON_BEHALF_OF).map(HeaderValue::to_str) {
                None => None,
                Some(text) => {
                    Some(text.ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                        let detail = format!("`{ON_BEHALF_OF}` must be an agent id.");
                        refuse(StatusCode::BAD_REQUEST, "bad_agent_id", &detail)
                    })?)
                }
            };
            Caller::Operator { name, on_behalf_of }
        }
    };
    Ok(BusCaller { caller, grant })
}

/// Whether a caller without a token sends as a person: it names one of the ids reserved for people.
fn meant_person(request: &HttpRequest) -> bool {
    let name = request.headers().get(ON_BEHALF_OF).and_then(|name| name.to_str().ok());
    name.and_then(|name| name.parse().ok()).is_some_and(|name| Directory::is_for_people(&name))
}

/// The authenticated caller of an A2A endpoint.
#[derive(Debug, Clone)]
pub struct A2aCaller {
    /// `None` without tokens.
    principal: Option<Principal>,
    name: AgentId,
    grant: AuthGrant,
}

impl A2aCaller {
    /// The holder of its token; `None` without tokens.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// The owner of the tasks it creates: `client:acme`, `agent:tim`, `operator:david`,
    /// `anonymous`.
    #[must_use]
    pub fn owner(&self) -> String {
        self.principal.as_ref().map_or_else(|| "anonymous".to_owned(), Principal::to_string)
    }

    /// The key of this caller's quotas; `None` without tokens, where all callers share one.
    #[must_use]
    pub fn counted_as(&self) -> Option<String> {
        self.principal.as_ref().map(Principal::to_string)
    }

    /// The sender of its messages on the bus. People and anonymous callers share
    /// [`UNNAMED_CLIENT`].
    #[must_use]
    pub fn sender(&self) -> &AgentId {
        &self.name
    }

    /// Whether it sees the tasks of all callers.
    #[must_use]
    pub fn sees_everything(&self) -> bool {
        matches!(self.principal, Some(Principal::Operator(_)))
    }

    /// Whether it may see what `owner` owns; otherwise that looks like nothing.
    #[must_use]
    pub fn may_see(&self, owner: &str) -> bool {
        self.sees_everything() || self.owner() == owner
    }

    /// Resolves when its token is revoked or expires; open streams are then closed.
    pub async fn until_revoked(&self) {
        self.grant.clone().until_revoked().await;
    }

    /// Awaits `call` unless the token is revoked or expires first.
    pub(crate) async fn while_good<T>(
        &self,
        call: impl Future<Output = T>,
    ) -> actix_web::Result<T> {
        if self.principal.is_none() {
            return Ok(call.await);
        }
        tokio::select! {
            biased;
            done = call => Ok(done),
            () = self.until_revoked() => Err(revoked()),
        }
    }
}

impl FromRequest for A2aCaller {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(authenticate(request).and_then(|(principal, grant)| {
            let name = match &principal {
                Some(Principal::Agent(name) | Principal::Client(name)) => Ok(name.clone()),
                Some(Principal::Operator(_)) | None => agent_id(UNNAMED_CLIENT),
            };
            Ok(Self { name: name?, principal, grant })
        }))
    }
}

/// Request extension: the request was authenticated, and for which principal; `None` without
/// tokens.
pub(crate) struct Authenticated(Option<Principal>);

/// The key for the quota of unread bytes: the authenticated caller, or the address of an
/// unauthenticated one. `None` without tokens.
pub(crate) fn counted_as(request: &HttpRequest) -> Option<String> {
    match request.extensions().get::<Authenticated>() {
        Some(Authenticated(principal)) => principal.as_ref().map(Principal::to_string),
        None => request.peer_addr().map(|address| format!("address:{}", address.ip())),
    }
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION);
    // Two of them would be ambiguous.
    let only = given.next().filter(|_| given.next().is_none());
    let (scheme, token) = only?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether a request shows an operator's token. A bad token is not counted here.
pub(crate) fn shows_operator(registry: &Arc<TokenRegistry>, headers: &HeaderMap) -> bool {
    let entry = bearer(headers).map(|token| registry.check(Some(token), Utc::now()));
    matches!(entry, Some(TokenCheck::Known(Principal::Operator(_), _)))
}

/// Authenticates a request, and records its refusal. All caller extractors use it; the guard uses
/// [`shows_operator`], which only reserves permits and refuses nothing.
fn authenticate(request: &HttpRequest) -> actix_web::Result<(Option<Principal>, AuthGrant)> {
    let Some(registry) = request.app_data::<web::Data<TokenRegistry>>() else {
        let detail = "The token registry is not configured.";
        return Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail));
    };
    let token = bearer(request.headers());
    let registry: Arc<TokenRegistry> = Arc::clone(registry);
    match registry.check(token, Utc::now()) {
        TokenCheck::Open(grant) => {
            request.extensions_mut().insert(Authenticated(None));
            Ok((None, grant))
        }
        TokenCheck::Known(principal, grant) => {
            request.extensions_mut().insert(Authenticated(Some(principal.clone())));
            Ok((Some(principal), grant))
        }
        TokenCheck::Missing => {
            note(request, "no token");
            let detail = "Send your token as `Authorization: Bearer …`.";
            Err(turned_away(request, Unauthorized::Missing, detail))
        }
        TokenCheck::Unknown => {
            note(request, "a token that is not known");
            slow_down(request)?;
            Err(turned_away(
                request,
                Unauthorized::Unknown,
                "The token is not known. Ask an operator for one.",
            ))
        }
        TokenCheck::NameTaken(taken) => {
            let detail = format!("Your token is known and refused: {taken}.");
            Err(refuse(StatusCode::FORBIDDEN, "name_taken", &detail))
        }
        TokenCheck::Expired(at) => {
            note(request, "a token that has expired");
            slow_down(request)?;
            let at = at.to_rfc3339_opts(SecondsFormat::Secs, true);
            let detail = format!("The token expired at {at}. Ask for a new one.");
            Err(turned_away(request, Unauthorized::Expired, &detail))
        }
    }
}

/// Records the refusal in the log, without the token.
fn note(request: &HttpRequest, shown: &str) {
    let Some(bus) = request.app_data::<web::Data<BusSystem>>() else { return };
    let from = request.peer_addr().map_or_else(|| "somewhere".to_owned(), |at| at.ip().to_string());
    bus.note_denied(format!("{shown}, from {from}"));
}

/// Rate limits addresses that showed too many bad tokens.
fn slow_down(request: &HttpRequest) -> actix_web::Result<()> {
    let failures = request.app_data::<web::Data<BadTokenLimiter>>();
    let (Some(failures), Some(peer)) = (failures, request.peer_addr()) else { return Ok(()) };
    let Err(wait) = failures.note(peer.ip(), std::time::Instant::now()) else { return Ok(()) };
    let detail = "Too many tokens that are not known came from your address. Wait, and send a good one: that is accepted at any time.";
    let mut response = problem(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
    let seconds = HeaderValue::from(wait.as_secs() + 1);
    response.headers_mut().insert(RETRY_AFTER, seconds);
    Err(InternalError::from_response("too many bad tokens", response).into())
}

/// Counts a refusal and returns its response.
fn turned_away(request: &HttpRequest, why: Unauthorized, detail: &str) -> actix_web::Error {
    if let Some(http_metrics) = request.app_data::<web::Data<HttpMetrics>>() {
        http_metrics.refused(why);
    }
    unauthorized(detail)
}

/// The response when a token is revoked or expires during a call.
pub(crate) fn revoked() -> actix_web::Error {
    unauthorized("The token was revoked or has expired.")
}

fn unauthorized(detail: &str) -> actix_web::Error {
    let mut response = problem(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    InternalError::from_response("unauthorized", response).into()
}
