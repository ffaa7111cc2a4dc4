//! English step planner: splits a text into plans with steps, or decides that it needs a plain
//! answer.
//!
//! ```text
//! words   vocabulary and word matching
//! prose   sentences, and the steps in them
//! list    numbered and bulleted lists, and headings above them
//! draft   steps ─▶ plans and tasks, with names of bounded length
//! ```
//!
//! [`StepPlanner`] does not understand the text. It matches the forms in which people write down
//! steps; anything else is one step. Another [`Planner`] can replace it.

mod draft;
mod list;
mod prose;
#[cfg(test)]
mod tests;
mod words;

/// A request of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanRequest<'a> {
    /// The text of the request.
    pub text: &'a str,
    /// Whether the caller prefers an objective: `opt/v1/preferObjective`.
    pub prefer_objective: Option<bool>,
    /// A name for the objective: `opt/v1/suggestedName`.
    pub suggested_name: Option<&'a str>,
    /// Whether it belongs to an existing objective, to which the plans are added.
    pub in_objective: bool,
}

/// The plan for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// No plan is needed: the agent answers.
    Answer,
    /// The request is executed in steps.
    Objective {
        /// Display name.
        name: String,
        /// At least one.
        plans: Vec<PlanDraft>,
    },
}

/// A plan to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDraft {
    /// Display name.
    pub name: String,
    /// At least one.
    pub tasks: Vec<TaskDraft>,
    /// Indices of earlier plans of the same draft, which must end first.
    pub depends_on: Vec<usize>,
}

/// A task to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDraft {
    /// The task for the agent, in one line.
    pub name: String,
    /// More about the task.
    pub description: Option<String>,
    /// Indices of earlier tasks of the same plan.
    pub dependencies: Vec<usize>,
}

/// Decides how a request is executed. The hints in it are not binding.
pub trait Planner: Send + Sync {
    /// Drafts the plans for a request.
    fn plan(&self, request: &PlanRequest<'_>) -> Draft;
}

/// The built-in planner. It matches lists and a few English words.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepPlanner;

/// A step found in the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Step {
    /// The work to do.
    text: String,
    /// Further details.
    details: String,
}

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Group {
    /// The heading above them, if there is one.
    title: Option<Step>,
    steps: Vec<Step>,
    /// Whether each step depends on the one before.
    in_order: bool,
}

/// The content of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// A question, a greeting, a sum.
    Plain,
    /// A single step; `work` if it clearly is work.
    One { work: bool },
    /// Steps, in one plan or several.
    Many {
        groups: Vec<Group>,
        /// Whether each group depends on the one before.
        in_order: bool,
        /// The text outside of the steps.
        about: String,
    },
}

impl Planner for StepPlanner {
    fn plan(&self, request: &PlanRequest<'_>) -> Draft {
        let found = list::find(request.text).unwrap_or_else(|| prose::find(request.text));
        match found {
            Found::Plain => Draft::Answer,
            Found::One { .. } if request.prefer_objective == Some(false) => Draft::Answer,
            // Conversations contain much that is no work, and the number of plans is limited.
            Found::One { work: false }
                if request.in_objective && request.prefer_objective.is_none() =>
            {
                Draft::Answer
            }
            Found::One { .. } => draft::one(request),
            Found::Many { groups, in_order, about } => {
                draft::many(request, groups, in_order, &about)
            }
        }
    }
}
