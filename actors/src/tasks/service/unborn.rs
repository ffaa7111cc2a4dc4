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

use super::{Answering, Awaited, Begun, NOTHING, Service};
use crate::tasks::ahead::Ahead;
use crate::tasks::compose::Composed;
use crate::tasks::refused::refused;
use crate::tasks::service::entry::Entry;

/// How many messages are remembered; beyond that every task is written before it begins. Each
/// takes some 16 bytes.
pub(in crate::tasks) const REMEMBERED: usize = 2_000_000;

/// What is known about what was said.
#[derive(Default)]
pub(super) struct Unborn {
    /// The keys of all messages that were ever heard; `None` when they are too many.
    heard: Option<HashSet<u64>>,
    /// The tasks that are not on the disk, by the keys of their messages.
    tasks: HashMap<u64, TaskId>,
    /// The same by age, the oldest first; some may have been written meanwhile.
    ages: VecDeque<(Duration, TaskId)>,
    /// A timer for the oldest is set.
    watched: bool,
}

impl Unborn {
    pub(super) fn new(heard: Option<Vec<u64>>) -> Self {
        Self { heard: heard.map(HashSet::from_iter), ..Self::default() }
    }

    /// Notes what a caller said about a task that is open.
    pub(super) fn note(&mut self, owner: &str, agent: &AgentId, message: &Label) {
        self.hear(message_key(owner, agent, message));
    }

    /// Notes the message; `true` when it certainly was not heard before.
    fn hear(&mut self, key: u64) -> bool {
        let Some(heard) = &mut self.heard else { return false };
        if heard.len() >= REMEMBERED {
            self.heard = None;
            return false;
        }
        heard.insert(key)
    }
}

/// Where a task that is not on the disk belongs there.
pub(in crate::tasks) struct Birth {
    message: SentMessage,
    key: u64,
}

/// A new task whose caller waits for the end and for nothing before.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct BeginAtOnce {
    /// As it is before anybody looked whether it can run at once.
    pub(in crate::tasks) stored: StoredTask,
    /// The message that asks for it, as it was sent.
    pub(in crate::tasks) sent: SentMessage,
    /// Its request, which nobody has looked at.
    pub(in crate::tasks) request: Composed,
    pub(in crate::tasks) reply: Answering,
}

impl Handler<BeginAtOnce> for Service {
    type Result = ();

    /// It begins, or comes back as [`Begun::Unsure`].
    fn handle(&mut self, begin: BeginAtOnce, ctx: &mut Self::Context) {
        let BeginAtOnce { stored, sent, request: Composed { submission, whole }, reply } = begin;
        let mut entry = Entry::new(stored);
        let tells_apart = !self.settings.reused_ids.contains(&entry.stored.agent);
        let sent = Some(sent).filter(|_| tells_apart && self.queues.is_free(&entry.lane));
        match sent.and_then(|message| self.hear(&entry.stored, message)) {
            Some(birth) if self.queues.submit(&entry.lane, entry.stored.task.id).is_ok() => {
                entry.submission = Some(submission);
                entry.in_journal = whole;
                self.begin_unborn(entry, birth, reply, ctx);
            }
            _ => {
                let unsure = Begun::Unsure(Box::new(entry.stored), Box::new(submission));
                let _ = reply.send(Ok(unsure));
            }
        }
    }
}

/// Somebody looks for a task that the store does not have: its agent knows of it before the store
/// does. Answered when everything about it is there; dropped when there is no such task.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct Bear {
    pub(in crate::tasks) task: TaskId,
    pub(in crate::tasks) reply: oneshot::Sender<Option<Written>>,
}

impl Handler<Bear> for Service {
    type Result = ();

    fn handle(&mut self, Bear { task, reply }: Bear, _: &mut Self::Context) {
        if self.entries.contains_key(&task) {
            self.bear(task);
            self.write(NOTHING, Awaited::Push(reply));
        }
    }
}

impl Service {
    /// Notes a message. If it certainly was not heard before, its task need not be on the disk
    /// before it begins; otherwise the task that it may have begun goes there, to be found.
    pub(super) fn hear(&mut self, stored: &StoredTask, message: SentMessage) -> Option<Birth> {
        let key = message_key(&stored.owner, &stored.agent, &message.id);
        if self.unborn.hear(key) {
            return Some(Birth { message, key });
        }
        if let Some(&first) = self.unborn.tasks.get(&key) {
            self.bear(first);
        }
        None
    }

    /// Begins a task that is not on the disk and whose request nobody has looked at.
    fn begin_unborn(
        &mut self,
        mut entry: Entry,
        birth: Birth,
        reply: Answering,
        ctx: &mut Context<Self>,
    ) {
        let (id, now) = (entry.stored.task.id, self.clock.now());
        let trace = entry.stored.trace().id();
        let _span = tracing::debug_span!("task", %trace, task = %id).entered();
        let _ = entry.advance(Step::Start, Said::default(), now);
        entry.stored.dispatched = true;
        entry.turn = 1;
        entry.assessed = false;
        entry.unseen = true;
        entry.durable = Arc::clone(&entry.stored.task);
        entry.waiters.push((entry.stored.version, reply));
        self.unborn.tasks.insert(birth.key, id);
        self.unborn.ages.push_back((now.uptime + self.settings.off_disk, id));
        entry.birth = Some(birth);
        self.held.insert(id, entry.stored.principal.clone());
        self.entries.insert(id, entry);
        self.dispatch(id, ctx);
        self.watch_unborn(ctx);
    }

    /// Notes a message; `false` when it may have been heard before.
    pub(in crate::tasks) fn is_new_message(&mut self, key: u64) -> bool {
        // Too many to remember: the store has been asked, which is all that can be done.
        self.unborn.heard.is_none() || self.unborn.hear(key)
    }

    /// The bus does not take the request: there never was a task. `false` when there is one.
    pub(super) fn refuse_unborn(&mut self, id: TaskId, receipt: &Receipt) -> bool {
        if self.birth_of(id).is_none() {
            return false;
        }
        self.free_place(id);
        if let Some(entry) = self.forget(id) {
            for (_, waiter) in entry.waiters {
                let _ = waiter.send(Err(refused(&entry.stored.agent, receipt)));
            }
        }
        true
    }

    /// The write that puts a task onto the disk as it is now, if it is not there.
    pub(super) fn birth_of(&mut self, id: TaskId) -> Option<SentMessage> {
        let birth = self.entries.get_mut(&id)?.birth.take()?;
        self.unborn.tasks.remove(&birth.key);
        Some(birth.message)
    }

    /// Writes the task as it stands.
    pub(super) fn bear(&mut self, id: TaskId) {
        let Some(message) = self.birth_of(id) else { return };
        let Some(entry) = self.entries.get(&id) else { return };
        let stored = entry.stored.clone();
        let write =
            Write::Create { stored, message: Some(message), events: Vec::new(), push: Vec::new() };
        self.write(write, Awaited::Birth(id));
    }

    /// Whether the caller may hear at once how the task ended, by an answer that the journal has.
    pub(super) fn tell_ahead(&self, id: TaskId) -> Option<Ahead> {
        let entry = self.entries.get(&id)?;
        entry.is_the_journals().then(|| self.ahead.go()).flatten()
    }

    /// A task that a crash kept from the store, as it was when its agent was asked. The agent's
    /// answer, which is in the journal, comes next and takes it there.
    pub(super) fn take_up_rebuilt(&mut self, stored: StoredTask) {
        let Some(message) = stored.task.history.last().map(|said| said.message_id.clone()) else {
            return;
        };
        let (id, key) = (stored.task.id, message_key(&stored.owner, &stored.agent, &message));
        self.unborn.hear(key);
        self.unborn.tasks.insert(key, id);
        let mut entry = Entry::new(stored);
        entry.turn = 1;
        entry.unseen = true;
        entry.in_journal = true;
        // What it said when it was sent is not in the journal.
        entry.birth = Some(Birth { message: message.into(), key });
        self.held.insert(id, entry.stored.principal.clone());
        self.entries.insert(id, entry);
    }

    /// Everything that is not on the disk goes there.
    pub(super) fn bear_all(&mut self) {
        let all: Vec<TaskId> = self.unborn.tasks.values().copied().collect();
        all.into_iter().for_each(|id| self.bear(id));
    }

    /// An answer without a task, to a message whose task never was on the disk.
    pub(super) fn answer_unborn(&mut self, id: TaskId, said: &Message) -> Option<Write> {
        let message = self.birth_of(id)?;
        let stored = self.entries.get(&id)?.stored.clone();
        Some(Write::AnswerAtOnce { stored, message, answer: Box::new(said.clone()) })
    }

    fn watch_unborn(&mut self, ctx: &mut Context<Self>) {
        if self.unborn.watched || self.unborn.ages.is_empty() {
            return;
        }
        self.unborn.watched = true;
        ctx.run_later(self.settings.off_disk, |service, ctx| {
            service.unborn.watched = false;
            let now = service.clock.now().uptime;
            while let Some((_, id)) = service.unborn.ages.pop_front_if(|(at, _)| *at <= now) {
                if service.entries.get(&id).is_some_and(|entry| !entry.assessed) {
                    // The bus may still refuse it, and then there never was a task.
                    let again = now + service.settings.off_disk;
                    service.unborn.ages.push_back((again, id));
                } else {
                    service.bear(id);
                }
            }
            service.watch_unborn(ctx);
        });
    }
}
