//! What may happen to an A2A task, and when: the one table of its states.

use TaskState::{
    AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working,
};
use a2a_protocol::task::TaskState;

/// One thing that can happen to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskTransition {
    /// It is its turn: the agent gets it.
    Start,
    /// The agent says that it is at it.
    Work,
    /// The agent needs an answer.
    Ask,
    /// The agent needs credentials.
    AskForCredentials,
    /// Whoever asked for it answers; it waits for its turn again.
    Reply,
    /// It is done.
    Complete,
    /// It cannot be done, took too long, or was interrupted for good.
    Fail,
    /// The agent does not take it.
    Reject,
    /// It is called off.
    Cancel,
}

const OPEN: &[TaskState] = &[Submitted, Working, InputRequired, AuthRequired];
const BEGUN: &[TaskState] = &[Working, InputRequired, AuthRequired];

/// Each step: in which states it may happen, and where it leads.
pub const TASK_TRANSITIONS: &[(TaskTransition, &[TaskState], TaskState)] = &[
    (TaskTransition::Start, &[Submitted], Working),
    // After a question the work goes on with the answer, not by itself.
    (TaskTransition::Work, &[Working], Working),
    (TaskTransition::Ask, BEGUN, InputRequired),
    (TaskTransition::AskForCredentials, BEGUN, AuthRequired),
    (TaskTransition::Reply, &[InputRequired, AuthRequired], Submitted),
    // Also while it waits for its next turn: the agent may have found the answer itself.
    (TaskTransition::Complete, OPEN, Completed),
    // A task that cannot even be handed over fails before it begins.
    (TaskTransition::Fail, OPEN, Failed),
    (TaskTransition::Reject, OPEN, Rejected),
    (TaskTransition::Cancel, OPEN, Canceled),
];

impl TaskTransition {
    /// The state after it; `None` when it may not happen now.
    #[must_use]
    pub fn after(self, state: TaskState) -> Option<TaskState> {
        let row = TASK_TRANSITIONS
            .iter()
            .find(|(transition, from, _)| *transition == self && from.contains(&state))?;
        Some(row.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_stays_and_everything_open_can_end() {
        for (transition, _, _) in TASK_TRANSITIONS {
            for state in [Completed, Failed, Canceled, Rejected] {
                assert_eq!(transition.after(state), None, "{transition:?} {state}");
            }
        }
        for state in OPEN {
            assert_eq!(TaskTransition::Cancel.after(*state), Some(Canceled));
            assert_eq!(TaskTransition::Fail.after(*state), Some(Failed));
        }
        assert_eq!(TaskTransition::Work.after(InputRequired), None);
        assert_eq!(TaskTransition::Reply.after(Working), None);
    }
}
