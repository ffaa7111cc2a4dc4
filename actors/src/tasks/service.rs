//! The service: the only one that changes tasks.
//!
//! [`super::TaskSystem`] sends what callers want, the clerk what agents answer, the writer what
//! is durable. Every change is on the disk before anybody is told, the agent gets its request or the
//! next in line its turn: in the store, or in the journal where that can say the same
//! ([`super::ahead`]).

mod agent_reply;
mod cancel;
mod deferred_create;
pub(super) mod live_task;
mod on_committed;
mod progress;
mod progress_coalescer;
mod pushes;
mod scheduler;
mod store_queue;
mod submit;
mod subscribers;
mod timeout;
pub(super) mod write_behind;

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

use self::deferred_create::DeferredCreates;
use self::live_task::{AgentAction, LiveTask, PendingChange};
use self::store_queue::{BARRIER, Outgoing};
use super::objectives::Objectives;
use super::reply_interceptor::LiveTaskIndex;
use super::service::write_behind::{WriteBehindLimit, WriteBehindPermit};
use super::settings::TaskSettings;
use super::stats::{TaskLoad, TaskStats};
use super::watch::TaskEvent;
use crate::bus::clock::Clock;
use crate::{BusSystem, Submission, Ticket};

pub(super) use agent_reply::AgentReply;
pub(super) use cancel::{Cancel, Delete, not_cancelable};
pub(super) use deferred_create::{DeferredCreate, PersistDeferred, REMEMBERED, SubmitDeferred};
pub(super) use on_committed::{Committed, disk_refuses};
pub(super) use pushes::{SettlePush, WritePush};
pub(super) use scheduler::{Restore, Resume, ResumeUnanswered};
pub(super) use store_queue::{CatchUp, CloseStoreQueue, OpenStoreQueue, StopService};
pub(super) use submit::{Continue, Submit, WaitFor};
pub(super) use subscribers::{AddSubscriber, WaitForEnd};
pub(super) use timeout::Reload;

/// What a caller gets for its message.
#[derive(Debug)]
pub(super) enum TaskReply {
    Task(Arc<Task>),
    Message(Box<Message>),
    /// What happens from now on; the task itself comes first.
    Stream(mpsc::Receiver<TaskEvent>),
    /// The message was heard before and belongs to this task.
    Duplicate(TaskId),
    /// Only the store can tell whether it can begin.
    NeedsStore(Box<StoredTask>, Box<Submission>),
}

/// Where the answer goes.
pub(super) type ReplySender = oneshot::Sender<Result<TaskReply, Fault>>;

/// What is on its way to the disk.
pub(super) enum PendingWrite {
    /// A new task, and what its caller wants.
    Create { task: TaskId, sent: Label, want: WaitFor, reply: ReplySender },
    /// A task that began before it was on the disk.
    DeferredCreate(TaskId),
    /// A change of this task: its oldest.
    Change(TaskId),
    /// The plain message that takes the place of this task.
    Answer { task: TaskId, acks: Vec<Ticket> },
    /// An objective and what is below it.
    Objective(ObjectiveId),
    /// All of them at once.
    Together(Vec<PendingWrite>),
    /// Something about webhooks.
    Reply(oneshot::Sender<Option<Written>>),
    /// Old tasks.
    Expire,
}

/// What a change carries along, and what follows when it is durable.
#[derive(Default)]
pub(super) struct Followup {
    /// The caller's message.
    pub(super) message: Option<SentMessage>,
    /// Messages of the bus that are acknowledged then.
    pub(super) acks: Vec<Ticket>,
    /// Callers who wait for just this.
    pub(super) told: Vec<ReplySender>,
    /// Callers who watch what comes after it.
    pub(super) watchers: Vec<ReplySender>,
    pub(super) then: AgentAction,
}

pub(super) struct Service {
    pub(super) bus: BusSystem,
    pub(super) settings: TaskSettings,
    pub(super) clock: Clock,
    pub(super) held: Arc<LiveTaskIndex>,
    /// Rung when webhooks have something to do.
    pub(super) push_notify: Arc<Notify>,
    pub(super) stats: Arc<TaskStats>,
    pub(super) ahead: WriteBehindLimit,
    outgoing: Outgoing,
    pub(super) live: HashMap<TaskId, LiveTask>,
    pub(super) queues: ContextQueues,
    awaited: HashMap<u64, PendingWrite>,
    deferred: DeferredCreates,
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
        held: Arc<LiveTaskIndex>,
        push_notify: Arc<Notify>,
        heard: Option<Vec<u64>>,
        stats: Arc<TaskStats>,
        ahead: WriteBehindLimit,
    ) -> Self {
        Self {
            _alive: bus.parts().returning("task_service"),
            bus,
            queues: ContextQueues::new(settings.queue_per_context),
            settings,
            clock: Clock::start(),
            held,
            push_notify,
            stats,
            ahead,
            outgoing: Outgoing::default(),
            live: HashMap::new(),
            awaited: HashMap::new(),
            deferred: DeferredCreates::new(heard),
            objectives: Objectives::default(),
            last_order: 0,
            first_order: 0,
            deadlines: BTreeSet::new(),
            timers: None,
        }
    }

    /// Sends the task as it is now to the disk, with what happened, and with what follows for the
    /// objective it is part of.
    fn change(&mut self, id: TaskId, events: Vec<StreamEvent>, wake: Followup) {
        let (all, next) = self.build_change(id, events, wake);
        self.write_all(all);
        for next in next {
            self.start_next(Some(next));
        }
    }

    /// The writes that belong to a change, and the tasks whose turn it is then.
    fn build_change(
        &mut self,
        id: TaskId,
        mut events: Vec<StreamEvent>,
        wake: Followup,
    ) -> (Vec<(Write, PendingWrite)>, Vec<TaskId>) {
        let (follows, next) = self.roll_up(id, &mut events);
        let Some(write) = self.build_write(id, events, wake) else { return Default::default() };
        let mut all = vec![(write, PendingWrite::Change(id))];
        all.extend(follows);
        (all, next)
    }

    /// The end of a task that only the journal has: whoever waits for it is told before the store is.
    fn end_write_behind(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        wake: Followup,
        ahead: WriteBehindPermit,
        ctx: &mut Context<Self>,
    ) {
        let Some(write) = self.build_write(id, events, wake) else { return };
        if let Some(live) = self.live.get_mut(&id) {
            live.told = Some(ahead);
            for (_, waiter) in live.waiters.drain(..) {
                let _ = waiter.send(Ok(TaskReply::Task(Arc::clone(&live.stored.task))));
            }
        }
        self.write_batched(write, PendingWrite::Change(id), ctx);
    }

    /// The write of the task as it is now; those who wait for it are noted.
    pub(super) fn build_write(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        wake: Followup,
    ) -> Option<Write> {
        let now = Moment::from(self.clock.now().utc);
        let birth = self.take_deferred_create(id);
        let live = self.live.get_mut(&id)?;
        let stored = &mut live.stored;
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
        let Followup { message, mut acks, told, watchers, then } = wake;
        acks.extend(live.progress.take_acks());
        let stored = &live.stored;
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
        live.changes.push_back(PendingChange {
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
    fn evict(&mut self, id: TaskId) -> Option<LiveTask> {
        self.held.remove(&id);
        let live = self.live.remove(&id)?;
        if let Some(at) = live.deadline {
            self.deadlines.remove(&(at, id));
        }
        Some(live)
    }

    /// How much lies here now.
    pub(super) fn load(&self) -> TaskLoad {
        let mut load = TaskLoad::default();
        for live in self.live.values() {
            load.add(live.state(), live.stored.queued.is_some());
        }
        load
    }

    /// Moves a task by itself, for a reason of the server's; `false` when it cannot.
    fn fail(&mut self, id: TaskId, why: &str, cancel_on_bus: bool) -> bool {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return false };
        let said = a2a_policy::tasks::Said::plainly(why);
        let Some(event) = live.advance(Step::Fail, said, now) else { return false };
        let then =
            if cancel_on_bus { AgentAction::Cancel(why.to_owned()) } else { AgentAction::None };
        self.change(id, vec![event], Followup { then, ..Followup::default() });
        self.release_lane(id);
        true
    }
}

impl Actor for Service {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Callers wait for their answers, so as many lie here as call at once.
        ctx.set_mailbox_capacity(65_536);
        self.arm_timers(ctx);
    }
}
