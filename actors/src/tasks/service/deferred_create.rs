//! Tasks of callers who wait for the end, before anybody else can know of them.
//!
//! Such a caller hears nothing before its task ends, so the task need not be on the disk before
//! its agent is asked: if the end comes soon, it is written once, as it ended. If not, it is
//! written as it stands and everything goes on as with any other task. A message that may have
//! been heard before, which only the store can tell, never takes this way.
//!
//! When the end comes as an answer of the agent, it is in the journal, and so is the request: if
//! that carries everything, the caller is told at once and the store gets the task a little later,
//! with others ([`super::super::ahead`]). After a crash the task is made from the journal
//! ([`super::super::rebuilt`]).
//!
//! What a crash before the answer leaves is a request in the journal whose task nobody was
//! promised: its agent's answer is dropped, and a caller who asks again begins a new task.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use a2a_policy::tasks::{Said, Step};
use a2a_protocol::task::{Label, Message};
use a2a_protocol::{AgentId, Receipt, TaskId};
use a2a_taskdb::{SentMessage, StoredTask, Write, Written, message_key};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::{BARRIER, PendingWrite, ReplySender, Service, TaskReply};
use crate::tasks::outgoing::OutgoingRequest;
use crate::tasks::outgoing::receipt_fault;
use crate::tasks::service::live_task::LiveTask;
use crate::tasks::service::write_behind::WriteBehindPermit;

/// How many messages are remembered; beyond that every task is written before it begins. Each
/// takes some 16 bytes.
pub(in crate::tasks) const REMEMBERED: usize = 2_000_000;

/// What is known about what was said.
#[derive(Default)]
pub(super) struct DeferredCreates {
    /// The keys of all messages that were ever heard; `None` when they are too many.
    seen: Option<HashSet<u64>>,
    /// The tasks that are not on the disk, by the keys of their messages.
    tasks: HashMap<u64, TaskId>,
    /// The same by age, the oldest first; some may have been written meanwhile.
    ages: VecDeque<(Duration, TaskId)>,
    /// A timer for the oldest is set.
    watched: bool,
}

impl DeferredCreates {
    pub(super) fn new(seen: Option<Vec<u64>>) -> Self {
        Self { seen: seen.map(HashSet::from_iter), ..Self::default() }
    }

    /// Notes what a caller said about a task that is open.
    pub(super) fn register_followup(&mut self, owner: &str, agent: &AgentId, message: &Label) {
        self.register(message_key(owner, agent, message));
    }

    /// Notes the message; `true` when it certainly was not heard before.
    fn register(&mut self, key: u64) -> bool {
        let Some(seen) = &mut self.seen else { return false };
        if seen.len() >= REMEMBERED {
            self.seen = None;
            return false;
        }
        seen.insert(key)
    }
}

/// Where a task that is not on the disk belongs there.
pub(in crate::tasks) struct DeferredCreate {
    message: SentMessage,
    key: u64,
}

/// A new task whose caller waits for the end and for nothing before.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct SubmitDeferred {
    /// As it is before anybody looked whether it can run at once.
    pub(in crate::tasks) stored: StoredTask,
    /// The message that asks for it, as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    /// Its request, which nobody has looked at.
    pub(in crate::tasks) request: OutgoingRequest,
    pub(in crate::tasks) reply: ReplySender,
}

impl Handler<SubmitDeferred> for Service {
    type Result = ();

    /// It begins, or comes back as [`TaskReply::NeedsStore`].
    fn handle(&mut self, begin: SubmitDeferred, ctx: &mut Self::Context) {
        let SubmitDeferred { stored, sent, request: OutgoingRequest { submission, whole }, reply } =
            begin;
        let mut live = LiveTask::new(stored);
        let tells_apart = !self.settings.reused_ids.contains(&live.stored.agent);
        let sent = Some(sent).filter(|_| tells_apart && self.queues.is_free(&live.lane));
        match sent.and_then(|message| self.hear(&live.stored, message)) {
            Some(birth) if self.queues.submit(&live.lane, live.stored.task.id).is_ok() => {
                live.submission = Some(submission);
                live.in_journal = whole;
                self.start_deferred(live, birth, reply, ctx);
            }
            _ => {
                let unsure = TaskReply::NeedsStore(Box::new(live.stored), Box::new(submission));
                let _ = reply.send(Ok(unsure));
            }
        }
    }
}

/// Somebody looks for a task that the store does not have: its agent knows of it before the store
/// does. Answered when everything about it is there; dropped when there is no such task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct PersistDeferred {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: oneshot::Sender<Option<Written>>,
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
    /// Notes a message. If it certainly was not heard before, its task need not be on the disk
    /// before it begins; otherwise the task that it may have begun goes there, to be found.
    pub(super) fn hear(
        &mut self,
        stored: &StoredTask,
        message: SentMessage,
    ) -> Option<DeferredCreate> {
        let key = message_key(&stored.owner, &stored.agent, &message.id);
        if self.deferred.register(key) {
            return Some(DeferredCreate { message, key });
        }
        if let Some(&first) = self.deferred.tasks.get(&key) {
            self.persist_deferred(first);
        }
        None
    }

    /// Begins a task that is not on the disk and whose request nobody has looked at.
    fn start_deferred(
        &mut self,
        mut live: LiveTask,
        birth: DeferredCreate,
        reply: ReplySender,
        ctx: &mut Context<Self>,
    ) {
        let (id, now) = (live.stored.task.id, self.clock.now());
        let trace = live.stored.trace().id();
        let _span = tracing::debug_span!("task", %trace, task = %id).entered();
        let _ = live.advance(Step::Start, Said::default(), now);
        live.stored.dispatched = true;
        live.dispatches = 1;
        live.assessed = false;
        live.unseen = true;
        live.durable = Arc::clone(&live.stored.task);
        live.waiters.push((live.stored.version, reply));
        self.deferred.tasks.insert(birth.key, id);
        self.deferred.ages.push_back((now.uptime + self.settings.defer_create, id));
        live.birth = Some(birth);
        self.held.insert(id, live.stored.principal.clone());
        self.live.insert(id, live);
        self.dispatch(id, ctx);
        self.arm_defer_timer(ctx);
    }

    /// Notes a message; `false` when it may have been heard before.
    pub(in crate::tasks) fn is_new_message(&mut self, key: u64) -> bool {
        // Too many to remember: the store has been asked, which is all that can be done.
        self.deferred.seen.is_none() || self.deferred.register(key)
    }

    /// The bus does not take the request: there never was a task. `false` when there is one.
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

    /// The write that puts a task onto the disk as it is now, if it is not there.
    pub(super) fn take_deferred_create(&mut self, id: TaskId) -> Option<SentMessage> {
        let birth = self.live.get_mut(&id)?.birth.take()?;
        self.deferred.tasks.remove(&birth.key);
        Some(birth.message)
    }

    /// Writes the task as it stands.
    pub(super) fn persist_deferred(&mut self, id: TaskId) {
        let Some(message) = self.take_deferred_create(id) else { return };
        let Some(live) = self.live.get(&id) else { return };
        let stored = live.stored.clone();
        let write =
            Write::Create { stored, message: Some(message), events: Vec::new(), push: Vec::new() };
        self.write(write, PendingWrite::DeferredCreate(id));
    }

    /// Whether the caller may hear at once how the task ended, by an answer that the journal has.
    pub(super) fn write_behind_permit(&self, id: TaskId) -> Option<WriteBehindPermit> {
        let live = self.live.get(&id)?;
        live.is_only_in_journal().then(|| self.ahead.go()).flatten()
    }

    /// A task that a crash kept from the store, as it was when its agent was asked. The agent's
    /// answer, which is in the journal, comes next and takes it there.
    pub(super) fn restore_from_journal(&mut self, stored: StoredTask) {
        let Some(message) = stored.task.history.last().map(|said| said.message_id.clone()) else {
            return;
        };
        let (id, key) = (stored.task.id, message_key(&stored.owner, &stored.agent, &message));
        self.deferred.register(key);
        self.deferred.tasks.insert(key, id);
        let mut live = LiveTask::new(stored);
        live.dispatches = 1;
        live.unseen = true;
        live.in_journal = true;
        // What it said when it was sent is not in the journal.
        live.birth = Some(DeferredCreate { message: message.into(), key });
        self.held.insert(id, live.stored.principal.clone());
        self.live.insert(id, live);
    }

    /// Everything that is not on the disk goes there.
    pub(super) fn persist_all_deferred(&mut self) {
        let all: Vec<TaskId> = self.deferred.tasks.values().copied().collect();
        all.into_iter().for_each(|id| self.persist_deferred(id));
    }

    /// An answer without a task, to a message whose task never was on the disk.
    pub(super) fn answer_deferred(&mut self, id: TaskId, said: &Message) -> Option<Write> {
        let message = self.take_deferred_create(id)?;
        let stored = self.live.get(&id)?.stored.clone();
        Some(Write::AnswerAtOnce { stored, message, answer: Box::new(said.clone()) })
    }

    fn arm_defer_timer(&mut self, ctx: &mut Context<Self>) {
        if self.deferred.watched || self.deferred.ages.is_empty() {
            return;
        }
        self.deferred.watched = true;
        ctx.run_later(self.settings.defer_create, |service, ctx| {
            service.deferred.watched = false;
            let now = service.clock.now().uptime;
            while let Some((_, id)) = service.deferred.ages.pop_front_if(|(at, _)| *at <= now) {
                if service.live.get(&id).is_some_and(|live| !live.assessed) {
                    // The bus may still refuse it, and then there never was a task.
                    let again = now + service.settings.defer_create;
                    service.deferred.ages.push_back((again, id));
                } else {
                    service.persist_deferred(id);
                }
            }
            service.arm_defer_timer(ctx);
        });
    }
}
