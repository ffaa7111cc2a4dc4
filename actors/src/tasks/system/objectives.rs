//! OPT extension: calls on objectives and plans, and messages that the server turns into plans.

use std::sync::Arc;
use std::time::Duration;

use a2a_planner::{Draft, PlanDraft, PlanRequest, TaskDraft};
use a2a_policy::objectives::with_server_keys;
use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::limits::STRING_CHARS;
use a2a_protocol::operation::{
    CreateObjective, GetObjective, GetPlan, ListObjectives, ObjectivePage, OptOperation, Reply,
    SendMessage, StreamEvent, SubscribeObjective,
};
use a2a_protocol::opt::{
    HistoryScope, Objective, ObjectiveId, ObjectiveStatus, OptHints, PLANS_PER_OBJECTIVE, Plan,
    PlanStatus, PlanTask, PlanTaskStatus, key,
};
use a2a_protocol::task::{ContextId, Metadata, PlanId, Task, UtcMillis};
use a2a_taskdb::{
    ListQuery, ObjectiveQuery, ObjectiveToken, ObjectiveTree, SentMessage, StoredObjective,
    TaskReader, TaskStoreError,
};
use serde_json::Value;
use tokio::sync::oneshot;

use super::send::{SMALL, require_user_role};
use super::subscribe::TaskStream;
use super::{SendOutcome, TaskCaller, TaskSystem};
use super::{TaskReply, WaitFor, invalid, new_task, objective_size, stopping};
use crate::tasks::objectives::{
    AddObjectiveSubscriber, ApplyObjectiveCommand, ObjectiveCommand, ObjectiveCommandReply,
    OpenObjective, SubmitObjective, WaitRevision, result_of, shown,
};
use crate::tasks::service::subscribers::TaskEvent;

/// Longest name of an objective that is derived from a message, in characters.
const NAME_CHARS: usize = 200;

/// Reads the open objectives at the start, with the results of their completed steps.
pub(super) fn read_open(reader: &dyn TaskReader) -> Result<Vec<OpenObjective>, TaskStoreError> {
    let mut open = Vec::new();
    for tree in reader.open_objectives()? {
        let mut results = Vec::new();
        for task in tree.plans.iter().flat_map(|plan| &plan.tasks) {
            let done = task.a2a_task_id.filter(|_| task.status == PlanTaskStatus::Completed);
            if let Some(done) = done
                && let Some(stored) = reader.get(done)?
            {
                results.push((task.id.clone(), result_of(&stored.task)));
            }
        }
        open.push((tree, results));
    }
    Ok(open)
}

impl TaskSystem {
    /// Executes a call on objectives or plans, except a subscription.
    ///
    /// # Errors
    /// When there is no such objective or plan, or the change is not allowed.
    pub async fn opt(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        operation: OptOperation,
    ) -> Result<Reply, Fault> {
        objective_size::check_metadata(&operation)?;
        let bytes = objective_size::of_call(&operation);
        if bytes > 0 {
            self.charge(caller, agent, true, bytes).await?;
        }
        let command = match operation {
            OptOperation::CreateObjective(create) => {
                let tree = self.new_objective(caller, agent, new_task::objective_id(), create);
                return self.apply_command(caller, tree, ObjectiveCommand::Create).await;
            }
            OptOperation::GetObjective(get) => return self.get_objective(caller, get).await,
            OptOperation::ListObjectives(list) => return self.list_objectives(caller, list).await,
            OptOperation::GetPlan(get) => return self.get_plan(caller, get).await,
            OptOperation::SubscribeObjective(_) => return Err(Fault::Internal),
            OptOperation::UpdateObjective(update) => ObjectiveCommand::Update(update),
            OptOperation::CreatePlan(create) => ObjectiveCommand::CreatePlan(create),
            OptOperation::UpdatePlan(update) => ObjectiveCommand::UpdatePlan(update),
            OptOperation::AddTasks(add) => ObjectiveCommand::AddTasks(add),
        };
        let tree = match &command {
            ObjectiveCommand::Create => return Err(Fault::Internal),
            ObjectiveCommand::Update(update) => self.objective(caller, &update.id).await?,
            ObjectiveCommand::CreatePlan(create) => {
                self.objective(caller, &create.objective_id).await?
            }
            ObjectiveCommand::UpdatePlan(update) => {
                self.objective_of_plan(caller, &update.id).await?
            }
            ObjectiveCommand::AddTasks(add) => self.objective_of_plan(caller, &add.plan_id).await?,
        };
        objective_size::check_total(&tree, objective_size::replaced(&tree, &command), bytes, "")?;
        self.apply_command(caller, tree, command).await
    }

    async fn get_plan(&self, caller: &TaskCaller, get: GetPlan) -> Result<Reply, Fault> {
        let GetPlan { id, include_tasks } = get;
        let tree = self.objective_of_plan(caller, &id).await?;
        let none = || Fault::PlanNotFound { plan: id.to_string() };
        let plans = shown(tree, true, include_tasks).plans.unwrap_or_default();
        let plan = plans.into_iter().find(|plan| plan.id == id).ok_or_else(none)?;
        Ok(Reply::Plan(Box::new(plan)))
    }

    fn new_objective(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        id: ObjectiveId,
        create: CreateObjective,
    ) -> ObjectiveTree {
        let now = UtcMillis::from(self.clock.now().utc);
        let objective = Objective {
            id,
            name: create.name,
            description: create.description.filter(|text| !text.is_empty()),
            status: ObjectiveStatus::Submitted,
            plans: None,
            metadata: with_server_keys(create.metadata, None),
            created_at: now,
            updated_at: now,
        };
        let stored = StoredObjective {
            objective,
            owner: Arc::clone(&caller.owner),
            principal: caller.principal.clone(),
            agent: agent.clone(),
            revision: 1,
        };
        ObjectiveTree { stored, plans: Vec::new() }
    }

    async fn apply_command(
        &self,
        caller: &TaskCaller,
        tree: ObjectiveTree,
        command: ObjectiveCommand,
    ) -> Result<Reply, Fault> {
        // The command may start tasks, whose answers need an interceptor for the owner's name.
        if tree.stored.owner == caller.owner {
            self.intercept_replies_for(&caller.principal, caller.is_client).await?;
        }
        let (reply, answer) = oneshot::channel();
        self.post(ApplyObjectiveCommand { tree: Box::new(tree), command, reply })?;
        match answer.await.unwrap_or_else(|_| Err(stopping()))? {
            ObjectiveCommandReply::Objective(objective) => Ok(Reply::Objective(objective)),
            ObjectiveCommandReply::Plan(plan) => Ok(Reply::Plan(plan)),
        }
    }

    /// Finds an objective that the caller may see.
    pub(super) async fn find_objective(
        &self,
        caller: &TaskCaller,
        id: &ObjectiveId,
    ) -> Result<Option<ObjectiveTree>, Fault> {
        let found = self.any_objective(id).await?;
        Ok(found.filter(|tree| may_see(caller, tree)))
    }

    async fn any_objective(&self, id: &ObjectiveId) -> Result<Option<ObjectiveTree>, Fault> {
        let id = id.clone();
        self.read_store(move |reader| reader.objective(&id)).await
    }

    async fn objective(
        &self,
        caller: &TaskCaller,
        id: &ObjectiveId,
    ) -> Result<ObjectiveTree, Fault> {
        let found = self.find_objective(caller, id).await?;
        found.ok_or_else(|| Fault::ObjectiveNotFound { objective: id.to_string() })
    }

    async fn objective_of_plan(
        &self,
        caller: &TaskCaller,
        plan: &PlanId,
    ) -> Result<ObjectiveTree, Fault> {
        let none = || Fault::PlanNotFound { plan: plan.to_string() };
        let id = plan.clone();
        let objective = self.read_store(move |reader| reader.plan(&id)).await?.ok_or_else(none)?;
        self.find_objective(caller, &objective).await?.ok_or_else(none)
    }

    async fn get_objective(&self, caller: &TaskCaller, get: GetObjective) -> Result<Reply, Fault> {
        let mut tree = self.objective(caller, &get.id).await?;
        if let Some(since) = get.since_revision
            && tree.stored.revision <= since
            && let Some(wait) = get.wait_ms.filter(|wait| *wait > 0)
        {
            let (reply, changed) = oneshot::channel();
            self.post(WaitRevision { id: get.id.clone(), since, reply })?;
            let _ = tokio::time::timeout(Duration::from_millis(wait), changed).await;
            tree = self.objective(caller, &get.id).await?;
        }
        let with_plans = get.include_plans || get.include_tasks;
        Ok(Reply::Objective(Box::new(shown(tree, with_plans, get.include_tasks))))
    }

    async fn list_objectives(
        &self,
        caller: &TaskCaller,
        list: ListObjectives,
    ) -> Result<Reply, Fault> {
        let token = list.page_token.filter(|token| !token.is_empty());
        let token = token.map(|token| token.parse::<ObjectiveToken>()).transpose();
        let with_plans = list.include_plans || list.include_tasks;
        let query = ObjectiveQuery {
            owner: (!caller.sees_all).then(|| Arc::clone(&caller.owner)),
            status: list.status,
            limit: list.page_size.unwrap_or(50) as usize,
            after: token.map_err(|error| invalid("/pageToken", &error.to_string()))?,
            with_plans,
        };
        let page = self.read_store(move |reader| reader.objectives(&query)).await?;
        let each = page.objectives.into_iter();
        Ok(Reply::Objectives(ObjectivePage {
            objectives: each.map(|tree| shown(tree, with_plans, list.include_tasks)).collect(),
            next_page_token: page.next.map(|next| next.to_string()).unwrap_or_default(),
        }))
    }

    /// Subscribes to an objective: a snapshot, then its changes and those of its tasks.
    ///
    /// # Errors
    /// When there is none.
    pub async fn watch_objective(
        &self,
        caller: &TaskCaller,
        watch: SubscribeObjective,
    ) -> Result<TaskStream, Fault> {
        self.objective(caller, &watch.id).await?;
        let (reply, answer) = oneshot::channel();
        self.post(AddObjectiveSubscriber { id: watch.id.clone(), reply })?;
        let live = answer.await.map_err(|_| stopping())?.transpose()?;
        // Read after the subscription, so that no event is missed; events that the snapshot contains
        // may follow it.
        let tree = self.objective(caller, &watch.id).await?;
        let number = tree.stored.revision;
        let event = Arc::new(StreamEvent::Objective(Box::new(shown(tree, true, true))));
        let last = live.is_none();
        let first = TaskEvent { number, event, last };
        Ok(TaskStream::new(vec![first], live))
    }

    /// Sends a message to an agent; the server decides whether it needs a plan.
    ///
    /// # Errors
    /// When the message, the objective or task it names, or the caller's limits do not allow it.
    pub async fn send_with_opt(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        hints: OptHints,
    ) -> Result<Reply, Fault> {
        let wait_for = if send.return_immediately { WaitFor::Created } else { WaitFor::End };
        let length = send.history_length;
        let (reply, wait_for) =
            self.submit_with_plan(caller, agent, send, &hints, wait_for).await?;
        match self.await_outcome(reply, wait_for, length).await? {
            SendOutcome::Task(task) => {
                let objective = self.objective_beside(caller, &task).await?;
                Ok(Reply::Planned { task, objective })
            }
            SendOutcome::Message(message) => Ok(Reply::Answered(message)),
        }
    }

    /// The objective that a task is part of.
    async fn objective_beside(
        &self,
        caller: &TaskCaller,
        task: &Task,
    ) -> Result<Option<Box<Objective>>, Fault> {
        let is_part = |metadata: &Metadata| metadata.contains_key(key::OBJECTIVE_ID);
        if !task.metadata.as_ref().is_some_and(is_part) {
            return Ok(None);
        }
        let tree = self.find_objective(caller, &task.context_id).await?;
        Ok(tree.map(|tree| Box::new(shown(tree, true, true))))
    }

    /// Sends a message like [`Self::send_with_opt`] and streams the events of its first task.
    ///
    /// # Errors
    /// When the message, the objective or task it names, or the caller's limits do not allow it.
    pub async fn stream_with_opt(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        send: SendMessage,
        hints: OptHints,
        after: Option<u64>,
    ) -> Result<TaskStream, Fault> {
        let length = send.history_length;
        let (reply, _) =
            self.submit_with_plan(caller, agent, send, &hints, WaitFor::Stream).await?;
        Ok(self.open_stream(reply, after).await?.with_history(length))
    }

    /// Decides whether a message needs a plan and submits it; also returns what the caller waits
    /// for then.
    async fn submit_with_plan(
        &self,
        caller: &TaskCaller,
        agent: &AgentId,
        mut send: SendMessage,
        hints: &OptHints,
        wait_for: WaitFor,
    ) -> Result<(TaskReply, WaitFor), Fault> {
        require_user_role(&send.message)?;
        let sent = SentMessage::of(&send.message);
        if send.message.task_id.is_some() {
            return Ok((self.submit(caller, agent, send, sent, wait_for).await?, wait_for));
        }
        let requested = hints.objective.as_ref();
        let context = send.message.context_id.clone();
        let (existing, is_taken) =
            match (requested.and_then(|requested| requested.id.as_ref()), &context) {
                (Some(id), Some(context)) if id != context => {
                    let why = format!(
                        "the message belongs to objective {id}, whose contextId is the same; send \
                     that one or none"
                    );
                    return Err(invalid("/message/contextId", &why));
                }
                (Some(id), _) => (Some(self.objective(caller, id).await?), false),
                (None, Some(context)) => {
                    let found = self.any_objective(context).await?;
                    let is_there = found.is_some();
                    let visible = found.filter(|tree| may_see(caller, tree));
                    let is_taken = is_there && visible.is_none();
                    (visible, is_taken)
                }
                (None, None) => (None, false),
            };
        let name = requested.and_then(|requested| requested.name.as_deref());
        let name = name.or(hints.suggested_name.as_deref());
        let text = send.message.text();
        let asked = PlanRequest {
            text: &text,
            prefer_objective: hints.prefer_objective.or(requested.map(|_| true)),
            suggested_name: name,
            in_objective: existing.is_some(),
        };
        let draft = match (self.planner.plan(&asked), requested) {
            (Draft::Answer, Some(_)) => minimal(&text, name),
            // A message in an open objective that is no question adds a plan to it.
            (Draft::Answer, None)
                if existing.as_ref().is_some_and(accepts_plan)
                    && !text.trim_end().ends_with('?') =>
            {
                minimal(&text, name)
            }
            (draft, _) => draft,
        };
        let Draft::Objective { name, plans } = draft else {
            if let Some(tree) = &existing {
                send.message.context_id = Some(tree.stored.objective.id.clone());
            }
            return Ok((self.submit(caller, agent, send, sent, wait_for).await?, wait_for));
        };
        // Unless the caller asked to wait, it gets the first task at once.
        let wait_for = if send.waits_unless_planned && wait_for == WaitFor::End {
            WaitFor::Created
        } else {
            wait_for
        };
        // A duplicate is charged like any call.
        self.charge(caller, agent, true, if sent.bytes > SMALL { sent.bytes } else { 0 }).await?;
        if let Some(duplicate) = self.find_duplicate(&caller.owner, agent, sent.clone()).await? {
            return Ok((duplicate, wait_for));
        }
        self.intercept_replies_for(&caller.principal, caller.is_client).await?;
        if self.is_client_name(agent) {
            return Err(Fault::no_such_agent(agent.as_str()));
        }
        let is_new = existing.is_none();
        let tree = match existing {
            Some(tree) => tree,
            None => {
                let id = match context {
                    Some(context) => self.objective_for(caller, context, is_taken).await?,
                    None => new_task::objective_id(),
                };
                let description = Some(text.chars().take(STRING_CHARS).collect());
                let create = CreateObjective { name, description, metadata: None };
                self.new_objective(caller, agent, id, create)
            }
        };
        if tree.stored.owner != caller.owner {
            let reason =
                format!("this objective is {}'s: you may see it and stop it", tree.stored.owner);
            return Err(Fault::Forbidden { reason });
        }
        let now = UtcMillis::from(self.clock.now().utc);
        let plans = drafted(&tree.stored.objective.id, plans, hints.history_scope, now);
        objective_size::check_total(&tree, 0, objective_size::of_plans(&plans), "/message/parts")?;
        let (reply, answer) = oneshot::channel();
        self.post(SubmitObjective {
            tree: Box::new(tree),
            is_new,
            plans,
            sent,
            message: send.message,
            push: send.push,
            wait_for,
            trace: caller.trace.clone(),
            reply,
        })?;
        Ok((answer.await.unwrap_or_else(|_| Err(stopping()))?, wait_for))
    }

    /// The id of a new objective for a message with a context id: the same id.
    ///
    /// # Errors
    /// When the context exists already.
    async fn objective_for(
        &self,
        caller: &TaskCaller,
        context: ContextId,
        is_taken: bool,
    ) -> Result<ObjectiveId, Fault> {
        let refused = |why: &str| {
            let advice = "an objective needs a context of its own: send the message without contextId, or with a new one";
            invalid("/message/contextId", &format!("{why}; {advice}"))
        };
        if is_taken {
            return Err(refused(&format!("{context} names something else already")));
        }
        self.await_store().await?;
        let query = ListQuery {
            owner: Some(Arc::clone(&caller.owner)),
            context: Some(context.clone()),
            page_size: 1,
            history_length: Some(0),
            ..ListQuery::default()
        };
        if self.read_store(move |reader| reader.list(&query)).await?.tasks.is_empty() {
            return Ok(context);
        }
        Err(refused(&format!("context {context} has tasks already that belong to no objective")))
    }
}

/// Whether the caller may see the objective.
fn may_see(caller: &TaskCaller, tree: &ObjectiveTree) -> bool {
    caller.sees_all || tree.stored.owner == caller.owner
}

fn accepts_plan(tree: &ObjectiveTree) -> bool {
    !tree.stored.objective.status.is_terminal() && tree.plans.len() < PLANS_PER_OBJECTIVE
}

/// One plan with one task, for a client that asked for an objective.
fn minimal(text: &str, name: Option<&str>) -> Draft {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(NAME_CHARS).collect();
    let line = if line.is_empty() { "(no text)".to_owned() } else { line };
    let name = name.map_or_else(|| line.clone(), str::to_owned);
    let task =
        TaskDraft { name: line, description: Some(text.to_owned()), dependencies: Vec::new() };
    let plan = PlanDraft { name: name.clone(), tasks: vec![task], depends_on: Vec::new() };
    Draft::Objective { name, plans: vec![plan] }
}

/// The plans of a draft, with ids.
fn drafted(
    objective: &ObjectiveId,
    drafts: Vec<PlanDraft>,
    scope: Option<HistoryScope>,
    now: UtcMillis,
) -> Vec<Plan> {
    let ids: Vec<PlanId> = drafts.iter().map(|_| new_task::plan_id()).collect();
    let each = drafts.into_iter().zip(ids.clone());
    each.map(|(draft, id)| {
        let steps: Vec<_> = draft.tasks.iter().map(|_| new_task::step_id()).collect();
        let tasks = draft.tasks.into_iter().enumerate().map(|(at, task)| PlanTask {
            id: steps[at].clone(),
            plan_id: id.clone(),
            objective_id: objective.clone(),
            name: task.name,
            description: task.description,
            task_index: u32::try_from(at).unwrap_or(u32::MAX),
            dependencies: task
                .dependencies
                .iter()
                .filter_map(|place| steps.get(*place).cloned())
                .collect(),
            a2a_task_id: None,
            status: PlanTaskStatus::Pending,
            metadata: None,
        });
        let before = draft.depends_on.iter().filter_map(|place| ids.get(*place));
        let before: Vec<Value> = before.map(|id| id.as_str().into()).collect();
        let mut metadata = Metadata::new();
        if !before.is_empty() {
            metadata.insert(key::AFTER.to_owned(), before.into());
        }
        // The message's history scope applies to the steps made of it.
        if let Some(scope) = scope {
            metadata.insert(key::HISTORY_SCOPE.to_owned(), scope.as_str().into());
        }
        Plan {
            tasks: Some(tasks.collect()),
            id: id.clone(),
            objective_id: objective.clone(),
            name: draft.name,
            description: None,
            status: PlanStatus::Pending,
            // The order is in the metadata only: the client has stated no dependency.
            dependencies: Vec::new(),
            metadata: Some(metadata).filter(|metadata| !metadata.is_empty()),
            created_at: now,
            updated_at: now,
        }
    })
    .collect()
}
