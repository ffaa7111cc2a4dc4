//! The messages every part of the bench carries: task requests of about 1.1 KB.

use std::num::NonZeroU32;

use a2a_protocol::{AgentId, Body, Envelope, Kind, MessageId};
use openclaw_a2a::{BusSettings, RateSettings};

pub fn agent(name: &str) -> AgentId {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A task request from one agent to another, 1.1 KB as JSON.
pub fn message(from: &AgentId, to: &AgentId) -> Envelope {
    let mut message = Kind::TaskRequest.example_message();
    message.message_id =
        MessageId::try_from(uuid::Uuid::now_v7()).unwrap_or_else(|error| panic!("{error}"));
    message.from.agent_id = from.clone();
    message.from.session_key = None;
    if let Some(recipient) = &mut message.to {
        recipient.agent_id = to.clone();
    }
    if let Body::TaskRequest(body) = &mut message.body {
        let text = "Check every field of the seven kinds. ".repeat(10);
        body.description = text.try_into().unwrap_or_else(|error| panic!("{error}"));
    }
    message
}

/// Limits on, but far away.
pub fn settings() -> BusSettings {
    let high = NonZeroU32::MAX;
    BusSettings {
        rates: RateSettings {
            per_agent_per_minute: high,
            agent_burst: high,
            per_pair_per_minute: high,
            pair_burst: high,
            urgent_per_minute: high,
            ..RateSettings::default()
        },
        ..BusSettings::default()
    }
}
