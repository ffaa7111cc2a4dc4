//! The service: the only one that changes tasks.
//!
//! [`super::TaskSystem`] sends what callers want, the clerk what agents answer, the writer what
//! is durable. Every change is on the disk before anybody is told, the agent gets its request or the
//! next in line its turn: in the store, or in the journal where that can say the same
//! ([`super::ahead`]).

mod begin;
mod cancel;
pub(super) mod entry;
mod gauge;
mod hear;
mod progress;
mod pushes;
mod timers;
mod turns;
mod unborn;
mod watching;
mod writing;
mod written;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::Alive;
use a2a_policy::tasks::{ContextQueues, Step};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{Label, Message, Moment, Task};
use a2a_taskdb::{NewEvent, SentMessage, StoredTask, Write, Written};
use actix::prelude::*;
use tokio::sync::{Notify, mpsc, oneshot};

use self::entry::{Change, Entry, Then};
use self::unborn::Unborn;
use self::writing::{NOTHING, Outgoing};
use super::ahead::{Ahead, AheadCount};
use super::clerk::Held;
use super::objectives::Objectives;
use super::settings::TaskSettings;
use super::stats::{TaskLoad, TaskStats};
use super::watch::Happened;
use crate::bus::clock::Clock;
use crate::{BusSystem, Submission, Ticket};

pub(super) use begin::{Begin, GoOn, Want};
pub(super) use cancel::{Cancel, Delete, not_cancelable};
pub(super) use hear::Hear;
pub(super) use pushes::{SettlePush, WritePush};
pub(super) use timers::Reload;
pub(super) use turns::{Restore, Resume, WorkOn};
pub(super) use unborn::{Bear, BeginAtOnce, Birth, REMEMBERED};
pub(super) use watching::{Subscribe, Wait};
pub(super) use writing::{CatchUp, End, Leave, Meet};
pub(super) use written::{Committed, disk_refuses};

/// What a caller gets for its message.
#[derive(Debug)]
pub(super) enum Begun {
    Task(Arc<Task>),
    Message(Box<Message>),
    /// What happens from now on; the task itself comes first.
    Stream(mpsc::Receiver<Happened>),
    /// The message was heard before and belongs to this task.
    Repeated(TaskId),
    /// Only the store can tell whether it can begin.
    Unsure(Box<StoredTask>, Box<Submission>),
}

/// Where the answer goes.
pub(super) type Answering = oneshot::Sender<Result<Begun, Fault>>;

/// What is on its way to the disk.
pub(super) enum Awaited {
    /// A new task, and what its caller wants.
    Create { task: TaskId, sent: Label, want: Want, reply: Answering },
    /// A task that began before it was on the disk.
    Birth(TaskId),
    /// A change of this task: its oldest.
    Change(TaskId),
    /// The plain message that takes the place of this task.
    Answer { task: TaskId, acks: Vec<Ticket> },
    /// An objective and what is below it.
    Objective(ObjectiveId),
    /// All of them at once.
    Together(Vec<Awaited>),
    /// Something about webhooks.
    Push(oneshot::Sender<Option<Written>>),
    /// Old tasks.
    Expire,
}

/// What a change carries along, and what follows when it is durable.
#[derive(Default)]
pub(super) struct Wake {
    /// The caller's message.
    pub(super) message: Option<SentMessage>,
    /// Messages of the bus that are acknowledged then.
    pub(super) acks: Vec<Ticket>,
    /// Callers who wait for just this.
    pub(super) told: Vec<Answering>,
    /// Callers who watch what comes after it.
    pub(super) watchers: Vec<Answering>,
    pub(super) then: Then,
}

pub(super) struct Service {
    pub(super) bus: BusSystem,
    pub(super) settings: TaskSettings,
    pub(super) clock: Clock,
    pub(super) held: Arc<Held>,
    /// Rung when webhooks have something to do.
    pub(super) bell: Arc<Notify>,
    pub(super) stats: Arc<TaskStats>,
    pub(super) ahead: AheadCount,
    outgoing: Outgoing,
    pub(super) entries: HashMap<TaskId, Entry>,
    pub(super) queues: ContextQueues,
    awaited: HashMap<u64, Awaited>,
    unborn: Unborn,
    pub(super) objectives: Objectives,
    /// The places of the next in line, and of the next who goes before everyone.
    pub(super) last_order: i64,
    first_order: i64,
    /// When each task that is being worked on has been at it for too long, since the start.
    deadlines: BTreeSet<(Duration, TaskId)>,
    /// Those that look for them, and for what is too old.
    timers: Option<[SpawnHandle; 2]>,
    _alive: Alive,
}

impl Service {
    pub(super) fn new(
        bus: BusSystem,
        settings: TaskSettings,
        held: Arc<Held>,
        bell: Arc<Notify>,
        heard: Option<Vec<u64>>,
        stats: Arc<TaskStats>,
        ahead: AheadCount,
    ) -> Self {
        Self {
            _alive: bus.parts().returning("task_service"),
            bus,
            queues: ContextQueues::new(settings.queue_per_context),
            settings,
            clock: Clock::start(),
            held,
            bell,
            stats,
            ahead,
            outgoing: Outgoing::default(),
            entries: HashMap::new(),
            awaited: HashMap::new(),
            unborn: Unborn::new(heard),
            objectives: Objectives::default(),
            last_order: 0,
            first_order: 0,
            deadlines: BTreeSet::new(),
            timers: None,
        }
    }

    /// Sends the task as it is now to the disk, with what happened, and with what follows for the
    /// objective it is part of.
    fn change(&mut self, id: TaskId, events: Vec<StreamEvent>, wake: Wake) {
        let (all, next) = self.changes(id, events, wake);
        self.write_all(all);
        for next in next {
            self.start_next(Some(next));
        }
    }

    /// The writes that belong to a change, and the tasks whose turn it is then.
    fn changes(
        &mut self,
        id: TaskId,
        mut events: Vec<StreamEvent>,
        wake: Wake,
    ) -> (Vec<(Write, Awaited)>, Vec<TaskId>) {
        let (follows, next) = self.roll_up(id, &mut events);
        let Some(write) = self.prepare(id, events, wake) else { return Default::default() };
        let mut all = vec![(write, Awaited::Change(id))];
        all.extend(follows);
        (all, next)
    }

    /// The end of a task that only the journal has: whoever waits for it is told before the store is.
    fn end_ahead(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        wake: Wake,
        ahead: Ahead,
        ctx: &mut Context<Self>,
    ) {
        let Some(write) = self.prepare(id, events, wake) else { return };
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.told = Some(ahead);
            for (_, waiter) in entry.waiters.drain(..) {
                let _ = waiter.send(Ok(Begun::Task(Arc::clone(&entry.stored.task))));
            }
        }
        self.write_soon(write, Awaited::Change(id), ctx);
    }

    /// The write of the task as it is now; those who wait for it are noted.
    pub(super) fn prepare(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        wake: Wake,
    ) -> Option<Write> {
        let now = Moment::from(self.clock.now().utc);
        let birth = self.birth_of(id);
        let entry = self.entries.get_mut(&id)?;
        let stored = &mut entry.stored;
        let expected = stored.version;
        stored.updated = now;
        if birth.is_none() {
            stored.version += 1;
        }
        let mut numbered = Vec::with_capacity(events.len());
        for event in events {
            stored.last_event += 1;
            numbered.push((stored.last_event, Arc::new(event)));
        }
        let kept = |(number, event): &(u64, Arc<StreamEvent>)| NewEvent {
            number: *number,
            event: Arc::clone(event),
            at: now,
        };
        let Wake { message, mut acks, told, watchers, then } = wake;
        acks.extend(entry.gauge.take_acks());
        let stored = &entry.stored;
        // Nobody has watched it, and how it ended says everything.
        let plain = |(_, event): &(u64, Arc<StreamEvent>)| !event.has_metadata();
        let says_all = birth.is_some() && stored.tells_all() && numbered.iter().all(plain);
        let events = if says_all { Vec::new() } else { numbered.iter().map(kept).collect() };
        let write = match birth {
            Some(message) => Write::Create {
                stored: stored.clone(),
                message: Some(message),
                events,
                push: Vec::new(),
            },
            None => Write::Update { stored: stored.clone(), expected, events, message },
        };
        let (version, task) = (stored.version, Arc::clone(&stored.task));
        entry.changes.push_back(Change {
            version,
            task,
            events: numbered,
            acks,
            told,
            watchers,
            then,
        });
        Some(write)
    }

    /// The task has ended and everybody was told: it is the store's alone now.
    fn forget(&mut self, id: TaskId) -> Option<Entry> {
        self.held.remove(&id);
        let entry = self.entries.remove(&id)?;
        if let Some(at) = entry.deadline {
            self.deadlines.remove(&(at, id));
        }
        Some(entry)
    }

    /// How much lies here now.
    pub(super) fn load(&self) -> TaskLoad {
        let mut load = TaskLoad::default();
        for entry in self.entries.values() {
            load.add(entry.state(), entry.stored.queued.is_some());
        }
        load
    }

    /// Moves a task by itself, for a reason of the server's; `false` when it cannot.
    fn fail(&mut self, id: TaskId, why: &str, call_off: bool) -> bool {
        let now = self.clock.now();
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        let said = a2a_policy::tasks::Said::plainly(why);
        let Some(event) = entry.advance(Step::Fail, said, now) else { return false };
        let then = if call_off { Then::CallOff(why.to_owned()) } else { Then::Nothing };
        self.change(id, vec![event], Wake { then, ..Wake::default() });
        self.free_place(id);
        true
    }
}

impl Actor for Service {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Callers wait for their answers, so as many lie here as call at once.
        ctx.set_mailbox_capacity(65_536);
        self.keep_time(ctx);
    }
}
