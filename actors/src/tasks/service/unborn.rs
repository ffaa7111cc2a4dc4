//! Tasks of callers who wait for the end, before anybody else can know of them.
//!
//! Such a caller hears nothing before its task ends, so the task need not be on the disk before
//! its agent is asked: if the end comes soon, it is written once, as it ended. If not, it is
//! written as it stands and everything goes on as with any other task. A message that may have
//! been heard before, which only the store can tell, never takes this way.
//!
//! What a crash in that moment leaves is a request in the journal whose task nobody was promised:
//! its agent's answer is dropped, and a caller who asks again begins a new task.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use a2a_protocol::TaskId;
use a2a_protocol::task::{Label, Message};
use a2a_store::tasks::{StoredTask, Write, message_key};
use actix::prelude::*;

use super::{Answering, Awaited, Service};
use crate::tasks::entry::Entry;

/// How many messages are remembered; beyond that every task is written before it begins. Each
/// takes some 16 bytes.
pub(in crate::tasks) const REMEMBERED: usize = 2_000_000;
/// How long a task may stay off the disk.
const LONGEST: Duration = Duration::from_millis(100);

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
    message: Label,
    key: u64,
}

impl Service {
    /// Whether the task need not be on the disk before it begins. A message that was said before
    /// finds its task there.
    pub(super) fn may_wait(&mut self, stored: &StoredTask, message: &Label) -> Option<Birth> {
        let key = message_key(&stored.owner, &stored.agent, message);
        if self.unborn.hear(key) {
            return Some(Birth { message: message.clone(), key });
        }
        if let Some(&first) = self.unborn.tasks.get(&key) {
            self.bear(first);
        }
        None
    }

    /// Begins a task that is not on the disk.
    pub(super) fn begin_unborn(
        &mut self,
        mut entry: Entry,
        birth: Birth,
        reply: Answering,
        ctx: &mut Context<Self>,
    ) {
        let id = entry.stored.task.id;
        self.unborn.tasks.insert(birth.key, id);
        self.unborn.ages.push_back((self.clock.now().uptime + LONGEST, id));
        entry.birth = Some(birth);
        entry.waiters.push((entry.stored.version, reply));
        self.entries.insert(id, entry);
        self.dispatch(id, ctx);
        self.watch_unborn(ctx);
    }

    /// The write that puts a task onto the disk as it is now, if it is not there.
    pub(super) fn birth_of(&mut self, id: TaskId) -> Option<Label> {
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
        ctx.run_later(LONGEST, |service, ctx| {
            service.unborn.watched = false;
            let now = service.clock.now().uptime;
            while let Some((_, id)) = service.unborn.ages.pop_front_if(|(at, _)| *at <= now) {
                service.bear(id);
            }
            service.watch_unborn(ctx);
        });
    }
}
