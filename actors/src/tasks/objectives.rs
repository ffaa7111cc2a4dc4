//! Objectives: plans whose steps are executed as A2A tasks (OPT extension).
//!
//! ```text
//! objective ──▶ plan ──▶ step (PlanTask) ──▶ A2A task
//! ```
//!
//! The policy crate computes the effects of a change; this folder applies them. A change of a task,
//! its step, its plan and its objective is one transaction. So a parent never contradicts its
//! children, not even after a crash.
//!
//! | file | what it does |
//! | --- | --- |
//! | `commands` | creates and edits objectives and plans for clients |
//! | `start_step` | creates the task of a step; turns a message into an objective |
//! | `propagation` | carries state changes from tasks to their objective, and back to other tasks |
//! | `live_objective` | state of one open objective |

mod commands;
mod live_objective;
mod propagation;
mod start_step;

use std::collections::HashMap;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{PlanId, PlanTaskId};
use a2a_taskdb::ObjectiveTree;
use actix::prelude::*;
use tokio::sync::{mpsc, oneshot};

use super::service::subscribers::TaskEvent;
use super::service::{PendingWrite, Service};

pub(in crate::tasks) use commands::{
    ApplyObjectiveCommand, ObjectiveCommand, ObjectiveCommandReply,
};
use live_objective::LiveObjective;
pub(in crate::tasks) use live_objective::{result_of, shown};
pub(in crate::tasks) use start_step::SubmitObjective;

/// The step of an objective that an A2A task executes.
#[derive(Debug, Clone)]
pub(in crate::tasks) struct StepRef {
    pub(in crate::tasks) objective: ObjectiveId,
    pub(in crate::tasks) step: PlanTaskId,
}

/// Objectives that are open or have uncommitted changes.
#[derive(Default)]
pub(super) struct Objectives {
    live: HashMap<ObjectiveId, LiveObjective>,
}

impl Objectives {
    pub(super) fn evict(&mut self, id: &ObjectiveId) {
        self.live.remove(id);
    }

    /// Number of open objectives of an owner.
    fn open_of(&self, owner: &str) -> usize {
        self.live
            .values()
            .filter(|objective| &*objective.stored.owner == owner && !objective.is_over())
            .count()
    }
}

/// An objective that was open before a restart, with the results of its completed steps.
pub(in crate::tasks) type OpenObjective = (ObjectiveTree, Vec<(PlanTaskId, String)>);

/// What kind of change an objective gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum CauseKind {
    /// A step has changed its state. The objective is written only if that changes it or a plan.
    #[default]
    Step,
    /// A client has edited the objective or added plans or steps.
    Edited,
    Created,
}

/// Why an objective changes, and the callers that wait for it.
#[derive(Default)]
struct Cause {
    kind: CauseKind,
    /// Events of the task that causes the change.
    events: Vec<StreamEvent>,
    /// Callers that get their reply after the commit.
    replies: Vec<commands::PendingReply>,
}

/// Replies when the revision of an objective exceeds `since`, or the objective has ended.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct WaitRevision {
    pub(in crate::tasks) id: ObjectiveId,
    pub(in crate::tasks) since: u64,
    pub(in crate::tasks) reply: oneshot::Sender<()>,
}

impl Handler<WaitRevision> for Service {
    type Result = ();

    fn handle(&mut self, wait: WaitRevision, _: &mut Self::Context) {
        let WaitRevision { id, since, reply } = wait;
        match self.objectives.live.get_mut(&id) {
            Some(objective) if objective.durable <= since => {
                objective.waiters.retain(|(_, waiter)| !waiter.is_closed());
                objective.waiters.push((since, reply));
            }
            _ => drop(reply.send(())),
        }
    }
}

/// Subscribes to the changes of an objective from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct AddObjectiveSubscriber {
    pub(in crate::tasks) id: ObjectiveId,
    /// Gets `None` when the objective has ended.
    pub(in crate::tasks) reply: oneshot::Sender<Option<Result<mpsc::Receiver<TaskEvent>, Fault>>>,
}

impl Handler<AddObjectiveSubscriber> for Service {
    type Result = ();

    fn handle(&mut self, subscribe: AddObjectiveSubscriber, _: &mut Self::Context) {
        let AddObjectiveSubscriber { id, reply } = subscribe;
        let (limit, buffer) = (self.settings.subscribers_per_task, self.settings.subscriber_buffer);
        let open = self.objectives.live.get_mut(&id).filter(|objective| !objective.is_over());
        let _ = reply.send(open.map(|objective| match objective.subscribers.len() < limit {
            true => Ok(objective.subscribers.add(buffer, true)),
            false => {
                let reason = format!("{limit} streams watch this objective already; close one");
                Err(Fault::Unavailable { reason, retry_after_ms: 1_000 })
            }
        }));
    }
}

fn find_plan<'a>(
    plans: &'a [a2a_taskdb::PlanTree],
    id: &PlanId,
) -> Option<&'a a2a_taskdb::PlanTree> {
    plans.iter().find(|plan| plan.stored.plan.id == *id)
}
