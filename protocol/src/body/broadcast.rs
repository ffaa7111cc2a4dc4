//! Payload of `broadcast`: an announcement to many agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::example;
use crate::{NonBlank, Title};

closed_set! {
    /// Recipients of a broadcast.
    pub enum Scope {
        /// The sender's squad.
        Squad = "squad",
        /// Every agent.
        Org = "org",
        /// The agents of the c-suite.
        CSuite = "c-suite",
    }
}

closed_set! {
    /// Reaction that a broadcast asks for.
    pub enum Urgency {
        /// Nothing.
        Fyi = "fyi",
        /// To read it soon.
        AttentionNeeded = "attention_needed",
        /// To act on it.
        ActionRequired = "action_required",
    }
}

/// The payload of `broadcast`: an announcement to every agent in `scope`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [Self::example()]))]
pub struct Broadcast {
    /// The agents that get it.
    pub scope: Scope,
    /// A brief label for what this is about.
    pub topic: Title,
    /// The announcement.
    pub message: NonBlank,
    /// What the announcement asks of its recipients.
    pub urgency: Urgency,
}

object_only!(Broadcast);

impl Broadcast {
    pub(super) fn example() -> Self {
        example!({
            "scope": "squad",
            "topic": "merge freeze",
            "message": "No merges until the release is out.",
            "urgency": "attention_needed"
        })
    }
}
