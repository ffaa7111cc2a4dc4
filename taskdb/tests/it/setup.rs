//! Builders for tasks, objectives and writes.

use std::path::Path;
use std::sync::Arc;

use a2a_protocol::operation::{PushConfig, StatusUpdateEvent, StreamEvent};
use a2a_protocol::opt::{Objective, ObjectiveStatus, Plan, PlanStatus, PlanTask, PlanTaskStatus};
use a2a_protocol::task::{
    Artifact, ContextId, Message, OpaqueId, Part, PlanId, PlanTaskId, Role, Task, TaskState,
    TaskStatus, UtcMillis,
};
use a2a_protocol::{AgentId, CorrelationId, TaskId};
use a2a_taskdb::{
    NewEvent, ObjectiveChange, Options, Queued, StoredObjective, StoredPlan, StoredTask, TaskDb,
    TaskReader, TaskWriter, Write, WriteOutcome,
};
use chrono::DateTime;

pub fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

/// A file in a temporary folder.
pub struct OnDisk {
    pub dir: tempfile::TempDir,
    pub tasks: TaskDb,
}

pub fn on_disk() -> OnDisk {
    let dir = tempfile::tempdir().unwrap();
    let tasks = open(dir.path());
    OnDisk { dir, tasks }
}

pub fn open(dir: &Path) -> TaskDb {
    TaskDb::open(&Options::new(dir)).unwrap()
}

/// Runs a test on a file and on a database in memory.
pub fn on_each(test: impl Fn(&mut dyn TaskWriter, Arc<dyn TaskReader>)) {
    let mut file = on_disk();
    let reader = file.tasks.reader();
    test(&mut file.tasks, reader);
    let mut memory = TaskDb::open_in_memory().unwrap();
    let reader = memory.reader();
    test(&mut memory, reader);
}

pub fn id(n: u64) -> TaskId {
    format!("0192a4c8-7e1a-7b3c-9d4e-{n:012x}").parse().unwrap()
}

/// 2026-02-21T18:30:00Z plus `ms` milliseconds.
pub fn at(ms: i64) -> UtcMillis {
    DateTime::from_timestamp_millis(1_771_698_600_000 + ms).unwrap().into()
}

pub fn label(text: &str) -> OpaqueId {
    OpaqueId::try_from(text).unwrap()
}

pub fn context(text: &str) -> ContextId {
    ContextId::try_from(text).unwrap()
}

pub fn text_message(role: Role, text: &str) -> Message {
    Message {
        message_id: label(text),
        context_id: None,
        task_id: None,
        role,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}

pub fn artifact(name: &str) -> Arc<Artifact> {
    Arc::new(Artifact {
        artifact_id: label(name),
        name: None,
        description: None,
        parts: vec![Part::text(name)],
        metadata: None,
        extensions: Vec::new(),
    })
}

/// Trace context of a request: `traceparent tracestate`.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 rojo=1,congo=2";

/// Task `n` of owner acme for agent tim in context `ctx`, submitted at `n` milliseconds.
pub fn new_task(n: u64) -> StoredTask {
    let moment = at(n as i64);
    let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: moment };
    StoredTask {
        task: Arc::new(Task {
            id: id(n),
            context_id: context("ctx"),
            status,
            artifacts: Vec::new(),
            history: vec![text_message(Role::User, &format!("do {n}")).into()],
            metadata: None,
        }),
        owner: "client:acme".into(),
        principal: agent("acme"),
        agent: agent("tim"),
        correlation: format!("0192a4c8-7e1a-7b3c-9d4f-{n:012x}").parse::<CorrelationId>().unwrap(),
        // Every second task has one.
        trace: n.is_multiple_of(2).then(|| Arc::new(TRACE.parse().unwrap())),
        version: 1,
        last_event: 0,
        queued: None,
        dispatched: false,
        spoken_version: None,
        worked_ms: 0,
        working_since: None,
        applied_seqs: Vec::new(),
        created: moment,
        updated: moment,
    }
}

/// Task `n`, queued.
pub fn waiting(n: u64, order: i64) -> StoredTask {
    StoredTask { queued: Some(Queued { order, at: at(n as i64) }), ..new_task(n) }
}

/// The next version of the task, in this state since `ms`.
pub fn then(stored: &StoredTask, state: TaskState, ms: i64) -> StoredTask {
    let mut next = stored.clone();
    next.version += 1;
    next.updated = at(ms);
    let task = Arc::make_mut(&mut next.task);
    task.status = TaskStatus { state, message: None, timestamp: at(ms) };
    next
}

/// Event `number` of a task: a status update.
pub fn event(stored: &StoredTask, number: u64) -> NewEvent {
    let update = StatusUpdateEvent {
        task_id: stored.task.id,
        context_id: stored.task.context_id.clone(),
        status: stored.task.status.clone(),
        metadata: None,
    };
    NewEvent {
        number,
        event: Arc::new(StreamEvent::StatusUpdate(Box::new(update))),
        at: stored.updated,
    }
}

pub fn push(name: &str) -> PushConfig {
    PushConfig {
        id: Some(label(name)),
        task_id: None,
        url: format!("https://example.com/{name}"),
        token: Some("secret".to_owned()),
        authentication: None,
        legacy: false,
        progress: false,
        opt: false,
    }
}

pub fn create(stored: &StoredTask) -> Write {
    Write::Create { stored: stored.clone(), message: None, events: Vec::new(), push: Vec::new() }
}

/// Creates a task that was requested by this message.
pub fn create_for(stored: &StoredTask, message: &str) -> Write {
    let message = Some(label(message).into());
    Write::Create { stored: stored.clone(), message, events: Vec::new(), push: Vec::new() }
}

pub fn update(stored: &StoredTask) -> Write {
    let expected = stored.version - 1;
    Write::Update { stored: stored.clone(), expected, events: Vec::new(), message: None }
}

/// Commits a single write.
pub fn one(tasks: &mut dyn TaskWriter, write: Write) -> WriteOutcome {
    tasks.commit(vec![write]).unwrap().pop().unwrap()
}

/// Commits writes that must all apply.
pub fn done(tasks: &mut dyn TaskWriter, writes: Vec<Write>) {
    for (at, written) in tasks.commit(writes).unwrap().into_iter().enumerate() {
        assert!(written.is_applied(), "write {at}: {written:?}");
    }
}

/// The metadata of a task as JSON; `null` when it has none.
pub fn metadata(stored: &StoredTask) -> serde_json::Value {
    stored.task.metadata.clone().map_or(serde_json::Value::Null, Into::into)
}

pub fn ids(tasks: &[StoredTask]) -> Vec<TaskId> {
    tasks.iter().map(|stored| stored.task.id).collect()
}

/// Objective `n` of owner acme, created at `n` milliseconds.
pub fn new_objective(n: u64) -> StoredObjective {
    let moment = at(n as i64);
    StoredObjective {
        objective: Objective {
            id: context(&format!("obj-{n}")),
            name: format!("goal {n}"),
            description: None,
            status: ObjectiveStatus::Submitted,
            plans: None,
            metadata: None,
            created_at: moment,
            updated_at: moment,
        },
        owner: "client:acme".into(),
        principal: agent("acme"),
        agent: agent("tim"),
        revision: 1,
    }
}

/// The next revision of the objective, in this state since `ms`.
pub fn on(stored: &StoredObjective, status: ObjectiveStatus, ms: i64) -> StoredObjective {
    let mut next = stored.clone();
    next.revision += 1;
    next.objective.status = status;
    next.objective.updated_at = at(ms);
    next
}

pub fn plan_id(objective: u64, order: u32) -> PlanId {
    PlanId::try_from(&*format!("plan-{objective}-{order}")).unwrap()
}

pub fn step_id(objective: u64, plan: u32, index: u32) -> PlanTaskId {
    PlanTaskId::try_from(&*format!("step-{objective}-{plan}-{index}")).unwrap()
}

/// The plan at this position of an objective.
pub fn new_plan(objective: u64, order: u32) -> StoredPlan {
    let moment = at(objective as i64 + i64::from(order));
    let plan = Plan {
        id: plan_id(objective, order),
        objective_id: context(&format!("obj-{objective}")),
        name: format!("way {order}"),
        description: None,
        status: PlanStatus::Pending,
        tasks: None,
        dependencies: Vec::new(),
        metadata: None,
        created_at: moment,
        updated_at: moment,
    };
    StoredPlan { plan, order, held: false }
}

/// The plan task at this position of a plan.
pub fn new_step(objective: u64, plan: u32, index: u32) -> PlanTask {
    PlanTask {
        id: step_id(objective, plan, index),
        plan_id: plan_id(objective, plan),
        objective_id: context(&format!("obj-{objective}")),
        name: format!("step {index}"),
        description: None,
        task_index: index,
        dependencies: Vec::new(),
        a2a_task_id: None,
        status: PlanTaskStatus::Pending,
        metadata: None,
    }
}

/// The plan task, linked to A2A task `n`.
pub fn done_by(step: PlanTask, n: u64, status: PlanTaskStatus) -> PlanTask {
    PlanTask { a2a_task_id: Some(id(n)), status, ..step }
}

/// Task `n` in the context of an objective.
pub fn task_in(objective: u64, n: u64) -> StoredTask {
    let mut stored = new_task(n);
    Arc::make_mut(&mut stored.task).context_id = context(&format!("obj-{objective}"));
    stored
}

/// Creates an objective or changes it to this revision, with plans and plan tasks.
pub fn change(stored: &StoredObjective, plans: &[StoredPlan], tasks: &[PlanTask]) -> Write {
    let expected = stored.revision.checked_sub(1).filter(|before| *before > 0);
    Write::Objective(Box::new(ObjectiveChange {
        objective: stored.clone(),
        expected,
        plans: plans.to_vec(),
        tasks: tasks.to_vec(),
    }))
}
