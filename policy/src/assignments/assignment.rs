//! One assignment of the ledger, as JSON for people and as a fact in the journal.

use std::borrow::Cow;

use a2a_protocol::{AgentId, AssignmentState, CorrelationId, ReviewState, TaskId};
use chrono::{DateTime, SubsecRound, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task that one agent requested from another.
// This JSON is for API users; the journal has that of `Assignment::to_stored`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LedgerTask")]
pub struct Assignment {
    /// The task's id.
    pub task_id: TaskId,
    /// The conversation of the request.
    pub correlation_id: CorrelationId,
    /// The agent that requested it.
    pub requester: AgentId,
    /// The agent that must do it.
    pub assignee: AgentId,
    /// The state of the work.
    pub state: AssignmentState,
    /// The sequence number of the latest request.
    pub record: u64,
    /// The number of changes, from 1.
    pub version: u64,
    /// When it last changed.
    #[schemars(with = "a2a_protocol::Timestamp")]
    pub changed: DateTime<Utc>,
    /// When it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<a2a_protocol::Timestamp>")]
    pub deadline: Option<DateTime<Utc>>,
    /// The deadline passed, or the assignee sent nothing for too long. Its next message clears
    /// this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// It was never requested over the bus: a review request created it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unrequested: bool,
    /// Why it is blocked, was declined or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The earlier assignees that delegated it, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handed_on_by: Vec<AgentId>,
    /// The review of its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// Follow-up tasks that its approval proposed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<Proposal>,
}

/// The review of an assignment's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// The state of the review.
    pub state: ReviewState,
    /// The agent that owes the verdict, or gave the last one.
    pub reviewer: AgentId,
    /// How often a review was requested.
    pub round: u32,
}

/// A follow-up task that can be requested after the approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Its title; the `task_request` that starts it has the same title.
    pub title: String,
    /// The proposed assignee, as the reviewer wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assign_to: Option<String>,
    /// The task that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<TaskId>,
}

impl Assignment {
    /// Sets the deadline. A deadline in the past is ignored: it does not define a timeout.
    pub(super) fn set_deadline(&mut self, deadline: Option<DateTime<Utc>>, now: crate::Now) {
        self.deadline = deadline.map(|at| at.trunc_subsecs(3)).filter(|at| *at > now.utc);
        self.overdue = false;
    }

    /// The size in bytes of its variable-length fields.
    pub(super) fn text_bytes(&self) -> usize {
        let proposed = self.proposed.iter().map(|proposal| {
            size_of::<Proposal>()
                + proposal.title.len()
                + proposal.assign_to.as_ref().map_or(0, String::len)
        });
        self.reason.as_ref().map_or(0, String::len)
            + size_of_val(&self.handed_on_by[..])
            + proposed.sum::<usize>()
    }

    /// Whether `agent` is its requester, assignee, an earlier assignee or its reviewer.
    #[must_use]
    pub fn concerns(&self, agent: &AgentId) -> bool {
        self.requester == *agent
            || self.assignee == *agent
            || self.handed_on_by.contains(agent)
            || self.review.as_ref().is_some_and(|review| review.reviewer == *agent)
    }

    /// The key of the fact in the journal.
    #[must_use]
    pub fn key(id: &TaskId) -> String {
        let mut key = String::with_capacity(Self::KEY.len() + 36);
        key.push_str(Self::KEY);
        key.push_str(id.as_uuid().hyphenated().encode_lower(&mut [0; 36]));
        key
    }

    /// The value of the fact in the journal, on one line. Every message about an assignment carries
    /// one, so it is compact: the id is in the key, times are milliseconds.
    #[must_use]
    pub fn to_stored(&self) -> String {
        let Self { correlation_id, state, record, version, overdue, unrequested, .. } = *self;
        let stored = StoredAssignment {
            correlation_id,
            requester: Cow::Borrowed(&self.requester),
            assignee: Cow::Borrowed(&self.assignee),
            state,
            record,
            version,
            changed: self.changed.timestamp_millis(),
            deadline: self.deadline.map(|at| at.timestamp_millis()),
            overdue,
            unrequested,
            reason: self.reason.as_deref().map(Cow::Borrowed),
            handed_on_by: Cow::Borrowed(&self.handed_on_by),
            review: self.review.as_ref().map(Cow::Borrowed),
            proposed: Cow::Borrowed(&self.proposed),
        };
        // Strings, numbers and lists of them always serialise.
        serde_json::to_string(&stored)
            .unwrap_or_else(|error| unreachable!("always writable: {error}"))
    }

    /// Parses what [`Assignment::to_stored`] wrote.
    ///
    /// # Errors
    /// The text is not an assignment.
    pub fn from_stored(task_id: TaskId, text: &str) -> serde_json::Result<Self> {
        let stored: StoredAssignment<'_> = serde_json::from_str(text)?;
        let time = |ms| DateTime::from_timestamp_millis(ms).unwrap_or_default();
        Ok(Self {
            task_id,
            correlation_id: stored.correlation_id,
            requester: stored.requester.into_owned(),
            assignee: stored.assignee.into_owned(),
            state: stored.state,
            record: stored.record,
            version: stored.version,
            changed: time(stored.changed),
            deadline: stored.deadline.map(time),
            overdue: stored.overdue,
            unrequested: stored.unrequested,
            reason: stored.reason.map(Cow::into_owned),
            handed_on_by: stored.handed_on_by.into_owned(),
            review: stored.review.map(Cow::into_owned),
            proposed: stored.proposed.into_owned(),
        })
    }

    /// The prefix of all keys.
    pub const KEY: &'static str = "task:";
}

/// The stored form of an assignment.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredAssignment<'a> {
    correlation_id: CorrelationId,
    requester: Cow<'a, AgentId>,
    assignee: Cow<'a, AgentId>,
    state: AssignmentState,
    record: u64,
    version: u64,
    changed: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overdue: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unrequested: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[AgentId]>::is_empty")]
    handed_on_by: Cow<'a, [AgentId]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    review: Option<Cow<'a, Review>>,
    #[serde(default, skip_serializing_if = "<[Proposal]>::is_empty")]
    proposed: Cow<'a, [Proposal]>,
}
