//! The clerk: takes the answers to the service's own requests, beside the sessions of those in
//! whose names they were sent.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use a2a_policy::tasks::hear;
use a2a_protocol::{AgentId, Body, Envelope, TaskId};
use actix::Addr;
use tokio::sync::oneshot;

use super::service::{Hear, Service};
use crate::{Handled, HandlerFuture, Letter, Runtime};

/// How many answers may be on their way to the disk at once.
const WINDOW: usize = 1_024;

/// The tasks that the service holds, for those who look from other threads.
#[derive(Debug, Default)]
pub(super) struct Held(RwLock<HashSet<TaskId>>);

impl Held {
    pub(super) fn insert(&self, task: TaskId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(task);
    }

    pub(super) fn remove(&self, task: &TaskId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(task);
    }

    fn contains(&self, task: &TaskId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(task)
    }
}

pub(super) struct Clerk {
    pub(super) service: Addr<Service>,
    pub(super) held: Arc<Held>,
}

/// The task that an answer is about, if it is one that a task can have.
fn about(message: &Envelope) -> Option<TaskId> {
    match &message.body {
        Body::TaskResponse(response) => Some(response.task_id),
        Body::StatusUpdate(update) => update.task_id,
        _ => None,
    }
}

impl Runtime for Clerk {
    /// Returns when what the message means for the task is durable: only then is it acknowledged.
    fn handle(&self, letter: Letter) -> HandlerFuture {
        let service = self.service.clone();
        Box::pin(async move {
            let heard = hear(&letter.message);
            if let (Some(task), Some(heard)) = (about(&letter.message), heard) {
                let (done, durable) = oneshot::channel();
                let message = Hear {
                    task,
                    correlation: letter.message.correlation_id,
                    heard,
                    bytes: letter.bytes.len(),
                    done,
                };
                if service.send(message).await.is_err() || durable.await.is_err() {
                    // Stopping: not acknowledged, so it comes again after the restart.
                    std::future::pending::<()>().await;
                }
            }
            Handled::default()
        })
    }

    fn watches(&self) -> bool {
        true
    }

    fn wants_at_once(&self, _: &AgentId, message: &Envelope) -> bool {
        about(message).is_some_and(|task| self.held.contains(&task))
    }

    fn window(&self) -> usize {
        WINDOW
    }
}
