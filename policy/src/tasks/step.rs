//! What may happen to an A2A task, and when: the one table of its states.

use TaskState::{
    AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working,
};
use a2a_protocol::task::TaskState;

/// One thing that can happen to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is its turn: the agent gets it.
    Start,
    /// The agent says that it is at it.
    TaskHandle,
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
pub const STEPS: &[(Step, &[TaskState], TaskState)] = &[
    (Step::Start, &[Submitted], Working),
    // After a question the work goes on with the answer, not by itself.
    (Step::TaskHandle, &[Working], Working),
    (Step::Ask, BEGUN, InputRequired),
    (Step::AskForCredentials, BEGUN, AuthRequired),
    (Step::Reply, &[InputRequired, AuthRequired], Submitted),
    // Also while it waits for its next turn: the agent may have found the answer itself.
    (Step::Complete, OPEN, Completed),
    // A task that cannot even be handed over fails before it begins.
    (Step::Fail, OPEN, Failed),
    (Step::Reject, OPEN, Rejected),
    (Step::Cancel, OPEN, Canceled),
];

impl Step {
    /// The state after it; `None` when it may not happen now.
    #[must_use]
    pub fn after(self, state: TaskState) -> Option<TaskState> {
        let row = STEPS.iter().find(|(step, from, _)| *step == self && from.contains(&state))?;
        Some(row.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_stays_and_everything_open_can_end() {
        for (step, _, _) in STEPS {
            for state in [Completed, Failed, Canceled, Rejected] {
                assert_eq!(step.after(state), None, "{step:?} {state}");
            }
        }
        for state in OPEN {
            assert_eq!(Step::Cancel.after(*state), Some(Canceled));
            assert_eq!(Step::Fail.after(*state), Some(Failed));
        }
        assert_eq!(Step::TaskHandle.after(InputRequired), None);
        assert_eq!(Step::Reply.after(Working), None);
    }
}
