//! What may happen to a task, and when: the one table of transitions.

use TaskState::{
    Accepted, Blocked, Completed, Declined, Failed, Paused, Reopened, Requested, Working,
};
use a2a_protocol::body::{Action, Status, Verdict};
use a2a_protocol::{ReviewState, TaskState};

/// One thing that can happen to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// Whoever asked asks again, of the same agent or another.
    AskAgain,
    /// The assignee asks another agent to do it.
    Delegate,
    /// The assignee takes it.
    Accept,
    /// The assignee does not take it.
    Decline,
    /// The assignee has done it.
    Complete,
    /// The assignee cannot do it.
    Fail,
    /// The assignee waits for something.
    Block,
    /// The assignee works on it.
    Work,
    /// The assignee sets it aside.
    Pause,
    /// The assignee says it is done, without ending the task.
    ReportDone,
    /// A review of the work is asked for.
    AskReview,
    /// The reviewer finds it good.
    Approve,
    /// The reviewer wants changes.
    RequestChanges,
    /// The reviewer leaves it to somebody more senior.
    Escalate,
    /// The bus gives up: never delivered, or not begun in time.
    Abandon,
    /// Whoever asked calls it off.
    Cancel,
}

/// While nobody has ended it.
const OPEN: &[TaskState] = &[Requested, Accepted, Working, Blocked, Paused, Reopened];
/// While there is, or may be, work to look at.
const REVIEWABLE: &[TaskState] =
    &[Requested, Accepted, Working, Blocked, Paused, Reopened, Completed];

/// Each step: in which states of the task it may happen, and the state it leads to
/// (`None`: the state stays).
pub const TRANSITIONS: &[(Transition, &[TaskState], Option<TaskState>)] = &[
    // While it is blocked, asking again brings what was missing.
    (Transition::AskAgain, &[Declined, Failed, Blocked], Some(Requested)),
    (Transition::Delegate, OPEN, Some(Requested)),
    (Transition::Accept, &[Requested, Blocked, Paused, Reopened], Some(Accepted)),
    // Said again by an agent that begins anew, after a crash or a failed attempt.
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
    (Transition::Cancel, OPEN, Some(TaskState::Cancelled)),
];

/// Each step of a review: in which states of the review it may happen, and where it leads.
pub const REVIEW_TRANSITIONS: &[(Transition, &[Option<ReviewState>], ReviewState)] = &[
    (
        Transition::AskReview,
        // Asked already: only of somebody else, which the ledger checks.
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

/// While somebody owes a verdict.
const OWED: &[Option<ReviewState>] = &[Some(ReviewState::Pending), Some(ReviewState::Escalated)];

impl Transition {
    /// What an answer does.
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

    /// What a report of the assignee does. Only an answer ends a task.
    #[must_use]
    pub const fn of_status(status: Status) -> Self {
        match status {
            Status::InProgress => Self::Work,
            Status::Blocked => Self::Block,
            Status::Paused => Self::Pause,
            Status::Completed => Self::ReportDone,
        }
    }

    /// What a verdict does.
    #[must_use]
    pub const fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Approved => Self::Approve,
            Verdict::ChangesRequested => Self::RequestChanges,
            Verdict::Escalated => Self::Escalate,
        }
    }

    /// The state a task is in after this step; `None` when the step may not happen now.
    #[must_use]
    pub fn after(self, state: TaskState) -> Option<TaskState> {
        let row = TRANSITIONS
            .iter()
            .find(|(transition, from, _)| *transition == self && from.contains(&state))?;
        Some(row.2.unwrap_or(state))
    }

    /// The state a review is in after this step; `None` when the step may not happen now.
    #[must_use]
    pub fn review_after(self, review: Option<ReviewState>) -> Option<ReviewState> {
        let row = REVIEW_TRANSITIONS
            .iter()
            .find(|(transition, from, _)| *transition == self && from.contains(&review))?;
        Some(row.2)
    }
}

/// The actions a `task_response` may carry in this state, for whoever picked another.
pub(super) fn possible_actions(state: TaskState) -> Vec<&'static str> {
    let possible = |action: &&Action| Transition::of_action(**action).after(state).is_some();
    Action::ALL.iter().filter(possible).map(|action| action.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_row_and_ended_tasks_stay_ended_unless_asked_again_or_sent_back() {
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
            for state in TaskState::ALL.iter().copied().filter(|state| state.is_ended()) {
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
    fn a_verdict_needs_a_review_and_an_approval_stands() {
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
