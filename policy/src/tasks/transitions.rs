//! State machine of an A2A task, as one table.

use TaskState::{
    AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working,
};
use a2a_protocol::task::TaskState;

/// An event in the life of an A2A task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskTransition {
    /// It is dispatched to the agent.
    Start,
    /// The agent reports that it works on it.
    Work,
    /// The agent needs input.
    Ask,
    /// The agent needs credentials.
    AskForCredentials,
    /// The caller provides the input; the task is queued again.
    Reply,
    /// The agent completed it.
    Complete,
    /// It failed, timed out, or was interrupted permanently.
    Fail,
    /// The agent declined it.
    Reject,
    /// It was cancelled.
    Cancel,
}

const OPEN: &[TaskState] = &[Submitted, Working, InputRequired, AuthRequired];
const BEGUN: &[TaskState] = &[Working, InputRequired, AuthRequired];

/// For each transition, the states in which it is allowed and the state it leads to.
pub const TASK_TRANSITIONS: &[(TaskTransition, &[TaskState], TaskState)] = &[
    (TaskTransition::Start, &[Submitted], Working),
    // After a question the work continues with the reply only.
    (TaskTransition::Work, &[Working], Working),
    (TaskTransition::Ask, BEGUN, InputRequired),
    (TaskTransition::AskForCredentials, BEGUN, AuthRequired),
    (TaskTransition::Reply, &[InputRequired, AuthRequired], Submitted),
    // Also while it is queued again: the agent may have found the answer itself.
    (TaskTransition::Complete, OPEN, Completed),
    // A task that cannot be dispatched fails before it starts.
    (TaskTransition::Fail, OPEN, Failed),
    (TaskTransition::Reject, OPEN, Rejected),
    (TaskTransition::Cancel, OPEN, Canceled),
];

impl TaskTransition {
    /// The state after it; `None` when it is not allowed.
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
    fn ended_task_never_changes_and_open_task_can_end() {
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
