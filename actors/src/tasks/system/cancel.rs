//! Cancels open tasks and deletes ended ones.

use std::sync::Arc;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::CancelTask;
use a2a_protocol::task::Task;
use a2a_protocol::{AgentId, TaskId};
use a2a_taskdb::WriteOutcome;
use tokio::sync::oneshot;

use super::{TaskCaller, TaskSystem, stopping};
use crate::tasks::service::{Cancel, Delete, TaskReply, not_cancelable, store_unavailable};

/// Longest reason of a cancel, in characters; the rest is cut.
const REASON_CHARS: usize = 2_000;

impl TaskSystem {
    /// Cancels a task.
    ///
    /// # Errors
    /// When there is none, or it has ended.
    pub async fn cancel(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        cancel: CancelTask,
    ) -> Result<Task, Fault> {
        let stored = self.owned(caller, agent, &cancel.id).await?;
        let (id, state) = (stored.task.id, stored.task.status.state);
        if state.is_terminal() {
            return Err(not_cancelable(id, Some(state)));
        }
        let (reply, answer) = oneshot::channel();
        let reason = cancel.metadata.as_ref().and_then(|metadata| metadata.get("reason")?.as_str());
        let reason = reason.map(|reason| reason.chars().take(REASON_CHARS).collect());
        self.post(Cancel { task: id, reason, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping()))? {
            TaskReply::Task(task) => Ok(Arc::unwrap_or_clone(task)),
            _ => Err(Fault::Internal),
        }
    }

    /// Deletes an ended task for an operator, whose name is recorded in the journal first.
    ///
    /// # Errors
    /// When there is none, it or its objective has not ended, or the store is unavailable.
    pub async fn delete(&self, id: TaskId, by: &str) -> Result<(), Fault> {
        let stored = self.get_any(id).await?;
        let state = stored.task.status.state;
        if !state.is_terminal() {
            let state = state.short_name();
            let reason = format!("task {id} is {state}; cancel it before you delete it");
            return Err(Fault::Unsupported { reason });
        }
        let objective = stored.task.context_id.clone();
        let tree = self.read_store(move |reader| reader.objective(&objective)).await?;
        if let Some(tree) = tree.filter(|tree| !tree.stored.objective.status.is_terminal()) {
            let open = tree.stored.objective.id;
            let reason = format!("task {id} is part of objective {open}, which has not ended");
            return Err(Fault::Unsupported { reason });
        }
        let (agent, owner) = (&stored.agent, &stored.owner);
        let reason = format!(
            "A2A task {id} ({}, by {agent}, for {owner}) deleted by {by}",
            state.short_name()
        );
        let recorded = self.bus.record_deleted(id, reason).await;
        recorded.map_err(|_| store_unavailable())?;
        let (reply, done) = oneshot::channel();
        self.post(Delete { task: id, reply })?;
        match done.await.map_err(|_| stopping())? {
            Some(WriteOutcome::Done) => Ok(()),
            // Another call has deleted it.
            Some(WriteOutcome::Missing) => Err(Fault::TaskNotFound { task: id.to_string() }),
            _ => Err(store_unavailable()),
        }
    }
}
