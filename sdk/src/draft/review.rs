//! Drafts about reviews: a request and a verdict.

use a2a_protocol::body::{NextAction, Severity, Verdict};
use a2a_protocol::{AgentId, Body, TaskId};
use serde::Serialize;

use super::{Addressee, BuildError, MessageHeader, draft, strings};

/// A request to review work, sent with
/// [`Agent::send_review_request`](crate::Agent::send_review_request).
///
/// ```
/// use a2a_sdk::NewReview;
/// # let task = "0192a4c8-7e1a-7b3c-9d4e-000000000003".parse().unwrap();
///
/// let review = NewReview::new(task, "The validator", "tim/validator", "worktrees/validator", [
///     "src/validator.rs",
/// ])
/// .author_tier("T3-Staff");
/// # let _ = review;
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewReview {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    task_id: TaskId,
    title: String,
    branch: String,
    worktree: String,
    files_for_review: Vec<String>,
    author_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author_tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    review_level: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prior_review_notes: Option<String>,
}

draft!(NewReview is ReviewRequest);

impl NewReview {
    /// A review of the work on `task`: a title, the branch and the worktree that contain it, and at
    /// least one file. The sender is its author by default.
    #[must_use]
    pub fn new<S: Into<String>>(
        task: TaskId,
        title: impl Into<String>,
        branch: impl Into<String>,
        worktree: impl Into<String>,
        files: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            header: MessageHeader::default(),
            task_id: task,
            title: title.into(),
            branch: branch.into(),
            worktree: worktree.into(),
            files_for_review: strings(files).collect(),
            author_agent: None,
            author_tier: None,
            review_level: None,
            prior_review_notes: None,
        }
    }

    /// The author, if it is not the sender.
    #[must_use]
    pub fn author(mut self, agent: impl Into<String>) -> Self {
        self.author_agent = Some(agent.into());
        self
    }

    /// The author's tier, such as `T3-Staff`.
    #[must_use]
    pub fn author_tier(mut self, tier: impl Into<String>) -> Self {
        self.author_tier = Some(tier.into());
        self
    }

    /// The required level of review, such as `T2+ (Bridge/Staff)`.
    #[must_use]
    pub fn review_level(mut self, level: impl Into<String>) -> Self {
        self.review_level = Some(level.into());
        self
    }

    /// Notes from an earlier review of the same work.
    #[must_use]
    pub fn prior_notes(mut self, notes: impl Into<String>) -> Self {
        self.prior_review_notes = Some(notes.into());
        self
    }

    fn fill_in(&mut self, me: &AgentId, _: &Addressee) -> Result<(), BuildError> {
        self.author_agent.get_or_insert_with(|| me.to_string());
        Ok(())
    }
}

/// The verdict of a review, sent with
/// [`Agent::send_review_response`](crate::Agent::send_review_response).
///
/// Task, branch and worktree are those of the request. A verdict determines what happens next, so
/// the two cannot contradict each other.
///
/// ```
/// use a2a_sdk::{ReviewAnswer, Severity};
///
/// let verdict = ReviewAnswer::changes_requested()
///     .fixed("src/validator.rs", "An edge case in arrays")
///     .concern_at("src/validator.rs", 23, Severity::MustFix, "correlationId may be absent here");
/// # let _ = verdict;
/// ```
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewAnswer {
    #[serde(skip)]
    pub(super) header: MessageHeader,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    verdict: Verdict,
    branch: String,
    worktree: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reviewer_fixes: Vec<Fix>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unresolved_concerns: Vec<Concern>,
    next_action: NextAction,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next_tasks: Vec<FollowUp>,
}

#[derive(Debug, Clone, Serialize)]
struct Fix {
    file: String,
    description: String,
}

#[derive(Debug, Clone, Serialize)]
struct Concern {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    severity: Severity,
    description: String,
}

draft!(ReviewAnswer is ReviewResponse);

impl ReviewAnswer {
    fn new(verdict: Verdict, next_action: NextAction) -> Self {
        Self {
            header: MessageHeader::default(),
            task_id: None,
            verdict,
            branch: String::new(),
            worktree: String::new(),
            reviewer_fixes: Vec::new(),
            unresolved_concerns: Vec::new(),
            next_action,
            next_tasks: Vec::new(),
        }
    }

    /// Approved: the work is pushed and the task closed.
    #[must_use]
    pub fn approved() -> Self {
        Self::new(Verdict::Approved, NextAction::PushAndClose)
    }

    /// Changes requested: the work goes back to its author.
    #[must_use]
    pub fn changes_requested() -> Self {
        Self::new(Verdict::ChangesRequested, NextAction::SendBackToWorker)
    }

    /// Escalated: a more senior agent must decide.
    #[must_use]
    pub fn escalated() -> Self {
        Self::new(Verdict::Escalated, NextAction::EscalateToSenior)
    }

    /// Requests a takeover by a more senior agent, whatever the verdict.
    #[must_use]
    pub fn then_escalate(mut self) -> Self {
        self.next_action = NextAction::EscalateToSenior;
        self
    }

    /// Adds a fix that the reviewer made.
    #[must_use]
    pub fn fixed(mut self, file: impl Into<String>, description: impl Into<String>) -> Self {
        self.reviewer_fixes.push(Fix { file: file.into(), description: description.into() });
        self
    }

    /// Adds a concern about a file, which the author must resolve.
    #[must_use]
    pub fn concern(
        self,
        file: impl Into<String>,
        severity: Severity,
        description: impl Into<String>,
    ) -> Self {
        self.add_concern(file.into(), None, severity, description.into())
    }

    /// Adds a concern about a line, counted from 1, which the author must resolve.
    #[must_use]
    pub fn concern_at(
        self,
        file: impl Into<String>,
        line: u64,
        severity: Severity,
        description: impl Into<String>,
    ) -> Self {
        self.add_concern(file.into(), Some(line), severity, description.into())
    }

    fn add_concern(
        mut self,
        file: String,
        line: Option<u64>,
        severity: Severity,
        description: String,
    ) -> Self {
        self.unresolved_concerns.push(Concern { file, line, severity, description });
        self
    }

    /// Adds a follow-up task: its title, or a whole [`FollowUp`].
    #[must_use]
    pub fn next_task(mut self, task: impl Into<FollowUp>) -> Self {
        self.next_tasks.push(task.into());
        self
    }

    /// Sends it to this agent instead of the requester: an escalation to the agent that must
    /// decide.
    #[must_use]
    pub fn to(mut self, agent: impl Into<String>) -> Self {
        self.header.to = Some(agent.into());
        self
    }

    fn fill_in(&mut self, me: &AgentId, to: &Addressee) -> Result<(), BuildError> {
        let answered = to.answers.as_deref();
        let (task, branch, worktree) = match answered.map(|message| &message.body) {
            Some(Body::ReviewRequest(asked)) => (asked.task_id, &asked.branch, &asked.worktree),
            Some(Body::ReviewResponse(last)) if last.verdict == Verdict::Escalated => {
                // The verdict is for the author, whose message the reviewer answers.
                let author = answered.and_then(|message| message.to.as_ref());
                if let Some(author) = author.filter(|author| author.agent_id != *me) {
                    self.header.to.get_or_insert_with(|| author.agent_id.to_string());
                }
                (last.task_id, &last.branch, &last.worktree)
            }
            _ => {
                return Err(BuildError::missing(
                    "/payload/taskId",
                    "This answers no review_request and no escalated review. Answer the delivery that brought one.",
                ));
            }
        };
        self.task_id = Some(task);
        self.branch = branch.to_string();
        self.worktree = worktree.to_string();
        Ok(())
    }
}

/// A follow-up task of a reviewed one; part of a [`ReviewAnswer`].
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowUp {
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    assign_to: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<String>,
}

impl FollowUp {
    /// A task with a title.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), assign_to: None, dependencies: Vec::new() }
    }

    /// Its assignee: an agent or a tier, in free text.
    #[must_use]
    pub fn assign_to(mut self, whom: impl Into<String>) -> Self {
        self.assign_to = Some(whom.into());
        self
    }

    /// Adds a prerequisite.
    #[must_use]
    pub fn after(mut self, statement: impl Into<String>) -> Self {
        self.dependencies.push(statement.into());
        self
    }
}

impl From<&str> for FollowUp {
    fn from(title: &str) -> Self {
        Self::new(title)
    }
}

impl From<String> for FollowUp {
    fn from(title: String) -> Self {
        Self::new(title)
    }
}
