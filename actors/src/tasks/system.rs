//! What edges hold: every call an A2A client can make, with no word of transport.

mod objective_size;
mod objectives;
mod push;
mod read;
mod restore;
pub(super) mod send;

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use a2a_journal::ReadError;
use a2a_policy::Limited;
use a2a_policy::opt::{Planner, StepPlanner};
use a2a_protocol::fault::Fault;
use a2a_protocol::opt::key;
use a2a_protocol::task::{Label, Message, Task};
use a2a_protocol::{AgentId, Code, TaskId, Trace, Violation};
use a2a_taskdb::{ListQuery, Page, StoredTask, TaskReader, TaskStoreError, TaskWriter};
use actix::prelude::*;
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, oneshot};

use super::reply_interceptor::{LiveTaskIndex, ReplyInterceptor};
use super::service::write_behind::WriteBehindLimit;
use super::service::{CatchUp, PersistDeferred, REMEMBERED, Reload, Service, TaskReply, WaitFor};
use super::stats::MeasureLoad;
use super::{LiveTaskSettings, TaskLoad, TaskSettings, TaskStats, new_task, store_writer};
use crate::bus::clock::Clock;
use crate::{BusSystem, InboxError};

/// How many read the store at once. Each takes a thread and a connection, and more than these
/// would only wait for the same cores.
const READERS: usize = 8;

/// Who calls, as far as tasks are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCaller {
    /// Whose the tasks are, such as `client:acme`.
    pub owner: Arc<str>,
    /// Under which name they travel on the bus.
    pub principal: AgentId,
    /// The name is a caller's and no agent's: nobody else reads what comes for it.
    pub is_client: bool,
    /// It may see and stop everybody's tasks: a person.
    pub sees_all: bool,
    /// The trace of this call, if the caller gave one.
    pub trace: Option<Arc<Trace>>,
    /// The version of A2A it speaks, where agents are to hear of it: some treat old callers
    /// differently.
    pub version: Option<Arc<str>>,
}

/// What a message led to.
#[derive(Debug, Clone, PartialEq)]
pub enum SendOutcome {
    /// A task.
    Task(Arc<Task>),
    /// A plain answer.
    Message(Box<Message>),
}

/// The task service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartTasksError {
    /// A thread.
    #[error("cannot start the thread of the task service: {0}")]
    Thread(std::io::Error),
    /// The open tasks cannot be read.
    #[error("cannot read the open tasks: {0}")]
    Read(#[from] TaskStoreError),
    /// The journal, which may have what the store has not, cannot be read.
    #[error("cannot read the requests of answered tasks in the journal: {0}")]
    Journal(#[from] ReadError),
    /// It ended before it was ready.
    #[error("the task service ended before it was ready; its log says why")]
    EndedEarly,
}

/// The work of the service on the thread of the bus, to wait for its end.
pub struct TaskJoinHandle(Receiver<()>);

impl TaskJoinHandle {
    /// Waits until everything is written; call it after [`TaskSystem::stop`], or when the bus has
    /// stopped.
    pub fn join(self) {
        // Nothing is ever said there: it ends with the one who could.
        let _ = self.0.recv();
    }
}

/// A name under which tasks travel.
struct InterceptedName {
    /// It is a caller's and no agent's.
    is_client: bool,
    /// Done when the clerk takes its answers.
    attached: Arc<OnceCell<()>>,
}

/// The task service. Cheap to clone; it runs on the thread of its bus, until that has stopped or
/// until [`TaskSystem::stop`].
#[derive(Clone)]
pub struct TaskSystem {
    service: Addr<Service>,
    bus: BusSystem,
    reader: Arc<dyn TaskReader>,
    readers: Arc<Semaphore>,
    held: Arc<LiveTaskIndex>,
    push_notify: Arc<Notify>,
    clock: Clock,
    /// The names whose answers the clerk takes.
    names: Arc<Mutex<HashMap<AgentId, InterceptedName>>>,
    /// Decides which messages need a plan.
    planner: Arc<dyn Planner>,
    stats: Arc<TaskStats>,
    ahead: WriteBehindLimit,
    stop: mpsc::Sender<()>,
}

impl TaskSystem {
    /// Starts the service on a bus and a store: what was open goes on.
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
        let objectives = objectives::still_open(&*reader)?;
        let (held, push_notify) = (Arc::<LiveTaskIndex>::default(), Arc::<Notify>::default());
        let heard = reader.message_keys(REMEMBERED)?;
        let stats = Arc::new(TaskStats::new(settings.stalled_after));
        let ahead = WriteBehindLimit::default();
        let service = Service::new(
            bus.clone(),
            settings,
            Arc::clone(&held),
            Arc::clone(&push_notify),
            heard,
            Arc::clone(&stats),
            ahead.clone(),
        );
        let (counters, parts) = (Arc::clone(&stats), bus.parts().clone());
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (stop, mut stops) = mpsc::channel(1);
        let (at_work, work) = std::sync::mpsc::sync_channel(1);
        let moved_in = bus.lodging().move_in(move |closing| async move {
            let _at_work = at_work;
            let service = service.start();
            let alive = parts.returning("task_store");
            match store_writer::start(store, service.clone(), counters, alive) {
                Ok((jobs, writer)) => {
                    let _ = service.send(super::service::OpenStoreQueue(jobs)).await;
                    let _ = ready.send(Ok(service.clone()));
                    tokio::select! {
                        // Without a request everyone who could send one is gone.
                        _ = stops.recv() => {}
                        () = closing.begins() => {}
                    }
                    let _ = service.send(super::service::CloseStoreQueue).await;
                    let _ = tokio::task::spawn_blocking(move || writer.join()).await;
                    // Behind what the writer said last: those who wait for that hear it.
                    let _ = service.send(super::service::StopService).await;
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        if !moved_in {
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
            held,
            push_notify,
            clock,
            names,
            planner,
            stats,
            ahead,
            stop,
        };
        system.restore(open, objectives)?;
        Ok((system, TaskJoinHandle(work)))
    }

    /// The same with another planner in place of the built-in one.
    #[must_use]
    pub fn with_planner(self, planner: Arc<dyn Planner>) -> Self {
        Self { planner, ..self }
    }

    /// Makes the clerk take the answers to what is sent under this name.
    async fn intercept_replies_for(&self, name: &AgentId, is_client: bool) -> Result<(), Fault> {
        let taken = || Fault::NoSuchAgent {
            agent: name.to_string(),
            reason: InboxError::NameTaken.to_string(),
        };
        let once = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            let known = names.entry(name.clone());
            let known =
                known.or_insert_with(|| InterceptedName { is_client, attached: Arc::default() });
            if known.is_client != is_client {
                // Attached for a caller of the other sort: a client is never taken for an agent.
                if known.attached.initialized() {
                    return Err(taken());
                }
                *known = InterceptedName { is_client, attached: Arc::default() };
            }
            Arc::clone(&known.attached)
        };
        let attach = || async {
            let (service, held) = (self.service.clone(), Arc::clone(&self.held));
            let (stats, ahead) = (Arc::clone(&self.stats), self.ahead.clone());
            let clerk =
                ReplyInterceptor { name: name.clone(), service, held, is_client, stats, ahead };
            self.bus.attach_aside(name.clone(), Arc::new(clerk), is_client).await
        };
        once.get_or_try_init(attach).await.map(|_| ()).map_err(|error| match error {
            InboxError::NameTaken => taken(),
            error => Fault::Unavailable { reason: error.to_string(), retry_after_ms: 1_000 },
        })
    }

    /// What the service has done since it started.
    #[must_use]
    pub fn stats(&self) -> &TaskStats {
        &self.stats
    }

    /// How much lies with the service now; `None` when it has stopped.
    pub async fn load(&self) -> Option<TaskLoad> {
        self.service.send(MeasureLoad).await.ok()
    }

    /// Whether the name is that of somebody who calls, and of no agent: nobody works there.
    #[must_use]
    pub fn is_client_name(&self, name: &AgentId) -> bool {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(name).is_some_and(|name| name.is_client && name.attached.initialized())
    }

    /// A task, whoever's it is and whoever does it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get_any(&self, id: TaskId) -> Result<StoredTask, Fault> {
        self.stored(id).await
    }

    /// Tasks as they are stored, for whoever may see everybody's.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list_all(&self, query: ListQuery) -> Result<Page, Fault> {
        self.await_store().await?;
        self.read_store(move |reader| reader.list(&query)).await
    }

    /// A task as the agent that does it may see it: whole.
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

    /// A task, if it is the caller's and this agent's; else there is none.
    async fn owned(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        named: &Label,
    ) -> Result<StoredTask, Fault> {
        let none = || Fault::TaskNotFound { task: named.to_string() };
        let id: TaskId = named.as_str().parse().map_err(|_| none())?;
        let found = self.find(id).await?;
        // The tasks of an objective are found at every agent, whoever does them.
        let is_here = |stored: &StoredTask| {
            let metadata = stored.task.metadata.as_ref();
            stored.agent == *agent
                || metadata.is_some_and(|metadata| metadata.contains_key(key::OBJECTIVE_ID))
        };
        let is_theirs = |stored: &StoredTask| {
            (caller.sees_all || stored.owner == caller.owner) && is_here(stored)
        };
        found.filter(is_theirs).ok_or_else(none)
    }

    /// One task, wherever it is: one that its agent knows of may not be on the disk yet.
    async fn find(&self, id: TaskId) -> Result<Option<StoredTask>, Fault> {
        let found = self.read_store(move |reader| reader.get(id)).await?;
        if found.is_some() {
            return Ok(found);
        }
        let (reply, borne) = oneshot::channel();
        self.post(PersistDeferred { task: id, reply })?;
        if let Ok(None) = borne.await {
            return Err(store_behind());
        }
        // Whether it was there or not: it may have ended and gone to the disk since the first look.
        self.read_store(move |reader| reader.get(id)).await
    }

    async fn stored(&self, id: TaskId) -> Result<StoredTask, Fault> {
        let found = self.find(id).await?;
        found.ok_or_else(|| Fault::TaskNotFound { task: id.to_string() })
    }

    async fn read(&self, id: TaskId) -> Result<Task, Fault> {
        self.stored(id).await.map(|stored| Arc::unwrap_or_clone(stored.task))
    }

    /// Waits until the store has all that callers know, for those who read more than one task.
    async fn await_store(&self) -> Result<(), Fault> {
        if self.ahead.is_none() {
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

    /// Reads the store on a thread that may block.
    async fn read_store<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn TaskReader) -> Result<T, TaskStoreError> + Send + 'static,
    ) -> Result<T, Fault> {
        let reader = Arc::clone(&self.reader);
        let place = Arc::clone(&self.readers).acquire_owned().await.map_err(|_| Fault::Internal)?;
        let answer = tokio::task::spawn_blocking(move || {
            // Kept to the end of the reading, whether or not somebody still waits for it.
            let _place = place;
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

    /// Charges a call to its caller. `counts` says whether it counts as a message; where the bus
    /// assesses a message, it counts there.
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

    /// Gives the service other settings while it runs. What is worked on has the new time, counted
    /// from when the work began; what waits stays, even where fewer may. `false` when the service
    /// has stopped.
    pub async fn reload(&self, settings: LiveTaskSettings) -> bool {
        self.service.send(Reload(settings)).await.is_ok()
    }

    /// Stops the service once everything on its way is written; the bus goes on. A bus that stops
    /// does this itself when agents have answered for the last time.
    pub async fn stop(&self) {
        let _ = self.stop.send(()).await;
    }
}

fn invalid(path: &str, why: &str) -> Fault {
    Fault::InvalidParams(vec![Violation::new(path, Code::NotAllowed, why)])
}

/// The store has not got what callers know.
fn store_behind() -> Fault {
    let reason = "the task store cannot be written right now, and has not got everything".into();
    Fault::Unavailable { reason, retry_after_ms: 1_000 }
}

fn stopping() -> Fault {
    Fault::Unavailable { reason: "the server is stopping".into(), retry_after_ms: 1_000 }
}
