//! Agent cards: one for the host, one for each agent, in a form that clients of both versions read.

use std::time::SystemTime;

use a2a_actors::{AgentView, ReachableAgents};
use a2a_policy::Directory;
use a2a_protocol::AgentId;
use a2a_protocol::card::{AgentCard, Capabilities, Extension, Interface, SecurityScheme, Skill};
use a2a_protocol::fault::Fault;
use a2a_protocol::task::Metadata;
use a2a_protocol::wire::Version;
use actix_web::http::header::{
    CACHE_CONTROL, ETAG, EntityTag, HttpDate, IF_NONE_MATCH, LAST_MODIFIED, TryIntoHeaderValue,
    VARY,
};
use actix_web::{HttpRequest, HttpResponse, get, routes, web};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::A2a;
use super::call::{CallContext, no_such_agent};
use super::extensions::declared;
use crate::auth::A2aCaller;
use crate::auth::tokens::TokenRegistry;
use crate::problem::{agent_id, problem, refuse};

/// `max-age` of a card.
const MAX_AGE_SECONDS: u32 = 60;
/// Agents per extended card.
const AGENTS_LISTED: usize = 100;
/// Metadata of an extended card: the agents that its caller may give tasks.
const AGENTS_EXTENSION: &str = "urn:openclaw:a2a:agents:v1";
/// Metadata of an extended card: the rate limits of its caller.
const LIMITS_EXTENSION: &str = "urn:openclaw:a2a:limits:v1";

#[get("/.well-known/agent-card.json")]
pub(crate) async fn host_card(request: HttpRequest, a2a: web::Data<A2a>) -> HttpResponse {
    // Public: a client needs it to learn how to call the server.
    let host = a2a.settings.host.clone();
    let view = a2a.view(&host).await;
    let location = ServerLocation::of(&a2a, &request);
    let card = |location: &ServerLocation| a2a.card(&host, view.as_ref(), true, location).hybrid();
    let mut response = served(&request, &card(&location));
    // The revision does not depend on the name under which the server is called.
    let anywhere = ServerLocation { base_url: String::new(), ..location };
    let digest = Sha256::digest(card(&anywhere).to_string().as_bytes());
    let since = a2a.revision.since(digest.into(), SystemTime::now());
    if let Ok(since) = HttpDate::from(since).try_into_value() {
        response.headers_mut().insert(LAST_MODIFIED, since);
    }
    response
}

// The base of an agent serves its card too, because clients are given that URL.
#[routes]
#[get("/agents/{id}/.well-known/agent-card.json")]
#[get("/agents/{id}")]
#[get("/agents/{id}/")]
pub(crate) async fn agent_card(
    _caller: A2aCaller,
    id: web::Path<String>,
    request: HttpRequest,
    a2a: web::Data<A2a>,
) -> actix_web::Result<HttpResponse> {
    let agent = agent_id(&id)?;
    let Some(view) = a2a.view(&agent).await else {
        let detail = format!("There is no agent `{agent}`.");
        return Err(refuse(actix_web::http::StatusCode::NOT_FOUND, "unknown_recipient", &detail));
    };
    let card = a2a.card(&agent, Some(&view), false, &ServerLocation::of(&a2a, &request));
    Ok(served(&request, &card.hybrid()))
}

/// Where a client looks that was given the base of an agent without a trailing slash: the last
/// segment of the base, the agent, is lost when the URL is resolved.
pub(super) const NO_AGENTS_CARD: &str = "/agents/.well-known/agent-card.json";

pub(super) fn no_agents_card() -> HttpResponse {
    let detail = "This path names no agent. Give the client the base URL of an agent with a slash at its end (/agents/ID/), or the URL of the card itself (/agents/ID/.well-known/agent-card.json).";
    problem(actix_web::http::StatusCode::NOT_FOUND, "not_found", detail)
}

fn served(request: &HttpRequest, card: &Value) -> HttpResponse {
    let body = card.to_string();
    let digest = Sha256::digest(body.as_bytes());
    let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = EntityTag::new_strong(tag).to_string();
    let known = request.headers().get_all(IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    let known = known.flat_map(|list| list.split(',')).map(str::trim);
    let is_known =
        known.into_iter().any(|other| other == "*" || other.trim_start_matches("W/") == tag);
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .insert_header((ETAG, tag))
        .insert_header((CACHE_CONTROL, format!("max-age={MAX_AGE_SECONDS}")))
        .insert_header((VARY, "Host, Authorization"));
    if is_known { response.finish() } else { response.content_type("application/json").body(body) }
}

/// Properties of the server in a card, as this caller reaches it.
#[derive(Debug)]
pub(super) struct ServerLocation {
    base_url: String,
    /// Tokens are required; the first may have been created since the start.
    secured: bool,
}

impl ServerLocation {
    pub(super) fn of(a2a: &A2a, request: &HttpRequest) -> Self {
        let tokens = request.app_data::<web::Data<TokenRegistry>>();
        let secured = a2a.settings.secured || tokens.is_some_and(|tokens| tokens.has_tokens());
        Self { base_url: base_url(a2a, request), secured }
    }
}

/// The base URL as the caller reached it.
fn base_url(a2a: &A2a, request: &HttpRequest) -> String {
    if let Some(url) = &a2a.settings.url {
        return url.trim_end_matches('/').to_owned();
    }
    let scheme = if a2a.settings.tls { "https" } else { "http" };
    // Already checked by the guard.
    let host = request.headers().get("host").and_then(|host| host.to_str().ok());
    let host = host.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    format!("{scheme}://{}", host.unwrap_or("127.0.0.1"))
}

impl A2a {
    pub(super) async fn view(&self, agent: &AgentId) -> Option<AgentView> {
        if self.tasks.is_client_name(agent) || Directory::is_for_people(agent) {
            return None;
        }
        self.bus.agent(agent.clone()).await
    }

    /// The extended card, with what the directory lists for the caller.
    pub(super) async fn extended_card(&self, context: &CallContext) -> Result<Value, Fault> {
        if !context.location.secured {
            return Err(match context.version {
                Version::V0_3 => Fault::NoExtendedCard,
                Version::V1_0 => Fault::Unsupported {
                    reason: "this agent has no extended card; its public one says everything"
                        .into(),
                },
            });
        }
        let view = self.view(&context.agent).await;
        let Some(view) = view else { return Err(no_such_agent(context.agent.as_str())) };
        // The agent that answers for the host has a card of its own besides.
        let is_host = context.for_host;
        let mut card = self.card(&context.agent, Some(&view), is_host, &context.location);
        let from = context.caller.principal.clone();
        if let Some(reach) = self.bus.reach(from, AGENTS_LISTED).await {
            if is_host {
                self.add_agents(&mut card, &context.location, &reach);
            }
            card.capabilities.extensions.push(limits(&reach));
        }
        let profile = &view.profile;
        let known = [("role", &profile.role), ("squad", &profile.squad), ("tier", &profile.tier)];
        let known: Vec<String> = known
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}: {value}")))
            .collect();
        if !known.is_empty() {
            card.description = format!("{} ({})", card.description, known.join(", "));
        }
        Ok(card.hybrid())
    }

    /// Adds the agents that the caller may give tasks: a skill each, with its URL.
    fn add_agents(&self, card: &mut AgentCard, location: &ServerLocation, reach: &ReachableAgents) {
        let base = &location.base_url;
        let agents = reach.agents.iter().filter(|(agent, _)| *agent != self.settings.host);
        let mut listed = Vec::new();
        for (agent, profile) in agents {
            let url = format!("{base}/agents/{agent}");
            let role = profile.role.as_deref().unwrap_or("an agent");
            let text = format!("Gives the task to {agent}, {role}: send the message to {url}/a2a.");
            let mut tags: Vec<&str> = profile.capabilities.iter().map(String::as_str).collect();
            tags.push("agent");
            let mut skill = Skill::new(&format!("agent:{agent}"), agent.as_str(), &text, &tags);
            skill.input_modes.clone_from(&card.default_input_modes);
            skill.output_modes.clone_from(&card.default_output_modes);
            card.skills.push(skill);
            listed.push(json!({
                "id": agent, "url": url, "role": profile.role, "squad": profile.squad,
                "tier": profile.tier, "capabilities": profile.capabilities,
            }));
        }
        card.capabilities.extensions.push(Extension {
            uri: AGENTS_EXTENSION.to_owned(),
            description: Some("The agents that you may give tasks.".to_owned()),
            required: false,
            params: params(json!({ "agents": listed, "more": reach.more })),
        });
    }

    fn card(
        &self,
        agent: &AgentId,
        view: Option<&AgentView>,
        is_host: bool,
        location: &ServerLocation,
    ) -> AgentCard {
        let (base, secured) = (&location.base_url, location.secured);
        let (name, description) = if is_host {
            (format!("OpenClaw A2A ({agent})"), host_description())
        } else {
            let role = view.and_then(|view| view.profile.role.clone());
            let what =
                role.map_or_else(|| "An agent".to_owned(), |role| format!("{role}: an agent"));
            (
                agent.to_string(),
                format!("{what} on an OpenClaw A2A bus. Give it a task in plain text."),
            )
        };
        let below = if is_host { base.to_owned() } else { format!("{base}/agents/{agent}") };
        let mut card = AgentCard::new(&name, &description, env!("CARGO_PKG_VERSION")).capabilities(
            Capabilities {
                streaming: self.settings.streaming,
                push_notifications: self.settings.push,
                extensions: declared(&self.settings.required_extensions),
                extended_agent_card: secured,
            },
        );
        for &version in &self.settings.versions {
            card = card
                .interface(Interface::json_rpc(format!("{below}/a2a"), version))
                .interface(Interface::http_json(below.clone(), version));
        }
        card.default_input_modes = self.settings.input_modes.clone();
        let capabilities = view.map(|view| view.profile.capabilities.clone()).unwrap_or_default();
        for capability in &capabilities {
            let text = format!("{agent} can do this: {capability}");
            card = card.skill(Skill::new(capability, capability, &text, &[capability]));
        }
        if capabilities.is_empty() {
            let text = "Takes a task in plain text and answers with what came of it.";
            card = card.skill(Skill::new("tasks", "Tasks", text, &["tasks"]));
        }
        // Repeats the card's own modes; some clients read only the skill.
        for skill in &mut card.skills {
            skill.input_modes.clone_from(&card.default_input_modes);
            skill.output_modes.clone_from(&card.default_output_modes);
        }
        if secured {
            card = card.secured_by("bearer", SecurityScheme::bearer(), &[]);
        }
        card
    }
}

/// The rate limits of the caller.
fn limits(reach: &ReachableAgents) -> Extension {
    let rates = &reach.rates;
    Extension {
        uri: LIMITS_EXTENSION.to_owned(),
        description: Some("How much you may send.".to_owned()),
        required: false,
        params: params(json!({
            "messagesPerMinute": rates.per_agent_per_minute,
            "messageBurst": rates.agent_burst,
            "messagesPerMinuteToOneAgent": rates.per_pair_per_minute,
            "messageBurstToOneAgent": rates.pair_burst,
            "bytesPerMinute": rates.a2a_bytes_per_minute,
            "byteBurst": rates.a2a_byte_burst,
        })),
    }
}

fn params(value: Value) -> Option<Metadata> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn host_description() -> String {
    "The host of a bus of agents. Its own agent answers simple questions; the other agents are reached below /agents/{id}/.".to_owned()
}
