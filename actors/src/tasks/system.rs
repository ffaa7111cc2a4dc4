//! Handle of the task service for gateways: every A2A call, without transport.
//!
//! Reads query the store on a bounded number of threads. Changes go to the [`Service`] actor, whose
//! reply follows the commit.
//!
//! | file | calls |
//! | --- | --- |
//! | `send` | send a message: new task, or message to an open one |
//! | `read` | get and list tasks |
//! | `subscribe` | stream the events of a task |
//! | `cancel` | cancel and delete tasks |
//! | `push` | push configs and the webhook outbox |
//! | `objectives` | OPT extension; `objective_size` limits the bytes of an objective |

mod cancel;
mod objective_size;
mod objectives;
mod push;
mod read;
pub(super) mod send;
pub(super) mod subscribe;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use a2a_journal::ReadError;
use a2a_planner::{Planner, StepPlanner};
use a2a_policy::Limited;
use a2a_protocol::fault::Fault;
use a2a_protocol::opt::key;
use a2a_protocol::task::{Message, OpaqueId, Task};
use a2a_protocol::{AgentId, Code, TaskId, Trace, Violation};
use a2a_taskdb::{ListQuery, Page, StoredTask, TaskReader, TaskStoreError, TaskWriter};
use actix::prelude::*;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, oneshot};

use super::reply_interceptor::{LiveTaskIndex, ReplyInterceptor};
use super::service::write_behind::WriteBehindLimit;
use super::service::{
    CatchUp, MAX_MESSAGE_KEYS, PersistDeferred, Reload, Service, TaskReply, WaitFor,
};
use super::stats::MeasureLoad;
use super::{LiveTaskSettings, TaskLoad, TaskSettings, TaskStats, new_task, store_writer};
use crate::bus::context::Clock;
use crate::{BusSystem, InboxError};

/// Concurrent reads of the store. Each takes a thread and a connection; more of them would only
/// compete for the same cores.
const READERS: usize = 8;

/// Identity and rights of the client that makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCaller {
    /// Owner of the tasks it creates, such as `client:acme`.
    pub owner: Arc<str>,
    /// The bus name in which their requests are sent.
    pub principal: AgentId,
    /// The name belongs to a client and not to an agent: no session reads its messages.
    pub is_client: bool,
    /// An operator, that may see and cancel the tasks of all owners.
    pub sees_all: bool,
    /// Trace of the call; `None` when the client sent none.
    pub trace: Option<Arc<Trace>>,
    /// A2A version of the client, for agents that treat old clients differently; `None` when agents
    /// need not see it.
    pub version: Option<Arc<str>>,
}

/// Result of sending a message.
#[derive(Debug, Clone, PartialEq)]
pub enum SendOutcome {
    /// A task.
    Task(Arc<Task>),
    /// Plain answer of the agent, without a task.
    Message(Box<Message>),
}

/// The task service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartTasksError {
    /// A thread could not be spawned.
    #[error("cannot start the thread of the task service: {0}")]
    Thread(std::io::Error),
    /// The open tasks cannot be read from the store.
    #[error("cannot read the open tasks: {0}")]
    Read(#[from] TaskStoreError),
    /// The journal, which may have tasks that the store lacks, cannot be read.
    #[error("cannot read the requests of answered tasks in the journal: {0}")]
    Journal(#[from] ReadError),
    /// The service ended before it was ready.
    #[error("the task service ended before it was ready; its log says why")]
    EndedEarly,
}

/// Waits for the end of the service, which runs on the thread of the bus.
pub struct TaskJoinHandle(Receiver<()>);

impl TaskJoinHandle {
    /// Blocks until everything is written. Call it after [`TaskSystem::stop`], or after the bus has
    /// stopped.
    pub fn join(self) {
        // The channel carries no message: it closes when the service ends.
        let _ = self.0.recv();
    }
}

/// A bus name in which the service sends requests.
struct InterceptedName {
    /// The name belongs to a client and not to an agent.
    is_client: bool,
    /// Initialized once the reply interceptor is attached.
    attached: Arc<OnceCell<()>>,
}

/// Handle of the task service, cheap to clone. The service runs on the thread of its bus, until
/// the bus stops or [`TaskSystem::stop`] is called.
#[derive(Clone)]
pub struct TaskSystem {
    pub(super) service: Addr<Service>,
    pub(super) bus: BusSystem,
    pub(super) reader: Arc<dyn TaskReader>,
    readers: Arc<Semaphore>,
    index: Arc<LiveTaskIndex>,
    push_notify: Arc<Notify>,
    clock: Clock,
    /// Bus names with a reply interceptor.
    names: Arc<Mutex<HashMap<AgentId, InterceptedName>>>,
    /// Decides which messages become objectives.
    planner: Arc<dyn Planner>,
    stats: Arc<TaskStats>,
    write_behind: WriteBehindLimit,
    stop: mpsc::Sender<()>,
}

impl TaskSystem {
    /// Starts the service on a bus and a store, and recovers the open tasks.
    ///
    /// # Errors
    /// When a thread cannot be started or the store cannot be read.
    pub fn start(
        settings: TaskSettings,
        bus: BusSystem,
        store: Box<dyn TaskWriter>,
    ) -> Result<(Self, TaskJoinHandle), StartTasksError> {
        let reader = store.reader();
        let open = reader.open()?;
        let objectives = objectives::read_open(&*reader)?;
        let (index, push_notify) = (Arc::<LiveTaskIndex>::default(), Arc::<Notify>::default());
        let message_keys = reader.message_keys(MAX_MESSAGE_KEYS)?;
        let stats = Arc::new(TaskStats::new(settings.stalled_after));
        let write_behind = WriteBehindLimit::default();
        let service = Service::new(
            bus.clone(),
            settings,
            Arc::clone(&index),
            Arc::clone(&push_notify),
            message_keys,
            Arc::clone(&stats),
            write_behind.clone(),
        );
        let (counters, liveness) = (Arc::clone(&stats), bus.liveness().clone());
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (stop, mut stops) = mpsc::channel(1);
        let (running, ended) = std::sync::mpsc::sync_channel(1);
        let spawned = bus.bus_tasks().spawn(move |closing| async move {
            let _running = running;
            let service = service.start();
            let alive = liveness.returning("task_store");
            match store_writer::start(store, service.clone(), counters, alive) {
                Ok((jobs, writer)) => {
                    let _ = service.send(super::service::OpenStoreQueue(jobs)).await;
                    let _ = ready.send(Ok(service.clone()));
                    tokio::select! {
                        // Also resolves when the last handle is dropped.
                        _ = stops.recv() => {}
                        () = closing.cancelled() => {}
                    }
                    let _ = service.send(super::service::CloseStoreQueue).await;
                    let _ = tokio::task::spawn_blocking(move || writer.join()).await;
                    // Queued behind the last results of the writer, so that their callers get them.
                    let _ = service.send(super::service::StopService).await;
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        if !spawned {
            return Err(StartTasksError::EndedEarly);
        }
        let service = is_ready.recv().map_err(|_| StartTasksError::EndedEarly)?;
        let service = service.map_err(StartTasksError::Thread)?;
        let names = Arc::default();
        let clock = Clock::start();
        let readers = Arc::new(Semaphore::new(READERS));
        let planner = Arc::new(StepPlanner);
        let system = Self {
            service,
            bus,
            reader,
            readers,
            index,
            push_notify,
            clock,
            names,
            planner,
            stats,
            write_behind,
            stop,
        };
        system.restore(open, objectives)?;
        Ok((system, TaskJoinHandle(ended)))
    }

    /// Replaces the built-in planner.
    #[must_use]
    pub fn with_planner(self, planner: Arc<dyn Planner>) -> Self {
        Self { planner, ..self }
    }

    /// Attaches the reply interceptor to a bus name, once.
    pub(super) async fn intercept_replies_for(
        &self,
        name: &AgentId,
        is_client: bool,
    ) -> Result<(), Fault> {
        let taken = || Fault::NoSuchAgent {
            agent: name.to_string(),
            reason: InboxError::NameTaken.to_string(),
        };
        let once = {
            let mut names = self.names.lock();
            let intercepted = names.entry(name.clone());
            let intercepted = intercepted
                .or_insert_with(|| InterceptedName { is_client, attached: Arc::default() });
            if intercepted.is_client != is_client {
                // The name was intercepted as the other kind: a client must not pass for an agent.
                if intercepted.attached.initialized() {
                    return Err(taken());
                }
                *intercepted = InterceptedName { is_client, attached: Arc::default() };
            }
            Arc::clone(&intercepted.attached)
        };
        let attach = || async {
            let (service, index) = (self.service.clone(), Arc::clone(&self.index));
            let (stats, write_behind) = (Arc::clone(&self.stats), self.write_behind.clone());
            let interceptor = ReplyInterceptor {
                name: name.clone(),
                service,
                index,
                is_client,
                stats,
                write_behind,
            };
            self.bus.attach_interceptor(name.clone(), Arc::new(interceptor), is_client).await
        };
        once.get_or_try_init(attach).await.map(|_| ()).map_err(|error| match error {
            InboxError::NameTaken => taken(),
            error => Fault::Unavailable { reason: error.to_string(), retry_after_ms: 1_000 },
        })
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> &TaskStats {
        &self.stats
    }

    /// Open tasks by state; `None` when the service has stopped.
    pub async fn load(&self) -> Option<TaskLoad> {
        self.service.send(MeasureLoad).await.ok()
    }

    /// Whether the name belongs to a client and not to an agent, so that it executes no tasks.
    #[must_use]
    pub fn is_client_name(&self, name: &AgentId) -> bool {
        let names = self.names.lock();
        names.get(name).is_some_and(|name| name.is_client && name.attached.initialized())
    }

    /// Returns a task of any owner and agent.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get_any(&self, id: TaskId) -> Result<StoredTask, Fault> {
        self.stored(id).await
    }

    /// Lists tasks of all owners, for operators.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list_all(&self, query: ListQuery) -> Result<Page, Fault> {
        self.await_store().await?;
        self.read_store(move |reader| reader.list(&query)).await
    }

    /// Returns a whole task to the agent that executes it.
    ///
    /// # Errors
    /// When there is none, or it is another agent's.
    pub async fn get_as_agent(&self, agent: &AgentId, id: TaskId) -> Result<Task, Fault> {
        let stored = self.stored(id).await?;
        if stored.agent != *agent {
            return Err(Fault::TaskNotFound { task: id.to_string() });
        }
        Ok(Arc::unwrap_or_clone(stored.task))
    }

    /// Returns a task of this caller and agent; any other is not found.
    async fn owned(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        named: &OpaqueId,
    ) -> Result<StoredTask, Fault> {
        let none = || Fault::TaskNotFound { task: named.to_string() };
        let id: TaskId = named.as_str().parse().map_err(|_| none())?;
        let found = self.find(id).await?;
        // Tasks of an objective are visible at every agent.
        let is_here = |stored: &StoredTask| {
            let metadata = stored.task.metadata.as_ref();
            stored.agent == *agent
                || metadata.is_some_and(|metadata| metadata.contains_key(key::OBJECTIVE_ID))
        };
        let is_visible = |stored: &StoredTask| {
            (caller.sees_all || stored.owner == caller.owner) && is_here(stored)
        };
        found.filter(is_visible).ok_or_else(none)
    }

    /// Finds a task, also one whose create is deferred.
    async fn find(&self, id: TaskId) -> Result<Option<StoredTask>, Fault> {
        let found = self.read_store(move |reader| reader.get(id)).await?;
        if found.is_some() {
            return Ok(found);
        }
        let (reply, persisted) = oneshot::channel();
        self.post(PersistDeferred { task: id, reply })?;
        if let Ok(None) = persisted.await {
            return Err(store_behind());
        }
        // Also when the service does not have it: it may have ended since the first read.
        self.read_store(move |reader| reader.get(id)).await
    }

    async fn stored(&self, id: TaskId) -> Result<StoredTask, Fault> {
        let found = self.find(id).await?;
        found.ok_or_else(|| Fault::TaskNotFound { task: id.to_string() })
    }

    async fn read(&self, id: TaskId) -> Result<Task, Fault> {
        self.stored(id).await.map(|stored| Arc::unwrap_or_clone(stored.task))
    }

    /// Waits until the store has everything that callers have seen, before a read of several tasks.
    async fn await_store(&self) -> Result<(), Fault> {
        if self.write_behind.is_zero() {
            return Ok(());
        }
        let (reply, written) = oneshot::channel();
        self.post(CatchUp(reply))?;
        match written.await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(store_behind()),
            Err(_) => Err(stopping()),
        }
    }

    /// Runs a read of the store on a blocking thread.
    async fn read_store<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn TaskReader) -> Result<T, TaskStoreError> + Send + 'static,
    ) -> Result<T, Fault> {
        let reader = Arc::clone(&self.reader);
        let permit =
            Arc::clone(&self.readers).acquire_owned().await.map_err(|_| Fault::Internal)?;
        let answer = tokio::task::spawn_blocking(move || {
            // Held to the end of the read, even when the caller is gone.
            let _permit = permit;
            read(&*reader)
        })
        .await;
        match answer {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                tracing::error!(%error, "the task store cannot be read");
                Err(Fault::Internal)
            }
            Err(error) => {
                tracing::error!(%error, "reading the task store panicked");
                Err(Fault::Internal)
            }
        }
    }

    /// Charges a call to the caller's rate limits. `counts`: also as a message, unless the bus
    /// counts it when it assesses the request.
    ///
    /// # Errors
    /// The limit that was reached.
    async fn charge(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        counts: bool,
        bytes: usize,
    ) -> Result<(), Fault> {
        let both = (caller.principal.clone(), agent.clone());
        let charged = self.bus.charge(both, counts, bytes).await.ok_or_else(stopping)?;
        charged.map_err(|Limited { limit, retry_after }| {
            let wait = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
            let reason = format!("{limit}. Wait {wait} ms before the next.");
            Fault::RateLimited { reason, retry_after_ms: wait }
        })
    }

    fn post<M>(&self, message: M) -> Result<(), Fault>
    where
        M: actix::Message<Result = ()> + Send + 'static,
        Service: Handler<M>,
    {
        match self.service.try_send(message) {
            Ok(()) => Ok(()),
            Err(actix::prelude::SendError::Full(_)) => Err(Fault::Unavailable {
                reason: "more calls wait than the server holds; try again".into(),
                retry_after_ms: 1_000,
            }),
            Err(actix::prelude::SendError::Closed(_)) => Err(stopping()),
        }
    }

    /// Replaces the live settings; `false` when the service has stopped. Working tasks get the new
    /// timeout from the start of their work. Queued tasks stay queued, even above a lower limit.
    pub async fn reload(&self, settings: LiveTaskSettings) -> bool {
        self.service.send(Reload(settings)).await.is_ok()
    }

    /// Stops the service once all pending writes are committed; the bus keeps running. A bus that
    /// stops does this itself, after the agents' last answers.
    pub async fn stop(&self) {
        let _ = self.stop.send(()).await;
    }
}

fn invalid(path: &str, why: &str) -> Fault {
    Fault::InvalidParams(vec![Violation::new(path, Code::NotAllowed, why)])
}

/// The store lacks what callers have seen.
fn store_behind() -> Fault {
    let reason = "the task store cannot be written right now, and has not got everything".into();
    Fault::Unavailable { reason, retry_after_ms: 1_000 }
}

fn stopping() -> Fault {
    Fault::Unavailable { reason: "the server is stopping".into(), retry_after_ms: 1_000 }
}
