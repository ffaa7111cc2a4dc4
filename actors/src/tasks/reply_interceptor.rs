//! Reply interceptor: takes the agents' answers to the service's own requests from the bus, before
//! the sessions of the callers in whose names they were sent.

use std::collections::HashMap;
use std::sync::Arc;

use a2a_policy::tasks::interpret;
use a2a_protocol::{AgentId, Body, Envelope, TaskId};
use actix::Addr;
use parking_lot::RwLock;

use super::TaskStats;
use super::service::write_behind::WriteBehindLimit;
use super::service::{AgentReply, Service};
use crate::{AckHandle, AgentRuntime, Delivery, Failed, Handled, HandlerFuture};

/// Answers that may wait for their commit at once.
const MAX_IN_FLIGHT: usize = 4_096;

/// The live tasks and the bus names they use, readable from every thread.
#[derive(Debug, Default)]
pub(super) struct LiveTaskIndex(RwLock<HashMap<TaskId, AgentId>>);

impl LiveTaskIndex {
    pub(super) fn insert(&self, task: TaskId, principal: AgentId) {
        self.0.write().insert(task, principal);
    }

    pub(super) fn remove(&self, task: &TaskId) {
        self.0.write().remove(task);
    }

    /// Whether this name receives the answers about the task. The agent that executes the task may
    /// receive messages about it as well; those are its own.
    fn is_under(&self, task: &TaskId, name: &AgentId) -> bool {
        self.0.read().get(task) == Some(name)
    }
}

pub(super) struct ReplyInterceptor {
    /// The name whose answers it takes.
    pub(super) name: AgentId,
    pub(super) service: Addr<Service>,
    pub(super) index: Arc<LiveTaskIndex>,
    /// The name belongs to a client and not to an agent: no session reads its messages.
    pub(super) is_client: bool,
    pub(super) stats: Arc<TaskStats>,
    pub(super) write_behind: WriteBehindLimit,
}

/// The task of a message, for the kinds that can answer one.
fn task_of(message: &Envelope) -> Option<TaskId> {
    match &message.body {
        Body::TaskResponse(response) => Some(response.task_id),
        Body::StatusUpdate(update) => update.task_id,
        _ => None,
    }
}

impl AgentRuntime for ReplyInterceptor {
    /// Sends messages to the service in order. Each is acknowledged once its change is committed;
    /// one that is dropped at the shutdown is redelivered after the restart.
    fn take_deferred(&self, delivery: &Delivery, ack: AckHandle) -> Option<AckHandle> {
        let Some((task, update)) = task_of(&delivery.message).zip(interpret(&delivery.message))
        else {
            return Some(ack);
        };
        let (answers, ends) = match &delivery.message.body {
            Body::TaskResponse(response) => (true, response.action.ends()),
            _ => (false, false),
        };
        // The number in flight is bounded, so the mailbox needs no limit.
        self.service.do_send(AgentReply {
            task,
            sender: delivery.sender.clone(),
            correlation: delivery.message.correlation_id,
            answers,
            ends,
            update,
            seq: delivery.seq,
            id: delivery.message.message_id,
            accepted: delivery.accepted,
            bytes: delivery.bytes.len(),
            done: ack,
        });
        None
    }

    /// Handles messages that concern no task.
    fn handle(&self, delivery: Delivery) -> HandlerFuture {
        let asks = matches!(delivery.message.body, Body::TaskRequest(_) | Body::ReviewRequest(_));
        if self.is_client && asks {
            // A failed last attempt becomes a dead letter, which notifies the sender.
            let reason = format!("`{}` is a caller, not an agent; nobody works there", self.name);
            return Box::pin(async { Err(Failed { reason, durable: None }) });
        }
        Box::pin(async { Ok(Handled::default()) })
    }

    /// The service does the work on its own thread.
    fn runs_on_bus_thread(&self) -> bool {
        true
    }

    /// An acknowledgement then waits for the store, and callers may have their replies already: a
    /// missed deadline must not fail the message.
    fn deadline_paused(&self) -> bool {
        !self.stats.is_writing() || !self.write_behind.is_zero()
    }

    fn has_out_of_band(&self) -> bool {
        true
    }

    fn is_out_of_band(&self, _: &AgentId, message: &Envelope) -> bool {
        self.is_client
            || task_of(message).is_some_and(|task| self.index.is_under(&task, &self.name))
    }

    fn max_in_flight(&self) -> usize {
        MAX_IN_FLIGHT
    }
}
