//! What becomes of a text: an answer, or an objective with plans and tasks.
//!
//! ```text
//! words   the words it knows
//! prose   sentences, and the steps in them
//! list    numbered and bulleted lists, and headings above them
//! draft   steps ─▶ plans and tasks, with names of bounded length
//! ```
//!
//! The planner that comes with the server understands nothing. It looks for the forms in which
//! people write down steps, and everything else is one step. Others can be put in its place.

mod draft;
mod list;
mod prose;
#[cfg(test)]
mod tests;
mod words;

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanRequest<'a> {
    /// In their words.
    pub text: &'a str,
    /// Whether they would like an objective: `opt/v1/preferObjective`.
    pub prefer_objective: Option<bool>,
    /// A name for it: `opt/v1/suggestedName`.
    pub suggested_name: Option<&'a str>,
    /// It belongs to an objective that is there: what is planned is added to that.
    pub in_objective: bool,
}

/// What a planner makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Draft {
    /// It needs no plan: whoever is asked answers.
    Answer,
    /// It is carried out in steps.
    Objective {
        /// For people.
        name: String,
        /// At least one.
        plans: Vec<PlanDraft>,
    },
}

/// A plan to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDraft {
    /// For people.
    pub name: String,
    /// At least one.
    pub tasks: Vec<TaskDraft>,
    /// Places of earlier plans of the same draft; it begins when those have ended.
    pub depends_on: Vec<usize>,
}

/// A task to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDraft {
    /// What the agent is asked for.
    pub name: String,
    /// In more words.
    pub description: Option<String>,
    /// Places of earlier tasks of the same plan.
    pub dependencies: Vec<usize>,
}

/// Decides what becomes of a text. The hints are hints: the planner has the last word.
pub trait Planner: Send + Sync {
    /// What becomes of it.
    fn plan(&self, request: &PlanRequest<'_>) -> Draft;
}

/// The planner that comes with the server. It knows lists and a few English words.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepPlanner;

/// A step as it was found in the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Step {
    /// What is to be done.
    text: String,
    /// What was said about it besides.
    details: String,
}

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Group {
    /// What is above them, if anything is.
    title: Option<Step>,
    steps: Vec<Step>,
    /// Each step needs the one before.
    in_order: bool,
}

/// What was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// A question, a greeting, a sum.
    Plain,
    /// One thing; whether it is at least clearly something to be done.
    One { work: bool },
    /// Steps, in one plan or several.
    Many {
        groups: Vec<Group>,
        /// Each group needs the one before.
        in_order: bool,
        /// What was said outside of the steps.
        about: String,
    },
}

impl Planner for StepPlanner {
    fn plan(&self, request: &PlanRequest<'_>) -> Draft {
        let found = list::find(request.text).unwrap_or_else(|| prose::find(request.text));
        match found {
            Found::Plain => Draft::Answer,
            Found::One { .. } if request.prefer_objective == Some(false) => Draft::Answer,
            // In a conversation much is said that is no work; each plan takes one of few places.
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
