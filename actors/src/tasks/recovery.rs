//! Recovery: restores open tasks after a stop, and tasks that a crash kept from the store.
//!
//! 1. Rebuild from the journal the ended tasks that the store lacks. A caller may get the end of a
//!    task before its commit ([`super::service::write_behind`]); the journal then has the request,
//!    which contains the task, and the answer, which is not acknowledged.
//! 2. [`Restore`] the open and the rebuilt tasks into the service.
//! 3. Attach the reply interceptors: the bus redelivers unacknowledged answers.
//! 4. Reconcile the store with the ledger of the bus.
//! 5. [`Resume`] the tasks that hold their lanes, and wait for the ends of the rebuilt ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_journal::{JournalReader, MAX_PAGE, Query, ReadError};
use a2a_policy::tasks::{QueuePosition, dispatch_id};
use a2a_protocol::task::{ContextId, Message, OpaqueId, Task, TaskState, TaskStatus, UtcMillis};
use a2a_protocol::{AgentId, Body, Envelope, Kind, TaskId, Trace};
use a2a_taskdb::StoredTask;
use actix::prelude::{Context, Handler, MessageResult, System};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::objectives::OpenObjective;
use super::service::live_task::LiveTask;
use super::service::{Cancel, Service};
use super::{AfterRestart, StartTasksError, TaskSystem};
use crate::bus::router::LedgerComparison;

/// How long the start waits for answers that are in the journal.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(5);

impl TaskSystem {
    /// Runs the recovery to its end.
    pub(super) fn restore(
        &self,
        open: Vec<StoredTask>,
        objectives: Vec<OpenObjective>,
    ) -> Result<(), StartTasksError> {
        let (done, restored) = std::sync::mpsc::sync_channel(1);
        let system = self.clone();
        // A thread of its own, so that the start needs no runtime around it.
        let thread = std::thread::Builder::new().name("a2a-restore".into()).spawn(move || {
            System::new().block_on(async move {
                let result = system.recover(open, objectives).await;
                let _ = done.send(result);
            });
        });
        thread.map_err(StartTasksError::Thread)?;
        restored.recv().map_err(|_| StartTasksError::EndedEarly)?
    }

    async fn recover(
        &self,
        open: Vec<StoredTask>,
        objectives: Vec<OpenObjective>,
    ) -> Result<(), StartTasksError> {
        let rebuilt = self.rebuild_unstored().await?;
        let of_objectives = objectives.iter().map(|(tree, _)| &tree.stored);
        let of_objectives = of_objectives.map(|stored| (&stored.principal, &stored.owner));
        let of_tasks = open.iter().chain(&rebuilt).map(|stored| (&stored.principal, &stored.owner));
        let mut names: Vec<(AgentId, bool)> = of_tasks
            .chain(of_objectives)
            .map(|(principal, owner)| (principal.clone(), !owner.starts_with("agent:")))
            .collect();
        names.sort();
        names.dedup();
        let ended: Vec<TaskId> = rebuilt.iter().map(|stored| stored.task.id).collect();
        let dispatched = open.iter().filter(|stored| stored.dispatched);
        let dispatched: Vec<TaskId> = dispatched.map(|stored| stored.task.id).collect();
        // Unacknowledged answers are delivered as soon as an interceptor is attached, so their
        // tasks must be there first.
        let restore = Restore { open, rebuilt, objectives };
        let running = self.service.send(restore).await.unwrap_or_default();
        for (name, is_client) in names {
            if let Err(fault) = self.intercept_replies_for(&name, is_client).await {
                tracing::error!(%fault, %name, "answers for this name cannot be taken");
            }
        }
        self.reconcile(dispatched).await?;
        let _ = self.service.send(Resume(running)).await;
        // Callers have seen the ends of these tasks, so no reader may see them as working.
        let end = join_all(ended.iter().map(|&task| self.wait(task)));
        if tokio::time::timeout(REPLAY_TIMEOUT, end).await.is_err() {
            tracing::error!("the answers to some tasks are in the journal and do not come");
            let _ = self.service.send(ResumeUnanswered(ended)).await;
        }
        Ok(())
    }

    /// Aligns the store with the bus ledger after a crash between their writes. A task that has
    /// ended in the store is cancelled on the bus, which stops the delivery of its request. A task
    /// that was cancelled on the bus is cancelled in the store.
    async fn reconcile(&self, dispatched: Vec<TaskId>) -> Result<(), StartTasksError> {
        let LedgerComparison { open, cancelled } = self.bus.compare_ledger(dispatched).await;
        for id in self.reader.ended_among(&open)? {
            let Some(stored) = self.reader.get(id)? else { continue };
            let state = stored.task.status.state.short_name();
            let reason = format!("its A2A task was {state} when the server stopped");
            if let Err(error) = self.bus.cancel_task(id, Some(stored.principal), reason).await {
                tracing::error!(%error, task = %id, "ended in the store, and open on the bus");
            }
        }
        for task in cancelled {
            let (reply, done) = oneshot::channel();
            let reason = Some("it was cancelled on the bus".to_owned());
            let _ = self.service.send(Cancel { task, reason, reply }).await;
            if let Ok(Err(fault)) = done.await {
                tracing::error!(%fault, %task, "cancelled on the bus, and open in the store");
            }
        }
        Ok(())
    }

    /// Rebuilds the tasks whose end is in the journal and that the store lacks.
    async fn rebuild_unstored(&self) -> Result<Vec<StoredTask>, StartTasksError> {
        let journal = self.bus.reader();
        let mut rebuilt: HashMap<(Arc<str>, AgentId, OpaqueId), StoredTask> = HashMap::new();
        // Oldest first. Of two tasks of the same message the caller has seen only the later: the
        // second exists because the first was lost before its end.
        for task in self.bus.unacknowledged_answers().await {
            if self.reader.get(task)?.is_some() {
                continue;
            }
            let Some(stored) = from_journal(&*journal, task)? else { continue };
            let Some(message) = message_of(&stored) else { continue };
            let sent = message.clone().into();
            if self.reader.message(&stored.owner, &stored.agent, &sent)?.is_none() {
                let key = (Arc::clone(&stored.owner), stored.agent.clone(), message);
                rebuilt.insert(key, stored);
            }
        }
        let rebuilt: Vec<StoredTask> = rebuilt.into_values().collect();
        if !rebuilt.is_empty() {
            tracing::info!(
                tasks = rebuilt.len(),
                "made from the journal: the store had not got them"
            );
        }
        Ok(rebuilt)
    }
}

/// Loads the open tasks and objectives into the service, in the order of the store; replies with
/// the tasks that hold their lanes. From here on the service applies agent replies. It dispatches
/// nothing before [`Resume`].
#[derive(actix::Message)]
#[rtype(result = "Vec<TaskId>")]
struct Restore {
    open: Vec<StoredTask>,
    /// Tasks whose end is in the journal and that the store lacks.
    rebuilt: Vec<StoredTask>,
    objectives: Vec<OpenObjective>,
}

impl Handler<Restore> for Service {
    type Result = MessageResult<Restore>;

    fn handle(&mut self, restore: Restore, _: &mut Self::Context) -> Self::Result {
        let Restore { open, rebuilt, objectives } = restore;
        let mut running = Vec::new();
        for stored in open {
            let id = stored.task.id;
            let mut live = LiveTask::new(stored);
            // Push configs from before the restart are only in the store.
            live.has_push = true;
            live.set_stored();
            self.index.insert(id, live.stored.principal.clone());
            match live.state() {
                TaskState::Working => {
                    self.scheduler.queues.restore(&live.lane, id);
                    running.push(id);
                }
                TaskState::Submitted => {
                    let order = live.stored.queued.map_or(0, |queued| queued.order);
                    self.scheduler.reserve(order);
                    if self.scheduler.queues.restore(&live.lane, id) == QueuePosition::Runs {
                        running.push(id);
                    }
                }
                _ => {}
            }
            self.live.insert(id, live);
        }
        rebuilt.into_iter().for_each(|stored| self.restore_from_journal(stored));
        self.restore_objectives(objectives);
        MessageResult(running)
    }
}

/// Starts or dispatches the tasks that hold their lanes and have not ended meanwhile.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Resume(Vec<TaskId>);

impl Handler<Resume> for Service {
    type Result = ();

    fn handle(&mut self, Resume(running): Resume, ctx: &mut Context<Self>) {
        self.settle_objectives();
        for id in running {
            let state = self.live.get(&id).map(LiveTask::state);
            match (state, self.settings.after_restart) {
                (Some(TaskState::Submitted), _) => self.start_next(Some(id)),
                (Some(TaskState::Working), AfterRestart::Resume) => self.dispatch(id, ctx),
                (Some(TaskState::Working), AfterRestart::Fail) => {
                    let why =
                        "interrupted: the server was stopped while the task was being worked on";
                    self.fail(id, why, true);
                }
                // Ended or interrupted meanwhile.
                _ => {}
            }
        }
    }
}

/// Treats rebuilt tasks whose answers were not redelivered as ordinary working tasks.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct ResumeUnanswered(Vec<TaskId>);

impl Handler<ResumeUnanswered> for Service {
    type Result = ();

    fn handle(&mut self, ResumeUnanswered(tasks): ResumeUnanswered, _: &mut Self::Context) {
        for id in tasks {
            if self.start_timeout(id) {
                self.persist_deferred(id);
            }
        }
    }
}

/// Rebuilds a task from the request in the journal, as it was when its agent was first asked;
/// `None` when no request contains the whole task.
fn from_journal(
    journal: &dyn JournalReader,
    task: TaskId,
) -> Result<Option<StoredTask>, ReadError> {
    // The oldest one: the agent may have passed the task on later.
    let (kind, limit) = (Some(Kind::TaskRequest), MAX_PAGE);
    let (since, until) = time_range(task);
    let mut query = Query { task: Some(task), kind, since, until, limit, ..Query::default() };
    let mut first = None;
    loop {
        let page = journal.query(&query)?;
        let oldest_first = page.records.iter().rev();
        first =
            oldest_first.map(|record| &record.line).find_map(|line| from_record(line)).or(first);
        query.before = page.next;
        if page.next.is_none() {
            return Ok(first);
        }
    }
}

/// The time range of the request of a task that was dispatched when it was created. A day to each
/// side allows for clock changes and spares a scan of the whole journal.
fn time_range(task: TaskId) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    let made = task.as_uuid().get_timestamp().and_then(|made| {
        let (seconds, nanos) = made.to_unix();
        DateTime::from_timestamp(i64::try_from(seconds).ok()?, nanos)
    });
    let beside = |days| made.and_then(|made| made.checked_add_signed(TimeDelta::days(days)));
    (beside(-1), beside(1))
}

fn from_record(line: &RawValue) -> Option<StoredTask> {
    #[derive(Deserialize)]
    struct RequestRecord<'a> {
        via: Option<Arc<str>>,
        trace: Option<String>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RequestContext {
        a2a: Message,
        context_id: ContextId,
        a2a_version: Option<Arc<str>>,
        #[serde(default)]
        a2a_whole: bool,
    }
    let record: RequestRecord<'_> = serde_json::from_str(line.get()).ok()?;
    let request = Envelope::parse(record.message?.get().as_bytes()).ok()?;
    let Body::TaskRequest(body) = &request.body else { return None };
    let context: RequestContext = serde_json::from_str(body.context.as_ref()?.as_json()).ok()?;
    // Agents may copy the context; only the service sends it under this id.
    let sent = dispatch_id(body.task_id, &context.a2a.message_id, 0);
    if !context.a2a_whole || request.message_id != sent {
        return None;
    }
    let asked = UtcMillis::from(request.timestamp.to_utc());
    let status = TaskStatus { state: TaskState::Working, message: None, timestamp: asked };
    let task = Task {
        id: body.task_id,
        context_id: context.context_id,
        status,
        artifacts: Vec::new(),
        history: vec![Arc::new(context.a2a)],
        metadata: None,
    };
    Some(StoredTask {
        task: Arc::new(task),
        owner: record.via?,
        principal: request.from.agent_id.clone(),
        agent: request.to?.agent_id,
        spoken_version: context.a2a_version,
        correlation: request.correlation_id,
        trace: record.trace.and_then(|trace| trace.parse::<Trace>().ok()).map(Arc::new),
        version: 1,
        last_event: 0,
        queued: None,
        dispatched: true,
        worked_ms: 0,
        working_since: Some(asked),
        applied_seqs: Vec::new(),
        created: asked,
        updated: asked,
    })
}

/// The id of the message that created the task.
fn message_of(stored: &StoredTask) -> Option<OpaqueId> {
    stored.task.history.last().map(|message| message.message_id.clone())
}
