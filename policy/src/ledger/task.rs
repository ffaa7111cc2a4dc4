//! A task as the ledger knows it, in the shape in which it is kept and shown.

use a2a_protocol::{AgentId, CorrelationId, ReviewState, TaskId, TaskState};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub task_id: TaskId,
    /// The conversation in which it was asked for.
    pub correlation_id: CorrelationId,
    /// Who asked for it.
    pub requester: AgentId,
    /// Who is to do it.
    pub assignee: AgentId,
    /// How far the work is.
    pub state: TaskState,
    /// The number of the record that asked the assignee.
    pub record: u64,
    /// Counts the changes, from 1.
    pub version: u64,
    /// When it changed last.
    pub changed: DateTime<Utc>,
    /// When it must be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DateTime<Utc>>,
    /// The deadline passed while it was being worked on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Nobody asked for it over the bus: it appeared when its review was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrequested: bool,
    /// Why it is blocked, was declined or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who had it before and handed it on, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_on_by: Vec<AgentId>,
    /// The review of its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// Tasks that its approval made possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<Proposal>,
}

/// The review of a task's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// How far it is.
    pub state: ReviewState,
    /// Who owes the verdict, or gave the last one.
    pub reviewer: AgentId,
    /// How often a review was asked for.
    pub round: u32,
}

/// A task somebody may ask for once the one before it is approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Its title; the `task_request` that starts it repeats it.
    pub title: String,
    /// Who should do it, as the reviewer put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assign_to: Option<String>,
    /// The task that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<TaskId>,
}

impl Task {
    /// Whether `agent` has any part in it.
    #[must_use]
    pub fn concerns(&self, agent: &AgentId) -> bool {
        self.requester == *agent
            || self.assignee == *agent
            || self.handed_on_by.contains(agent)
            || self.review.as_ref().is_some_and(|review| review.reviewer == *agent)
    }

    /// The key under which it is kept.
    #[must_use]
    pub fn key(id: &TaskId) -> String {
        format!("{}{id}", Self::KEY)
    }

    /// How keys of tasks begin.
    pub const KEY: &'static str = "task:";
}
