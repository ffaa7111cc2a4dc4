//! Drafts for many recipients: knowledge and announcements.

use a2a_protocol::AgentId;
use a2a_protocol::body::{Scope, Urgency};
use serde::Serialize;

use super::{Addressee, BuildError, MessageHeader, draft, strings};

/// Shared by drafts for many recipients: they may add one recipient, and need nothing from an
/// addressee.
macro_rules! for_many {
    ($name:ident is $kind:ident) => {
        draft!($name is $kind);

        impl $name {
            /// Adds one recipient.
            #[must_use]
            pub fn also_to(mut self, agent: impl Into<String>) -> Self {
                self.header.to = Some(agent.into());
                self
            }

            fn fill_in(&mut self, _: &AgentId, _: &Addressee) -> Result<(), BuildError> {
                Ok(())
            }
        }
    };
}

/// Knowledge to share, sent with [`Agent::share_knowledge`](crate::Agent::share_knowledge).
///
/// Goes to the agents it is relevant to, or to the sender's squad.
///
/// ```
/// use a2a_sdk::Knowledge;
///
/// let news = Knowledge::new("sled flush", "It survives a kill, not a power cut", "code review")
///     .relevant_to(["tim", "tony"])
///     .action("Call fsync before a message is acknowledged");
/// # let _ = news;
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Knowledge {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    topic: String,
    discovery: String,
    relevant_to: Vec<String>,
    source: String,
    actionable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggested_action: Option<String>,
}

for_many!(Knowledge is KnowledgeShare);

impl Knowledge {
    /// A label, the finding, and its source: a session, research, a code review.
    #[must_use]
    pub fn new(
        topic: impl Into<String>,
        discovery: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self {
            header: MessageHeader::default(),
            topic: topic.into(),
            discovery: discovery.into(),
            relevant_to: Vec::new(),
            source: source.into(),
            actionable: false,
            suggested_action: None,
        }
    }

    /// Adds agents it is relevant to.
    #[must_use]
    pub fn relevant_to<S: Into<String>>(mut self, agents: impl IntoIterator<Item = S>) -> Self {
        self.relevant_to.extend(strings(agents));
        self
    }

    /// Requires the recipients to act, without naming how.
    #[must_use]
    pub fn actionable(mut self) -> Self {
        self.actionable = true;
        self
    }

    /// Requires this action of the recipients.
    #[must_use]
    pub fn action(mut self, suggestion: impl Into<String>) -> Self {
        self.suggested_action = Some(suggestion.into());
        self.actionable()
    }
}

/// An announcement to many agents, sent with [`Agent::broadcast`](crate::Agent::broadcast).
///
/// ```
/// use a2a_sdk::{Announcement, Scope, Urgency};
///
/// let freeze = Announcement::new(Scope::Squad, "freeze", "No merges until the release is out")
///     .urgency(Urgency::AttentionNeeded);
/// # let _ = freeze;
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    scope: Scope,
    topic: String,
    message: String,
    urgency: Urgency,
}

for_many!(Announcement is Broadcast);

impl Announcement {
    /// Scope, label and text of the announcement; by default it is for information only.
    #[must_use]
    pub fn new(scope: Scope, topic: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            header: MessageHeader::default(),
            scope,
            topic: topic.into(),
            message: message.into(),
            urgency: Urgency::Fyi,
        }
    }

    /// Sets the urgency; [`Urgency::Fyi`] (information only) by default.
    #[must_use]
    pub fn urgency(mut self, urgency: Urgency) -> Self {
        self.urgency = urgency;
        self
    }
}
