//! Lookup of tasks of both origins: requested by A2A callers, and between agents.
//!
//! An A2A task that is being worked on is also in the ledger, under the same id. It is shown as one
//! task.

use a2a_protocol::task::{Task, TaskState as A2aState};
use a2a_protocol::{AgentId, AssignmentState, TaskId};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::cli::format;
use crate::cli::server::Server;

/// Origin of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TaskOrigin {
    /// Requested by A2A callers
    A2a,
    /// Requested by agents and people on the bus
    Bus,
}

impl TaskOrigin {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::A2a => "a2a",
            Self::Bus => "bus",
        }
    }
}

/// A page of tasks of one origin.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPage {
    pub(super) tasks: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(super) next_cursor: String,
}

/// An A2A task with its caller.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct A2aTask {
    pub(super) agent_id: AgentId,
    pub(super) owner: String,
    pub(super) correlation_id: String,
    pub(super) task: Task,
}

/// A task of the ledger.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BusTask {
    pub(super) task_id: TaskId,
    pub(super) correlation_id: String,
    pub(super) requester: String,
    pub(super) assignee: String,
    pub(super) state: AssignmentState,
    pub(super) changed: DateTime<Utc>,
    pub(super) deadline: Option<DateTime<Utc>>,
    #[serde(default)]
    pub(super) overdue: bool,
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) handed_on_by: Vec<String>,
    pub(super) review: Option<Value>,
}

/// A row of the list.
pub(super) struct TaskRow {
    pub(super) of: TaskOrigin,
    pub(super) id: TaskId,
    pub(super) state: String,
    /// Requester.
    pub(super) owner: String,
    /// Assignee.
    pub(super) agent: String,
    pub(super) changed: DateTime<Utc>,
    pub(super) about: String,
    /// JSON for programs.
    pub(super) raw: Box<RawValue>,
}

impl TaskRow {
    pub(super) fn of_a2a(raw: &RawValue) -> anyhow::Result<Self> {
        let A2aTask { agent_id, owner, task, .. } = format::read(raw)?;
        let text = task.status.message.as_ref().map(|message| message.text());
        Ok(Self {
            of: TaskOrigin::A2a,
            id: task.id,
            state: a2a_state(task.status.state),
            owner,
            agent: agent_id.to_string(),
            changed: task.status.timestamp.to_utc(),
            about: text.unwrap_or_default(),
            raw: marked(raw, TaskOrigin::A2a)?,
        })
    }

    pub(super) fn of_bus(raw: &RawValue) -> anyhow::Result<Self> {
        let task: BusTask = format::read(raw)?;
        Ok(Self {
            of: TaskOrigin::Bus,
            id: task.task_id,
            state: task.state.to_string(),
            about: task.about(),
            owner: task.requester,
            agent: task.assignee,
            changed: task.changed,
            raw: marked(raw, TaskOrigin::Bus)?,
        })
    }
}

impl BusTask {
    /// Further facts in a few words.
    pub(super) fn about(&self) -> String {
        let review = self.review.as_ref().map(|review| {
            let [state, by] = ["state", "reviewer"].map(|key| review[key].as_str().unwrap_or("?"));
            format!("review {state} by {by}")
        });
        let overdue = self.overdue.then(|| "overdue".to_owned());
        let parts = [overdue, self.reason.clone(), review];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Adds the origin to the JSON.
fn marked(raw: &RawValue, of: TaskOrigin) -> anyhow::Result<Box<RawValue>> {
    let mut task: Value = format::read(raw)?;
    task["of"] = of.word().into();
    Ok(to_raw_value(&task)?)
}

/// State in the spelling of A2A 0.3, such as `input-required`.
pub(super) fn a2a_state(state: A2aState) -> String {
    let word = state.as_str().trim_start_matches("TASK_STATE_").to_ascii_lowercase();
    word.replace('_', "-")
}

/// A task found in either store, or in both.
pub(super) struct TaskLookup {
    pub(super) a2a: Option<Box<RawValue>>,
    pub(super) bus: Option<Box<RawValue>>,
}

impl TaskLookup {
    /// Looks a task up, optionally restricted to an agent.
    pub(super) fn find(
        server: &Server,
        id: TaskId,
        agent: Option<&AgentId>,
    ) -> anyhow::Result<Self> {
        let mut question = vec![("task", id.to_string())];
        question.extend(agent.map(|agent| ("agent", agent.to_string())));
        let page: TaskPage = server.ask("/bus/tasks/a2a", &question)?;
        let bus: Option<Box<RawValue>> = server.find(&format!("/bus/tasks/{id}"), &[])?;
        let concerns = |raw: &RawValue| match (agent, format::read::<BusTask>(raw)) {
            (Some(agent), Ok(task)) => task.concerns(agent.as_str()),
            _ => true,
        };
        Ok(Self { a2a: page.tasks.into_iter().next(), bus: bus.filter(|raw| concerns(raw)) })
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.a2a.is_none() && self.bus.is_none()
    }
}

impl BusTask {
    fn concerns(&self, agent: &str) -> bool {
        let reviewer = self.review.as_ref().and_then(|review| review["reviewer"].as_str());
        self.requester == agent
            || self.assignee == agent
            || reviewer == Some(agent)
            || self.handed_on_by.iter().any(|name| name == agent)
    }
}
