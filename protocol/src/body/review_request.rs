//! Payload of `review_request`: a request to review work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::example;
use crate::fields::object::present;
use crate::{AgentId, List, NonBlank, TaskId, Text, Title};

/// The payload of `review_request`: work that is ready to be reviewed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [Self::example()]))]
pub struct ReviewRequest {
    /// The `taskId` of the task whose work is to be reviewed.
    pub task_id: TaskId,
    /// One line that names what is to be reviewed.
    pub title: Title,
    /// The branch that holds the work.
    pub branch: NonBlank,
    /// The path of the worktree that holds the work.
    pub worktree: NonBlank,
    /// Paths of the files to review, at least one.
    pub files_for_review: List<Text, 1>,
    /// The id of the agent who did the work.
    pub author_agent: AgentId,
    /// The author's tier, such as `T3-Staff`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub author_tier: Option<Text>,
    /// The level of review that is needed, such as `T2+ (Bridge/Staff)`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub review_level: Option<Text>,
    /// Notes from an earlier review of the same work.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub prior_review_notes: Option<Text>,
}

object_only!(ReviewRequest);

impl ReviewRequest {
    pub(super) fn example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "title": "Review: message validator",
            "branch": "roman/validator",
            "worktree": "worktrees/validator",
            "filesForReview": ["src/validator.rs", "tests/validator.rs"],
            "authorAgent": "roman",
            "authorTier": "T3-Staff",
            "reviewLevel": "T2+ (Bridge/Staff)"
        })
    }
}
