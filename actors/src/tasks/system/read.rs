//! Looking at tasks, watching them, and calling them off.

use std::sync::Arc;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{CancelTask, GetTask, ListTasks, StreamEvent, Subscribe, TaskPage};
use a2a_protocol::task::Task;
use a2a_protocol::{AgentId, TaskId};
use a2a_taskdb::{ListQuery, PageToken, TaskReader, TaskStoreError, Written};
use tokio::sync::oneshot;

use super::{TaskCaller, TaskSystem, invalid, stopping};
use crate::tasks::service::{
    AddSubscriber, Cancel, Delete, TaskReply, disk_refuses, not_cancelable,
};
use crate::tasks::watch::{TaskEvent, TaskStream};

/// How many missed events are read at once.
const MISSED_AT_ONCE: usize = 256;

/// No reason for calling a task off is longer.
const LONGEST_REASON: usize = 2_000;

impl TaskSystem {
    /// One task of the caller's.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        get: GetTask,
    ) -> Result<Task, Fault> {
        let mut task = Arc::unwrap_or_clone(self.owned(caller, agent, &get.id).await?.task);
        task.cut_history(get.history_length);
        Ok(task)
    }

    /// A page of the caller's tasks.
    ///
    /// # Errors
    /// When the token was not made by this server.
    pub async fn list(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        list: ListTasks,
    ) -> Result<TaskPage, Fault> {
        let token = list.page_token.filter(|token| !token.is_empty());
        let token = token.map(|token| token.parse::<PageToken>()).transpose();
        let page_token = token.map_err(|error| invalid("/pageToken", &error.to_string()))?;
        let page_size = list.page_size.unwrap_or(50);
        let of_objective = match &list.context_id {
            Some(context) => self.find_objective(caller, context).await?.is_some(),
            None => false,
        };
        let query = ListQuery {
            owner: (!caller.sees_all).then(|| Arc::clone(&caller.owner)),
            agent: (!of_objective).then(|| agent.clone()),
            context: list.context_id,
            status: list.status,
            after: list.status_timestamp_after,
            page_size: page_size as usize,
            page_token,
            history_length: list.history_length,
            include_artifacts: list.include_artifacts,
        };
        self.await_store().await?;
        let page = self.read_store(move |reader| reader.list(&query)).await?;
        Ok(TaskPage {
            tasks: page.tasks.into_iter().map(|s| Arc::unwrap_or_clone(s.task)).collect(),
            next_page_token: page.next_page_token.map(|t| t.to_string()).unwrap_or_default(),
            page_size,
            total_size: page.total_size,
        })
    }

    /// Calls a task off.
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
        let reason = reason.map(|reason| reason.chars().take(LONGEST_REASON).collect());
        self.post(Cancel { task: id, reason, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping()))? {
            TaskReply::Task(task) => Ok(Arc::unwrap_or_clone(task)),
            _ => Err(Fault::Internal),
        }
    }

    /// Deletes a task that has ended, for a person; who did it is in the journal first.
    ///
    /// # Errors
    /// When there is none, it has not ended, the objective it is part of has not, or the disk
    /// refuses.
    pub async fn delete(&self, id: TaskId, by: &str) -> Result<(), Fault> {
        let stored = self.get_any(id).await?;
        let state = stored.task.status.state;
        if !state.is_terminal() {
            let state = state.in_a_word();
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
            state.in_a_word()
        );
        let recorded = self.bus.record_deleted(id, reason).await;
        recorded.map_err(|_| disk_refuses())?;
        let (reply, done) = oneshot::channel();
        self.post(Delete { task: id, reply })?;
        match done.await.map_err(|_| stopping())? {
            Some(Written::Done) => Ok(()),
            // Another call was first.
            Some(Written::Missing) => Err(Fault::TaskNotFound { task: id.to_string() }),
            _ => Err(disk_refuses()),
        }
    }

    /// Watches a task: as it stands and everything from now on, or everything after the last
    /// event the caller has seen.
    ///
    /// # Errors
    /// When there is none, or it has ended and nothing was missed.
    pub async fn subscribe(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        watch: Subscribe,
    ) -> Result<TaskStream, Fault> {
        let stored = self.owned(caller, agent, &watch.id).await?;
        if stored.task.status.state.is_terminal() && watch.after.is_none() {
            let state = stored.task.status.state.in_a_word();
            let reason = format!("task {} has ended ({state}); get it instead", watch.id);
            return Err(Fault::Unsupported { reason });
        }
        self.watch(stored.task.id, watch.after, true).await
    }

    pub(super) async fn watch(
        &self,
        task: TaskId,
        after: Option<u64>,
        patient: bool,
    ) -> Result<TaskStream, Fault> {
        let (reply, answer) = oneshot::channel();
        self.post(AddSubscriber { task, patient, reply })?;
        let live = answer.await.unwrap_or_else(|_| Err(stopping()))?;
        let Some(after) = after else {
            let (task, number, events) = match live {
                Some(live) => (live.task, live.number, Some(live.events)),
                None => {
                    let stored = self.stored(task).await?;
                    (Arc::unwrap_or_clone(stored.task), stored.last_event, None)
                }
            };
            let last = events.is_none();
            let event = Arc::new(StreamEvent::Task(Box::new(task)));
            return Ok(TaskStream::new(vec![TaskEvent { number, event, last }], events));
        };
        let until = live.as_ref().map_or(u64::MAX, |live| live.number);
        let missed = self.read_store(move |reader| missed(reader, task, after)).await?;
        let over = live.is_none();
        let count = missed.len();
        if over && count == 0 {
            if !patient {
                // Said again by one who has seen everything: it is shown how it stands.
                return Box::pin(self.watch(task, None, patient)).await;
            }
            let reason = format!("task {task} has ended and nothing was missed; get it instead");
            return Err(Fault::Unsupported { reason });
        }
        let before = missed.into_iter().take_while(|(number, _)| *number <= until).enumerate();
        let before = before.map(|(at, (number, event))| TaskEvent {
            number,
            event,
            last: over && at + 1 == count,
        });
        Ok(TaskStream::new(before.collect(), live.map(|live| live.events)))
    }
}

/// Everything that happened after an event, read a piece at a time. How much that can be is
/// bounded by how much an agent may say about a task.
fn missed(
    reader: &dyn TaskReader,
    task: TaskId,
    mut after: u64,
) -> Result<Vec<(u64, Arc<StreamEvent>)>, TaskStoreError> {
    let mut all = Vec::new();
    loop {
        let piece = reader.events(task, after, MISSED_AT_ONCE)?;
        let is_last = piece.len() < MISSED_AT_ONCE;
        after = piece.last().map_or(after, |(number, _)| *number);
        all.extend(piece);
        if is_last {
            return Ok(all);
        }
    }
}
