//! State machine of an assignment and of its review, as two tables.

use AssignmentState::{
    Accepted, Blocked, Completed, Declined, Failed, Paused, Reopened, Requested, Working,
};
use a2a_protocol::body::{Action, Status, Verdict};
use a2a_protocol::{AssignmentState, ReviewState};

/// An event in the life of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The requester requests it again, from the same agent or another.
    AskAgain,
    /// The assignee requests it from another agent.
    Delegate,
    /// The assignee accepts it.
    Accept,
    /// The assignee declines it.
    Decline,
    /// The assignee completed it.
    Complete,
    /// The assignee failed.
    Fail,
    /// The assignee is blocked.
    Block,
    /// The assignee works on it.
    Work,
    /// The assignee paused the work.
    Pause,
    /// The assignee reports completion, which does not end it.
    ReportDone,
    /// A review of the work is requested.
    AskReview,
    /// The reviewer approves the work.
    Approve,
    /// The reviewer requests changes.
    RequestChanges,
    /// The reviewer escalates to a more senior agent.
    Escalate,
    /// The bus fails it: the request was never delivered, or not started in time.
    Abandon,
    /// The requester cancels it.
    Cancel,
}

/// States that are not ended.
const OPEN: &[AssignmentState] = &[Requested, Accepted, Working, Blocked, Paused, Reopened];
/// States in which there may be work to review.
const REVIEWABLE: &[AssignmentState] =
    &[Requested, Accepted, Working, Blocked, Paused, Reopened, Completed];

/// For each transition, the states in which it is allowed and the state it leads to (`None`:
/// unchanged).
pub const TRANSITIONS: &[(Transition, &[AssignmentState], Option<AssignmentState>)] = &[
    // While it is blocked, a new request supplies what was missing.
    (Transition::AskAgain, &[Declined, Failed, Blocked], Some(Requested)),
    (Transition::Delegate, OPEN, Some(Requested)),
    (Transition::Accept, &[Requested, Blocked, Paused, Reopened], Some(Accepted)),
    // Repeated by an agent that restarts after a crash or a failed attempt.
    (Transition::Accept, &[Accepted, Working], None),
    (Transition::Decline, &[Requested, Reopened], Some(Declined)),
    (Transition::Complete, OPEN, Some(Completed)),
    (Transition::Fail, OPEN, Some(Failed)),
    (Transition::Block, OPEN, Some(Blocked)),
    (Transition::Work, OPEN, Some(Working)),
    (Transition::Pause, OPEN, Some(Paused)),
    (Transition::ReportDone, REVIEWABLE, None),
    (Transition::AskReview, REVIEWABLE, None),
    (Transition::Approve, REVIEWABLE, None),
    (Transition::RequestChanges, REVIEWABLE, Some(Reopened)),
    (Transition::Escalate, REVIEWABLE, None),
    (Transition::Abandon, OPEN, Some(Failed)),
    (Transition::Cancel, OPEN, Some(AssignmentState::Cancelled)),
];

/// For each transition of a review, the states in which it is allowed and the state it leads to.
pub const REVIEW_TRANSITIONS: &[(Transition, &[Option<ReviewState>], ReviewState)] = &[
    (
        Transition::AskReview,
        // If pending, only from another reviewer, which the ledger checks.
        &[
            None,
            Some(ReviewState::ChangesRequested),
            Some(ReviewState::Pending),
            Some(ReviewState::Escalated),
        ],
        ReviewState::Pending,
    ),
    (Transition::Approve, OWED, ReviewState::Approved),
    (Transition::RequestChanges, OWED, ReviewState::ChangesRequested),
    (Transition::Escalate, OWED, ReviewState::Escalated),
];

/// States in which a verdict is owed.
const OWED: &[Option<ReviewState>] = &[Some(ReviewState::Pending), Some(ReviewState::Escalated)];

impl Transition {
    /// The transition of a response.
    #[must_use]
    pub const fn of_action(action: Action) -> Self {
        match action {
            Action::Accepted => Self::Accept,
            Action::Declined => Self::Decline,
            Action::Completed => Self::Complete,
            Action::Failed => Self::Fail,
            Action::Blocked => Self::Block,
        }
    }

    /// The transition of a status update by the assignee. Only a response ends an assignment.
    #[must_use]
    pub const fn of_status(status: Status) -> Self {
        match status {
            Status::InProgress => Self::Work,
            Status::Blocked => Self::Block,
            Status::Paused => Self::Pause,
            Status::Completed => Self::ReportDone,
        }
    }

    /// The transition of a verdict.
    #[must_use]
    pub const fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Approved => Self::Approve,
            Verdict::ChangesRequested => Self::RequestChanges,
            Verdict::Escalated => Self::Escalate,
        }
    }

    /// The state after this transition; `None` when it is not allowed.
    #[must_use]
    pub fn after(self, state: AssignmentState) -> Option<AssignmentState> {
        let row = TRANSITIONS
            .iter()
            .find(|(transition, from, _)| *transition == self && from.contains(&state))?;
        Some(row.2.unwrap_or(state))
    }

    /// The review's state after this transition; `None` when it is not allowed.
    #[must_use]
    pub fn review_after(self, review: Option<ReviewState>) -> Option<ReviewState> {
        let row = REVIEW_TRANSITIONS
            .iter()
            .find(|(transition, from, _)| *transition == self && from.contains(&review))?;
        Some(row.2)
    }
}

/// The actions a `task_response` may have in this state, for the refusal of another one.
pub(super) fn possible_actions(state: AssignmentState) -> Vec<&'static str> {
    let possible = |action: &&Action| Transition::of_action(**action).after(state).is_some();
    Action::ALL.iter().filter(possible).map(|action| action.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_has_a_row_and_ended_states_are_final_except_reopening() {
        use Transition::*;
        let steps = [
            AskAgain,
            Delegate,
            Accept,
            Decline,
            Complete,
            Fail,
            Block,
            Work,
            Pause,
            ReportDone,
            AskReview,
            Approve,
            RequestChanges,
            Escalate,
            Abandon,
            Cancel,
        ];
        for transition in steps {
            let rows = TRANSITIONS.iter().filter(|row| row.0 == transition);
            let states: Vec<_> = rows.flat_map(|row| row.1).collect();
            assert!(!states.is_empty(), "{transition:?}");
            let twice = states.iter().any(|s| states.iter().filter(|o| o == &s).count() > 1);
            assert!(!twice, "{transition:?} leads to two states");
            for state in AssignmentState::ALL.iter().copied().filter(|state| state.is_ended()) {
                let after = transition.after(state);
                let back = matches!(
                    (transition, state),
                    (AskAgain, Declined | Failed) | (RequestChanges, Completed)
                );
                assert!(
                    after.is_none_or(|after| after == state || back),
                    "{transition:?} {state} {after:?}"
                );
            }
        }
        assert_eq!(possible_actions(Requested).len(), 5);
        assert_eq!(possible_actions(Accepted), ["accepted", "completed", "failed", "blocked"]);
        assert!(possible_actions(Completed).is_empty());
    }

    #[test]
    fn verdict_needs_a_review_and_approval_is_final() {
        for transition in [Transition::Approve, Transition::RequestChanges, Transition::Escalate] {
            for open in [ReviewState::Pending, ReviewState::Escalated] {
                assert!(transition.review_after(Some(open)).is_some());
            }
            for closed in [None, Some(ReviewState::Approved), Some(ReviewState::ChangesRequested)] {
                assert_eq!(transition.review_after(closed), None);
            }
        }
        assert_eq!(Transition::AskReview.review_after(Some(ReviewState::Approved)), None);
        assert!(Transition::AskReview.review_after(Some(ReviewState::ChangesRequested)).is_some());
    }
}
