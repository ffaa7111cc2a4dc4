//! Submits messages of clients: creates a task, or appends to an open one.

use std::sync::Arc;

use a2a_policy::tasks::QueuePosition;
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Message, TaskState};
use a2a_taskdb::{SentMessage, StoredTask, Write};
use actix::prelude::*;

use super::live_task::{AgentAction, Followup, LiveTask};
use super::store_queue::PendingWrite;
use super::{ReplySender, Service, TaskReply};
use crate::Submission;

/// What the caller of a message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tasks) enum WaitFor {
    /// The commit of the task.
    Created,
    /// The end of the task, or its interruption.
    End,
    /// Nothing: it gets a stream of events.
    Stream,
}

/// Creates a task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Submit {
    /// The task, in state submitted.
    pub(in crate::tasks) stored: StoredTask,
    /// The message as the client sent it.
    pub(in crate::tasks) sent: SentMessage,
    /// The agent's request, assessed by the bus.
    pub(in crate::tasks) submission: Submission,
    pub(in crate::tasks) push: Option<PushConfig>,
    pub(in crate::tasks) wait_for: WaitFor,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<Submit> for Service {
    type Result = ();

    fn handle(&mut self, submit: Submit, _: &mut Self::Context) {
        let Submit { stored, sent, submission, push, wait_for, reply } = submit;
        let (id, now) = (stored.task.id, self.clock.now());
        let sent_id = sent.id.clone();
        let _span =
            tracing::debug_span!("task", trace = %stored.trace().id(), task = %id).entered();
        let message = Some(sent).filter(|_| !self.settings.reused_ids.contains(&stored.agent));
        let mut live = LiveTask::new(stored);
        match self.scheduler.queues.submit(&live.lane, id) {
            Ok(QueuePosition::Runs) => {
                // The task is created as working: its start is no event.
                let _ = live.start_turn(now);
                live.submission = Some(submission);
            }
            Ok(QueuePosition::Waits(_)) => {
                live.stored.queued = Some(self.scheduler.push_back(now.utc));
            }
            Err(full) => {
                let retry_after_ms = 1_000;
                let _ = reply.send(Err(Fault::QueueFull { limit: full.limit, retry_after_ms }));
                return;
            }
        }
        live.durable = Arc::clone(&live.stored.task);
        if wait_for != WaitFor::Created {
            live.hide();
        }
        live.has_push = push.is_some();
        if let Some(message) = &message {
            self.register_message(&live.stored, message.clone());
        }
        self.index.insert(id, live.stored.principal.clone());
        let stored = live.stored.clone();
        let push = push.into_iter().collect();
        self.live.insert(id, live);
        let write = Write::Create { stored, message, events: Vec::new(), push };
        self.write(write, PendingWrite::Create { task: id, sent: sent_id, wait_for, reply });
    }
}

/// Appends a message to an open task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Continue {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) message: Message,
    /// The message as the client sent it.
    pub(in crate::tasks) sent: SentMessage,
    /// The message as a working agent gets it, assessed by the bus.
    pub(in crate::tasks) addition: Submission,
    pub(in crate::tasks) wait_for: WaitFor,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<Continue> for Service {
    type Result = ();

    fn handle(&mut self, submit: Continue, ctx: &mut Self::Context) {
        let Continue { task: id, message, sent, addition, wait_for, reply } = submit;
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.is_over()) else {
            let reason = format!("task {id} has ended; begin a new one without a taskId");
            let _ = reply.send(Err(Fault::Unsupported { reason }));
            return;
        };
        let has_same_id = |other: &&Arc<Message>| {
            other.message_id == message.message_id && other.role == message.role
        };
        let deduplicates = !self.settings.reused_ids.contains(&live.stored.agent);
        if let Some(before) = live.stored.task.history.iter().find(has_same_id)
            && deduplicates
        {
            let is_same = **before == message;
            let conflict = || Fault::MessageConflict { message: message.message_id.to_string() };
            let _ =
                reply.send(if is_same { Ok(TaskReply::Duplicate(id)) } else { Err(conflict()) });
            return;
        }
        let sent = deduplicates.then_some(sent);
        if let Some(sent) = &sent {
            // A repeat of the message without the task's id must not create a task.
            self.deferred.register_followup(&live.stored.owner, &live.stored.agent, &sent.id);
        }
        live.show();
        live.add_client_message(message);
        let (mut replies, mut streams) = (Vec::new(), Vec::new());
        match wait_for {
            WaitFor::Created => replies.push(reply),
            // Waits for what follows this message, not for the state that it answers.
            WaitFor::End => live.waiters.push((live.stored.version + 1, reply)),
            WaitFor::Stream => streams.push(reply),
        }
        let (mut events, mut action) = (Vec::new(), AgentAction::None);
        if live.state().is_interrupted() {
            (events, action) = self.requeue(id);
        } else if live.state() == TaskState::Working {
            self.notify_agent(id, addition, ctx);
        }
        let followup = Followup { message: sent, replies, streams, action, ..Followup::default() };
        self.change(id, events, followup);
    }
}
