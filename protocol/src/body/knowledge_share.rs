//! Payload of `knowledge_share`: a discovery for other agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::example;
use crate::fields::object::present;
use crate::{AgentId, List, NonBlank, Text, Title};

/// The payload of `knowledge_share`: a discovery, for the agents it matters to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [Self::example()]))]
pub struct KnowledgeShare {
    /// A brief label for what this is about.
    pub topic: Title,
    /// What was found out.
    pub discovery: NonBlank,
    /// The ids of the agents it matters to. Empty means the sender's squad.
    pub relevant_to: List<AgentId>,
    /// How it was found out: a session, research, a code review.
    pub source: NonBlank,
    /// Whether the recipients should do something about it.
    pub actionable: bool,
    /// What to do with this knowledge.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub suggested_action: Option<Text>,
}

object_only!(KnowledgeShare);

impl KnowledgeShare {
    pub(super) fn example() -> Self {
        example!({
            "topic": "sled flush",
            "discovery": "A flush survives a killed process but not a power cut.",
            "relevantTo": ["tim", "tony"],
            "source": "reading the source during a code review",
            "actionable": true,
            "suggestedAction": "Call fsync before a message is acknowledged."
        })
    }
}
