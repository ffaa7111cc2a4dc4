//! What becomes of a text: an answer, or an objective with plans and tasks.

/// What somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked<'a> {
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
    /// Places of earlier plans of the same draft.
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
    fn plan(&self, asked: &Asked<'_>) -> Draft;
}

/// The planner that comes with the server. It knows lists and a few English words.
#[derive(Debug, Clone, Copy, Default)]
pub struct StepPlanner;

impl Planner for StepPlanner {
    fn plan(&self, _asked: &Asked<'_>) -> Draft {
        Draft::Answer
    }
}
