//! Decodes calls of the OPT extension. Their parameters are the same in both versions.
//!
//! Only rules about a single call are checked here. `a2a-policy` decides whether a status may follow
//! another, a dependency exists or a plan may have more tasks.

use super::param_errors::{ParamErrors, ParamPath};
use super::{Decoded, filled, page_size};
use crate::fault::Fault;
use crate::fields::agent_id::{AgentId, BadAgentId};
use crate::operation::{
    AddTasks, CreateObjective, CreatePlan, GetObjective, GetPlan, ListObjectives, NewPlanTask,
    Operation, OptOperation, SubscribeObjective, TaskReference, UpdateObjective, UpdatePlan,
};
use crate::opt::{
    HistoryScope, LONGEST_WAIT_MS, ObjectiveStatus, OnTaskFailure, PLANS_PER_OBJECTIVE, PlanStatus,
    TASKS_PER_PLAN, key,
};
use crate::task::{BadOpaqueId, Metadata, PlanId, PlanTaskId};
use crate::validate::violation::Code;
use crate::wire::params::{Count, EnumValue, Flag, Object, OptParams, PlanTaskParams, Str};
use crate::wire::{Method, Version};
use crate::{BadText, Text, Title};

const ROOT: ParamPath<'static> = ParamPath::Root;

/// Decodes any method of the extension.
pub(super) fn decode_opt(
    version: Version,
    method: Method,
    read: OptParams<'_>,
) -> Result<Decoded, Fault> {
    let mut errors = ParamErrors::new();
    let tenant = filled(read.tenant.as_ref()).map(str::to_owned);
    let asked = match method {
        Method::CreateObjective => create_objective(&mut errors, read),
        Method::GetObjective => get_objective(&mut errors, &read),
        Method::ListObjectives => list_objectives(&mut errors, &read),
        Method::UpdateObjective => update_objective(&mut errors, read),
        Method::SubscribeObjective => objective(&mut errors, &read)
            .map(|id| OptOperation::SubscribeObjective(SubscribeObjective { id })),
        Method::CreatePlan => create_plan(&mut errors, read),
        Method::GetPlan => plan(&mut errors, &read).map(|id| {
            OptOperation::GetPlan(GetPlan { id, include_tasks: yes(read.include_tasks.as_ref()) })
        }),
        Method::UpdatePlan => update_plan(&mut errors, read),
        // `AddTasks`; the caller passes methods of OPT only.
        _ => add_tasks(&mut errors, read),
    };
    let operation = Operation::Opt(Box::new(errors.finish(asked)?));
    Ok(Decoded { tenant, operation, dialect: version.dialect() })
}

fn create_objective(errors: &mut ParamErrors, read: OptParams<'_>) -> Option<OptOperation> {
    let name = needed_name(errors, &ROOT, read.name.as_ref());
    let description = description(errors, &ROOT, read.description.as_ref());
    let metadata = metadata(errors, &ROOT, read.metadata);
    let description = description.filter(|text| !text.is_empty());
    Some(OptOperation::CreateObjective(CreateObjective { name: name?, description, metadata }))
}

fn get_objective(errors: &mut ParamErrors, read: &OptParams<'_>) -> Option<OptOperation> {
    let id = objective(errors, read);
    let since_revision = read.since_revision.as_ref().and_then(|&Count(number)| {
        let good = u64::try_from(number).ok();
        if good.is_none() {
            let message = format!(
                "A revision is 0 or more, not {number}. Take it from `metadata[\"{}\"]` of the objective.",
                key::REVISION
            );
            errors.wrong(&ParamPath::Key(&ROOT, "sinceRevision"), Code::NotAllowed, message);
        }
        good
    });
    let wait_ms = wait_ms(errors, read.wait_ms.as_ref());
    let include_tasks = yes(read.include_tasks.as_ref());
    Some(OptOperation::GetObjective(GetObjective {
        id: id?,
        // Tasks are nested in plans, so including tasks includes plans.
        include_plans: yes(read.include_plans.as_ref()) || include_tasks,
        include_tasks,
        since_revision,
        wait_ms,
    }))
}

fn wait_ms(errors: &mut ParamErrors, asked: Option<&Count>) -> Option<u64> {
    let &Count(asked) = asked?;
    match u64::try_from(asked) {
        Ok(ms) if ms <= LONGEST_WAIT_MS => Some(ms),
        _ => {
            let message = format!(
                "A call waits 0 to {LONGEST_WAIT_MS} milliseconds, not {asked}. Call again to wait longer, or watch with `objectives/subscribe`."
            );
            errors.wrong(&ParamPath::Key(&ROOT, "waitMs"), Code::NotAllowed, message);
            None
        }
    }
}

fn list_objectives(errors: &mut ParamErrors, read: &OptParams<'_>) -> Option<OptOperation> {
    // Some clients send an empty text for "any".
    let asked =
        read.status.as_ref().filter(|value| !matches!(value, EnumValue::Text(t) if t.is_empty()));
    let include_tasks = yes(read.include_tasks.as_ref());
    Some(OptOperation::ListObjectives(ListObjectives {
        status: objective_status(errors, asked),
        page_size: page_size(errors, read.page_size.as_ref()),
        page_token: filled(read.page_token.as_ref()).map(str::to_owned),
        include_plans: yes(read.include_plans.as_ref()) || include_tasks,
        include_tasks,
    }))
}

fn update_objective(errors: &mut ParamErrors, read: OptParams<'_>) -> Option<OptOperation> {
    let id = objective(errors, &read);
    let update = UpdateObjective {
        name: name(errors, &ROOT, read.name.as_ref()),
        description: description(errors, &ROOT, read.description.as_ref()),
        status: objective_status(errors, read.status.as_ref()),
        metadata: metadata(errors, &ROOT, read.metadata),
        id: id?,
    };
    Some(OptOperation::UpdateObjective(update))
}

fn create_plan(errors: &mut ParamErrors, read: OptParams<'_>) -> Option<OptOperation> {
    let objective_id = needed(errors, "objectiveId", filled(read.objective_id.as_ref()));
    let name = needed_name(errors, &ROOT, read.name.as_ref());
    let description = description(errors, &ROOT, read.description.as_ref());
    // The other states follow from its tasks.
    let at_first = [PlanStatus::Pending, PlanStatus::Blocked];
    let status = plan_status(errors, read.status.as_ref(), &at_first);
    let tasks = tasks(errors, read.tasks.unwrap_or_default());
    let dependencies = plan_dependencies(errors, read.dependencies);
    let metadata = plan_metadata(errors, read.metadata);
    Some(OptOperation::CreatePlan(CreatePlan {
        objective_id: objective_id?,
        name: name?,
        description: description.filter(|text| !text.is_empty()),
        status,
        tasks,
        dependencies: dependencies.unwrap_or_default(),
        metadata,
    }))
}

fn update_plan(errors: &mut ParamErrors, read: OptParams<'_>) -> Option<OptOperation> {
    let id = plan(errors, &read);
    let update = UpdatePlan {
        name: name(errors, &ROOT, read.name.as_ref()),
        description: description(errors, &ROOT, read.description.as_ref()),
        status: plan_status(errors, read.status.as_ref(), PlanStatus::ALL),
        dependencies: plan_dependencies(errors, read.dependencies),
        metadata: plan_metadata(errors, read.metadata),
        id: id?,
    };
    Some(OptOperation::UpdatePlan(update))
}

fn add_tasks(errors: &mut ParamErrors, read: OptParams<'_>) -> Option<OptOperation> {
    let plan_id = id_in_either(errors, ("planId", read.plan_id.as_ref()), ("id", read.id.as_ref()));
    let written = read.tasks.unwrap_or_default();
    if written.is_empty() {
        let message = "There is at least one task to add, such as {\"name\": \"…\"}.";
        errors.wrong(&ParamPath::Key(&ROOT, "tasks"), Code::TooFew, message);
    }
    let tasks = tasks(errors, written);
    Some(OptOperation::AddTasks(AddTasks { plan_id: plan_id?, tasks }))
}

/// The objective of a call.
fn objective<T>(errors: &mut ParamErrors, read: &OptParams<'_>) -> Option<T>
where
    T: for<'a> TryFrom<&'a str, Error = BadOpaqueId>,
{
    id_in_either(errors, ("id", read.id.as_ref()), ("objectiveId", read.objective_id.as_ref()))
}

/// The plan of a call.
fn plan(errors: &mut ParamErrors, read: &OptParams<'_>) -> Option<PlanId> {
    id_in_either(errors, ("id", read.id.as_ref()), ("planId", read.plan_id.as_ref()))
}

/// An id in its preferred field, or in the alternative one.
fn id_in_either<T>(
    errors: &mut ParamErrors,
    (field, written): (&'static str, Option<&Str<'_>>),
    (other, also): (&'static str, Option<&Str<'_>>),
) -> Option<T>
where
    T: for<'a> TryFrom<&'a str, Error = BadOpaqueId>,
{
    match (filled(written), filled(also)) {
        (Some(id), Some(another)) if id != another => {
            let message = format!("This is not what `{field}` names. Leave one of them out.");
            errors.wrong(&ParamPath::Key(&ROOT, other), Code::Mismatch, message);
            None
        }
        (None, Some(id)) => needed(errors, other, Some(id)),
        (id, _) => needed(errors, field, id),
    }
}

/// A required id.
fn needed<T>(errors: &mut ParamErrors, field: &'static str, text: Option<&str>) -> Option<T>
where
    T: for<'a> TryFrom<&'a str, Error = BadOpaqueId>,
{
    let path = ParamPath::Key(&ROOT, field);
    match text {
        Some(text) => errors.accept(&path, T::try_from(text)),
        None => {
            errors.missing(&path, "a text of 1 to 256 characters");
            None
        }
    }
}

fn needed_name(
    errors: &mut ParamErrors,
    at: &ParamPath<'_>,
    text: Option<&Str<'_>>,
) -> Option<String> {
    if text.is_none() {
        errors.missing(&ParamPath::Key(at, "name"), "a name for people, of 1 to 512 characters");
    }
    name(errors, at, text)
}

fn name(errors: &mut ParamErrors, at: &ParamPath<'_>, text: Option<&Str<'_>>) -> Option<String> {
    let text = &*text?.0;
    checked_text(errors, &ParamPath::Key(at, "name"), text, Title::try_from(text).err())
}

fn description(
    errors: &mut ParamErrors,
    at: &ParamPath<'_>,
    text: Option<&Str<'_>>,
) -> Option<String> {
    let text = &*text?.0;
    checked_text(errors, &ParamPath::Key(at, "description"), text, Text::try_from(text).err())
}

/// The text; reports `bad`, if any.
fn checked_text(
    errors: &mut ParamErrors,
    at: &ParamPath<'_>,
    text: &str,
    bad: Option<BadText>,
) -> Option<String> {
    let (code, message) = match bad {
        None => return Some(text.to_owned()),
        Some(BadText::Blank) => {
            (Code::Blank, "This is blank. Say in a few words what it is.".into())
        }
        Some(BadText::TooLong { max }) => {
            (Code::TooLong, format!("This has more than {max} characters. Shorten it."))
        }
        Some(BadText::Nul) => (Code::NotAllowed, "This contains the character U+0000.".into()),
    };
    errors.wrong(at, code, message);
    None
}

fn yes(flag: Option<&Flag>) -> bool {
    flag.is_some_and(|flag| flag.0)
}

fn objective_status(
    errors: &mut ParamErrors,
    value: Option<&EnumValue<'_>>,
) -> Option<ObjectiveStatus> {
    let value = value?;
    let known = match value {
        EnumValue::Text(text) => ObjectiveStatus::from_name(text),
        EnumValue::Number(_) => None,
    };
    if known.is_none() {
        let names = ObjectiveStatus::ALL.iter().map(|status| status.as_str());
        errors.not_one_of(&ParamPath::Key(&ROOT, "status"), value, names);
    }
    known
}

fn plan_status(
    errors: &mut ParamErrors,
    value: Option<&EnumValue<'_>>,
    allowed: &[PlanStatus],
) -> Option<PlanStatus> {
    let value = value?;
    let known = match value {
        EnumValue::Text(text) => PlanStatus::from_name(text),
        EnumValue::Number(_) => None,
    };
    let known = known.filter(|status| allowed.contains(status));
    if known.is_none() {
        let names = allowed.iter().map(|status| status.as_str());
        errors.not_one_of(&ParamPath::Key(&ROOT, "status"), value, names);
    }
    known
}

/// The new tasks, with all violations of each. Too many tasks are one violation.
fn tasks(errors: &mut ParamErrors, written: Vec<Object<PlanTaskParams<'_>>>) -> Vec<NewPlanTask> {
    let path = ParamPath::Key(&ROOT, "tasks");
    if written.len() > TASKS_PER_PLAN {
        let message = format!(
            "There are {} tasks; a plan has at most {TASKS_PER_PLAN}. Divide them among several plans.",
            written.len()
        );
        errors.wrong(&path, Code::TooMany, message);
        return Vec::new();
    }
    let read = written.into_iter().enumerate();
    read.filter_map(|(i, Object(step))| task(errors, &ParamPath::Index(&path, i), step)).collect()
}

fn task(
    errors: &mut ParamErrors,
    at: &ParamPath<'_>,
    read: PlanTaskParams<'_>,
) -> Option<NewPlanTask> {
    let name = needed_name(errors, at, read.name.as_ref());
    let description = description(errors, at, read.description.as_ref());
    let path = ParamPath::Key(at, "dependencies");
    let written = read.dependencies.unwrap_or_default();
    let dependencies = dependencies(errors, &path, &written, TASKS_PER_PLAN, reference);
    assignee(errors, at, read.metadata.as_ref());
    let metadata = metadata(errors, at, read.metadata);
    let description = description.filter(|text| !text.is_empty());
    Some(NewPlanTask { name: name?, description, dependencies, metadata })
}

/// Parses a reference: a task of the same call by its index, or an existing one by its id.
fn reference(text: &str) -> Result<TaskReference, BadOpaqueId> {
    let digits = text.strip_prefix("task-").filter(|digits| !digits.is_empty());
    match digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
        // An index that overflows is out of range anyway.
        Some(digits) => Ok(TaskReference::Nth(digits.parse().unwrap_or(usize::MAX))),
        None => PlanTaskId::try_from(text).map(TaskReference::Known),
    }
}

fn plan_dependencies(
    errors: &mut ParamErrors,
    written: Option<Vec<Str<'_>>>,
) -> Option<Vec<PlanId>> {
    let path = ParamPath::Key(&ROOT, "dependencies");
    let read = |text: &str| PlanId::try_from(text);
    written.map(|written| dependencies(errors, &path, &written, PLANS_PER_OBJECTIVE, read))
}

fn dependencies<T>(
    errors: &mut ParamErrors,
    path: &ParamPath<'_>,
    written: &[Str<'_>],
    most: usize,
    read: impl Fn(&str) -> Result<T, BadOpaqueId>,
) -> Vec<T> {
    if written.len() > most {
        let message =
            format!("There are {} dependencies; at most {most} are possible.", written.len());
        errors.wrong(path, Code::TooMany, message);
        return Vec::new();
    }
    let each = written.iter().enumerate();
    each.filter_map(|(i, text)| errors.accept(&ParamPath::Index(path, i), read(&text.0))).collect()
}

/// Metadata without the keys that only the server sets.
fn metadata(
    errors: &mut ParamErrors,
    at: &ParamPath<'_>,
    written: Option<Metadata>,
) -> Option<Metadata> {
    let mut written = written?;
    errors.check_metadata_depth(ParamPath::Key(at, "metadata"), Some(&written));
    written.shift_remove(key::REVISION);
    Some(written)
}

/// Metadata of a plan without the keys that only the server sets; checks those that it evaluates.
fn plan_metadata(errors: &mut ParamErrors, written: Option<Metadata>) -> Option<Metadata> {
    assignee(errors, &ROOT, written.as_ref());
    let policies = OnTaskFailure::ALL.iter().map(|policy| policy.as_str());
    check_name(errors, written.as_ref(), key::ON_TASK_FAILURE, policies);
    let scopes = HistoryScope::ALL.iter().map(|scope| scope.as_str());
    check_name(errors, written.as_ref(), key::HISTORY_SCOPE, scopes);
    metadata(errors, &ROOT, written)
}

/// Checks that a metadata value is one of a few names.
fn check_name(
    errors: &mut ParamErrors,
    written: Option<&Metadata>,
    key: &'static str,
    allowed: impl Iterator<Item = &'static str> + Clone,
) {
    let value = written.and_then(|fields| fields.get(key)).filter(|value| !value.is_null());
    let Some(value) = value else { return };
    let text = value.as_str();
    if !allowed.clone().any(|name| Some(name) == text) {
        let path = ParamPath::Key(&ParamPath::Key(&ROOT, "metadata"), key);
        let given = text.map_or(EnumValue::Number(0), |text| EnumValue::Text(text.into()));
        errors.not_one_of(&path, &given, allowed);
    }
}

/// Checks the assignee in the metadata.
fn assignee(errors: &mut ParamErrors, at: &ParamPath<'_>, written: Option<&Metadata>) {
    let value = written.and_then(|fields| fields.get(key::ASSIGNEE)).filter(|v| !v.is_null());
    let Some(value) = value else { return };
    let (code, message) = match value.as_str() {
        Some(text) if AgentId::is_valid(text) => return,
        Some(_) => (Code::BadAgentId, format!("This is not the id of an agent: {BadAgentId}.")),
        None => (Code::WrongType, "This must be the id of an agent, a string.".to_owned()),
    };
    errors.wrong(&ParamPath::Key(&ParamPath::Key(at, "metadata"), key::ASSIGNEE), code, message);
}
