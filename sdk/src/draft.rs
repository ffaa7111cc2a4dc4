//! Drafts: builders for messages, not yet validated.
//!
//! A draft takes plain strings and may be invalid; [`Agent::write`](super::Agent::write) makes it a
//! valid message. A draft is written as JSON and parsed like any message from outside, so the error
//! lists every violation with the protocol's own text. Frequent answers to tasks are built from the
//! protocol's types directly when they are valid.

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
/// and [`Announcement`]; there are no others.
pub trait Draft: Parts {}

impl<D: Parts> Draft for D {}

/// The parts of a draft; sealed.
pub trait Parts: Serialize {
    /// The kind of the message.
    const KIND: Kind;

    /// The fields outside the payload.
    fn header(&self) -> &MessageHeader;

    /// Fills in the fields derived from the sender and the answered delivery.
    fn finish(&mut self, me: &AgentId, to: &Addressee) -> Result<(), BuildError>;

    /// The payload without a round trip over JSON; `None` where there is no such way or it is
    /// invalid.
    fn body(&self) -> Option<Body> {
        None
    }
}

/// Fields of every draft outside its payload.
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

/// Implements what all drafts share.
macro_rules! draft {
    ($name:ident is $kind:ident $(, $body:ident)?) => {
        impl $name {
            /// Sets the priority; `normal` by default.
            #[must_use]
            pub fn priority(mut self, priority: a2a_protocol::Priority) -> Self {
                self.header.priority = priority;
                self
            }

            /// Sets the conversation; by default that of the answered delivery, else a new one.
            #[must_use]
            pub fn in_conversation(mut self, conversation: a2a_protocol::CorrelationId) -> Self {
                self.header.conversation = Some(conversation);
                self
            }
        }

        impl $crate::draft::Parts for $name {
            const KIND: a2a_protocol::Kind = a2a_protocol::Kind::$kind;

            fn header(&self) -> &$crate::draft::MessageHeader {
                &self.header
            }

            fn finish(
                &mut self,
                me: &a2a_protocol::AgentId,
                to: &$crate::draft::Addressee,
            ) -> Result<(), $crate::draft::BuildError> {
                self.fill_in(me, to)
            }

            $(fn body(&self) -> Option<a2a_protocol::Body> {
                self.$body()
            })?
        }
    };
}
use draft;

/// Recipient of a message: an agent by id, or the sender of a delivery that it answers.
///
/// Made from `&str`, `&String`, `&AgentId` or `&Delivery`; from `()` for no single recipient, which
/// only knowledge and announcements allow. An answer to a delivery stays in its conversation and
/// concerns the same task.
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
        // The sender as the bus verified it, not as the message claims it.
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
        // A time beyond the calendar is refused like any other invalid timestamp.
        moment.unwrap_or(chrono::DateTime::<chrono::Utc>::MAX_UTC).into()
    }
}

/// A draft that is not a valid message; nothing was sent.
///
/// Lists every violation, each with its path in the message and what to write instead.
///
/// ```
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use a2a_sdk::{Bus, NewTask, SendError};
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
    /// A single violation.
    fn missing(path: &str, message: &str) -> Self {
        Self { violations: vec![Violation::new(path, Code::Missing, message)] }
    }

    /// Every violation, ordered by path; never empty.
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

/// A message to be parsed; the field names are those of the protocol.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a, D> {
    protocol: Protocol,
    message_id: MessageId,
    timestamp: Timestamp,
    from: Name<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Name<'a>>,
    r#type: Kind,
    priority: Priority,
    correlation_id: CorrelationId,
    payload: &'a D,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Name<'a> {
    agent_id: &'a str,
}

/// Writes a draft of `me` as a message.
pub(super) fn write<D: Draft>(
    me: &AgentId,
    to: &Addressee,
    mut draft: D,
) -> Result<Envelope, BuildError> {
    draft.finish(me, to)?;
    let page = page(me, to, &draft);
    match page.typed() {
        Some(message) => Ok(message),
        None => Ok(Envelope::parse(&page.json())?),
    }
}

fn page<'a, D: Draft>(me: &'a AgentId, to: &'a Addressee, draft: &'a D) -> Page<'a, D> {
    let header = draft.header();
    let answered = to.answers.as_ref().map(|message| message.correlation_id);
    Page {
        protocol: Protocol::V1,
        message_id: super::agent::new_message_id(),
        timestamp: chrono::Utc::now().into(),
        from: Name { agent_id: me.as_str() },
        to: header.to.as_ref().or(to.agent.as_ref()).map(|agent_id| Name { agent_id }),
        r#type: D::KIND,
        priority: header.priority,
        correlation_id: header
            .conversation
            .or(answered)
            .unwrap_or_else(super::agent::new_correlation),
        payload: draft,
    }
}

impl<D: Draft> Page<'_, D> {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .unwrap_or_else(|error| unreachable!("strings and JSON values are writable: {error}"))
    }

    /// The message built from its parts; `None` where only parsing can validate it.
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

/// A list of strings from any iterator.
fn strings<S: Into<String>>(items: impl IntoIterator<Item = S>) -> impl Iterator<Item = String> {
    items.into_iter().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The built message equals the parsed one.
    #[test]
    fn answers_are_the_same_on_both_ways() {
        let me: AgentId = "tim".parse().unwrap();
        let to = Addressee::from("roman");
        let task = crate::agent::new_task_id();
        let good = [
            TaskAnswer::accepted(),
            TaskAnswer::completed("All \"seven\" of them.\n").next_step("Tell the others"),
            TaskAnswer::completed("x").field("n", serde_json::json!([1, {"a": null}])),
            TaskAnswer::blocked("Which one?").priority(Priority::High),
        ];
        for draft in good.map(|draft| draft.for_task(task)) {
            let page = page(&me, &to, &draft);
            let typed = page.typed().unwrap_or_else(|| panic!("{draft:?}"));
            assert_eq!(typed, Envelope::parse(&page.json()).unwrap());
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
            assert!(page(&me, &to, &draft).typed().is_none(), "{draft:?}");
            assert!(write(&me, &to, draft).is_err());
        }
        let unknown = Addressee::from("t i m");
        assert!(page(&me, &unknown, &TaskAnswer::accepted().for_task(task)).typed().is_none());
    }
}
