//! JSON-RPC binding: `POST /a2a` for the host's own agent, `POST /agents/{id}/a2a` for any.

use a2a_actors::tasks::TaskEvent;
use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::wire::error::Refusal;
use a2a_protocol::wire::jsonrpc::{self, Id, Incoming, Item, Request};
use a2a_protocol::wire::{self, Decoded, Dialect, Method, Version};
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, routes, web};
use futures_util::future::join_all;

use super::body::Body;
use super::call::{CallContext, CallOutcome};
use super::extensions::Extensions;
use super::wait::WaitingCaller;
use super::{A2a, sse};
use crate::admission::quota::Quotas;
use crate::auth::A2aCaller;
use crate::problem::agent_id;

// Some clients append a slash to the URL of the card.
#[routes]
#[post("/a2a")]
#[post("/a2a/")]
pub(crate) async fn host_call(
    who: A2aCaller,
    request: HttpRequest,
    body: Body,
    a2a: web::Data<A2a>,
    quotas: web::Data<Quotas>,
) -> actix_web::Result<HttpResponse> {
    call(&a2a, &quotas, &who, &request, &body, None).await
}

#[routes]
#[post("/agents/{id}/a2a")]
#[post("/agents/{id}/a2a/")]
#[post("/agents/{id}")]
#[post("/agents/{id}/")]
pub(crate) async fn agent_call(
    who: A2aCaller,
    id: web::Path<String>,
    request: HttpRequest,
    body: Body,
    a2a: web::Data<A2a>,
    quotas: web::Data<Quotas>,
) -> actix_web::Result<HttpResponse> {
    let agent = agent_id(&id)?;
    call(&a2a, &quotas, &who, &request, &body, Some(agent)).await
}

/// What all calls of one request share.
struct RpcRequest<'a> {
    a2a: &'a A2a,
    quotas: &'a Quotas,
    who: &'a A2aCaller,
    request: &'a HttpRequest,
    agent: Option<AgentId>,
}

async fn call(
    a2a: &A2a,
    quotas: &Quotas,
    who: &A2aCaller,
    request: &HttpRequest,
    body: &[u8],
    agent: Option<AgentId>,
) -> actix_web::Result<HttpResponse> {
    let session = RpcRequest { a2a, quotas, who, request, agent };
    match jsonrpc::parse(body, a2a.settings.batch) {
        Err(refusal) => Ok(text(jsonrpc::refusal(Id::NULL, &refusal), None)),
        // Boxed: the future has thousands of bytes and would be moved several times.
        Ok(Incoming::One(item)) => who.while_good(Box::pin(session.one(item))).await,
        Ok(Incoming::Batch(items)) => {
            let answers = items.into_iter().map(|item| Box::pin(session.batched(item)));
            let answers = who.while_good(join_all(answers)).await?;
            let answers: Vec<String> = answers.into_iter().flatten().collect();
            Ok(jsonrpc::batch(&answers).map_or_else(nothing, |body| text(body, None)))
        }
    }
}

fn nothing() -> HttpResponse {
    HttpResponse::new(StatusCode::NO_CONTENT)
}

fn text(body: String, extensions: Option<(&Extensions, Version)>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    if let Some(header) = extensions.and_then(|(active, version)| active.header(version)) {
        response.insert_header(header);
    }
    response.content_type("application/json").body(body)
}

impl RpcRequest<'_> {
    async fn one(&self, item: Item<'_>) -> HttpResponse {
        let request = match item {
            Ok(request) => request,
            Err(refused) => return text(jsonrpc::refusal(refused.id, &refused.refusal), None),
        };
        // A2A requires an id in every call. One without it is a notification: performed, and only
        // answered if it is invalid.
        let id = request.id.unwrap_or(Id::NULL);
        let Some((shown, method)) = Method::from_rpc_name(&request.method) else {
            return text(jsonrpc::refusal(id, &self.unknown(&request)), None);
        };
        let version = self.a2a.spoken(self.request, shown);
        // Taken first: a refusal must not change anything.
        let share = match sse::stream_share(method, self.quotas, self.who) {
            Ok(share) => share,
            Err(fault) => return text(jsonrpc::fault(version, id, &fault), None),
        };
        let (context, dialect, outcome) = self.perform(version, method, &request).await;
        if request.id.is_none() && !matches!(outcome, Err(Fault::InvalidParams(_))) {
            return nothing();
        }
        let extensions = context.as_ref().map(|context| (&context.extensions, version));
        match outcome {
            Ok(CallOutcome::Stream(events)) => {
                let mut response = HttpResponse::Ok();
                if let Some(header) =
                    extensions.and_then(|(active, version)| active.header(version))
                {
                    response.insert_header(header);
                }
                let id = id.as_json().to_owned();
                let active = extensions.map(|(active, _)| active.clone()).unwrap_or_default();
                let write = move |happened: &TaskEvent| {
                    let shown = active.shown(&happened.event, happened.last)?;
                    let event = wire::event(dialect, &shown, happened.last);
                    Some(jsonrpc::success(Id::from_json(&id), &event))
                };
                let keep_alive = self.a2a.settings.keep_alive;
                let (who, request) = (self.who.clone(), self.request);
                let open = sse::EventStream::new(events, write, keep_alive, share, who, request);
                sse::response(response, open)
            }
            Ok(outcome) => text(answered(id, dialect, method, &outcome), extensions),
            Err(fault) => {
                let body = jsonrpc::fault(version, id, &fault);
                let streams = method.streams() && version == Version::V0_3;
                if streams && self.wants_events() {
                    // Clients of 0.3 that asked for a stream read only events.
                    return sse::one_event(&body);
                }
                text(body, extensions)
            }
        }
    }

    /// Whether the caller accepts an event stream.
    fn wants_events(&self) -> bool {
        let accept = self.request.headers().get_all("accept");
        let mut accept = accept.filter_map(|value| value.to_str().ok());
        accept.any(|value| value.contains("text/event-stream"))
    }

    fn unknown(&self, request: &Request<'_>) -> Refusal {
        Refusal::method_not_found(&request.method, &self.a2a.settings.versions)
    }

    /// A call of a batch; `None` for a notification.
    async fn batched(&self, item: Item<'_>) -> Option<String> {
        let request = match item {
            Ok(request) => request,
            Err(refused) => return Some(jsonrpc::refusal(refused.id, &refused.refusal)),
        };
        let id = request.id;
        let Some((shown, method)) = Method::from_rpc_name(&request.method) else {
            return id.map(|id| jsonrpc::refusal(id, &self.unknown(&request)));
        };
        let version = self.a2a.spoken(self.request, shown);
        if method.streams() {
            let reason = "a stream cannot be part of a batch; call it by itself".to_owned();
            return id.map(|id| jsonrpc::refusal(id, &Refusal::InvalidRequest { reason }));
        }
        let (_, dialect, outcome) = self.perform(version, method, &request).await;
        let id = id?;
        Some(match outcome {
            Ok(outcome) => answered(id, dialect, method, &outcome),
            Err(fault) => jsonrpc::fault(version, id, &fault),
        })
    }

    async fn perform(
        &self,
        version: Version,
        method: Method,
        request: &Request<'_>,
    ) -> (Option<CallContext>, Dialect, Result<CallOutcome, Fault>) {
        let plain = version.dialect();
        if let Err(fault) = self.a2a.check_version(self.request, version) {
            return (None, plain, Err(fault));
        }
        let decoded = match wire::decode(version, method, request.params) {
            Ok(decoded) => decoded,
            Err(fault) => return (None, plain, Err(fault)),
        };
        let Decoded { tenant, operation, dialect } = decoded;
        let mut context =
            match self.a2a.context(self.who, self.request, version, self.agent.clone(), tenant) {
                Ok(context) => context,
                Err(fault) => return (None, dialect, Err(fault)),
            };
        let side = WaitingCaller { who: self.who, request: self.request, quotas: self.quotas };
        let outcome = self.a2a.perform_for(&side, &mut context, operation).await;
        (Some(context), dialect, outcome)
    }
}

fn answered(id: Id<'_>, dialect: Dialect, method: Method, outcome: &CallOutcome) -> String {
    match outcome {
        CallOutcome::Reply(reply) => jsonrpc::success(id, &wire::reply(dialect, method, reply)),
        CallOutcome::Card(card) => jsonrpc::success(id, card),
        CallOutcome::Stream(_) => jsonrpc::fault(dialect.version(), id, &Fault::Internal),
    }
}
