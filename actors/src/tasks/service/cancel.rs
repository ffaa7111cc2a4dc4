//! A caller calls its task off. It wins or loses against the agent's answer in this actor, and
//! nowhere else.

use a2a_policy::tasks::{Said, Step};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::task::TaskState;
use a2a_taskdb::{Write, Written};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{Followup, PendingWrite, ReplySender, Service};
use crate::tasks::service::live_task::AgentAction;

/// A caller calls its task off; the reply comes when that is durable.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Cancel {
    pub(in crate::tasks) task: TaskId,
    /// Why, if the caller says so.
    pub(in crate::tasks) reason: Option<String>,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<Cancel> for Service {
    type Result = ();

    fn handle(&mut self, Cancel { task: id, reason, reply }: Cancel, _: &mut Self::Context) {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else {
            // It ended and was forgotten; the caller has seen that it exists.
            let _ = reply.send(Err(not_cancelable(id, None)));
            return;
        };
        let state = live.state();
        let Some(event) = live.advance(Step::Cancel, Said::default(), now) else {
            let _ = reply.send(Err(not_cancelable(id, Some(state))));
            return;
        };
        let reason = reason.unwrap_or_else(|| "called off by whoever asked for it".to_owned());
        // Also where the store says that it only waits: a crash may have kept it from knowing more.
        let then = AgentAction::Cancel(reason);
        self.change(id, vec![event], Followup { told: vec![reply], then, ..Followup::default() });
        self.release_lane(id);
    }
}

/// Deletes a task that has ended, with everything about it. The reply comes when that is durable;
/// `None` when the task has not ended or the disk refuses.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Delete {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: oneshot::Sender<Option<Written>>,
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
    let state = state.filter(|state| state.is_terminal()).map_or("over", TaskState::in_a_word);
    Fault::TaskNotCancelable { task: task.to_string(), state }
}
