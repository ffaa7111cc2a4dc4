//! Sample messages of the benches: task requests of about 1.1 KB.

use a2a_protocol::{AgentId, BadUuid, Body, Envelope, Kind};
use openclaw_a2a::{BusSettings, RateSettings};

pub fn agent(name: &str) -> AgentId {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub fn new_id<T: TryFrom<uuid::Uuid, Error = BadUuid>>() -> T {
    uuid::Uuid::now_v7().try_into().unwrap_or_else(|error| panic!("{error}"))
}

/// A task request from one agent to another, 1.1 KB as JSON.
pub fn message(from: &AgentId, to: &AgentId) -> Envelope {
    let mut message = Kind::TaskRequest.example_message();
    message.message_id = new_id();
    message.correlation_id = new_id();
    message.from.agent_id = from.clone();
    message.from.session_key = None;
    if let Some(recipient) = &mut message.to {
        recipient.agent_id = to.clone();
    }
    if let Body::TaskRequest(body) = &mut message.body {
        let text = "Check every field of the seven kinds. ".repeat(10);
        body.task_id = new_id();
        body.description = text.try_into().unwrap_or_else(|error| panic!("{error}"));
    }
    message
}

/// Rate limits on, but too high to be reached.
pub fn settings() -> BusSettings {
    BusSettings { rates: RateSettings::unlimited(), ..BusSettings::default() }
}
