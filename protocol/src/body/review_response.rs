//! Payload of `review_response`: the verdict of a review.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::example;
use crate::fields::object::present;
use crate::{List, NonBlank, TaskId, Text, Title};

closed_set! {
    /// The verdict of the review.
    pub enum Verdict {
        /// The work is good.
        Approved = "approved",
        /// The author must change something.
        ChangesRequested = "changes_requested",
        /// A more senior agent must decide.
        Escalated = "escalated",
    }
}

closed_set! {
    /// What happens next with the work.
    pub enum NextAction {
        /// The author works on it again.
        SendBackToWorker = "send_back_to_worker",
        /// The reviewer pushes the branch and closes the task.
        PushAndClose = "push_and_close",
        /// A more senior agent takes over the review.
        EscalateToSenior = "escalate_to_senior",
    }
}

closed_set! {
    /// How much a concern weighs.
    pub enum Severity {
        /// The work cannot be approved with it.
        MustFix = "must_fix",
        /// It should be changed.
        ShouldFix = "should_fix",
        /// It could be better.
        Suggestion = "suggestion",
    }
}

impl Verdict {
    /// Whether `next` contradicts this verdict.
    #[must_use]
    pub const fn contradicts(self, next: NextAction) -> bool {
        matches!(
            (self, next),
            (Self::Approved, NextAction::SendBackToWorker)
                | (Self::ChangesRequested, NextAction::PushAndClose)
        )
    }
}

/// The payload of `review_response`: the verdict and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("examples" = [Self::example()]))]
pub struct ReviewResponse {
    /// The `taskId` of the task whose work was reviewed.
    pub task_id: TaskId,
    /// The verdict of the review.
    pub verdict: Verdict,
    /// The branch that was reviewed.
    pub branch: NonBlank,
    /// The path of the worktree that was reviewed.
    pub worktree: NonBlank,
    /// What the reviewer fixed on the way.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reviewer_fixes: Option<List<ReviewerFix>>,
    /// What the author still has to look at.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub unresolved_concerns: Option<List<Concern>>,
    /// What happens next with the work. `approved` cannot go with `send_back_to_worker`, nor
    /// `changes_requested` with `push_and_close`.
    pub next_action: NextAction,
    /// Tasks that this one makes possible.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub next_tasks: Option<List<NextTask>>,
}

/// Something the reviewer fixed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewerFix {
    /// The path of the file.
    pub file: NonBlank,
    /// What was fixed.
    pub description: NonBlank,
}

/// Something the reviewer found and did not fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct Concern {
    /// The path of the file.
    pub file: NonBlank,
    /// The line, counted from 1.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub line: Option<LineNumber>,
    /// How much the concern weighs.
    pub severity: Severity,
    /// What is wrong.
    pub description: NonBlank,
}

/// A task that the reviewed one makes possible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "camelCase", deny_unknown_fields)]
pub struct NextTask {
    /// One line that names the work.
    pub title: Title,
    /// Who should do it: an agent or a tier, in free text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub assign_to: Option<Text>,
    /// What must be done first, one statement each.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<List<Text>>,
}

object_only!(ReviewResponse, ReviewerFix, Concern, NextTask);

impl ReviewResponse {
    pub(super) fn is_consistent(&self) -> bool {
        !self.verdict.contradicts(self.next_action)
    }

    pub(super) fn example() -> Self {
        example!({
            "taskId": "0192a4c8-7e1a-7b3c-9d4e-000000000003",
            "verdict": "changes_requested",
            "branch": "roman/validator",
            "worktree": "worktrees/validator",
            "reviewerFixes": [{"file": "src/validator.rs", "description": "Fixed an edge case in arrays"}],
            "unresolvedConcerns": [{
                "file": "src/validator.rs",
                "line": 23,
                "severity": "must_fix",
                "description": "correlationId may be absent here"
            }],
            "nextAction": "send_back_to_worker",
            "nextTasks": [{"title": "Implement the router", "assignTo": "tony", "dependencies": ["the validator"]}]
        })
    }
}

/// A line of a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LineNumber(u64);

impl LineNumber {
    /// Largest integer that every JSON parser represents exactly.
    const MAX: u64 = (1 << 53) - 1;

    /// The line `number`; `None` for 0 and for numbers above 2^53 - 1.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number >= 1 && number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for LineNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineVisitor;
        impl de::Visitor<'_> for LineVisitor {
            type Value = LineNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a line number of at least 1")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<LineNumber, E> {
                LineNumber::new(number)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }
            // JSON Schema's `integer` includes 23.0, so parsing accepts it too.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<LineNumber, E> {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss
                )]
                let whole = number as u64;
                #[allow(clippy::cast_precision_loss, clippy::float_cmp)]
                if whole as f64 == number {
                    self.visit_u64(whole)
                } else {
                    Err(E::invalid_type(de::Unexpected::Float(number), &self))
                }
            }
        }
        deserializer.deserialize_any(LineVisitor)
    }
}

impl JsonSchema for LineNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "LineNumber".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": Self::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opposite_next_actions_contradict_a_verdict() {
        let contradictions: Vec<_> = Verdict::ALL
            .iter()
            .flat_map(|v| NextAction::ALL.iter().map(move |n| (*v, *n)))
            .filter(|(v, n)| v.contradicts(*n))
            .collect();
        assert_eq!(
            contradictions,
            [
                (Verdict::Approved, NextAction::SendBackToWorker),
                (Verdict::ChangesRequested, NextAction::PushAndClose),
            ]
        );
    }

    #[test]
    fn line_number_is_a_whole_number_from_1() {
        for good in ["1", "23", "23.0", "9007199254740991"] {
            assert!(serde_json::from_str::<LineNumber>(good).is_ok(), "{good}");
        }
        for bad in ["0", "-1", "-1.0", "2.5", "1e300", "9007199254740992", "\"1\"", "null", "true"]
        {
            assert!(serde_json::from_str::<LineNumber>(bad).is_err(), "{bad}");
        }
    }
}
