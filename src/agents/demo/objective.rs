//! Objective of a round: two plans, created as an A2A client with the OPT extension creates them.

use a2a_actors::tasks::{TaskCaller, TaskSystem};
use a2a_protocol::AgentId;
use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{
    CreateObjective, CreatePlan, GetObjective, NewPlanTask, OptOperation, Reply,
    SubscribeObjective, TaskReference, UpdatePlan,
};
use a2a_protocol::opt::{Objective, ObjectiveId, ObjectiveStatus, Plan, PlanStatus, key};
use a2a_protocol::task::{Metadata, PlanId};
use futures_util::StreamExt;
use serde_json::json;

use super::RoundError;
use super::script::{Goal, GoalPlan, GoalStep};

/// Creates objectives for one caller.
pub(super) struct Client<'a> {
    pub(super) tasks: &'a TaskSystem,
    pub(super) caller: &'a TaskCaller,
    /// The agent whose endpoint is called.
    pub(super) agent: &'a AgentId,
}

impl Client<'_> {
    /// Creates the objective of a round and waits until it has ended.
    pub(super) async fn play(&self, round: u32) -> Result<(), RoundError> {
        let goal = Goal::of_round(round);
        let objective = self.create(goal, round).await?;
        let mut before = None;
        let mut first = None;
        for plan in &goal.plans {
            let plan = self.add(&objective.id, plan, before).await?;
            first.get_or_insert_with(|| plan.id.clone());
            before = Some(plan.id);
        }
        // All plans exist; approve the first.
        if let Some(id) = first {
            let update = UpdatePlan {
                id,
                name: None,
                description: None,
                status: Some(PlanStatus::Working),
                dependencies: None,
                metadata: None,
            };
            self.ask(OptOperation::UpdatePlan(update)).await?;
        }
        match self.end_of(&objective.id).await? {
            ObjectiveStatus::Completed => Ok(()),
            status => Err(RoundError::Objective { status }),
        }
    }

    async fn ask(&self, operation: OptOperation) -> Result<Reply, Fault> {
        self.tasks.opt(self.caller, self.agent, operation).await
    }

    async fn create(&self, goal: &Goal, round: u32) -> Result<Objective, Fault> {
        let create = CreateObjective {
            name: goal.name(round),
            description: Some(goal.description.to_owned()),
            metadata: None,
        };
        match self.ask(OptOperation::CreateObjective(create)).await? {
            Reply::Objective(objective) => Ok(*objective),
            _ => Err(Fault::Internal),
        }
    }

    /// Adds a plan. The first is blocked until approved, so that the objective cannot end before
    /// all plans exist.
    async fn add(
        &self,
        objective: &ObjectiveId,
        plan: &GoalPlan,
        after: Option<PlanId>,
    ) -> Result<Plan, Fault> {
        let create = CreatePlan {
            objective_id: objective.clone(),
            name: plan.name.to_owned(),
            description: None,
            status: after.is_none().then_some(PlanStatus::Blocked),
            tasks: plan.steps.iter().enumerate().map(|(at, step)| planned(at, step)).collect(),
            dependencies: after.into_iter().collect(),
            metadata: None,
        };
        match self.ask(OptOperation::CreatePlan(create)).await? {
            Reply::Plan(plan) => Ok(*plan),
            _ => Err(Fault::Internal),
        }
    }

    async fn end_of(&self, id: &ObjectiveId) -> Result<ObjectiveStatus, Fault> {
        loop {
            let watch = SubscribeObjective { id: id.clone() };
            let mut events = self.tasks.watch_objective(self.caller, watch).await?;
            // The stream ends with the objective, or when this reader is too slow.
            while events.next().await.is_some() {}
            let get = GetObjective {
                id: id.clone(),
                include_plans: false,
                include_tasks: false,
                since_revision: None,
                wait_ms: None,
            };
            match self.ask(OptOperation::GetObjective(get)).await? {
                Reply::Objective(found) if found.status.is_terminal() => return Ok(found.status),
                Reply::Objective(_) => {}
                _ => return Err(Fault::Internal),
            }
        }
    }
}

/// A step with its assignee, depending on the step before.
fn planned(at: usize, step: &GoalStep) -> NewPlanTask {
    let mut metadata = Metadata::new();
    metadata.insert(key::ASSIGNEE.to_owned(), json!(step.by));
    NewPlanTask {
        name: step.name.to_owned(),
        description: Some(step.description.to_owned()),
        dependencies: at.checked_sub(1).map(TaskReference::Nth).into_iter().collect(),
        metadata: Some(metadata),
    }
}
