//! State machine of objectives (OPT): effects of a change to an objective, plan or task.
//!
//! ```text
//! graph        are the dependencies of new plans and tasks valid
//! tree         one objective with its plans and tasks, as far as decisions need it
//! transitions  what a caller may set a status to: two tables
//! commands     the mutations: task reports, status changes, additions
//! settle       after each mutation: which tasks start, which are cancelled, the parents' status
//! settings     what a plan's or a task's metadata configures
//! ```
//!
//! The rules where the specification is silent are in `docs/decisions/0010-objectives.md`. The
//! crate `a2a-planner` creates plans from a text.

mod commands;
pub mod graph;
mod settings;
mod settle;
#[cfg(test)]
mod tests;
mod transitions;
mod tree;

pub use commands::CommandRefused;
pub use graph::{BadDependency, Problem};
pub use settings::Settings;
pub use settle::Effect;
pub use transitions::{
    OBJECTIVE_TRANSITIONS, PLAN_TRANSITIONS, TransitionRefused, check_objective_transition,
    check_plan_transition,
};
pub use tree::{PlanNode, TaskNode, Tree, blocked_by, looks_held, with_server_keys};
