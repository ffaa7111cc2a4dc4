//! Size limit of objectives: bytes of an objective with its plans and steps.
//!
//! Computed on the caller's thread, not on the bus thread. Concurrent changes may exceed the limit
//! together; the caller's byte rate bounds that.

use a2a_protocol::fault::Fault;
use a2a_protocol::operation::{NewPlanTask, OptOperation};
use a2a_protocol::opt::{METADATA_BYTES, OBJECTIVE_BYTES, Objective, Plan, PlanTask};
use a2a_protocol::task::Metadata;
use a2a_protocol::{Code, Violation};
use a2a_taskdb::ObjectiveTree;

use crate::tasks::objectives::ObjectiveCommand;

/// Bytes of ids, states and times of one object.
const FIXED: usize = 256;

/// Bytes that a call adds.
pub(super) fn of_call(operation: &OptOperation) -> usize {
    let of = |name: Option<&String>, description: Option<&String>, metadata: Option<&Metadata>| {
        FIXED + text(name) + text(description) + fields(metadata)
    };
    match operation {
        OptOperation::CreateObjective(create) => {
            of(Some(&create.name), create.description.as_ref(), create.metadata.as_ref())
        }
        OptOperation::UpdateObjective(update) => {
            of(update.name.as_ref(), update.description.as_ref(), update.metadata.as_ref())
        }
        OptOperation::CreatePlan(create) => {
            of(Some(&create.name), create.description.as_ref(), create.metadata.as_ref())
                + of_new_tasks(&create.tasks)
        }
        OptOperation::UpdatePlan(update) => {
            of(update.name.as_ref(), update.description.as_ref(), update.metadata.as_ref())
        }
        OptOperation::AddTasks(add) => FIXED + of_new_tasks(&add.tasks),
        OptOperation::GetObjective(_)
        | OptOperation::ListObjectives(_)
        | OptOperation::GetPlan(_)
        | OptOperation::SubscribeObjective(_) => 0,
    }
}

/// Checks the size of each object's metadata.
///
/// # Errors
/// One violation for each that is too large.
pub(super) fn check_metadata(operation: &OptOperation) -> Result<(), Fault> {
    let (own, tasks): (Option<&Metadata>, &[NewPlanTask]) = match operation {
        OptOperation::CreateObjective(create) => (create.metadata.as_ref(), &[]),
        OptOperation::UpdateObjective(update) => (update.metadata.as_ref(), &[]),
        OptOperation::CreatePlan(create) => (create.metadata.as_ref(), &create.tasks),
        OptOperation::UpdatePlan(update) => (update.metadata.as_ref(), &[]),
        OptOperation::AddTasks(add) => (None, &add.tasks),
        _ => (None, &[]),
    };
    let mut found = Vec::new();
    let mut check = |metadata: Option<&Metadata>, place: String| {
        let bytes = fields(metadata);
        if bytes > METADATA_BYTES {
            let why = format!("The metadata takes {bytes} bytes; {METADATA_BYTES} are the most.");
            found.push(Violation::new(place, Code::TooLarge, why));
        }
    };
    check(own, "/metadata".to_owned());
    for (at, task) in tasks.iter().enumerate() {
        check(task.metadata.as_ref(), format!("/tasks/{at}/metadata"));
    }
    if found.is_empty() { Ok(()) } else { Err(Fault::InvalidParams(found)) }
}

/// Checks that an objective has space for `more` bytes in place of the `replaced` ones.
///
/// # Errors
/// The limit is exceeded; `place` is the part of the call to blame.
pub(super) fn check_total(
    tree: &ObjectiveTree,
    replaced: usize,
    more: usize,
    place: &str,
) -> Result<(), Fault> {
    let total = (of_tree(tree).saturating_sub(replaced)).saturating_add(more);
    if total <= OBJECTIVE_BYTES {
        return Ok(());
    }
    let why = format!(
        "The objective would take {total} bytes with its plans and tasks; {OBJECTIVE_BYTES} are \
         the most. Shorten descriptions, or make another objective."
    );
    Err(Fault::InvalidParams(vec![Violation::new(place, Code::TooLarge, why)]))
}

/// Bytes of an objective that a call replaces.
pub(super) fn replaced(tree: &ObjectiveTree, command: &ObjectiveCommand) -> usize {
    match command {
        ObjectiveCommand::Update(update) => {
            let Objective { name, description, metadata, .. } = &tree.stored.objective;
            FIXED
                + update.name.as_ref().map_or(0, |_| name.len())
                + update.description.as_ref().map_or(0, |_| text(description.as_ref()))
                + update.metadata.as_ref().map_or(0, |_| fields(metadata.as_ref()))
        }
        ObjectiveCommand::UpdatePlan(update) => {
            let plan = tree.plans.iter().find(|plan| plan.stored.plan.id == update.id);
            let Some(plan) = plan else { return 0 };
            let Plan { name, description, metadata, .. } = &plan.stored.plan;
            FIXED
                + update.name.as_ref().map_or(0, |_| name.len())
                + update.description.as_ref().map_or(0, |_| text(description.as_ref()))
                + update.metadata.as_ref().map_or(0, |_| fields(metadata.as_ref()))
        }
        _ => 0,
    }
}

/// Bytes of new plans.
pub(super) fn of_plans(plans: &[Plan]) -> usize {
    plans.iter().map(|plan| of_plan(plan, plan.tasks.as_deref().unwrap_or_default())).sum()
}

fn of_tree(tree: &ObjectiveTree) -> usize {
    let Objective { name, description, metadata, .. } = &tree.stored.objective;
    let own = FIXED + name.len() + text(description.as_ref()) + fields(metadata.as_ref());
    own + tree.plans.iter().map(|plan| of_plan(&plan.stored.plan, &plan.tasks)).sum::<usize>()
}

fn of_plan(plan: &Plan, tasks: &[PlanTask]) -> usize {
    let Plan { name, description, metadata, .. } = plan;
    let own = FIXED + name.len() + text(description.as_ref()) + fields(metadata.as_ref());
    own + tasks.iter().map(of_task).sum::<usize>()
}

fn of_task(task: &PlanTask) -> usize {
    let PlanTask { name, description, metadata, .. } = task;
    FIXED + name.len() + text(description.as_ref()) + fields(metadata.as_ref())
}

fn of_new_tasks(tasks: &[NewPlanTask]) -> usize {
    let of = |task: &NewPlanTask| {
        FIXED + task.name.len() + text(task.description.as_ref()) + fields(task.metadata.as_ref())
    };
    tasks.iter().map(of).sum()
}

fn text(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

fn fields(metadata: Option<&Metadata>) -> usize {
    metadata.map_or(0, |fields| serde_json::to_vec(fields).map_or(usize::MAX, |json| json.len()))
}
