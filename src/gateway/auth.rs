//! Who is calling: tokens where they are asked for, anybody on this machine where they are not.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::sync::Arc;

use a2a_policy::Caller;
use a2a_protocol::AgentId;
use actix_web::dev::Payload;
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use actix_web::{FromRequest, HttpRequest, web};
use sha2::{Digest, Sha256};

use super::problem::{problem, refuse};

/// With it an operator says in whose name it sends.
const ON_BEHALF_OF: &str = "A2A-On-Behalf-Of";

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// An agent's: it sends under its own name and reads its own inbox.
    Agent(AgentId),
    /// A person's: it sees and stops everything.
    Operator(Arc<str>),
}

/// The tokens that are known, by their SHA-256: the tokens themselves are nowhere.
#[derive(Debug, Clone, Default)]
pub struct Tokens(HashMap<[u8; 32], Principal>);

impl Tokens {
    /// Adds a token by its hash; `false` when it was there.
    pub fn insert(&mut self, sha256: [u8; 32], principal: Principal) -> bool {
        self.0.insert(sha256, principal).is_none()
    }

    /// Whether nobody is asked for a token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, token: &str) -> Option<&Principal> {
        // What is compared are hashes, so the time it takes tells nothing about the token.
        self.0.get(&<[u8; 32]>::from(Sha256::digest(token.as_bytes())))
    }
}

/// Who is calling, as far as that is proven.
pub(super) struct Who {
    caller: Caller,
}

impl Who {
    /// The caller, as the bus knows it.
    pub(super) fn caller(self) -> Caller {
        self.caller
    }

    /// The agent in whose name a task is called off; `None` for people.
    pub(super) fn agent(&self) -> Option<&AgentId> {
        match &self.caller {
            Caller::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    /// Refuses whoever is neither this agent nor a person.
    pub(super) fn must_be(&self, agent: &AgentId) -> actix_web::Result<()> {
        match &self.caller {
            Caller::Agent(caller) if caller != agent => {
                let detail = format!("You are `{caller}`; this is for `{agent}` alone.");
                Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail))
            }
            _ => Ok(()),
        }
    }

    /// The caller as this agent itself: an agent as what it is, a person only when that is meant,
    /// anybody where no tokens are asked for.
    pub(super) fn speaking_for(self, agent: &AgentId) -> actix_web::Result<Caller> {
        self.must_be(agent)?;
        match self.caller {
            Caller::Operator { on_behalf_of, .. } if on_behalf_of.as_ref() != Some(agent) => {
                let detail = format!(
                    "You are a person, and this makes you `{agent}`. If you mean that, say so with `{ON_BEHALF_OF}: {agent}`."
                );
                Err(refuse(StatusCode::FORBIDDEN, "forbidden", &detail))
            }
            Caller::Local => Ok(Caller::Agent(agent.clone())),
            caller => Ok(caller),
        }
    }

    /// Refuses agents.
    pub(super) fn must_be_a_person(&self) -> actix_web::Result<()> {
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

impl FromRequest for Who {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(identify(request).map(|caller| Self { caller }))
    }
}

fn identify(request: &HttpRequest) -> actix_web::Result<Caller> {
    let tokens = request.app_data::<web::Data<Tokens>>();
    let Some(tokens) = tokens.filter(|tokens| !tokens.is_empty()) else {
        return Ok(Caller::Local);
    };
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = given.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let Some(principal) = token.and_then(|token| tokens.find(token)) else {
        return Err(unauthorized(token.is_some()));
    };
    match principal {
        Principal::Agent(agent) => Ok(Caller::Agent(agent.clone())),
        Principal::Operator(name) => {
            let on_behalf_of = match request.headers().get(ON_BEHALF_OF).map(HeaderValue::to_str) {
                None => None,
                Some(text) => {
                    Some(text.ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                        let detail = format!("`{ON_BEHALF_OF}` must be an agent id.");
                        refuse(StatusCode::BAD_REQUEST, "bad_agent_id", &detail)
                    })?)
                }
            };
            Ok(Caller::Operator { name: Arc::clone(name), on_behalf_of })
        }
    }
}

fn unauthorized(given: bool) -> actix_web::Error {
    let detail = if given {
        "The token is not known. Ask whoever runs the bus for one."
    } else {
        "Send your token as `Authorization: Bearer …`."
    };
    let mut response = problem(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    InternalError::from_response("unauthorized", response).into()
}
