//! OPT: what follows when something happens to an objective, its plans, or their tasks.
//!
//! ```text
//! planner  a text ─▶ is it to be answered, or carried out in steps, and in which
//! graph    do the dependencies of what is new make sense
//! tree     one objective as far as decisions need it
//! step     what a caller may set: the two tables
//! change   the ways in: reports, moves, additions
//! settle   after each of them: what begins, what is called off, how the parents stand
//! ```
//!
//! The rules where the specification is silent are in `docs/decisions/0010-objectives.md`.

mod change;
pub mod graph;
pub mod planner;
mod settings;
mod settle;
mod step;
#[cfg(test)]
mod tests;
mod tree;

pub use change::Refused;
pub use graph::{BadDependency, Problem};
pub use planner::{Asked, Draft, PlanDraft, Planner, StepPlanner, TaskDraft};
pub use settings::Settings;
pub use settle::Effect;
pub use step::{OBJECTIVE_STEPS, PLAN_STEPS, StepRefused, objective_step, plan_step};
pub use tree::{PlanNode, TaskNode, Tree, blocked_by, looks_held, with_server_keys};
