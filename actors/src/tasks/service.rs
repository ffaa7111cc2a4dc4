//! The service: the only one that changes tasks.
//!
//! [`super::TaskSystem`] sends what callers want, the clerk what agents answer, the writer what
//! is durable. Every change goes to the disk first; then those who wait are told, the agent gets
//! its request, the next in line gets its turn.

mod begin;
mod cancel;
mod hear;
mod objectives;
mod progress;
mod pushes;
mod timers;
mod turns;
mod unborn;
mod watching;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use a2a_policy::tasks::{ContextQueues, Step};
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{Label, Message, Moment, Task};
use a2a_store::tasks::{NewEvent, Repeated, StoredTask, Write, Written};
use actix::prelude::*;
use tokio::sync::{Notify, mpsc, oneshot};

use self::objectives::Objectives;
use self::unborn::Unborn;
use super::ahead::{Ahead, AheadCount};
use super::clerk::Held;
use super::entry::{Change, Entry, Then};
use super::settings::TaskSettings;
use super::stats::{TaskEnd, TaskLoad, TaskStats};
use super::watch::{Follows, Happened};
use super::writer::Job;
use crate::clock::Clock;
use crate::{BusSystem, Parcel};

pub(super) use begin::{Begin, GoOn, Want};
pub(super) use cancel::{Cancel, not_cancelable};
pub(super) use hear::Hear;
pub(super) use objectives::{
    Alter, Alteration, Altered, BeginObjective, FollowObjective, OpenObjective, Part, WaitRevision,
    result_of, shown,
};
pub(super) use pushes::{SettlePush, WritePush};
pub(super) use timers::Reload;
pub(super) use turns::{Restore, Resume};
pub(super) use unborn::{Bear, BeginAtOnce, Birth, REMEMBERED};
pub(super) use watching::{Subscribe, Wait};

/// How long what nobody waits for may wait for company, and how much of that is enough.
const LINGER: Duration = Duration::from_millis(10);
const COMPANY: usize = 256;

/// What a caller gets for its message.
#[derive(Debug)]
pub(super) enum Begun {
    Task(Box<Task>),
    Message(Box<Message>),
    /// What happens from now on; the task itself comes first.
    Stream(mpsc::Receiver<Happened>),
    /// The message was heard before and belongs to this task.
    Repeated(TaskId),
    /// Only the store can tell whether it can begin.
    Unsure(Box<StoredTask>, Box<Parcel>),
}

/// Where the answer goes.
pub(super) type Answering = oneshot::Sender<Result<Begun, Fault>>;

/// What is on its way to the disk.
enum Awaited {
    /// A new task, and what its caller wants.
    Create { task: TaskId, want: Want, reply: Answering },
    /// A task that began before it was on the disk.
    Birth(TaskId),
    /// A change of this task: its oldest.
    Change(TaskId),
    /// The plain message that takes the place of this task.
    Answer { task: TaskId, acks: Vec<oneshot::Sender<()>> },
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
struct Wake {
    /// The id of the caller's message.
    message: Option<Label>,
    /// Messages of the bus that are acknowledged then.
    acks: Vec<oneshot::Sender<()>>,
    /// Callers who wait for just this.
    told: Vec<Answering>,
    then: Then,
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
    /// The queue of the store's thread; gone when the service ends.
    pub(super) jobs: Option<Sender<Vec<Job>>>,
    /// What nobody waits for, until there is company or its time is up.
    kept_back: Vec<Job>,
    /// A timer for that is set.
    keeps_back: bool,
    entries: HashMap<TaskId, Entry>,
    queues: ContextQueues,
    awaited: HashMap<u64, Awaited>,
    unborn: Unborn,
    objectives: Objectives,
    /// The number of the next change.
    next: u64,
    /// The places of the next in line, and of the next who goes before everyone.
    last_order: i64,
    first_order: i64,
    /// When each task that is being worked on has been at it for too long, since the start.
    deadlines: BTreeSet<(Duration, TaskId)>,
    /// Those that look for them, and for what is too old.
    timers: Option<[SpawnHandle; 2]>,
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
            bus,
            queues: ContextQueues::new(settings.queue_per_context),
            settings,
            clock: Clock::start(),
            held,
            bell,
            stats,
            ahead,
            jobs: None,
            kept_back: Vec::new(),
            keeps_back: false,
            entries: HashMap::new(),
            awaited: HashMap::new(),
            unborn: Unborn::new(heard),
            objectives: Objectives::default(),
            next: 0,
            last_order: 0,
            first_order: 0,
            deadlines: BTreeSet::new(),
            timers: None,
        }
    }

    fn write(&mut self, write: Write, awaited: Awaited) {
        self.note_write(write, awaited);
        self.hand_over();
    }

    /// The same for what nobody waits for: it is handed over with many others, which costs each a
    /// fraction.
    fn write_soon(&mut self, write: Write, awaited: Awaited, ctx: &mut Context<Self>) {
        self.note_write(write, awaited);
        if self.kept_back.len() >= COMPANY {
            self.hand_over();
        } else if !self.keeps_back {
            self.keeps_back = true;
            ctx.run_later(LINGER, |service, _| {
                service.keeps_back = false;
                service.hand_over();
            });
        }
    }

    /// Gives the store's thread everything there is, in its order.
    fn hand_over(&mut self) {
        if self.kept_back.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.kept_back);
        if let Some(Err(gone)) = self.jobs.as_ref().map(|jobs| jobs.send(all)) {
            // Without the writer the service ends; whoever waits hears that by the dropped answer.
            gone.0.iter().for_each(|job| drop(self.awaited.remove(&job.number)));
        }
    }

    fn note_write(&mut self, write: Write, awaited: Awaited) {
        if self.jobs.is_none() {
            return;
        }
        let asks = matches!(awaited, Awaited::Create { .. } | Awaited::Push(_));
        let number = self.next;
        self.next += 1;
        self.kept_back.push(Job { number, write, asks });
        self.awaited.insert(number, awaited);
    }

    /// Sends everything at once to the disk.
    fn write_all(&mut self, mut all: Vec<(Write, Awaited)>) {
        match all.len() {
            0 => {}
            1 => all.drain(..).for_each(|(write, awaited)| self.write(write, awaited)),
            _ => {
                let (writes, awaited) = all.into_iter().unzip();
                self.write(Write::Together(writes), Awaited::Together(awaited));
            }
        }
    }

    /// Sends the task as it is now to the disk, with what happened, and with what follows for the
    /// objective it is part of.
    fn change(&mut self, id: TaskId, mut events: Vec<StreamEvent>, wake: Wake) {
        let (follows, next) = self.roll_up(id, &mut events);
        let Some(write) = self.prepare(id, events, wake) else { return };
        let mut all = vec![(write, Awaited::Change(id))];
        all.extend(follows);
        self.write_all(all);
        for next in next {
            self.start_next(Some(next));
        }
    }

    /// The same for a task that has ended by an answer which the journal has: whoever waits for it
    /// is told before the store is.
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
                let task = Box::new(Task::clone(&entry.stored.task));
                let _ = waiter.send(Ok(Begun::Task(task)));
            }
        }
        self.write_soon(write, Awaited::Change(id), ctx);
    }

    /// The write of the task as it is now; those who wait for it are noted.
    fn prepare(&mut self, id: TaskId, events: Vec<StreamEvent>, wake: Wake) -> Option<Write> {
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
        let Wake { message, mut acks, told, then } = wake;
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
        entry.changes.push_back(Change { version, task, events: numbered, acks, told, then });
        Some(write)
    }

    fn created(&mut self, id: TaskId, want: Want, reply: Answering, ctx: &mut Context<Self>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match want {
            Want::Now => {
                entry.unseen = false;
                let gone = Fault::TaskNotFound { task: id.to_string() };
                let task = self.shown(id).ok_or(gone);
                let _ = reply.send(task.map(|task| Begun::Task(Box::new(task))));
            }
            Want::End => entry.waiters.push((entry.stored.version, reply)),
            Want::Stream => {
                let events = entry.watchers.add_first(self.settings.watcher_buffer);
                let _ = reply.send(Ok(Begun::Stream(events)));
                if entry.stored.queued.is_some() {
                    self.greet(id);
                } else {
                    // If the agent has not said anything by then, there is a task.
                    ctx.run_later(self.settings.grace, move |service, _| service.greet(id));
                }
            }
        }
        // If it got its turn or its end meanwhile, what follows hangs on that change.
        let is_next = |entry: &Entry| entry.stored.queued.is_none() && entry.changes.is_empty();
        if self.entries.get(&id).is_some_and(is_next) {
            self.dispatch(id, ctx);
        }
    }

    /// The message was heard before: the task that was to be begun never was.
    fn not_created(&mut self, id: TaskId) {
        if let Some(entry) = self.forget(id) {
            let next = self.queues.leave(&entry.lane, id);
            self.start_next(next);
        }
    }

    /// The oldest change of the task is durable: everybody may know.
    fn changed(&mut self, id: TaskId, ctx: &mut Context<Self>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(change) = entry.changes.pop_front() else { return };
        entry.unseen &= change.events.is_empty();
        if !entry.unseen {
            let (number, before) = (entry.durable_event, Arc::clone(&entry.durable));
            entry.watchers.greet(number, || Task::clone(&before));
        }
        let state = change.task.status.state;
        let pause = state.is_terminal() || state.is_interrupted();
        entry.durable = change.task;
        let count = change.events.len();
        for (at, (number, event)) in change.events.iter().enumerate() {
            let follows = match (at + 1 == count, state) {
                (true, state) if state.is_terminal() => Follows::Nothing,
                (true, state) if state.is_interrupted() => Follows::Pause,
                _ => Follows::More,
            };
            entry.watchers.tell(*number, event, follows);
            entry.durable_event = *number;
        }
        let shown = || Ok(Begun::Task(Box::new(Task::clone(&entry.durable))));
        if pause {
            for (_, waiter) in entry.waiters.extract_if(.., |(from, _)| *from <= change.version) {
                let _ = waiter.send(shown());
            }
        }
        for told in change.told {
            let _ = told.send(shown());
        }
        for ack in change.acks {
            let _ = ack.send(());
        }
        let over = state.is_terminal() && entry.changes.is_empty();
        // Whoever is rung for looks into the store: not for nothing.
        let due = count > 0 && entry.is_pushed;
        match change.then {
            Then::Nothing => {}
            Then::Dispatch => self.dispatch(id, ctx),
            Then::CallOff(reason) => self.call_off(id, reason, ctx),
        }
        if over {
            self.stats.end_in(state);
            self.forget(id);
        }
        if due {
            self.bell.notify_one();
        }
    }

    /// The plain message that takes the place of the task is durable.
    fn answered(&mut self, id: TaskId, acks: Vec<oneshot::Sender<()>>) {
        let Some(mut entry) = self.forget(id) else { return };
        self.stats.end(TaskEnd::Answered);
        if let Some(message) = entry.answer.take() {
            let event = Arc::new(StreamEvent::Message(message.clone()));
            entry.watchers.tell(entry.durable_event, &event, Follows::Nothing);
            for (_, waiter) in entry.waiters {
                let _ = waiter.send(Ok(Begun::Message(message.clone())));
            }
        }
        for ack in acks {
            let _ = ack.send(());
        }
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

/// What came of changes, by their numbers; `None` when the disk refused.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Committed(pub(super) Vec<(u64, Option<Written>)>);

impl Handler<Committed> for Service {
    type Result = ();

    fn handle(&mut self, Committed(results): Committed, ctx: &mut Self::Context) {
        for (number, written) in results {
            let Some(awaited) = self.awaited.remove(&number) else { continue };
            self.committed(awaited, written, ctx);
        }
    }
}

impl Service {
    fn committed(&mut self, awaited: Awaited, written: Option<Written>, ctx: &mut Context<Self>) {
        match (awaited, written) {
            (Awaited::Together(all), Some(Written::Together(written))) => {
                for (awaited, written) in all.into_iter().zip(written) {
                    self.committed(awaited, Some(written), ctx);
                }
            }
            (Awaited::Together(all), written) => {
                // There is one writer, so this cannot be; each of them says what it means.
                for awaited in all {
                    self.committed(awaited, written.clone(), ctx);
                }
            }
            (Awaited::Objective(id), Some(Written::Done)) => self.objective_kept(&id),
            (Awaited::Objective(id), written) => {
                tracing::error!(?written, %id, "a change of an objective did not fit the store");
                self.objectives.forget(&id);
            }
            (Awaited::Create { task, want, reply }, Some(Written::Done)) => {
                self.created(task, want, reply, ctx);
            }
            (Awaited::Create { task, reply, .. }, written) => {
                self.not_created(task);
                let _ = reply.send(match written {
                    Some(Written::Repeated(Repeated::Task(first))) => Ok(Begun::Repeated(first)),
                    Some(Written::Repeated(Repeated::Answer(message))) => {
                        Ok(Begun::Message(message))
                    }
                    None => Err(disk_refuses()),
                    Some(other) => {
                        tracing::error!(?other, %task, "a new task did not fit the store");
                        Err(Fault::Internal)
                    }
                });
            }
            (Awaited::Birth(_), Some(Written::Done)) => {}
            (Awaited::Birth(task), written) => {
                tracing::error!(?written, %task, "a task that began did not fit the store");
                self.free_place(task);
                self.forget(task);
            }
            (Awaited::Change(task), Some(Written::Done)) => self.changed(task, ctx),
            (Awaited::Change(task), written) => {
                // There is one writer, so this cannot be; what the store says counts.
                tracing::error!(?written, %task, "a change of a task did not fit the store");
                self.free_place(task);
                self.forget(task);
            }
            (Awaited::Answer { task, acks }, Some(Written::Done)) => self.answered(task, acks),
            (Awaited::Answer { task, .. }, written) => {
                tracing::error!(?written, %task, "a plain answer did not fit the store");
                self.forget(task);
            }
            (Awaited::Push(reply), written) => {
                let _ = reply.send(written);
            }
            (Awaited::Expire, written) => self.expired(written),
        }
    }
}

pub(super) fn disk_refuses() -> Fault {
    Fault::Unavailable {
        reason: "the server cannot write right now; nothing was accepted".into(),
        retry_after_ms: 1_000,
    }
}

/// Somebody wants to read all that callers know. Answered when the store has it.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct CatchUp(pub(super) oneshot::Sender<Option<Written>>);

impl Handler<CatchUp> for Service {
    type Result = ();

    fn handle(&mut self, CatchUp(reply): CatchUp, _: &mut Self::Context) {
        self.write(NOTHING, Awaited::Push(reply));
    }
}

/// Settles nothing, and comes back behind what was written before it.
const NOTHING: Write = Write::Pushed { outbox: 0 };

/// The store's thread is there.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Meet(pub(super) Sender<Vec<Job>>);

impl Handler<Meet> for Service {
    type Result = ();

    fn handle(&mut self, Meet(jobs): Meet, _: &mut Self::Context) {
        self.jobs = Some(jobs);
    }
}

/// The service ends: nothing more is written, and the store's thread ends with what it has.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Leave;

impl Handler<Leave> for Service {
    type Result = ();

    fn handle(&mut self, _: Leave, _: &mut Self::Context) {
        self.bear_all();
        self.hand_over();
        self.jobs = None;
    }
}

/// The writer has ended: so does the service, and whoever waits is let go.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct End;

impl Handler<End> for Service {
    type Result = ();

    fn handle(&mut self, _: End, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
