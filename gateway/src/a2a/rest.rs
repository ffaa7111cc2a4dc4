//! HTTP+JSON binding: the fallback for every path that no other route has.

use a2a_actors::tasks::TaskEvent;
use a2a_protocol::fault::Fault;
use a2a_protocol::wire::rest::{NoRoute, Route};
use a2a_protocol::wire::{self, Decoded, Dialect, Version, error, rest};
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue, RETRY_AFTER};
use actix_web::{FromRequest, HttpRequest, HttpResponse, HttpResponseBuilder, web};

use super::body::Body;
use super::call::CallOutcome;
use super::card::{NO_AGENTS_CARD, no_agents_card};
use super::extensions::Extensions;
use super::path::parse;
use super::wait::WaitingCaller;
use super::{A2a, sse};
use crate::admission::quota::{Quotas, Share};
use crate::auth::A2aCaller;
use crate::problem::{no_such_path, problem};

/// Fallback of the routes.
pub(crate) async fn anything(
    request: HttpRequest,
    payload: web::Payload,
    a2a: web::Data<A2a>,
    quotas: web::Data<Quotas>,
) -> actix_web::Result<HttpResponse> {
    if is_for_rpc(request.path()) {
        return Ok(not_allowed("POST"));
    }
    if request.path() == NO_AGENTS_CARD {
        return Ok(no_agents_card());
    }
    let Some(path) = parse(request.path()) else { return Ok(no_such_path(request).await) };
    let route = match rest::route(path.version, request.method().as_str(), path.rest) {
        Ok(route) => route,
        Err(NoRoute::Unknown) => return Ok(no_such_path(request).await),
        Err(NoRoute::Verb { allowed }) => return Ok(not_allowed(allowed)),
    };
    let caller = A2aCaller::extract(&request).await?;
    let body = Body::from_request(&request, &mut payload.into_inner()).await?;
    let call = RestCall { a2a: &a2a, quotas: &quotas, caller: &caller, request: &request };
    call.run(path.version, path.agent.clone(), &route, &body).await
}

/// Whether this is a JSON-RPC path; a POST would have matched its route.
fn is_for_rpc(path: &str) -> bool {
    let of_agent = path.strip_prefix("/agents/").and_then(|path| path.strip_suffix("/a2a"));
    path == "/a2a" || of_agent.is_some_and(|agent| !agent.is_empty() && !agent.contains('/'))
}

fn not_allowed(allowed: &'static str) -> HttpResponse {
    let detail = format!("This path takes {allowed}.");
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &detail);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

struct RestCall<'a> {
    a2a: &'a A2a,
    quotas: &'a Quotas,
    caller: &'a A2aCaller,
    request: &'a HttpRequest,
}

impl RestCall<'_> {
    async fn run(
        &self,
        version: Version,
        agent: Option<a2a_protocol::AgentId>,
        route: &Route,
        body: &[u8],
    ) -> actix_web::Result<HttpResponse> {
        if let Err(fault) = self.a2a.check_version(self.request, version) {
            return Ok(failed(version, &fault));
        }
        let body = Some(body).filter(|body| !body.is_empty());
        let query = Some(self.request.query_string());
        let decoded = match rest::decode(version, route, query, body) {
            Ok(decoded) => decoded,
            Err(fault) => return Ok(failed(version, &fault)),
        };
        let Decoded { tenant, operation, dialect } = decoded;
        let context = self.a2a.context(self.caller, self.request, version, agent, tenant);
        let mut context = match context {
            Ok(context) => context,
            Err(fault) => return Ok(failed(version, &fault)),
        };
        // Taken first: a refusal must not change anything.
        let share = match sse::stream_share(route.method, self.quotas, self.caller) {
            Ok(share) => share,
            Err(fault) => return Ok(failed(version, &fault)),
        };
        let side = WaitingCaller { who: self.caller, request: self.request, quotas: self.quotas };
        let outcome = self.a2a.perform_for(&side, &mut context, operation);
        let outcome = self.caller.while_good(outcome).await?;
        let mut response = HttpResponse::Ok();
        if let Some(header) = context.extensions.header(version) {
            response.insert_header(header);
        }
        Ok(match outcome {
            Ok(outcome) => {
                self.answer(response, dialect, route, outcome, share, context.extensions)
            }
            Err(fault) => failed(version, &fault),
        })
    }

    fn answer(
        &self,
        mut response: HttpResponseBuilder,
        dialect: Dialect,
        route: &Route,
        outcome: CallOutcome,
        share: Option<Share>,
        active: Extensions,
    ) -> HttpResponse {
        let version = dialect.version();
        response.content_type(rest::media_type(version));
        match outcome {
            CallOutcome::Reply(reply) => {
                response.body(rest::reply(dialect, route.method, &reply).to_json())
            }
            CallOutcome::Card(card) => response.body(card.to_string()),
            CallOutcome::Stream(events) => {
                let write = move |happened: &TaskEvent| {
                    let shown = active.shown(&happened.event, happened.last)?;
                    Some(wire::event(dialect, &shown, happened.last).to_json())
                };
                let keep_alive = self.a2a.settings.keep_alive;
                let (who, request) = (self.caller.clone(), self.request);
                let open = sse::EventStream::new(events, write, keep_alive, share, who, request);
                sse::response(response, open)
            }
        }
    }
}

fn failed(version: Version, fault: &Fault) -> HttpResponse {
    let (status, body) = rest::fault(version, fault);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    if let Some(wait) = error::retry_after_ms(fault) {
        response.insert_header((RETRY_AFTER, wait.div_ceil(1_000).to_string()));
    }
    response.content_type(rest::media_type(version)).body(body)
}
