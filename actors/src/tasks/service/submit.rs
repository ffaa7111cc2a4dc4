//! A caller says something: a new task, or more about one that is open.

use std::sync::Arc;

use a2a_policy::tasks::{Place, Said, Step};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Message, TaskState};
use a2a_taskdb::{Queued, SentMessage, StoredTask, Write};
use actix::prelude::*;

use super::{Followup, PendingWrite, ReplySender, Service, TaskReply};
use crate::Submission;
use crate::tasks::service::live_task::{AgentAction, LiveTask};

/// What the caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tasks) enum WaitFor {
    /// That the task is taken.
    Created,
    /// That it has ended, or waits for the caller.
    End,
    /// Everything that happens.
    Stream,
}

/// A new task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Submit {
    /// As it is before anybody looked whether it can run at once.
    pub(in crate::tasks) stored: StoredTask,
    /// The message that asks for it, as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    /// Its request, assessed.
    pub(in crate::tasks) submission: Submission,
    pub(in crate::tasks) push: Option<PushConfig>,
    pub(in crate::tasks) want: WaitFor,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<Submit> for Service {
    type Result = ();

    fn handle(&mut self, begin: Submit, _: &mut Self::Context) {
        let Submit { stored, sent, submission, push, want, reply } = begin;
        let (id, now) = (stored.task.id, self.clock.now());
        let sent_id = sent.id.clone();
        let _span =
            tracing::debug_span!("task", trace = %stored.trace().id(), task = %id).entered();
        let message = Some(sent).filter(|_| !self.settings.reused_ids.contains(&stored.agent));
        let mut live = LiveTask::new(stored);
        match self.queues.submit(&live.lane, id) {
            Ok(Place::Runs) => {
                // TaskReply before anybody has seen it: that is no event.
                let _ = live.advance(Step::Start, Said::default(), now);
                live.stored.dispatched = true;
                live.dispatches = 1;
                live.submission = Some(submission);
            }
            Ok(Place::Waits(_)) => {
                self.last_order += 1;
                live.stored.queued = Some(Queued { order: self.last_order, at: now.utc.into() });
            }
            Err(full) => {
                let retry_after_ms = 1_000;
                let _ = reply.send(Err(Fault::QueueFull { limit: full.limit, retry_after_ms }));
                return;
            }
        }
        live.durable = Arc::clone(&live.stored.task);
        live.unseen = want != WaitFor::Created;
        live.has_push = push.is_some();
        if let Some(message) = &message {
            self.hear(&live.stored, message.clone());
        }
        self.held.insert(id, live.stored.principal.clone());
        let stored = live.stored.clone();
        let push = push.into_iter().collect();
        self.live.insert(id, live);
        let write = Write::Create { stored, message, events: Vec::new(), push };
        self.write(write, PendingWrite::Create { task: id, sent: sent_id, want, reply });
    }
}

/// More about a task that is open.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Continue {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) message: Message,
    /// The same as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    /// The message as an agent at work hears it, assessed.
    pub(in crate::tasks) addition: Submission,
    pub(in crate::tasks) want: WaitFor,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<Continue> for Service {
    type Result = ();

    fn handle(&mut self, go_on: Continue, ctx: &mut Self::Context) {
        let Continue { task: id, message, sent, addition, want, reply } = go_on;
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.is_over()) else {
            let reason = format!("task {id} has ended; begin a new one without a taskId");
            let _ = reply.send(Err(Fault::Unsupported { reason }));
            return;
        };
        let said_before = |other: &&Arc<Message>| {
            other.message_id == message.message_id && other.role == message.role
        };
        let tells_apart = !self.settings.reused_ids.contains(&live.stored.agent);
        if let Some(before) = live.stored.task.history.iter().find(said_before)
            && tells_apart
        {
            let is_same = **before == message;
            let conflict = || Fault::MessageConflict { message: message.message_id.to_string() };
            let _ =
                reply.send(if is_same { Ok(TaskReply::Duplicate(id)) } else { Err(conflict()) });
            return;
        }
        let sent = tells_apart.then_some(sent);
        if let Some(sent) = &sent {
            // Whoever says it again without naming the task begins none.
            self.deferred.register_followup(&live.stored.owner, &live.stored.agent, &sent.id);
        }
        live.unseen = false;
        live.add_caller_message(message);
        let (mut told, mut watchers) = (Vec::new(), Vec::new());
        match want {
            WaitFor::Created => told.push(reply),
            // It hears of what comes of this, not of the state it answers to.
            WaitFor::End => live.waiters.push((live.stored.version + 1, reply)),
            WaitFor::Stream => watchers.push(reply),
        }
        let (mut events, mut then) = (Vec::new(), AgentAction::None);
        if live.state().is_interrupted() {
            (events, then) = self.requeue(id);
        } else if live.state() == TaskState::Working {
            self.notify_agent(id, addition, ctx);
        }
        self.change(
            id,
            events,
            Followup { message: sent, told, watchers, then, ..Followup::default() },
        );
    }
}
