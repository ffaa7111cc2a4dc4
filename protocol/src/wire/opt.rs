//! Wire form of OPT replies, the same in every version.
//!
//! Some replies are bare objects and some are wrapped, as in the specification of the extension.

use serde::{Serialize, Serializer};

use super::Method;
use crate::opt::{Objective, Plan};

/// Reply to a message; `T` is a task in the form of the caller.
#[derive(Serialize)]
struct PlannedResult<'a, T> {
    task: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<&'a Objective>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Wrapped<'a> {
    Objective(&'a Objective),
    Plan(&'a Plan),
}

pub(super) fn planned<S: Serializer>(
    task: &impl Serialize,
    objective: Option<&Objective>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    PlannedResult { task, objective }.serialize(serializer)
}

pub(super) fn objective<S: Serializer>(
    method: Method,
    objective: &Objective,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match method {
        Method::GetObjective => Wrapped::Objective(objective).serialize(serializer),
        _ => objective.serialize(serializer),
    }
}

pub(super) fn plan<S: Serializer>(
    method: Method,
    plan: &Plan,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match method {
        Method::GetPlan => Wrapped::Plan(plan).serialize(serializer),
        _ => plan.serialize(serializer),
    }
}
