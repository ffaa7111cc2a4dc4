//! Drafts: messages as an agent's author writes them, before validation.
//!
//! A draft holds plain strings and may be invalid; [`Agent::write`](super::Agent::write) turns it
//! into a valid message. A draft is serialized and parsed like any message from outside, so that
//! all violations are reported at once, in the protocol's own words. Task answers are frequent and
//! take a fast path through the protocol's types when they are valid.

mod news;
mod review;
mod status;
mod task;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use a2a_actors::Delivery;
use a2a_protocol::{
    AgentId, Body, Code, CorrelationId, Envelope, Kind, MessageId, Priority, Protocol, Recipient,
    Report, Sender, TaskId, Timestamp, Violation,
};
use serde::Serialize;

pub use news::{Announcement, Knowledge};
pub use review::{FollowUp, NewReview, ReviewAnswer};
pub use status::StatusReport;
pub use task::{NewTask, TaskAnswer};

/// A message that can be written: one of the seven drafts.
///
/// [`NewTask`], [`TaskAnswer`], [`NewReview`], [`ReviewAnswer`], [`StatusReport`], [`Knowledge`]
/// and [`Announcement`]. The trait is sealed.
pub trait Draft: Parts {}

impl<D: Parts> Draft for D {}

/// What writing needs from a draft; not for use outside.
pub trait Parts: Serialize {
    /// Kind of the message.
    const KIND: Kind;

    /// Header of the message.
    fn header(&self) -> &MessageHeader;

    /// Fills in fields that depend on the sender and on the delivery that is answered.
    fn finish(&mut self, me: &AgentId, to: &Addressee) -> Result<(), BuildError>;

    /// The typed payload, where there is a fast path and all fields are valid.
    fn body(&self) -> Option<Body> {
        None
    }
}

/// Fields that every draft has outside its payload.
#[derive(Debug, Clone)]
pub struct MessageHeader {
    priority: Priority,
    conversation: Option<CorrelationId>,
    to: Option<String>,
}

impl Default for MessageHeader {
    fn default() -> Self {
        Self { priority: Priority::Normal, conversation: None, to: None }
    }
}

/// Implements what all drafts have in common.
macro_rules! draft {
    ($name:ident is $kind:ident $(, $body:ident)?) => {
        impl $name {
            /// Sets the priority. The default is `normal`.
            #[must_use]
            pub fn priority(mut self, priority: a2a_protocol::Priority) -> Self {
                self.header.priority = priority;
                self
            }

            /// Sends the message in this conversation. The default is the conversation of the
            /// answered delivery, or a new one.
            #[must_use]
            pub fn in_conversation(mut self, conversation: a2a_protocol::CorrelationId) -> Self {
                self.header.conversation = Some(conversation);
                self
            }
        }

        impl $crate::sdk::draft::Parts for $name {
            const KIND: a2a_protocol::Kind = a2a_protocol::Kind::$kind;

            fn header(&self) -> &$crate::sdk::draft::MessageHeader {
                &self.header
            }

            fn finish(
                &mut self,
                me: &a2a_protocol::AgentId,
                to: &$crate::sdk::draft::Addressee,
            ) -> Result<(), $crate::sdk::draft::BuildError> {
                self.fill_in(me, to)
            }

            $(fn body(&self) -> Option<a2a_protocol::Body> {
                self.$body()
            })?
        }
    };
}
use draft;

/// Recipient of a message: an agent by name, or the sender of a delivery that is answered.
///
/// Converts from `&str`, `&String`, `&AgentId` and `&Delivery`, and from `()` for no single
/// recipient, which only knowledge and announcements allow. An answer to a delivery has the same
/// conversation and task.
#[derive(Debug, Clone, Default)]
pub struct Addressee {
    agent: Option<String>,
    answers: Option<Arc<Envelope>>,
}

impl Addressee {
    fn task(&self) -> Option<TaskId> {
        self.answers.as_ref().and_then(|message| message.body.task_id())
    }
}

impl From<&str> for Addressee {
    fn from(name: &str) -> Self {
        Self { agent: Some(name.to_owned()), answers: None }
    }
}

impl From<&String> for Addressee {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<&AgentId> for Addressee {
    fn from(agent: &AgentId) -> Self {
        Self::from(agent.as_str())
    }
}

impl From<&Delivery> for Addressee {
    fn from(delivery: &Delivery) -> Self {
        let answers = Some(Arc::clone(&delivery.message));
        // The sender that the bus has verified, not the one the message claims.
        Self { agent: Some(delivery.sender.to_string()), answers }
    }
}

impl From<()> for Addressee {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// A point in time: RFC 3339 text, a [`Timestamp`], a `DateTime<Utc>`, or a [`Duration`] from now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct When(String);

impl From<&str> for When {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for When {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Timestamp> for When {
    fn from(moment: Timestamp) -> Self {
        Self(moment.to_string())
    }
}

impl From<chrono::DateTime<chrono::Utc>> for When {
    fn from(moment: chrono::DateTime<chrono::Utc>) -> Self {
        Timestamp::from(moment).into()
    }
}

impl From<Duration> for When {
    fn from(from_now: Duration) -> Self {
        let moment = chrono::TimeDelta::from_std(from_now)
            .ok()
            .and_then(|delta| chrono::Utc::now().checked_add_signed(delta));
        // A time beyond the calendar is refused like any invalid timestamp.
        moment.unwrap_or(chrono::DateTime::<chrono::Utc>::MAX_UTC).into()
    }
}

/// A draft that is not a valid message; nothing was sent.
///
/// All violations are listed, each with its place in the message and what to write instead.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use openclaw_a2a::{Bus, NewTask, SendError};
///
/// let bus = Bus::builder().in_memory().start()?;
/// let roman = bus.connect("roman").await?;
/// let refused = roman.send_task_request("t i m", NewTask::new(" ", "Count them")).await;
/// let Err(SendError::Build(error)) = refused else { panic!("{refused:?}") };
/// let places: Vec<_> = error.violations().iter().map(|v| v.path.as_str()).collect();
/// assert_eq!(places, ["/payload/title", "/to/agentId"]);
/// # bus.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    violations: Vec<Violation>,
}

impl BuildError {
    /// A required field that cannot be filled in.
    fn missing(path: &str, message: &str) -> Self {
        Self { violations: vec![Violation::new(path, Code::Missing, message)] }
    }

    /// All violations, ordered by place; never empty.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

impl From<Report> for BuildError {
    fn from(report: Report) -> Self {
        Self { violations: report.into_violations() }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nothing was sent; correct the draft.")?;
        self.violations.iter().try_for_each(|violation| write!(f, "\n{violation}"))
    }
}

impl std::error::Error for BuildError {}

/// The message as it is serialized, with the protocol's field names.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireMessage<'a, D> {
    protocol: Protocol,
    message_id: MessageId,
    timestamp: Timestamp,
    from: WireAgent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<WireAgent<'a>>,
    r#type: Kind,
    priority: Priority,
    correlation_id: CorrelationId,
    payload: &'a D,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireAgent<'a> {
    agent_id: &'a str,
}

/// Turns a draft of `me` into a message.
pub(super) fn write<D: Draft>(
    me: &AgentId,
    to: &Addressee,
    mut draft: D,
) -> Result<Envelope, BuildError> {
    draft.finish(me, to)?;
    let wire = wire(me, to, &draft);
    match wire.typed() {
        Some(message) => Ok(message),
        None => Ok(Envelope::parse(&wire.json())?),
    }
}

fn wire<'a, D: Draft>(me: &'a AgentId, to: &'a Addressee, draft: &'a D) -> WireMessage<'a, D> {
    let header = draft.header();
    let answered = to.answers.as_ref().map(|message| message.correlation_id);
    WireMessage {
        protocol: Protocol::V1,
        message_id: super::agent::new_message_id(),
        timestamp: chrono::Utc::now().into(),
        from: WireAgent { agent_id: me.as_str() },
        to: header.to.as_ref().or(to.agent.as_ref()).map(|agent_id| WireAgent { agent_id }),
        r#type: D::KIND,
        priority: header.priority,
        correlation_id: header
            .conversation
            .or(answered)
            .unwrap_or_else(super::agent::new_correlation),
        payload: draft,
    }
}

impl<D: Draft> WireMessage<'_, D> {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .unwrap_or_else(|error| unreachable!("strings and JSON values are writable: {error}"))
    }

    /// The message built from typed parts; `None` when it must be parsed to be validated.
    fn typed(&self) -> Option<Envelope> {
        let to = self.to.as_ref().map(|to| to.agent_id.parse());
        let message = Envelope {
            protocol: self.protocol,
            message_id: self.message_id,
            timestamp: self.timestamp,
            from: Sender {
                agent_id: self.from.agent_id.parse().ok()?,
                role: None,
                session_key: None,
            },
            to: to.transpose().ok()?.map(|agent_id| Recipient { agent_id, role: None }),
            priority: self.priority,
            correlation_id: self.correlation_id,
            body: self.payload.body()?,
        };
        message.is_consistent().then_some(message)
    }
}

/// Converts items to owned strings.
fn strings<S: Into<String>>(items: impl IntoIterator<Item = S>) -> impl Iterator<Item = String> {
    items.into_iter().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both paths produce the same message.
    #[test]
    fn typed_and_parsed_answers_are_equal() {
        let me: AgentId = "tim".parse().unwrap();
        let to = Addressee::from("roman");
        let task = crate::sdk::agent::new_task_id();
        let good = [
            TaskAnswer::accepted(),
            TaskAnswer::completed("All \"seven\" of them.\n").next_step("Tell the others"),
            TaskAnswer::completed("x").field("n", serde_json::json!([1, {"a": null}])),
            TaskAnswer::blocked("Which one?").priority(Priority::High),
        ];
        for draft in good.map(|draft| draft.for_task(task)) {
            let wire = wire(&me, &to, &draft);
            let typed = wire.typed().unwrap_or_else(|| panic!("{draft:?}"));
            assert_eq!(typed, Envelope::parse(&wire.json()).unwrap());
        }
        let long = "x".repeat(40_000);
        let deep = (0..40).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
        let bad = [
            TaskAnswer::declined(" "),
            TaskAnswer::failed(long.clone()),
            TaskAnswer::completed("a\0b"),
            TaskAnswer::completed("x").field("deep", deep),
            TaskAnswer::completed("x").field("branch", 7),
            (0..9).fold(TaskAnswer::accepted(), |all, n| all.field(n.to_string(), &long[..32_000])),
        ];
        for draft in bad.map(|draft| draft.for_task(task)) {
            assert!(wire(&me, &to, &draft).typed().is_none(), "{draft:?}");
            assert!(write(&me, &to, draft).is_err());
        }
        let nobody = Addressee::from("t i m");
        assert!(wire(&me, &nobody, &TaskAnswer::accepted().for_task(task)).typed().is_none());
    }
}
