//! Deferred create: postpones the database row of a blocking `message/send` until the task ends or
//! its time limit passes.
//!
//! The caller gets no reply before the end, so the agent can be asked before the task is in the
//! store. A task that ends within the limit is written once, with its end. Otherwise its row is
//! created at the limit and the task continues like any other. A message that may be a duplicate,
//! which only the store can decide, is never deferred.
//!
//! When the agent's answer ends the task, both request and answer are in the journal. If the
//! request also contains the whole task, the caller gets its reply at once and the store gets the
//! task in a batch ([`super::write_behind`]). After a crash the task is rebuilt from the journal
//! ([`super::super::recovery`]).
//!
//! A crash before the answer leaves a request in the journal whose task no caller has seen. The
//! answer is dropped, and a repeat of the message creates a new task.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use a2a_protocol::task::{Message, OpaqueId};
use a2a_protocol::{AgentId, Receipt, TaskId};
use a2a_taskdb::{SentMessage, StoredTask, Write, WriteOutcome, message_key};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::live_task::LiveTask;
use super::store_queue::{BARRIER, PendingWrite};
use super::{ReplySender, Service, TaskReply};
use crate::tasks::outgoing::{OutgoingRequest, receipt_fault};

/// Message keys kept in memory, at some 16 bytes each. With more messages in the store no create
/// is deferred.
pub(in crate::tasks) const MAX_MESSAGE_KEYS: usize = 2_000_000;

/// Message keys for deduplication, and the tasks without a row.
#[derive(Default)]
pub(super) struct DeferredCreates {
    /// The keys of all messages ever received; `None` when there are too many.
    seen: Option<HashSet<u64>>,
    /// Tasks without a row, by the keys of their messages.
    tasks: HashMap<u64, TaskId>,
    /// When their time limits pass, oldest first. Some may have a row meanwhile.
    limits: VecDeque<(Duration, TaskId)>,
    timer_armed: bool,
}

impl DeferredCreates {
    pub(super) fn new(seen: Option<Vec<u64>>) -> Self {
        Self { seen: seen.map(HashSet::from_iter), ..Self::default() }
    }

    /// Registers a message that was appended to an open task.
    pub(super) fn register_followup(&mut self, owner: &str, agent: &AgentId, message: &OpaqueId) {
        self.register(message_key(owner, agent, message));
    }

    /// Registers a message; `true` when it is certainly new.
    fn register(&mut self, key: u64) -> bool {
        let Some(seen) = &mut self.seen else { return false };
        if seen.len() >= MAX_MESSAGE_KEYS {
            self.seen = None;
            return false;
        }
        seen.insert(key)
    }
}

/// What the row of a task without one needs.
pub(super) struct DeferredCreate {
    message: SentMessage,
    key: u64,
    /// The request in the journal contains the whole task.
    pub(super) in_journal: bool,
}

/// Starts a task whose caller waits for its end; replies [`TaskReply::NeedsStore`] when its create
/// cannot be deferred.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct SubmitDeferred {
    /// The task, in state submitted.
    pub(in crate::tasks) stored: StoredTask,
    /// The message as the client sent it.
    pub(in crate::tasks) sent: SentMessage,
    /// The agent's request, not assessed yet.
    pub(in crate::tasks) request: OutgoingRequest,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<SubmitDeferred> for Service {
    type Result = ();

    fn handle(&mut self, submit: SubmitDeferred, ctx: &mut Self::Context) {
        let SubmitDeferred { stored, sent, request, reply } = submit;
        let OutgoingRequest { submission, whole } = request;
        let mut live = LiveTask::new(stored);
        let deduplicates = !self.settings.reused_ids.contains(&live.stored.agent);
        let sent = Some(sent).filter(|_| deduplicates && self.scheduler.queues.is_free(&live.lane));
        match sent.and_then(|message| self.register_message(&live.stored, message)) {
            Some(create)
                if self.scheduler.queues.submit(&live.lane, live.stored.task.id).is_ok() =>
            {
                live.submission = Some(submission);
                let create = DeferredCreate { in_journal: whole, ..create };
                self.start_deferred(live, create, reply, ctx);
            }
            _ => {
                let needs_store =
                    TaskReply::NeedsStore(Box::new(live.stored), Box::new(submission));
                let _ = reply.send(Ok(needs_store));
            }
        }
    }
}

/// Creates the row of a task that a reader did not find in the store: an agent can name its task
/// before the store has it. Replies after the commit; drops the reply if there is no such task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct PersistDeferred {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: oneshot::Sender<Option<WriteOutcome>>,
}

impl Handler<PersistDeferred> for Service {
    type Result = ();

    fn handle(&mut self, PersistDeferred { task, reply }: PersistDeferred, _: &mut Self::Context) {
        if self.live.contains_key(&task) {
            self.persist_deferred(task);
            self.write(BARRIER, PendingWrite::Reply(reply));
        }
    }
}

impl Service {
    /// Registers a message. A certainly new one allows a deferred create. Otherwise the task that
    /// the message may have created gets its row, where the duplicate check finds it.
    pub(super) fn register_message(
        &mut self,
        stored: &StoredTask,
        message: SentMessage,
    ) -> Option<DeferredCreate> {
        let key = message_key(&stored.owner, &stored.agent, &message.id);
        if self.deferred.register(key) {
            return Some(DeferredCreate { message, key, in_journal: false });
        }
        if let Some(&first) = self.deferred.tasks.get(&key) {
            self.persist_deferred(first);
        }
        None
    }

    /// Dispatches a task without a row, whose request the bus assesses on the way.
    fn start_deferred(
        &mut self,
        mut live: LiveTask,
        create: DeferredCreate,
        reply: ReplySender,
        ctx: &mut Context<Self>,
    ) {
        let (id, now) = (live.stored.task.id, self.clock.now());
        let trace = live.stored.trace().id();
        let _span = tracing::debug_span!("task", %trace, task = %id).entered();
        let _ = live.start_turn(now);
        live.assessed = false;
        live.hide();
        live.durable = Arc::clone(&live.stored.task);
        live.waiters.push((live.stored.version, reply));
        self.deferred.tasks.insert(create.key, id);
        self.deferred.limits.push_back((now.uptime + self.settings.defer_create, id));
        live.defer_create(create);
        self.index.insert(id, live.stored.principal.clone());
        self.live.insert(id, live);
        self.dispatch(id, ctx);
        self.arm_defer_timer(ctx);
    }

    /// Registers a message; `false` when it may be a duplicate.
    pub(in crate::tasks) fn is_new_message(&mut self, key: u64) -> bool {
        // Without the keys in memory, the duplicate check of the store has to do.
        self.deferred.seen.is_none() || self.deferred.register(key)
    }

    /// Discards a task without a row whose request the bus refused; `false` when it has a row.
    pub(super) fn refuse_deferred(&mut self, id: TaskId, receipt: &Receipt) -> bool {
        if self.take_deferred_create(id).is_none() {
            return false;
        }
        self.release_lane(id);
        if let Some(live) = self.evict(id) {
            for (_, waiter) in live.waiters {
                let _ = waiter.send(Err(receipt_fault(&live.stored.agent, receipt)));
            }
        }
        true
    }

    /// The client's message of a task without a row, to be written with it now.
    pub(super) fn take_deferred_create(&mut self, id: TaskId) -> Option<SentMessage> {
        let create = self.live.get_mut(&id)?.take_deferred_create()?;
        self.deferred.tasks.remove(&create.key);
        Some(create.message)
    }

    /// Creates the row of a task that has none.
    pub(in crate::tasks) fn persist_deferred(&mut self, id: TaskId) {
        let Some(message) = self.take_deferred_create(id) else { return };
        let Some(live) = self.live.get(&id) else { return };
        let stored = live.stored.clone();
        let write =
            Write::Create { stored, message: Some(message), events: Vec::new(), push: Vec::new() };
        self.write(write, PendingWrite::DeferredCreate(id));
    }

    /// Restores a task that was rebuilt from the journal, as it was when its agent was asked. The
    /// journal redelivers the agent's answer next, which writes the task with its end.
    pub(in crate::tasks) fn restore_from_journal(&mut self, stored: StoredTask) {
        let Some(message) = stored.task.history.last().map(|first| first.message_id.clone()) else {
            return;
        };
        let (id, key) = (stored.task.id, message_key(&stored.owner, &stored.agent, &message));
        self.deferred.register(key);
        self.deferred.tasks.insert(key, id);
        let mut live = LiveTask::new(stored);
        live.dispatches = 1;
        live.hide();
        // The journal has only the id of the client's message, not its content.
        live.defer_create(DeferredCreate { message: message.into(), key, in_journal: true });
        self.index.insert(id, live.stored.principal.clone());
        self.live.insert(id, live);
    }

    /// Creates the rows of all tasks that have none.
    pub(super) fn persist_all_deferred(&mut self) {
        let all: Vec<TaskId> = self.deferred.tasks.values().copied().collect();
        all.into_iter().for_each(|id| self.persist_deferred(id));
    }

    /// The write of a plain answer to a task without a row.
    pub(super) fn answer_deferred(&mut self, id: TaskId, answer: &Message) -> Option<Write> {
        let message = self.take_deferred_create(id)?;
        let stored = self.live.get(&id)?.stored.clone();
        Some(Write::AnswerWithoutTask { stored, message, answer: Box::new(answer.clone()) })
    }

    fn arm_defer_timer(&mut self, ctx: &mut Context<Self>) {
        if self.deferred.timer_armed || self.deferred.limits.is_empty() {
            return;
        }
        self.deferred.timer_armed = true;
        ctx.run_later(self.settings.defer_create, |service, ctx| {
            service.deferred.timer_armed = false;
            let now = service.clock.now().uptime;
            while let Some((_, id)) = service.deferred.limits.pop_front_if(|(at, _)| *at <= now) {
                if service.live.get(&id).is_some_and(|live| !live.assessed) {
                    // The bus may still refuse the request, which discards the task.
                    let again = now + service.settings.defer_create;
                    service.deferred.limits.push_back((again, id));
                } else {
                    service.persist_deferred(id);
                }
            }
            service.arm_defer_timer(ctx);
        });
    }
}
