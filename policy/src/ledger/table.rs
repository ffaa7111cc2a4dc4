//! What may happen to a task, and when: the one table of transitions.

use TaskState::{
    Accepted, Blocked, Completed, Declined, Failed, Paused, Reopened, Requested, Working,
};
use a2a_protocol::body::{Action, Status, Verdict};
use a2a_protocol::{ReviewState, TaskState};

/// One thing that can happen to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Whoever asked asks again, of the same agent or another.
    AskAgain,
    /// The assignee asks another agent to do it.
    HandOn,
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
    TaskHandle,
    /// The assignee sets it aside.
    Pause,
    /// The assignee says it is done, without ending the task.
    SayDone,
    /// A review of the work is asked for.
    AskReview,
    /// The reviewer finds it good.
    Approve,
    /// The reviewer wants changes.
    SendBack,
    /// The reviewer leaves it to somebody more senior.
    Escalate,
    /// The bus gives up: never delivered, or not begun in time.
    GiveUp,
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
pub const TABLE: &[(Step, &[TaskState], Option<TaskState>)] = &[
    // While it is blocked, asking again brings what was missing.
    (Step::AskAgain, &[Declined, Failed, Blocked], Some(Requested)),
    (Step::HandOn, OPEN, Some(Requested)),
    (Step::Accept, &[Requested, Blocked, Paused, Reopened], Some(Accepted)),
    // Said again by an agent that begins anew, after a crash or a failed attempt.
    (Step::Accept, &[Accepted, Working], None),
    (Step::Decline, &[Requested, Reopened], Some(Declined)),
    (Step::Complete, OPEN, Some(Completed)),
    (Step::Fail, OPEN, Some(Failed)),
    (Step::Block, OPEN, Some(Blocked)),
    (Step::TaskHandle, OPEN, Some(Working)),
    (Step::Pause, OPEN, Some(Paused)),
    (Step::SayDone, REVIEWABLE, None),
    (Step::AskReview, REVIEWABLE, None),
    (Step::Approve, REVIEWABLE, None),
    (Step::SendBack, REVIEWABLE, Some(Reopened)),
    (Step::Escalate, REVIEWABLE, None),
    (Step::GiveUp, OPEN, Some(Failed)),
    (Step::Cancel, OPEN, Some(TaskState::Cancelled)),
];

/// Each step of a review: in which states of the review it may happen, and where it leads.
pub const REVIEW_TABLE: &[(Step, &[Option<ReviewState>], ReviewState)] = &[
    (
        Step::AskReview,
        // Asked already: only of somebody else, which the ledger checks.
        &[
            None,
            Some(ReviewState::ChangesRequested),
            Some(ReviewState::Pending),
            Some(ReviewState::Escalated),
        ],
        ReviewState::Pending,
    ),
    (Step::Approve, OWED, ReviewState::Approved),
    (Step::SendBack, OWED, ReviewState::ChangesRequested),
    (Step::Escalate, OWED, ReviewState::Escalated),
];

/// While somebody owes a verdict.
const OWED: &[Option<ReviewState>] = &[Some(ReviewState::Pending), Some(ReviewState::Escalated)];

impl Step {
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
            Status::InProgress => Self::TaskHandle,
            Status::Blocked => Self::Block,
            Status::Paused => Self::Pause,
            Status::Completed => Self::SayDone,
        }
    }

    /// What a verdict does.
    #[must_use]
    pub const fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Approved => Self::Approve,
            Verdict::ChangesRequested => Self::SendBack,
            Verdict::Escalated => Self::Escalate,
        }
    }

    /// The state a task is in after this step; `None` when the step may not happen now.
    #[must_use]
    pub fn after(self, state: TaskState) -> Option<TaskState> {
        let row = TABLE.iter().find(|(step, from, _)| *step == self && from.contains(&state))?;
        Some(row.2.unwrap_or(state))
    }

    /// The state a review is in after this step; `None` when the step may not happen now.
    #[must_use]
    pub fn review_after(self, review: Option<ReviewState>) -> Option<ReviewState> {
        let row =
            REVIEW_TABLE.iter().find(|(step, from, _)| *step == self && from.contains(&review))?;
        Some(row.2)
    }
}

/// The actions a `task_response` may carry in this state, for whoever picked another.
pub(super) fn possible_actions(state: TaskState) -> Vec<&'static str> {
    let possible = |action: &&Action| Step::of_action(**action).after(state).is_some();
    Action::ALL.iter().filter(possible).map(|action| action.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_row_and_ended_tasks_stay_ended_unless_asked_again_or_sent_back() {
        use Step::*;
        let steps = [
            AskAgain, HandOn, Accept, Decline, Complete, Fail, Block, TaskHandle, Pause, SayDone,
            AskReview, Approve, SendBack, Escalate, GiveUp, Cancel,
        ];
        for step in steps {
            let rows = TABLE.iter().filter(|row| row.0 == step);
            let states: Vec<_> = rows.flat_map(|row| row.1).collect();
            assert!(!states.is_empty(), "{step:?}");
            let twice = states.iter().any(|s| states.iter().filter(|o| o == &s).count() > 1);
            assert!(!twice, "{step:?} leads to two states");
            for state in TaskState::ALL.iter().copied().filter(|state| state.is_ended()) {
                let after = step.after(state);
                let back =
                    matches!((step, state), (AskAgain, Declined | Failed) | (SendBack, Completed));
                assert!(
                    after.is_none_or(|after| after == state || back),
                    "{step:?} {state} {after:?}"
                );
            }
        }
        assert_eq!(possible_actions(Requested).len(), 5);
        assert_eq!(possible_actions(Accepted), ["accepted", "completed", "failed", "blocked"]);
        assert!(possible_actions(Completed).is_empty());
    }

    #[test]
    fn a_verdict_needs_a_review_and_an_approval_stands() {
        for step in [Step::Approve, Step::SendBack, Step::Escalate] {
            for open in [ReviewState::Pending, ReviewState::Escalated] {
                assert!(step.review_after(Some(open)).is_some());
            }
            for closed in [None, Some(ReviewState::Approved), Some(ReviewState::ChangesRequested)] {
                assert_eq!(step.review_after(closed), None);
            }
        }
        assert_eq!(Step::AskReview.review_after(Some(ReviewState::Approved)), None);
        assert!(Step::AskReview.review_after(Some(ReviewState::ChangesRequested)).is_some());
    }
}
