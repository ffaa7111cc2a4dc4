//! Every call an A2A client can make and every answer it can get, with no word of transport.

mod opt;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use opt::{
    AddTasks, CreateObjective, CreatePlan, GetObjective, GetPlan, ListObjectives, NewPlanTask,
    ObjectivePage, OptOperation, SubscribeObjective, TaskReference, UpdateObjective, UpdatePlan,
};

use crate::AgentId;
use crate::opt::{Objective, Plan};
use crate::task::{
    Artifact, ContextId, Label, Message, Metadata, Moment, Task, TaskState, TaskStatus,
};
use crate::{TaskId, fault::Fault};

/// What a client wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Say something and get the task or the message that comes of it.
    SendMessage(Box<SendMessage>),
    /// The same, with everything that happens on the way.
    StreamMessage(Box<SendMessage>),
    /// Look at a task.
    GetTask(GetTask),
    /// Look at many.
    ListTasks(ListTasks),
    /// Call a task off.
    CancelTask(CancelTask),
    /// Watch a task that was asked for before.
    Subscribe(Subscribe),
    /// Be told of what happens to a task by a call of the server.
    SetPush(PushConfig),
    /// Look at such a wish.
    GetPush(PushKey),
    /// Look at all of them for a task.
    ListPushes(ListPushes),
    /// Take it back.
    DeletePush(PushKey),
    /// The card for callers who are known.
    ExtendedCard,
    /// Something about objectives and plans.
    Opt(Box<OptOperation>),
}

/// Something is said to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct SendMessage {
    /// What.
    pub message: Message,
    /// Media types the caller can take; empty for any.
    pub accepted_output_modes: Vec<String>,
    /// Whom to tell of what happens to the task.
    pub push: Option<PushConfig>,
    /// How many messages of the history the answer may have.
    pub history_length: Option<usize>,
    /// Do not wait for the work.
    pub return_immediately: bool,
    /// The caller speaks 0.3 and does not say whether it waits: it does, unless an objective is
    /// made for the message.
    pub waits_unless_planned: bool,
    /// More about the request.
    pub metadata: Option<Metadata>,
}

/// Which task to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetTask {
    /// Its id as the caller wrote it.
    pub id: Label,
    /// How many messages of the history.
    pub history_length: Option<usize>,
}

/// Which tasks to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListTasks {
    /// Of this conversation.
    pub context_id: Option<ContextId>,
    /// In this state.
    pub status: Option<TaskState>,
    /// How many at once; 1 to 100.
    pub page_size: Option<u32>,
    /// Where the page before ended.
    pub page_token: Option<String>,
    /// How many messages of the history of each.
    pub history_length: Option<usize>,
    /// Whose status is not older than this.
    pub status_timestamp_after: Option<Moment>,
    /// With what came of them.
    pub include_artifacts: bool,
}

/// Which task to call off.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelTask {
    /// Its id as the caller wrote it.
    pub id: Label,
    /// More about the request.
    pub metadata: Option<Metadata>,
}

/// Which task to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// Its id as the caller wrote it.
    pub id: Label,
    /// The number of the last event the caller has seen.
    pub after: Option<u64>,
}

/// Whom to call when something happens to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskPushNotificationConfig")]
pub struct PushConfig {
    /// Its name within the task; made by the server when the caller gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Label>,
    /// The task. Absent only inside the request that begins one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Label>,
    /// Where to call.
    pub url: String,
    /// A word that the call repeats, so that its receiver knows where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How to authenticate there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// It was made by a caller that speaks 0.3, and is called in that way. Kept, never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub legacy: bool,
    /// It was made by a caller that has activated task progress, and is told of it. Kept, never
    /// shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub progress: bool,
    /// It was made by a caller that has activated OPT, and is told of objectives and plans. Kept,
    /// never shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub opt: bool,
}

/// How the server proves itself to a webhook: `Authorization: {scheme} {credentials}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthenticationInfo")]
pub struct Authentication {
    /// Such as `Bearer`.
    pub scheme: String,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

impl std::fmt::Debug for Authentication {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authentication").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// One wish to be told, of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushKey {
    /// The task.
    pub task_id: Label,
    /// Its name within the task; 0.3 may leave it out and means the first.
    pub id: Option<Label>,
}

/// The wishes to be told of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPushes {
    /// The task.
    pub task_id: Label,
    /// How many at once.
    pub page_size: Option<u32>,
    /// Where the page before ended.
    pub page_token: Option<String>,
}

/// What a client gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A task.
    Task(Arc<Task>),
    /// A message, without a task.
    Message(Box<Message>),
    /// A page of tasks.
    Tasks(TaskPage),
    /// A wish to be told.
    Push(PushConfig),
    /// A page of them.
    Pushes {
        /// The wishes.
        configs: Vec<PushConfig>,
        /// Where the next page begins; empty at the end.
        next_page_token: String,
    },
    /// It is gone.
    Deleted,
    /// What came of a message where OPT is active: a task, and the objective if one was made.
    Planned {
        /// The task, or the first of many.
        task: Arc<Task>,
        /// What it is done for.
        objective: Option<Box<Objective>>,
    },
    /// A message, without a task, where OPT is active.
    Answered(Box<Message>),
    /// An objective.
    Objective(Box<Objective>),
    /// A page of them.
    Objectives(ObjectivePage),
    /// A plan.
    Plan(Box<Plan>),
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskPage {
    /// The tasks, the one whose status changed last first.
    pub tasks: Vec<Task>,
    /// Where the next page begins; empty at the end.
    pub next_page_token: String,
    /// How many were asked for.
    pub page_size: u32,
    /// How many there are on all pages.
    pub total_size: u64,
}

/// Something that happens while a client watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StreamResponse")]
pub enum StreamEvent {
    /// The task as it stands.
    Task(Box<Task>),
    /// The answer, without a task.
    Message(Box<Message>),
    /// The task's status changed, or the agent said how it goes.
    StatusUpdate(Box<StatusUpdate>),
    /// Something came of the task.
    ArtifactUpdate(Box<ArtifactUpdate>),
    /// The objective as it stands.
    Objective(Box<Objective>),
}

impl StreamEvent {
    /// Whether more is said about the event itself.
    #[must_use]
    pub const fn has_metadata(&self) -> bool {
        match self {
            Self::StatusUpdate(update) => update.metadata.is_some(),
            Self::ArtifactUpdate(update) => update.metadata.is_some(),
            Self::Task(_) | Self::Message(_) | Self::Objective(_) => false,
        }
    }
}

/// The task's status changed, or the agent said how it goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskStatusUpdateEvent")]
pub struct StatusUpdate {
    /// The task.
    pub task_id: TaskId,
    /// Its conversation.
    pub context_id: ContextId,
    /// How it stands now.
    pub status: TaskStatus,
    /// More about the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Something came of a task, or more of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskArtifactUpdateEvent")]
pub struct ArtifactUpdate {
    /// The task.
    pub task_id: TaskId,
    /// Its conversation.
    pub context_id: ContextId,
    /// The artifact, or its next piece.
    pub artifact: Arc<Artifact>,
    /// Its parts continue the artifact of this name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Nothing more of this artifact comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
    /// More about the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A call as the edge hands it on: what is wanted, and of which agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The agent; `None` for the host's own.
    pub agent: Option<AgentId>,
    /// What is wanted.
    pub operation: Operation,
}

/// The answer to a call.
pub type Answer = Result<Reply, Fault>;
