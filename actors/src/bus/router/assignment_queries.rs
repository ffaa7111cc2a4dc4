//! Queries of the task ledger: one task, filtered pages, comparison with the task service.

use std::fmt;
use std::str::FromStr;

use a2a_policy::Assignment;
use a2a_protocol::{AgentId, AssignmentState, Body, CorrelationId, TaskId};
use actix::prelude::*;
use chrono::{DateTime, Utc};

use super::{MAX_SCAN, Part, Router};

#[derive(Message)]
#[rtype(result = "Option<Assignment>")]
pub(crate) struct FindTask(pub(crate) TaskId);

impl Handler<FindTask> for Router {
    type Result = MessageResult<FindTask>;

    fn handle(&mut self, FindTask(id): FindTask, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.ledger.as_ref().and_then(|ledger| ledger.get(&id)).cloned())
    }
}

/// Filter of a task list. All set conditions must match.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// A participant.
    pub agent: Option<AgentId>,
    /// The state.
    pub state: Option<AssignmentState>,
    /// The conversation.
    pub correlation: Option<CorrelationId>,
    /// Whether the task is overdue.
    pub overdue: Option<bool>,
}

impl TaskFilter {
    fn matches(&self, task: &Assignment) -> bool {
        self.agent.as_ref().is_none_or(|agent| task.concerns(agent))
            && self.state.is_none_or(|state| task.state == state)
            && self.correlation.is_none_or(|correlation| task.correlation_id == correlation)
            && self.overdue.is_none_or(|overdue| task.overdue == overdue)
    }
}

/// Position in the list of tasks; its text form is the cursor of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCursor {
    changed: DateTime<Utc>,
    id: TaskId,
}

impl fmt::Display for TaskCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.changed.timestamp_nanos_opt().unwrap_or_default();
        write!(f, "{nanos}.{}", self.id)
    }
}

/// The text is not a valid cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no place in the list of tasks")]
pub struct BadTaskCursor;

impl FromStr for TaskCursor {
    type Err = BadTaskCursor;

    fn from_str(text: &str) -> Result<Self, BadTaskCursor> {
        let (nanos, id) = text.split_once('.').ok_or(BadTaskCursor)?;
        let nanos = nanos.parse().map_err(|_| BadTaskCursor)?;
        let id = id.parse().map_err(|_| BadTaskCursor)?;
        Ok(Self { changed: DateTime::from_timestamp_nanos(nanos), id })
    }
}

/// Lists tasks, last changed first. One message scans a bounded number; the caller continues at
/// `next`.
#[derive(Message)]
#[rtype(result = "Part<Assignment, TaskCursor>")]
pub(crate) struct ListTasks {
    pub(crate) filter: TaskFilter,
    pub(crate) behind: Option<TaskCursor>,
    pub(crate) limit: usize,
}

impl Handler<ListTasks> for Router {
    type Result = MessageResult<ListTasks>;

    fn handle(
        &mut self,
        ListTasks { filter, behind, limit }: ListTasks,
        _: &mut Self::Context,
    ) -> Self::Result {
        let behind = behind.map(|cursor| (cursor.changed, cursor.id));
        let mut all = self.ledger.iter().flat_map(|ledger| ledger.latest(behind)).enumerate();
        let mut part = Part::default();
        while let Some((scanned, task)) = all.next() {
            if filter.matches(task) {
                part.found.push(task.clone());
            }
            if part.found.len() == limit || scanned + 1 == MAX_SCAN {
                let cursor = TaskCursor { changed: task.changed, id: task.task_id };
                part.next = all.next().map(|_| cursor);
                break;
            }
        }
        MessageResult(part)
    }
}

/// Open tasks of the ledger, and which of these tasks were cancelled there. Asked once, at the
/// start of the task service.
#[derive(Message)]
#[rtype(result = "LedgerComparison")]
pub(crate) struct CompareLedger(pub(crate) Vec<TaskId>);

/// Reply to [`CompareLedger`].
#[derive(Debug, Default)]
pub(crate) struct LedgerComparison {
    pub(crate) open: Vec<TaskId>,
    pub(crate) cancelled: Vec<TaskId>,
}

impl Handler<CompareLedger> for Router {
    type Result = MessageResult<CompareLedger>;

    fn handle(
        &mut self,
        CompareLedger(known): CompareLedger,
        _: &mut Self::Context,
    ) -> Self::Result {
        let Some(ledger) = &self.ledger else { return MessageResult(LedgerComparison::default()) };
        let open =
            ledger.latest(None).filter(|task| !task.state.is_ended()).map(|task| task.task_id);
        let is_cancelled = |id: &TaskId| {
            ledger.get(id).is_some_and(|task| task.state == AssignmentState::Cancelled)
        };
        MessageResult(LedgerComparison {
            open: open.collect(),
            cancelled: known.into_iter().filter(is_cancelled).collect(),
        })
    }
}

/// Lists tasks with a final answer that is not acknowledged yet.
#[derive(Message)]
#[rtype(result = "Vec<TaskId>")]
pub(crate) struct UnacknowledgedAnswers;

impl Handler<UnacknowledgedAnswers> for Router {
    type Result = MessageResult<UnacknowledgedAnswers>;

    fn handle(&mut self, _: UnacknowledgedAnswers, _: &mut Self::Context) -> Self::Result {
        let mut tasks = Vec::new();
        for number in self.sessions.iter().flat_map(super::AgentSessions::all) {
            let Some(mailbox) = self.bus.mailboxes.get(number) else { continue };
            let inbox = mailbox.inbox.borrow();
            tasks.extend(inbox.peek(usize::MAX).into_iter().filter_map(|(_, entry)| {
                let Body::TaskResponse(answer) = &entry.item.message.body else { return None };
                answer.action.ends().then_some(answer.task_id)
            }));
        }
        tasks.sort_unstable();
        tasks.dedup();
        MessageResult(tasks)
    }
}
