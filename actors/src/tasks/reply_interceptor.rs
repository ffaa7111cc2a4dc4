//! The clerk: takes the answers to the service's own requests, beside the sessions of those in
//! whose names they were sent.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use a2a_policy::tasks::hear;
use a2a_protocol::{AgentId, Body, Envelope, TaskId};
use actix::Addr;

use super::TaskStats;
use super::service::write_behind::WriteBehindLimit;
use super::service::{AgentReply, Service};
use crate::{Delivery, Failed, Handled, HandlerFuture, Runtime, Ticket};

/// How many answers may be on their way to the disk at once.
const WINDOW: usize = 4_096;

/// The tasks that the service holds and the names they travel under, for those who look from
/// other threads.
#[derive(Debug, Default)]
pub(super) struct LiveTaskIndex(RwLock<HashMap<TaskId, AgentId>>);

impl LiveTaskIndex {
    pub(super) fn insert(&self, task: TaskId, principal: AgentId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(task, principal);
    }

    pub(super) fn remove(&self, task: &TaskId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    /// Whether answers about the task are for this name. To the agent that does the task the
    /// same words may be said, and those are for the agent.
    fn is_under(&self, task: &TaskId, name: &AgentId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(task) == Some(name)
    }
}

pub(super) struct ReplyInterceptor {
    /// The name whose answers it takes.
    pub(super) name: AgentId,
    pub(super) service: Addr<Service>,
    pub(super) held: Arc<LiveTaskIndex>,
    /// The name is a caller's and no agent's: nobody else would ever read what comes for it.
    pub(super) is_client: bool,
    pub(super) stats: Arc<TaskStats>,
    pub(super) ahead: WriteBehindLimit,
}

/// The task that an answer is about, if it is one that a task can have.
fn about(message: &Envelope) -> Option<TaskId> {
    match &message.body {
        Body::TaskResponse(response) => Some(response.task_id),
        Body::StatusUpdate(update) => update.task_id,
        _ => None,
    }
}

impl Runtime for ReplyInterceptor {
    /// The service hears the messages in their order. Each is acknowledged when what it means for
    /// its task is durable; what is dropped while it stops comes again after the restart.
    fn take_over(&self, delivery: &Delivery, ticket: Ticket) -> Option<Ticket> {
        let Some((task, heard)) = about(&delivery.message).zip(hear(&delivery.message)) else {
            return Some(ticket);
        };
        let (answers, ends) = match &delivery.message.body {
            Body::TaskResponse(response) => (true, response.action.ends()),
            _ => (false, false),
        };
        // Bounded by the window.
        self.service.do_send(AgentReply {
            task,
            sender: delivery.sender.clone(),
            correlation: delivery.message.correlation_id,
            answers,
            ends,
            heard,
            seq: delivery.seq,
            id: delivery.message.message_id,
            accepted: delivery.accepted,
            bytes: delivery.bytes.len(),
            done: ticket,
        });
        None
    }

    /// What means nothing to a task.
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let asks = matches!(delivery.message.body, Body::TaskRequest(_) | Body::ReviewRequest(_));
        if self.is_client && asks {
            // Given up after the last attempt, so that whoever asks hears of it.
            let reason = format!("`{}` is a caller, not an agent; nobody works there", self.name);
            return Box::pin(async { Err(Failed { reason, durable: None }) });
        }
        Box::pin(async { Ok(Handled::default()) })
    }

    /// All the work is the service's.
    fn only_waits(&self) -> bool {
        true
    }

    /// What it waits for then is the store, and its callers may have been told already.
    fn takes_its_time(&self) -> bool {
        !self.stats.is_writing() || !self.ahead.is_none()
    }

    fn watches(&self) -> bool {
        true
    }

    fn wants_at_once(&self, _: &AgentId, message: &Envelope) -> bool {
        self.is_client || about(message).is_some_and(|task| self.held.is_under(&task, &self.name))
    }

    fn window(&self) -> usize {
        WINDOW
    }
}
