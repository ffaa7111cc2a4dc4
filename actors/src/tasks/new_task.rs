//! Creates tasks and ids.

use std::sync::Arc;

use a2a_policy::Now;
use a2a_protocol::operation::PushConfig;
use a2a_protocol::opt::ObjectiveId;
use a2a_protocol::task::{
    Message, Metadata, PlanId, PlanTaskId, Task, TaskState, TaskStatus, UtcMillis,
};
use a2a_protocol::{AgentId, CorrelationId, TaskId};
use a2a_taskdb::StoredTask;
use uuid::Uuid;

use super::TaskCaller;

/// Creates a task for a message, in state submitted.
pub(super) fn new_task(
    caller: &TaskCaller,
    agent: &AgentId,
    mut message: Message,
    metadata: Option<Metadata>,
    now: Now,
) -> StoredTask {
    let id =
        TaskId::try_from(Uuid::now_v7()).unwrap_or_else(|_| unreachable!("now_v7 is version 7"));
    let correlation = CorrelationId::try_from(Uuid::now_v7())
        .unwrap_or_else(|_| unreachable!("now_v7 is version 7"));
    let context_id = message.context_id.clone().unwrap_or_else(|| Uuid::now_v7().into());
    message.context_id = Some(context_id.clone());
    message.task_id = Some(id.as_uuid().into());
    let now = UtcMillis::from(now.utc);
    let status = TaskStatus { state: TaskState::Submitted, message: None, timestamp: now };
    let task = Task {
        id,
        context_id,
        status,
        artifacts: Vec::new(),
        history: vec![Arc::new(message)],
        metadata: metadata.filter(|metadata| !metadata.is_empty()),
    };
    StoredTask {
        task: Arc::new(task),
        owner: Arc::clone(&caller.owner),
        principal: caller.principal.clone(),
        agent: agent.clone(),
        spoken_version: caller.version.clone(),
        correlation,
        trace: caller.trace.clone(),
        version: 1,
        last_event: 0,
        queued: None,
        dispatched: false,
        worked_ms: 0,
        working_since: None,
        applied_seqs: Vec::new(),
        created: now,
        updated: now,
    }
}

/// The push config of a task, with an id.
pub(super) fn push_with_id(config: PushConfig, task: TaskId) -> PushConfig {
    let id = config.id.unwrap_or_else(|| Uuid::now_v7().into());
    PushConfig { id: Some(id), task_id: Some(task.as_uuid().into()), ..config }
}

macro_rules! new_ids {
    ($( #[doc = $doc:literal] $name:ident, $kind:ident, $prefix:literal; )+) => { $(
        #[doc = $doc]
        pub(super) fn $name() -> $kind {
            $kind::try_from(format!("{}-{}", $prefix, Uuid::now_v7()).as_str())
                .unwrap_or_else(|_| unreachable!("a short text without blanks"))
        }
    )+ };
}

new_ids! {
    /// Id of a new objective, which is also the context id of its tasks.
    objective_id, ObjectiveId, "obj";
    /// Id of a new plan.
    plan_id, PlanId, "plan";
    /// Id of a new step.
    step_id, PlanTaskId, "step";
}
