//! Task service actor: the only writer of A2A tasks.
//!
//! | file | what it does |
//! | --- | --- |
//! | `submit` | creates tasks and appends messages to open ones |
//! | `deferred_create` | starts a task before its row exists, for callers that wait for the end |
//! | `write_behind` | bounds the tasks whose end is returned before the store has it |
//! | `scheduler` | queues tasks per lane, starts the next one, dispatches it to its agent |
//! | `agent_reply` | applies what an agent sends about a task |
//! | `progress_coalescer` | merges progress updates that follow each other too fast |
//! | `cancel` | cancels tasks, deletes ended ones |
//! | `timeout` | fails overdue tasks, expires old ones |
//! | `live_task` | state of one open task |
//! | `store_queue` | queue of writes to the store thread |
//! | `on_committed` | replies, events and dispatches that follow a commit |
//! | `subscribers` | callers that wait for a task or stream its events |
//!
//! [`super::TaskSystem`] sends the calls of clients, the reply interceptor those of agents, the
//! store thread what it has committed. No reply, event or dispatch precedes the commit of its
//! change, either in the store or, where the journal can replay it, in the journal
//! ([`write_behind`]).

mod agent_reply;
mod cancel;
mod deferred_create;
pub(super) mod live_task;
mod on_committed;
mod progress_coalescer;
pub(super) mod scheduler;
mod store_queue;
mod submit;
pub(super) mod subscribers;
mod timeout;
pub(super) mod write_behind;

use std::collections::HashMap;
use std::sync::Arc;

use a2a_journal::LivenessGuard;
use a2a_policy::tasks::TaskTransition;
use a2a_protocol::TaskId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::StreamEvent;
use a2a_protocol::task::{Message, Task, UtcMillis};
use a2a_taskdb::{NewEvent, StoredTask, Write};
use actix::prelude::*;
use tokio::sync::{Notify, mpsc, oneshot};

use self::deferred_create::DeferredCreates;
use self::live_task::{AgentAction, Followup, LiveTask, PendingChange};
use self::scheduler::Scheduler;
use self::store_queue::StoreQueue;
use self::subscribers::TaskEvent;
use self::timeout::Deadlines;
use self::write_behind::WriteBehindLimit;
use super::objectives::Objectives;
use super::reply_interceptor::LiveTaskIndex;
use super::settings::TaskSettings;
use super::stats::{TaskLoad, TaskStats};
use crate::bus::context::Clock;
use crate::{BusSystem, Submission};

pub(super) use agent_reply::AgentReply;
pub(super) use cancel::{Cancel, Delete, not_cancelable};
pub(super) use deferred_create::{MAX_MESSAGE_KEYS, PersistDeferred, SubmitDeferred};
pub(super) use on_committed::{Committed, store_unavailable};
pub(super) use store_queue::{
    CatchUp, CloseStoreQueue, OpenStoreQueue, PendingWrite, StopService, WritePush,
};
pub(super) use submit::{Continue, Submit, WaitFor};
pub(super) use subscribers::{AddSubscriber, WaitForEnd};
pub(super) use timeout::Reload;

/// Reply to a call that sends a message, waits for a task or cancels it.
#[derive(Debug)]
pub(super) enum TaskReply {
    Task(Arc<Task>),
    /// Plain answer of the agent, in place of a task.
    Message(Box<Message>),
    /// Events from now on; the first is a snapshot of the task.
    Stream(mpsc::Receiver<TaskEvent>),
    /// The message is a duplicate and belongs to this task.
    Duplicate(TaskId),
    /// The create cannot be deferred: only the store can decide whether the message is new.
    NeedsStore(Box<StoredTask>, Box<Submission>),
}

pub(super) type ReplySender = oneshot::Sender<Result<TaskReply, Fault>>;

pub(super) struct Service {
    pub(super) bus: BusSystem,
    pub(super) settings: TaskSettings,
    pub(super) clock: Clock,
    pub(super) index: Arc<LiveTaskIndex>,
    /// Notified when the webhook outbox may have new entries.
    pub(super) push_notify: Arc<Notify>,
    pub(super) stats: Arc<TaskStats>,
    write_behind: WriteBehindLimit,
    store_queue: StoreQueue,
    /// Tasks that have not ended, or whose end is not committed yet.
    pub(super) live: HashMap<TaskId, LiveTask>,
    pub(super) scheduler: Scheduler,
    deferred: DeferredCreates,
    pub(super) objectives: Objectives,
    deadlines: Deadlines,
    /// Intervals of the timeout check and of the expiry sweep.
    timers: Option<[SpawnHandle; 2]>,
    _alive: LivenessGuard,
}

impl Service {
    /// `message_keys` are the keys of every message in the store; `None` when they exceed
    /// [`MAX_MESSAGE_KEYS`].
    pub(super) fn new(
        bus: BusSystem,
        settings: TaskSettings,
        index: Arc<LiveTaskIndex>,
        push_notify: Arc<Notify>,
        message_keys: Option<Vec<u64>>,
        stats: Arc<TaskStats>,
        write_behind: WriteBehindLimit,
    ) -> Self {
        Self {
            _alive: bus.liveness().returning("task_service"),
            bus,
            scheduler: Scheduler::new(settings.queue_per_context),
            settings,
            clock: Clock::start(),
            index,
            push_notify,
            stats,
            write_behind,
            store_queue: StoreQueue::default(),
            live: HashMap::new(),
            deferred: DeferredCreates::new(message_keys),
            objectives: Objectives::default(),
            deadlines: Deadlines::default(),
            timers: None,
        }
    }

    /// Writes the current state of a task with its events, in one transaction with the changes of
    /// the objective it belongs to.
    fn change(&mut self, id: TaskId, events: Vec<StreamEvent>, followup: Followup) {
        let (all, next) = self.build_change(id, events, followup);
        self.write_all(all);
        for next in next {
            self.start_next(Some(next));
        }
    }

    /// Builds the writes of a change; also returns the tasks to start afterwards.
    fn build_change(
        &mut self,
        id: TaskId,
        mut events: Vec<StreamEvent>,
        followup: Followup,
    ) -> (Vec<(Write, PendingWrite)>, Vec<TaskId>) {
        let (follows, next) = self.roll_up(id, &mut events);
        let Some(write) = self.build_write(id, events, followup) else {
            return Default::default();
        };
        let mut all = vec![(write, PendingWrite::Change(id))];
        all.extend(follows);
        (all, next)
    }

    /// Builds the write of a task's current state and queues its [`PendingChange`].
    pub(super) fn build_write(
        &mut self,
        id: TaskId,
        events: Vec<StreamEvent>,
        mut followup: Followup,
    ) -> Option<Write> {
        let now = UtcMillis::from(self.clock.now().utc);
        let deferred = self.take_deferred_create(id);
        let live = self.live.get_mut(&id)?;
        let stored = &mut live.stored;
        let expected = stored.version;
        stored.updated = now;
        if deferred.is_none() {
            stored.version += 1;
        }
        let mut numbered = Vec::with_capacity(events.len());
        for event in events {
            stored.last_event += 1;
            numbered.push((stored.last_event, Arc::new(event)));
        }
        let new_event = |(number, event): &(u64, Arc<StreamEvent>)| NewEvent {
            number: *number,
            event: Arc::clone(event),
            at: now,
        };
        followup.acks.extend(live.progress.take_acks());
        let message = followup.message.take();
        let stored = &live.stored;
        // A deferred task has no subscribers. Its events need no rows where its final state
        // contains them.
        let plain = |(_, event): &(u64, Arc<StreamEvent>)| !event.has_metadata();
        let is_redundant =
            deferred.is_some() && stored.has_derivable_events() && numbered.iter().all(plain);
        let events =
            if is_redundant { Vec::new() } else { numbered.iter().map(new_event).collect() };
        let write = match deferred {
            Some(message) => Write::Create {
                stored: stored.clone(),
                message: Some(message),
                events,
                push: Vec::new(),
            },
            None => Write::Update { stored: stored.clone(), expected, events, message },
        };
        let (version, task) = (stored.version, Arc::clone(&stored.task));
        live.changes.push_back(PendingChange { version, task, events: numbered, followup });
        Some(write)
    }

    /// Drops a task whose end is committed: from here on only the store has it.
    fn evict(&mut self, id: TaskId) -> Option<LiveTask> {
        self.index.remove(&id);
        self.deadlines.remove(id);
        self.live.remove(&id)
    }

    /// Open tasks by state.
    pub(super) fn load(&self) -> TaskLoad {
        let mut load = TaskLoad::default();
        for live in self.live.values() {
            load.add(live.state(), live.stored.queued.is_some());
        }
        load
    }

    /// Fails a task for a reason of the server; `false` when its state does not allow that.
    pub(super) fn fail(&mut self, id: TaskId, why: &str, cancel_on_bus: bool) -> bool {
        let now = self.clock.now();
        let Some(live) = self.live.get_mut(&id) else { return false };
        let output = a2a_policy::tasks::AgentText::plain(why);
        let Some(event) = live.advance(TaskTransition::Fail, output, now) else { return false };
        let action =
            if cancel_on_bus { AgentAction::Cancel(why.to_owned()) } else { AgentAction::None };
        self.change(id, vec![event], Followup { action, ..Followup::default() });
        self.release_lane(id);
        true
    }
}

impl Actor for Service {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Each call waits for its reply, so the number of concurrent calls bounds the mailbox.
        ctx.set_mailbox_capacity(65_536);
        self.arm_timers(ctx);
    }
}
