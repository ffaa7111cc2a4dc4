//! Cancels tasks and deletes ended ones. This actor alone decides whether a cancel or the agent's
//! answer comes first.

use std::sync::Arc;

use a2a_policy::tasks::{AgentText, TaskTransition};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::task::TaskState;
use a2a_taskdb::{Write, WriteOutcome};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::live_task::{AgentAction, Followup};
use super::store_queue::PendingWrite;
use super::{ReplySender, Service, TaskReply};
use crate::CancelError;

/// Cancels a task; replies once the store and the bus have it.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Cancel {
    pub(in crate::tasks) task: TaskId,
    /// The reason the caller gave.
    pub(in crate::tasks) reason: Option<String>,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<Cancel> for Service {
    type Result = ();

    fn handle(&mut self, Cancel { task: id, reason, reply }: Cancel, _: &mut Self::Context) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else {
            // The task has ended and was evicted: the caller has just read it from the store.
            let _ = reply.send(Err(not_cancelable(id, None)));
            return;
        };
        let state = live.state();
        let Some(event) = live.advance(TaskTransition::Cancel, AgentText::default(), now) else {
            let _ = reply.send(Err(not_cancelable(id, Some(state))));
            return;
        };
        let reason = reason.unwrap_or_else(|| "cancelled by the client".to_owned());
        // Also when the task is only queued: a dispatch before a crash may be missing in the store.
        let action = AgentAction::Cancel(reason);
        let replies = vec![reply];
        self.change(id, vec![event], Followup { replies, action, ..Followup::default() });
        self.release_lane(id);
    }
}

impl Service {
    /// Cancels the task on the bus, which notifies its agent. The `replies` are sent once the bus
    /// has recorded that: after a crash the request is not delivered any more.
    pub(super) fn cancel_on_bus(
        &mut self,
        id: TaskId,
        reason: String,
        replies: Vec<ReplySender>,
        ctx: &mut Context<Self>,
    ) {
        let Some(live) = self.live.get(&id) else { return };
        let (bus, principal) = (self.bus.clone(), live.stored.principal.clone());
        let task = Arc::clone(&live.durable);
        let cancelled = async move { bus.cancel_task(id, Some(principal), reason).await };
        ctx.spawn(cancelled.into_actor(self).map(move |result, _, _| {
            let answer = match result {
                Ok(()) => Ok(()),
                Err(CancelError::Refused(refused)) => {
                    // The task ended on the bus at the same time, or was never sent there.
                    tracing::debug!(task = %id, %refused, "no task to cancel on the bus");
                    Ok(())
                }
                Err(CancelError::Unavailable) => Err(Fault::Unavailable {
                    reason: format!("task {id} is canceled, but the bus cannot record that right now: its agent may still get it"),
                    retry_after_ms: 1_000,
                }),
            };
            for reply in replies {
                let answer = answer.clone().map(|()| TaskReply::Task(Arc::clone(&task)));
                let _ = reply.send(answer);
            }
        }));
    }
}

/// Deletes an ended task and everything that belongs to it; replies after the commit, `None` when
/// the task has not ended or the store is unavailable.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Delete {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: oneshot::Sender<Option<WriteOutcome>>,
}

impl Handler<Delete> for Service {
    type Result = ();

    fn handle(&mut self, Delete { task, reply }: Delete, _: &mut Self::Context) {
        if self.live.contains_key(&task) {
            let _ = reply.send(None);
            return;
        }
        self.write(Write::Delete(task), PendingWrite::Reply(reply));
    }
}

pub(in crate::tasks) fn not_cancelable(task: TaskId, state: Option<TaskState>) -> Fault {
    let state = state.filter(|state| state.is_terminal()).map_or("over", TaskState::short_name);
    Fault::TaskNotCancelable { task: task.to_string(), state }
}
