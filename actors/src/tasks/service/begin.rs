//! A caller says something: a new task, or more about one that is open.

use std::sync::Arc;

use a2a_policy::tasks::{Place, Said, Step};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::task::{Message, TaskState};
use a2a_taskdb::{Queued, SentMessage, StoredTask, Write};
use actix::prelude::*;

use super::{Answering, Awaited, Begun, Service, Wake};
use crate::Submission;
use crate::tasks::service::entry::{Entry, Then};

/// What the caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tasks) enum Want {
    /// That the task is taken.
    Now,
    /// That it has ended, or waits for the caller.
    End,
    /// Everything that happens.
    Stream,
}

/// A new task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Begin {
    /// As it is before anybody looked whether it can run at once.
    pub(in crate::tasks) stored: StoredTask,
    /// The message that asks for it, as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    /// Its request, assessed.
    pub(in crate::tasks) submission: Submission,
    pub(in crate::tasks) push: Option<PushConfig>,
    pub(in crate::tasks) want: Want,
    pub(in crate::tasks) reply: Answering,
}

impl Handler<Begin> for Service {
    type Result = ();

    fn handle(&mut self, begin: Begin, _: &mut Self::Context) {
        let Begin { stored, sent, submission, push, want, reply } = begin;
        let (id, now) = (stored.task.id, self.clock.now());
        let sent_id = sent.id.clone();
        let _span =
            tracing::debug_span!("task", trace = %stored.trace().id(), task = %id).entered();
        let message = Some(sent).filter(|_| !self.settings.reused_ids.contains(&stored.agent));
        let mut entry = Entry::new(stored);
        match self.queues.submit(&entry.lane, id) {
            Ok(Place::Runs) => {
                // Begun before anybody has seen it: that is no event.
                let _ = entry.advance(Step::Start, Said::default(), now);
                entry.stored.dispatched = true;
                entry.turn = 1;
                entry.submission = Some(submission);
            }
            Ok(Place::Waits(_)) => {
                self.last_order += 1;
                entry.stored.queued = Some(Queued { order: self.last_order, at: now.utc.into() });
            }
            Err(full) => {
                let retry_after_ms = 1_000;
                let _ = reply.send(Err(Fault::QueueFull { limit: full.limit, retry_after_ms }));
                return;
            }
        }
        entry.durable = Arc::clone(&entry.stored.task);
        entry.unseen = want != Want::Now;
        entry.is_pushed = push.is_some();
        if let Some(message) = &message {
            self.hear(&entry.stored, message.clone());
        }
        self.held.insert(id, entry.stored.principal.clone());
        let stored = entry.stored.clone();
        let push = push.into_iter().collect();
        self.entries.insert(id, entry);
        let write = Write::Create { stored, message, events: Vec::new(), push };
        self.write(write, Awaited::Create { task: id, sent: sent_id, want, reply });
    }
}

/// More about a task that is open.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct GoOn {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) message: Message,
    /// The same as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    /// The message as an agent at work hears it, assessed.
    pub(in crate::tasks) addition: Submission,
    pub(in crate::tasks) want: Want,
    pub(in crate::tasks) reply: Answering,
}

impl Handler<GoOn> for Service {
    type Result = ();

    fn handle(&mut self, go_on: GoOn, ctx: &mut Self::Context) {
        let GoOn { task: id, message, sent, addition, want, reply } = go_on;
        let Some(entry) = self.entries.get_mut(&id).filter(|entry| !entry.is_over()) else {
            let reason = format!("task {id} has ended; begin a new one without a taskId");
            let _ = reply.send(Err(Fault::Unsupported { reason }));
            return;
        };
        let said_before = |other: &&Arc<Message>| {
            other.message_id == message.message_id && other.role == message.role
        };
        let tells_apart = !self.settings.reused_ids.contains(&entry.stored.agent);
        if let Some(before) = entry.stored.task.history.iter().find(said_before)
            && tells_apart
        {
            let is_same = **before == message;
            let conflict = || Fault::MessageConflict { message: message.message_id.to_string() };
            let _ = reply.send(if is_same { Ok(Begun::Repeated(id)) } else { Err(conflict()) });
            return;
        }
        let sent = tells_apart.then_some(sent);
        if let Some(sent) = &sent {
            // Whoever says it again without naming the task begins none.
            self.unborn.note(&entry.stored.owner, &entry.stored.agent, &sent.id);
        }
        entry.unseen = false;
        entry.listen(message);
        let (mut told, mut watchers) = (Vec::new(), Vec::new());
        match want {
            Want::Now => told.push(reply),
            // It hears of what comes of this, not of the state it answers to.
            Want::End => entry.waiters.push((entry.stored.version + 1, reply)),
            Want::Stream => watchers.push(reply),
        }
        let (mut events, mut then) = (Vec::new(), Then::Nothing);
        if entry.state().is_interrupted() {
            (events, then) = self.line_up_again(id);
        } else if entry.state() == TaskState::Working {
            self.tell_agent(id, addition, ctx);
        }
        self.change(id, events, Wake { message: sent, told, watchers, then, ..Wake::default() });
    }
}
