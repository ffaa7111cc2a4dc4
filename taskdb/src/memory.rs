//! Tasks that are forgotten with the process: for tests, and for buses that are thrown away.
//!
//! It answers exactly as SQLite does; one suite of tests holds both to that.

mod objective;
mod reader;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, PoisonError, RwLock};

use a2a_protocol::operation::{PushConfig, StreamEvent};
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{Label, Message, Moment};
use a2a_protocol::{AgentId, TaskId};

use super::{
    Misfit, NewEvent, ObjectiveTree, Repeated, SentMessage, StoredTask, TaskReader, TaskStoreError,
    TaskWriter, Write, Written, check,
};
use reader::MemoryReader;

/// Tasks in memory.
#[derive(Default)]
pub struct Memory {
    state: Arc<RwLock<State>>,
}

impl Memory {
    /// No tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl TaskWriter for Memory {
    fn commit(&mut self, writes: Vec<Write>) -> Result<Vec<Written>, TaskStoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        Ok(writes.into_iter().map(|write| state.apply(write)).collect())
    }

    fn probe(&mut self) -> Result<(), TaskStoreError> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn TaskReader> {
        Arc::new(MemoryReader { state: Arc::clone(&self.state) })
    }
}

/// Everything that is kept.
#[derive(Clone, Default)]
struct State {
    tasks: BTreeMap<TaskId, Kept>,
    objectives: BTreeMap<ObjectiveId, ObjectiveTree>,
    messages: BTreeMap<Heard, Sent>,
    outbox: BTreeMap<u64, Telling>,
    last_outbox: u64,
}

/// A task and what goes with it.
#[derive(Clone)]
struct Kept {
    stored: StoredTask,
    events: BTreeMap<u64, Arc<StreamEvent>>,
    /// What its caller said, so that it can be forgotten too.
    messages: Vec<Heard>,
    /// Who wants to be told, in the order in which they were made.
    pushes: Vec<(Label, PushConfig)>,
}

/// Who said it to whom, and its id.
type Heard = (Arc<str>, AgentId, Label);

/// What came of a message of a caller, and when.
#[derive(Clone)]
struct Sent {
    outcome: Repeated,
    at: Moment,
    fingerprint: Option<u64>,
}

impl Sent {
    /// What a message of the same id is told.
    fn repeated_by(&self, message: &SentMessage) -> Repeated {
        match message.differs_from(self.fingerprint) {
            true => Repeated::Other,
            false => self.outcome.clone(),
        }
    }
}

/// Somebody is to be told of an event.
#[derive(Clone)]
struct Telling {
    task: TaskId,
    config: Label,
    number: u64,
    at: Moment,
    attempts: u32,
    /// When, for the oldest of its configuration.
    next: Option<Moment>,
}

impl State {
    fn apply(&mut self, write: Write) -> Written {
        match write {
            Write::Create { stored, message, events, push } => {
                self.create(stored, message, events, push)
            }
            Write::Update { stored, expected, events, message } => {
                self.update(stored, expected, events, message)
            }
            Write::Answer { id, message } => self.answer(id, &message),
            Write::AnswerAtOnce { stored, message, answer } => {
                self.answer_at_once(&stored, message, answer)
            }
            Write::Delete(id) => self.delete(id),
            Write::PutPush { task, config } => self.put_push(task, config),
            Write::DeletePush { task, id } => self.delete_push(task, &id),
            Write::Pushed { outbox } => self.pushed(outbox),
            Write::PushLater { outbox, attempts, next } => self.push_later(outbox, attempts, next),
            Write::Objective(change) => self.objective(*change),
            Write::Together(writes) => self.together(writes),
            Write::Expire { older_than, limit } => self.expire(older_than, limit),
        }
    }

    fn create(
        &mut self,
        stored: StoredTask,
        message: Option<SentMessage>,
        events: Vec<NewEvent>,
        push: Vec<PushConfig>,
    ) -> Written {
        if let Some(repeated) = self.heard(&stored, message.as_ref()) {
            return Written::Repeated(repeated);
        }
        if let Some(before) = self.tasks.get(&stored.id()) {
            return Written::Conflict { version: Some(before.stored.version) };
        }
        let fits = check::follows((0, 0), &stored, &events).and_then(|()| check::named(&push));
        if let Err(misfit) = fits {
            return Written::Refused(misfit);
        }
        let id = stored.id();
        self.keep(stored, message);
        for config in push {
            self.put_push(id, config);
        }
        self.keep_events(id, events);
        Written::Done
    }

    fn update(
        &mut self,
        stored: StoredTask,
        expected: u64,
        events: Vec<NewEvent>,
        message: Option<SentMessage>,
    ) -> Written {
        let message = message.filter(|message| self.heard(&stored, Some(message)).is_none());
        let before = match self.tasks.get(&stored.id()).map(|kept| &kept.stored) {
            Some(before) if before.version == expected => before,
            other => return Written::Conflict { version: other.map(|task| task.version) },
        };
        if !before.is_same(&stored) {
            return Written::Refused(Misfit::Identity);
        }
        let last = (before.version, before.last_event);
        if let Err(misfit) = check::follows(last, &stored, &events) {
            return Written::Refused(misfit);
        }
        let id = stored.id();
        self.keep(stored, message);
        self.keep_events(id, events);
        Written::Done
    }

    fn stored(&self) -> impl Iterator<Item = &StoredTask> {
        self.tasks.values().map(|kept| &kept.stored)
    }

    fn heard(&self, stored: &StoredTask, message: Option<&SentMessage>) -> Option<Repeated> {
        let message = message?;
        let key = (Arc::clone(&stored.owner), stored.agent.clone(), message.id.clone());
        self.messages.get(&key).map(|sent| sent.repeated_by(message))
    }

    fn keep(&mut self, mut stored: StoredTask, message: Option<SentMessage>) {
        stored.hide_place();
        let fingerprint = message.as_ref().and_then(|message| message.fingerprint);
        let heard =
            message.map(|message| (Arc::clone(&stored.owner), stored.agent.clone(), message.id));
        if let Some(heard) = &heard {
            let outcome = Repeated::Task(stored.id());
            let sent = Sent { outcome, at: stored.updated, fingerprint };
            self.messages.insert(heard.clone(), sent);
        }
        match self.tasks.entry(stored.id()) {
            Entry::Occupied(mut old) => {
                old.get_mut().messages.extend(heard);
                old.get_mut().stored = stored;
            }
            Entry::Vacant(place) => {
                let messages = heard.into_iter().collect();
                let (events, pushes) = (BTreeMap::new(), Vec::new());
                place.insert(Kept { stored, events, messages, pushes });
            }
        }
    }

    fn keep_events(&mut self, task: TaskId, events: Vec<NewEvent>) {
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        for NewEvent { number, event, at } in events {
            kept.events.insert(number, event);
            for (config, _) in &kept.pushes {
                let waits = |other: &Telling| other.task == task && other.config == *config;
                let next = (!self.outbox.values().any(waits)).then_some(at);
                let config = config.clone();
                let telling = Telling { task, config, number, at, attempts: 0, next };
                self.last_outbox += 1;
                self.outbox.insert(self.last_outbox, telling);
            }
        }
    }

    fn answer(&mut self, id: TaskId, message: &Message) -> Written {
        let Some(kept) = self.tasks.get_mut(&id) else { return Written::Missing };
        let at = kept.stored.updated;
        for heard in kept.messages.drain(..) {
            let outcome = Repeated::Answer(Box::new(message.clone()));
            let fingerprint = self.messages.get(&heard).and_then(|sent| sent.fingerprint);
            self.messages.insert(heard, Sent { outcome, at, fingerprint });
        }
        self.delete(id)
    }

    fn answer_at_once(
        &mut self,
        stored: &StoredTask,
        message: SentMessage,
        answer: Box<Message>,
    ) -> Written {
        if let Some(repeated) = self.heard(stored, Some(&message)) {
            return Written::Repeated(repeated);
        }
        let heard = (Arc::clone(&stored.owner), stored.agent.clone(), message.id);
        let outcome = Repeated::Answer(answer);
        let sent = Sent { outcome, at: stored.updated, fingerprint: message.fingerprint };
        self.messages.insert(heard, sent);
        Written::Done
    }

    fn delete(&mut self, id: TaskId) -> Written {
        let Some(kept) = self.tasks.remove(&id) else { return Written::Missing };
        for heard in &kept.messages {
            self.messages.remove(heard);
        }
        if !kept.pushes.is_empty() {
            self.outbox.retain(|_, telling| telling.task != id);
        }
        self.unlink(id);
        Written::Done
    }

    fn put_push(&mut self, task: TaskId, config: PushConfig) -> Written {
        let Some(id) = config.id.clone() else { return Written::Refused(Misfit::PushWithoutId) };
        let Some(kept) = self.tasks.get_mut(&task) else { return Written::Missing };
        let config = PushConfig { task_id: Some(task.as_uuid().into()), ..config };
        match kept.pushes.iter_mut().find(|(known, _)| *known == id) {
            Some((_, old)) => *old = config,
            None => kept.pushes.push((id, config)),
        }
        Written::Done
    }

    fn delete_push(&mut self, task: TaskId, id: &Label) -> Written {
        let Some(kept) = self.tasks.get_mut(&task) else { return Written::Missing };
        let Some(at) = kept.pushes.iter().position(|(known, _)| known == id) else {
            return Written::Missing;
        };
        kept.pushes.remove(at);
        self.outbox.retain(|_, telling| telling.task != task || telling.config != *id);
        Written::Done
    }

    fn pushed(&mut self, outbox: u64) -> Written {
        let Some(gone) = self.outbox.remove(&outbox) else { return Written::Missing };
        let is_of_it =
            |other: &&mut Telling| other.task == gone.task && other.config == gone.config;
        if let Some(oldest) = self.outbox.values_mut().find(is_of_it) {
            oldest.next.get_or_insert(oldest.at);
        }
        Written::Done
    }

    fn push_later(&mut self, outbox: u64, attempts: u32, next: Moment) -> Written {
        match self.outbox.get_mut(&outbox) {
            Some(telling) if telling.next.is_some() => {
                telling.attempts = attempts;
                telling.next = Some(next);
                Written::Done
            }
            _ => Written::Missing,
        }
    }

    fn expire(&mut self, older_than: Moment, limit: usize) -> Written {
        let ended = self.stored().map(|stored| (&stored.task.status, stored.id()));
        let mut old: Vec<_> = ended
            .filter(|(status, _)| status.state.is_terminal() && status.timestamp < older_than)
            .map(|(status, id)| (status.timestamp, id))
            .collect();
        old.sort_unstable();
        old.truncate(limit);
        for (_, id) in &old {
            self.delete(*id);
        }
        let answered = |sent: &Sent| matches!(sent.outcome, Repeated::Answer(_));
        let mut answers: Vec<_> = self
            .messages
            .iter()
            .filter(|(_, sent)| answered(sent) && sent.at < older_than)
            .map(|(key, sent)| (sent.at, key.clone()))
            .collect();
        answers.sort_unstable();
        answers.truncate(limit - old.len());
        for (_, key) in &answers {
            self.messages.remove(key);
        }
        let gone = old.len() + answers.len();
        Written::Expired(gone + self.expire_objectives(older_than, limit - gone))
    }
}
