//! What edges hold: every call an A2A client can make, with no word of transport.

mod objectives;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{
    CancelTask, GetTask, ListPushes, ListTasks, PushConfig, PushKey, SendMessage, StreamEvent,
    Subscribe as Watch, TaskPage,
};
use a2a_protocol::opt::{HistoryScope, key, without_opt};
use a2a_protocol::task::{Label, Message, Moment, Task};
use a2a_protocol::{AgentId, Code, TaskId, Violation};
use a2a_store::tasks::{
    Due, ListQuery, PageToken, Repeated, StoredTask, TaskReader, TaskStoreError, TaskWriter, Write,
    Written,
};
use actix::prelude::*;
use tokio::sync::{Notify, OnceCell, Semaphore, mpsc, oneshot};

use super::clerk::{Clerk, Held};
use super::refused::refused;
use super::service::{
    Begin, BeginAtOnce, Begun, Cancel, GoOn, OpenObjective, REMEMBERED, Restore, Resume, Service,
    SettlePush, Subscribe, Wait, Want, WritePush, disk_refuses, not_cancelable,
};
use super::watch::{Happened, TaskStream};
use super::{TaskSettings, compose, made, writer};
use crate::clock::Clock;
use crate::{BusSystem, Parcel};

/// How many wishes to be told one task may have.
const PUSHES_PER_TASK: usize = 20;
/// How many messages of a conversation an agent hears that is to hear of it.
const SAID_BEFORE: usize = 100;
/// How many missed events are read at once.
const MISSED_AT_ONCE: usize = 256;
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
    pub alone: bool,
    /// It may see and stop everybody's tasks: a person.
    pub sees_all: bool,
}

/// What a message led to.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// A task.
    Task(Box<Task>),
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
    /// It ended before it was ready.
    #[error("the task service ended before it was ready; its log says why")]
    EndedEarly,
}

/// The thread of the service, to wait for its end.
pub struct TaskThread(JoinHandle<()>);

impl TaskThread {
    /// Waits until everything is written; call it after [`TaskSystem::stop`].
    pub fn join(self) {
        if self.0.join().is_err() {
            tracing::error!("the thread of the task service panicked");
        }
    }
}

/// A name under which tasks travel.
struct Name {
    /// It is a caller's and no agent's.
    alone: bool,
    /// Done when the clerk takes its answers.
    attached: Arc<OnceCell<()>>,
}

/// The task service. Cheap to clone; it runs until [`TaskSystem::stop`].
#[derive(Clone)]
pub struct TaskSystem {
    service: Addr<Service>,
    bus: BusSystem,
    reader: Arc<dyn TaskReader>,
    readers: Arc<Semaphore>,
    held: Arc<Held>,
    bell: Arc<Notify>,
    clock: Clock,
    /// The names whose answers the clerk takes.
    names: Arc<Mutex<HashMap<AgentId, Name>>>,
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
    ) -> Result<(Self, TaskThread), StartTasksError> {
        let reader = store.reader();
        let open = reader.open()?;
        let objectives = objectives::still_open(&*reader)?;
        let (held, bell) = (Arc::<Held>::default(), Arc::<Notify>::default());
        let heard = reader.message_keys(REMEMBERED)?;
        let service =
            Service::new(bus.clone(), settings, Arc::clone(&held), Arc::clone(&bell), heard);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (stop, mut stops) = mpsc::channel(1);
        let thread = std::thread::Builder::new().name("a2a-tasks".into()).spawn(move || {
            System::new().block_on(async move {
                let service = service.start();
                match writer::start(store, service.clone()) {
                    Ok((jobs, writer)) => {
                        let _ = service.send(super::service::Meet(jobs)).await;
                        let _ = ready.send(Ok(service.clone()));
                        // Without a request everyone who could send one is gone.
                        let _ = stops.recv().await;
                        let _ = service.send(super::service::Leave).await;
                        let _ = tokio::task::spawn_blocking(move || writer.join()).await;
                    }
                    Err(error) => drop(ready.send(Err(error))),
                }
                System::current().stop();
            });
        });
        let thread = thread.map_err(StartTasksError::Thread)?;
        let service = is_ready.recv().map_err(|_| StartTasksError::EndedEarly)?;
        let service = service.map_err(StartTasksError::Thread)?;
        let names = Arc::default();
        let clock = Clock::start();
        let readers = Arc::new(Semaphore::new(READERS));
        let system = Self { service, bus, reader, readers, held, bell, clock, names, stop };
        system.restore(open, objectives)?;
        Ok((system, TaskThread(thread)))
    }

    /// Takes up what was open before the restart. The clerk is there before anybody is asked.
    fn restore(
        &self,
        open: Vec<StoredTask>,
        objectives: Vec<OpenObjective>,
    ) -> Result<(), StartTasksError> {
        let mut names: Vec<(AgentId, bool)> = open
            .iter()
            .map(|stored| (stored.principal.clone(), !stored.owner.starts_with("agent:")))
            .chain(objectives.iter().map(|(tree, _)| {
                (tree.stored.principal.clone(), !tree.stored.owner.starts_with("agent:"))
            }))
            .collect();
        names.sort();
        names.dedup();
        let (done, restored) = std::sync::mpsc::sync_channel(1);
        let system = self.clone();
        // Of its own, so that a start needs no runtime around it.
        let thread = std::thread::Builder::new().name("a2a-restore".into()).spawn(move || {
            System::new().block_on(async move {
                // Answers may lie there already, so the tasks they belong to come first.
                let running =
                    system.service.send(Restore(open, objectives)).await.unwrap_or_default();
                for (name, alone) in names {
                    if let Err(fault) = system.take_answers_for(&name, alone).await {
                        tracing::error!(%fault, %name, "answers for this name cannot be taken");
                    }
                }
                let _ = system.service.send(Resume(running)).await;
                let _ = done.send(());
            });
        });
        thread.map_err(StartTasksError::Thread)?;
        restored.recv().map_err(|_| StartTasksError::EndedEarly)
    }

    /// Makes the clerk take the answers to what is sent under this name.
    async fn take_answers_for(&self, name: &AgentId, alone: bool) -> Result<(), Fault> {
        let once = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            let known = names.entry(name.clone());
            let known = known.or_insert_with(|| Name { alone, attached: Arc::default() });
            Arc::clone(&known.attached)
        };
        let attach = || async {
            let (service, held) = (self.service.clone(), Arc::clone(&self.held));
            let clerk = Clerk { name: name.clone(), service, held, alone };
            self.bus.attach_aside(name.clone(), Arc::new(clerk), alone).await
        };
        once.get_or_try_init(attach).await.map(|_| ()).map_err(|error| Fault::Unavailable {
            reason: error.to_string(),
            retry_after_ms: 1_000,
        })
    }

    /// Whether the name is that of somebody who calls, and of no agent: nobody works there.
    #[must_use]
    pub fn is_a_callers(&self, name: &AgentId) -> bool {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(name).is_some_and(|name| name.alone)
    }

    /// Says something to an agent and gives what comes of it.
    ///
    /// # Errors
    /// When the message, the task it names, or the caller's limits do not allow it.
    pub async fn send(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
    ) -> Result<Sent, Fault> {
        let want = if send.return_immediately { Want::Now } else { Want::End };
        let length = send.history_length;
        let begun = self.begin(caller, agent, send, want).await?;
        let begun = match begun {
            Begun::Repeated(task) if want == Want::End => self.wait(task).await?,
            Begun::Repeated(task) => Begun::Task(Box::new(self.read(task).await?)),
            other => other,
        };
        match begun {
            Begun::Task(mut task) => {
                task.cut_history(length);
                Ok(Sent::Task(task))
            }
            Begun::Message(message) => Ok(Sent::Message(message)),
            Begun::Stream(_) | Begun::Repeated(_) | Begun::Unsure(..) => Err(Fault::Internal),
        }
    }

    /// The same, with everything that happens on the way.
    ///
    /// # Errors
    /// When the message, the task it names, or the caller's limits do not allow it.
    pub async fn stream(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        let begun = self.begin(caller, agent, send, Want::Stream).await?;
        self.streamed(begun, after).await
    }

    async fn streamed(&self, begun: Begun, after: Option<u64>) -> Result<TaskStream, Fault> {
        match begun {
            Begun::Stream(events) => Ok(TaskStream::new(Vec::new(), Some(events))),
            Begun::Message(message) => {
                let event = Arc::new(StreamEvent::Message(message));
                Ok(TaskStream::new(vec![Happened { number: 0, event, last: true }], None))
            }
            // Said again by one who lost the stream: it goes on where that was.
            Begun::Repeated(task) => self.watch(task, after).await,
            Begun::Task(_) | Begun::Unsure(..) => Err(Fault::Internal),
        }
    }

    async fn begin(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        want: Want,
    ) -> Result<Begun, Fault> {
        if let Some(named) = send.message.task_id.clone() {
            return self.go_on(caller, agent, send, &named, want).await;
        }
        self.take_answers_for(&caller.principal, caller.alone).await?;
        if self.is_a_callers(agent) {
            return Err(Fault::NoSuchAgent { agent: agent.to_string() });
        }
        let now = self.clock.now();
        let SendMessage { message, push, mut metadata, .. } = send;
        // What the extension says about a task is the server's to say.
        without_opt(&mut metadata);
        let stored = made::new_task(caller, agent, message, metadata, now);
        let before = self.said_before(&stored).await?;
        let parcel = compose::request(&stored, &before, now)
            .map_err(|error| invalid("/message", &error.to_string()))?;
        let (stored, parcel) = match (want, &push) {
            (Want::End, None) => match self.begin_at_once(stored, parcel).await? {
                Begun::Unsure(stored, parcel) => (*stored, *parcel),
                begun => return Ok(begun),
            },
            _ => (stored, parcel),
        };
        let said = stored.task.history.last().map(|message| message.message_id.clone());
        let begun = match self.assess(&stored, parcel).await {
            Err(refused) => Err(refused),
            Ok(parcel) => {
                let push = push.map(|push| made::named_push(push, stored.task.id));
                let (reply, answer) = oneshot::channel();
                self.tell(Begin { stored, parcel, push, want, reply })?;
                answer.await.unwrap_or_else(|_| Err(stopping()))
            }
        };
        match (begun, said) {
            // What was taken once is not refused now, for want of room or anything else.
            (Err(refused), Some(said)) => {
                let heard = self.heard_before(&caller.owner, agent, said).await?;
                heard.ok_or(refused)
            }
            (begun, _) => begun,
        }
    }

    /// What was said about other tasks of the conversation, where its agent is to hear of it.
    async fn said_before(&self, stored: &StoredTask) -> Result<Vec<Message>, Fault> {
        let Some(message) = stored.task.history.last() else { return Ok(Vec::new()) };
        let wished = message.metadata.as_ref().and_then(|all| all.get(key::HISTORY_SCOPE));
        // Outside of a plan there is nothing between the task and its conversation.
        if wished.and_then(|scope| scope.as_str()) != Some(HistoryScope::Objective.as_str()) {
            return Ok(Vec::new());
        }
        let (owner, agent) = (Arc::clone(&stored.owner), stored.agent.clone());
        let context = stored.task.context_id.clone();
        self.look(move |reader| reader.history_of_context(&owner, &agent, &context, SAID_BEFORE))
            .await
    }

    /// Asks the agent before anything is on the disk, where that is as good.
    async fn begin_at_once(&self, stored: StoredTask, parcel: Parcel) -> Result<Begun, Fault> {
        let (reply, answer) = oneshot::channel();
        self.tell(BeginAtOnce { stored, parcel, reply })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    async fn go_on(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        named: &Label,
        want: Want,
    ) -> Result<Begun, Fault> {
        let stored = self.owned(caller, agent, named).await?;
        if let Some(context) = &send.message.context_id
            && *context != stored.task.context_id
        {
            let why = format!("task {named} belongs to context {}", stored.task.context_id);
            return Err(invalid("/message/contextId", &why));
        }
        if stored.owner != caller.owner {
            // Its agent could not tell who speaks.
            let reason = format!("task {named} is {}'s: you may see it and stop it", stored.owner);
            return Err(Fault::Forbidden { reason });
        }
        let said = send.message.message_id.clone();
        if let Some(heard) = self.heard_before(&caller.owner, agent, said).await? {
            return Ok(heard);
        }
        if stored.task.status.state.is_terminal() {
            let state = stored.task.status.state;
            let reason =
                format!("task {named} has ended ({state}); begin a new one without a taskId");
            return Err(Fault::Unsupported { reason });
        }
        let now = self.clock.now();
        let mut message = send.message;
        message.context_id = Some(stored.task.context_id.clone());
        let addition = compose::addition(&stored, &message, now).ok_or(Fault::Internal)?;
        let addition = self.assess(&stored, addition).await?;
        if let Some(push) = send.push {
            self.put_push(stored.task.id, made::named_push(push, stored.task.id)).await?;
        }
        let (reply, answer) = oneshot::channel();
        self.tell(GoOn { task: stored.task.id, message, addition, want, reply })?;
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Whether the bus would take this in the caller's name; it is charged.
    async fn assess(&self, stored: &StoredTask, parcel: Parcel) -> Result<Parcel, Fault> {
        let caller = compose::speaker(stored, false);
        self.bus.assess(caller, parcel).await.map_err(|receipt| refused(&stored.agent, &receipt))
    }

    /// What came of a message, if it was heard before.
    async fn heard_before(
        &self,
        owner: &Arc<str>,
        agent: &AgentId,
        message: Label,
    ) -> Result<Option<Begun>, Fault> {
        let (owner, agent) = (Arc::clone(owner), agent.clone());
        let found = self.look(move |reader| reader.message(&owner, &agent, &message)).await?;
        Ok(found.map(|found| match found {
            Repeated::Task(first) => Begun::Repeated(first),
            Repeated::Answer(message) => Begun::Message(message),
        }))
    }

    async fn wait(&self, task: TaskId) -> Result<Begun, Fault> {
        let (reply, answer) = oneshot::channel();
        self.tell(Wait { task, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping())) {
            // It has ended and is the store's alone.
            Err(Fault::TaskNotFound { .. }) => Ok(Begun::Task(Box::new(self.read(task).await?))),
            other => other,
        }
    }

    /// One task of the caller's.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        get: GetTask,
    ) -> Result<Task, Fault> {
        let mut task = Arc::unwrap_or_clone(self.owned(caller, agent, &get.id).await?.task);
        task.cut_history(get.history_length);
        Ok(task)
    }

    /// A page of the caller's tasks.
    ///
    /// # Errors
    /// When the token was not made by this server.
    pub async fn list(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        list: ListTasks,
    ) -> Result<TaskPage, Fault> {
        let token = list.page_token.filter(|token| !token.is_empty());
        let token = token.map(|token| token.parse::<PageToken>()).transpose();
        let page_token = token.map_err(|error| invalid("/pageToken", &error.to_string()))?;
        let page_size = list.page_size.unwrap_or(50);
        let of_objective = match &list.context_id {
            Some(context) => self.find_objective(caller, context).await?.is_some(),
            None => false,
        };
        let query = ListQuery {
            owner: (!caller.sees_all).then(|| Arc::clone(&caller.owner)),
            agent: (!of_objective).then(|| agent.clone()),
            context: list.context_id,
            status: list.status,
            after: list.status_timestamp_after,
            page_size: page_size as usize,
            page_token,
            history_length: list.history_length,
            include_artifacts: list.include_artifacts,
        };
        let page = self.look(move |reader| reader.list(&query)).await?;
        Ok(TaskPage {
            tasks: page.tasks.into_iter().map(|s| Arc::unwrap_or_clone(s.task)).collect(),
            next_page_token: page.next_page_token.map(|t| t.to_string()).unwrap_or_default(),
            page_size,
            total_size: page.total_size,
        })
    }

    /// Calls a task off.
    ///
    /// # Errors
    /// When there is none, or it has ended.
    pub async fn cancel(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        cancel: CancelTask,
    ) -> Result<Task, Fault> {
        let stored = self.owned(caller, agent, &cancel.id).await?;
        let (id, state) = (stored.task.id, stored.task.status.state);
        if state.is_terminal() {
            return Err(not_cancelable(id, Some(state)));
        }
        let (reply, answer) = oneshot::channel();
        self.tell(Cancel { task: id, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping()))? {
            Begun::Task(task) => Ok(*task),
            _ => Err(Fault::Internal),
        }
    }

    /// Watches a task: as it stands and everything from now on, or everything after the last
    /// event the caller has seen.
    ///
    /// # Errors
    /// When there is none, or it has ended and nothing was missed.
    pub async fn subscribe(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        watch: Watch,
    ) -> Result<TaskStream, Fault> {
        let stored = self.owned(caller, agent, &watch.id).await?;
        if stored.task.status.state.is_terminal() && watch.after.is_none() {
            let state = stored.task.status.state;
            let reason = format!("task {} has ended ({state}); get it instead", watch.id);
            return Err(Fault::Unsupported { reason });
        }
        self.watch(stored.task.id, watch.after).await
    }

    async fn watch(&self, task: TaskId, after: Option<u64>) -> Result<TaskStream, Fault> {
        let (reply, answer) = oneshot::channel();
        self.tell(Subscribe { task, reply })?;
        let live = answer.await.unwrap_or_else(|_| Err(stopping()))?;
        let Some(after) = after else {
            let (task, number, events) = match live {
                Some(live) => (live.task, live.number, Some(live.events)),
                None => {
                    let stored = self.stored(task).await?;
                    (Arc::unwrap_or_clone(stored.task), stored.last_event, None)
                }
            };
            let last = events.is_none();
            let event = Arc::new(StreamEvent::Task(Box::new(task)));
            return Ok(TaskStream::new(vec![Happened { number, event, last }], events));
        };
        let until = live.as_ref().map_or(u64::MAX, |live| live.number);
        let missed = self.look(move |reader| missed(reader, task, after)).await?;
        let over = live.is_none();
        let count = missed.len();
        if over && count == 0 {
            let reason = format!("task {task} has ended and nothing was missed; get it instead");
            return Err(Fault::Unsupported { reason });
        }
        let before = missed.into_iter().take_while(|(number, _)| *number <= until).enumerate();
        let before = before.map(|(at, (number, event))| Happened {
            number,
            event,
            last: over && at + 1 == count,
        });
        Ok(TaskStream::new(before.collect(), live.map(|live| live.events)))
    }

    /// Wants the server to call when something happens to a task.
    ///
    /// # Errors
    /// When there is no such task, or it has too many wishes already.
    pub async fn set_push(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        config: PushConfig,
    ) -> Result<PushConfig, Fault> {
        let named = config.task_id.clone().ok_or_else(|| invalid("/taskId", "is missing"))?;
        let task = self.owned(caller, agent, &named).await?.task.id;
        let config = made::named_push(config, task);
        self.put_push(task, config.clone()).await?;
        Ok(config)
    }

    async fn put_push(&self, task: TaskId, config: PushConfig) -> Result<(), Fault> {
        let known = self.look(move |reader| reader.pushes(task)).await?;
        if known.len() >= PUSHES_PER_TASK && known.iter().all(|other| other.id != config.id) {
            let why =
                format!("a task has at most {PUSHES_PER_TASK} configurations; delete one first");
            return Err(Fault::InvalidParams(vec![Violation::new("", Code::TooMany, why)]));
        }
        self.write_push(Write::PutPush { task, config }).await.map(drop)
    }

    async fn write_push(&self, write: Write) -> Result<Written, Fault> {
        let (reply, answer) = oneshot::channel();
        self.tell(WritePush { write, reply })?;
        answer.await.map_err(|_| stopping())?.ok_or_else(disk_refuses)
    }

    /// One wish to be told.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get_push(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        key: PushKey,
    ) -> Result<PushConfig, Fault> {
        let task = self.owned(caller, agent, &key.task_id).await?.task.id;
        let all = self.look(move |reader| reader.pushes(task)).await?;
        let wanted = |config: &PushConfig| key.id.is_none() || config.id == key.id;
        all.into_iter().find(wanted).ok_or_else(|| no_push(&key))
    }

    /// The wishes to be told of a task.
    ///
    /// # Errors
    /// When there is no such task.
    pub async fn list_pushes(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        list: ListPushes,
    ) -> Result<Vec<PushConfig>, Fault> {
        let task = self.owned(caller, agent, &list.task_id).await?.task.id;
        // There are so few that one page holds them all.
        self.look(move |reader| reader.pushes(task)).await
    }

    /// Takes a wish back; taking back what is not there is no fault.
    ///
    /// # Errors
    /// When there is no such task.
    pub async fn delete_push(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        key: PushKey,
    ) -> Result<(), Fault> {
        let task = self.owned(caller, agent, &key.task_id).await?.task.id;
        let id = match key.id {
            Some(id) => id,
            None => match self.look(move |reader| reader.pushes(task)).await?.into_iter().next() {
                Some(PushConfig { id: Some(id), .. }) => id,
                _ => return Ok(()),
            },
        };
        self.write_push(Write::DeletePush { task, id }).await.map(drop)
    }

    /// Calls to webhooks that are due, for whoever makes them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn due_pushes(&self, limit: usize) -> Result<Vec<Due>, Fault> {
        let now = Moment::from(self.clock.now().utc);
        self.look(move |reader| reader.outbox_due(now, limit)).await
    }

    /// When the next call is due.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next_push(&self) -> Result<Option<Moment>, Fault> {
        self.look(|reader| reader.next_due()).await
    }

    /// Waits until there may be calls to make that there were not before.
    pub async fn pushes_changed(&self) {
        self.bell.notified().await;
    }

    /// A call was made, or will not be; returns when that is durable.
    pub async fn push_done(&self, outbox: u64) {
        self.settle_push(Write::Pushed { outbox }).await;
    }

    /// A call was made in vain and will be tried again.
    pub async fn push_later(&self, outbox: u64, attempts: u32, next: Moment) {
        self.settle_push(Write::PushLater { outbox, attempts, next }).await;
    }

    async fn settle_push(&self, write: Write) {
        let (reply, answer) = oneshot::channel();
        if self.tell(SettlePush(vec![(write, reply)])).is_ok() {
            let _ = answer.await;
        }
    }

    /// Nobody there wants to be told any more.
    pub async fn drop_push(&self, task: TaskId, id: Label) {
        self.settle_push(Write::DeletePush { task, id }).await;
    }

    /// A task, whoever's it is, and whose that is.
    ///
    /// # Errors
    /// When there is none.
    pub async fn whole(&self, id: TaskId) -> Result<(Task, Arc<str>), Fault> {
        let stored = self.stored(id).await?;
        Ok((Arc::unwrap_or_clone(stored.task), stored.owner))
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
        let found = self.look(move |reader| reader.get(id)).await?;
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

    async fn stored(&self, id: TaskId) -> Result<StoredTask, Fault> {
        let found = self.look(move |reader| reader.get(id)).await?;
        found.ok_or_else(|| Fault::TaskNotFound { task: id.to_string() })
    }

    async fn read(&self, id: TaskId) -> Result<Task, Fault> {
        self.stored(id).await.map(|stored| Arc::unwrap_or_clone(stored.task))
    }

    /// Reads the store on a thread that may block.
    async fn look<T: Send + 'static>(
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

    fn tell<M>(&self, message: M) -> Result<(), Fault>
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

    /// Stops the service once everything on its way is written. Stop the bus first: what agents
    /// answer while it stops still counts.
    pub async fn stop(&self) {
        let _ = self.stop.send(()).await;
    }
}

/// Everything that happened after an event, read a piece at a time. How much that can be is
/// bounded by how much an agent may say about a task.
fn missed(
    reader: &dyn TaskReader,
    task: TaskId,
    mut after: u64,
) -> Result<Vec<(u64, Arc<StreamEvent>)>, TaskStoreError> {
    let mut all = Vec::new();
    loop {
        let piece = reader.events(task, after, MISSED_AT_ONCE)?;
        let is_last = piece.len() < MISSED_AT_ONCE;
        after = piece.last().map_or(after, |(number, _)| *number);
        all.extend(piece);
        if is_last {
            return Ok(all);
        }
    }
}

fn no_push(key: &PushKey) -> Fault {
    let id = key.id.as_ref().map_or_else(String::new, ToString::to_string);
    Fault::PushNotFound { task: key.task_id.to_string(), id }
}

fn invalid(path: &str, why: &str) -> Fault {
    Fault::InvalidParams(vec![Violation::new(path, Code::NotAllowed, why)])
}

fn stopping() -> Fault {
    Fault::Unavailable { reason: "the server is stopping".into(), retry_after_ms: 1_000 }
}
