//! Commands of clients: create and edit objectives, plans and steps.

use std::sync::Arc;

use a2a_policy::objectives::{CommandRefused, Effect, Settings, graph, with_server_keys};
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{AddTasks, CreatePlan, NewPlanTask, UpdateObjective, UpdatePlan};
use a2a_protocol::opt::{Objective, ObjectiveId, Plan, PlanStatus, PlanTask, PlanTaskStatus};
use a2a_protocol::task::{Metadata, PlanId, PlanTaskId, UtcMillis};
use a2a_taskdb::{ObjectiveTree, PlanTree, StoredPlan};
use actix::prelude::*;
use tokio::sync::oneshot;

use super::live_objective::LiveObjective;
use super::{Cause, CauseKind, Service};
use crate::tasks::new_task;

/// Open objectives per owner.
const OPEN_PER_OWNER: usize = 1_000;

/// A change of an objective or of something below it.
#[derive(Debug)]
pub(in crate::tasks) enum ObjectiveCommand {
    /// Creates the objective.
    Create,
    Update(UpdateObjective),
    CreatePlan(CreatePlan),
    UpdatePlan(UpdatePlan),
    AddTasks(AddTasks),
}

/// The changed object.
#[derive(Debug)]
pub(in crate::tasks) enum ObjectiveCommandReply {
    Objective(Box<Objective>),
    Plan(Box<Plan>),
}

type CommandReplySender = oneshot::Sender<Result<ObjectiveCommandReply, Fault>>;
/// A caller and its reply, to be sent after the commit.
pub(super) type ReadyReply = (CommandReplySender, ObjectiveCommandReply);

/// Applies a command to an objective; replies after the commit.
#[derive(Message)]
#[rtype(result = "()")]
pub(in crate::tasks) struct ApplyObjectiveCommand {
    /// The objective from the store, or the new one.
    pub(in crate::tasks) tree: Box<ObjectiveTree>,
    pub(in crate::tasks) command: ObjectiveCommand,
    pub(in crate::tasks) reply: CommandReplySender,
}

/// A caller that waits for a command.
pub(super) struct PendingReply {
    reply: CommandReplySender,
    /// The plan that the reply contains; `None` for the objective.
    plan: Option<PlanId>,
}

impl PendingReply {
    fn answer(&self, objective: &LiveObjective) -> ObjectiveCommandReply {
        let plan = self.plan.as_ref().and_then(|plan| objective.shown_plan(plan));
        match plan {
            Some(plan) => ObjectiveCommandReply::Plan(Box::new(plan)),
            None => {
                let whole = objective.shown();
                ObjectiveCommandReply::Objective(Box::new(Objective { plans: None, ..whole }))
            }
        }
    }

    /// Builds the reply from the current state, to be sent after the commit.
    pub(super) fn freeze(self, objective: &LiveObjective) -> ReadyReply {
        let answer = self.answer(objective);
        (self.reply, answer)
    }

    /// Replies at once, because nothing has changed.
    pub(super) fn send_now(self, objective: &LiveObjective) {
        let answer = self.answer(objective);
        let _ = self.reply.send(Ok(answer));
    }
}

impl Handler<ApplyObjectiveCommand> for Service {
    type Result = ();

    fn handle(
        &mut self,
        ApplyObjectiveCommand { tree, command, reply }: ApplyObjectiveCommand,
        _: &mut Self::Context,
    ) {
        let now = UtcMillis::from(self.clock.now().utc);
        let id = tree.stored.objective.id.clone();
        let is_new = matches!(command, ObjectiveCommand::Create);
        if is_new && let Err(fault) = self.check_open_objectives(&tree.stored.owner) {
            let _ = reply.send(Err(fault));
            return;
        }
        let objective =
            self.objectives.live.entry(id.clone()).or_insert_with(|| LiveObjective::of(*tree));
        let altered = match command {
            ObjectiveCommand::Create => {
                check_settings(objective.stored.objective.metadata.as_ref(), &[])
                    .map(|()| (Vec::new(), None))
            }
            ObjectiveCommand::Update(update) => {
                objective.update(update).map(|effects| (effects, None))
            }
            ObjectiveCommand::CreatePlan(create) => objective.create_plan(create, now),
            ObjectiveCommand::UpdatePlan(update) => {
                let plan = update.id.clone();
                objective.update_plan(update).map(|effects| (effects, Some(plan)))
            }
            ObjectiveCommand::AddTasks(add) => {
                let plan = add.plan_id.clone();
                objective.create_tasks(add).map(|effects| (effects, Some(plan)))
            }
        };
        match altered {
            Ok((effects, plan)) => {
                let kind = if is_new { CauseKind::Created } else { CauseKind::Edited };
                let replies = vec![PendingReply { reply, plan }];
                let cause = Cause { kind, replies, ..Cause::default() };
                let (writes, next) = self.apply_effects(&id, effects, cause);
                self.write_all(writes);
                next.into_iter().for_each(|next| self.start_next(Some(next)));
            }
            Err(fault) => {
                // Evict what was loaded for this command alone: an ended or a new objective.
                if is_new || (objective.is_over() && objective.changes.is_empty()) {
                    self.objectives.evict(&id);
                }
                let _ = reply.send(Err(fault));
            }
        }
    }
}

impl Service {
    pub(super) fn check_open_objectives(&self, owner: &Arc<str>) -> Result<(), Fault> {
        if self.objectives.open_of(owner) < OPEN_PER_OWNER {
            return Ok(());
        }
        let reason =
            format!("{OPEN_PER_OWNER} objectives of yours are open; finish or cancel some first");
        Err(Fault::RateLimited { reason, retry_after_ms: 60_000 })
    }
}

fn refusal_fault(refused: CommandRefused) -> Fault {
    match refused {
        CommandRefused::NoSuchPlan { plan } => Fault::PlanNotFound { plan: plan.to_string() },
        other => Fault::InvalidParams(other.violations()),
    }
}

impl LiveObjective {
    fn update(&mut self, update: UpdateObjective) -> Result<Vec<Effect>, Fault> {
        check_settings(update.metadata.as_ref(), &[])?;
        let effects = match update.status {
            Some(status) => self.tree.move_objective(status).map_err(refusal_fault)?,
            None => Vec::new(),
        };
        let objective = &mut self.stored.objective;
        if let Some(name) = update.name {
            objective.name = name;
        }
        if let Some(description) = update.description {
            objective.description = Some(description).filter(|text| !text.is_empty());
        }
        if let Some(metadata) = update.metadata {
            let before = objective.metadata.take();
            objective.metadata = with_server_keys(Some(metadata), before.as_ref());
        }
        Ok(effects)
    }

    fn create_plan(
        &mut self,
        create: CreatePlan,
        now: UtcMillis,
    ) -> Result<(Vec<Effect>, Option<PlanId>), Fault> {
        self.tree.check_plan_capacity(create.tasks.len()).map_err(refusal_fault)?;
        check_settings(create.metadata.as_ref(), &create.tasks)?;
        graph::check_plan(&self.tree, &create)
            .map_err(|found| refusal_fault(CommandRefused::Dependencies(found)))?;
        let id = new_task::plan_id();
        let tasks = steps(&self.stored.objective.id, &id, 0, create.tasks);
        let plan = Plan {
            id: id.clone(),
            objective_id: self.stored.objective.id.clone(),
            name: create.name,
            description: create.description.filter(|text| !text.is_empty()),
            status: create.status.unwrap_or(PlanStatus::Pending),
            tasks: Some(tasks),
            dependencies: create.dependencies,
            metadata: with_server_keys(create.metadata, None),
            created_at: now,
            updated_at: now,
        };
        let effects = self.add_plan(plan).map_err(refusal_fault)?;
        Ok((effects, Some(id)))
    }

    /// Adds a plan that was checked.
    pub(super) fn add_plan(&mut self, mut plan: Plan) -> Result<Vec<Effect>, CommandRefused> {
        let effects = self.tree.add_plan(&plan)?;
        let tasks = plan.tasks.take().unwrap_or_default();
        let order = u32::try_from(self.plans.len()).unwrap_or(u32::MAX);
        self.touched.push(plan.id.clone());
        let held = plan.status == PlanStatus::Blocked;
        self.plans.push(PlanTree { stored: StoredPlan { plan, order, held }, tasks });
        Ok(effects)
    }

    fn update_plan(&mut self, update: UpdatePlan) -> Result<Vec<Effect>, Fault> {
        let before = self.tree.clone();
        let changed = self.try_update_plan(update);
        if changed.is_err() {
            self.tree = before;
        }
        changed
    }

    fn try_update_plan(&mut self, update: UpdatePlan) -> Result<Vec<Effect>, Fault> {
        let none = || Fault::PlanNotFound { plan: update.id.to_string() };
        let place = self.plans.iter().position(|plan| plan.stored.plan.id == update.id);
        let place = place.ok_or_else(none)?;
        if let Some(metadata) = &update.metadata {
            Settings::read(Some(metadata), "/metadata").map_err(Fault::InvalidParams)?;
        }
        let mut effects = Vec::new();
        if let Some(dependencies) = &update.dependencies {
            effects.extend(
                self.tree.set_dependencies(&update.id, dependencies).map_err(refusal_fault)?,
            );
        }
        if let Some(status) = update.status {
            effects.extend(self.tree.move_plan(&update.id, status).map_err(refusal_fault)?);
        }
        // From here on no error is possible.
        let node_held = self.tree.plan(&update.id).is_some_and(|node| node.is_held());
        let stored = &mut self.plans[place].stored;
        stored.held = node_held;
        let plan = &mut stored.plan;
        if let Some(name) = update.name {
            plan.name = name;
        }
        if let Some(description) = update.description {
            plan.description = Some(description).filter(|text| !text.is_empty());
        }
        if let Some(dependencies) = update.dependencies {
            plan.dependencies = dependencies;
        }
        self.touched.push(update.id.clone());
        if let Some(metadata) = update.metadata {
            let plan = &mut self.plans[place].stored.plan;
            let before = plan.metadata.take();
            plan.metadata = with_server_keys(Some(metadata), before.as_ref());
            // The assignees and the failure handling may have changed.
            let mut shown = self.shown();
            self.tree.show_in(&mut shown);
            let held = |plan: &Plan| self.tree.plan(&plan.id).is_some_and(|node| node.is_held());
            let mut tree = a2a_policy::objectives::Tree::new(&shown, held);
            effects.extend(tree.settle());
            self.tree = tree;
        }
        Ok(effects)
    }

    fn create_tasks(&mut self, add: AddTasks) -> Result<Vec<Effect>, Fault> {
        self.tree.check_task_capacity(&add.plan_id, add.tasks.len()).map_err(refusal_fault)?;
        check_settings(None, &add.tasks)?;
        graph::check_tasks(&self.tree, &add.plan_id, &add.tasks)
            .map_err(|found| refusal_fault(CommandRefused::Dependencies(found)))?;
        let objective = self.stored.objective.id.clone();
        let none = || Fault::PlanNotFound { plan: add.plan_id.to_string() };
        let place = self.plans.iter().position(|plan| plan.stored.plan.id == add.plan_id);
        let place = place.ok_or_else(none)?;
        let there = self.plans[place].tasks.len();
        let tasks = steps(&objective, &add.plan_id, there, add.tasks);
        let effects = self.tree.add_tasks(&add.plan_id, &tasks).map_err(refusal_fault)?;
        self.plans[place].tasks.extend(tasks);
        self.touched.push(add.plan_id);
        Ok(effects)
    }
}

/// Checks the settings in the metadata of a new plan and its steps.
fn check_settings(metadata: Option<&Metadata>, tasks: &[NewPlanTask]) -> Result<(), Fault> {
    let mut found = Vec::new();
    let read = |metadata, place: &str| Settings::read(metadata, place).err().unwrap_or_default();
    found.extend(read(metadata, "/metadata"));
    for (at, task) in tasks.iter().enumerate() {
        found.extend(read(task.metadata.as_ref(), &format!("/tasks/{at}/metadata")));
    }
    if found.is_empty() { Ok(()) } else { Err(Fault::InvalidParams(found)) }
}

/// New steps of a plan, behind the `there` existing ones.
fn steps(
    objective: &ObjectiveId,
    plan: &PlanId,
    there: usize,
    tasks: Vec<NewPlanTask>,
) -> Vec<PlanTask> {
    let ids: Vec<PlanTaskId> = tasks.iter().map(|_| new_task::step_id()).collect();
    let dependencies = graph::resolve(&tasks, &ids);
    let each = tasks.into_iter().zip(ids).zip(dependencies).enumerate();
    each.map(|(at, ((task, id), dependencies))| PlanTask {
        id,
        plan_id: plan.clone(),
        objective_id: objective.clone(),
        name: task.name,
        description: task.description.filter(|text| !text.is_empty()),
        task_index: u32::try_from(there + at).unwrap_or(u32::MAX),
        dependencies,
        a2a_task_id: None,
        status: PlanTaskStatus::Pending,
        metadata: task.metadata.filter(|metadata| !metadata.is_empty()),
    })
    .collect()
}
