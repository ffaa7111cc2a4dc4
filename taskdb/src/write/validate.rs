//! Checks of writes that need no query: versions, event numbers and identities.

use a2a_protocol::operation::PushConfig;

use crate::{NewEvent, ObjectiveChange, StoredTask, WriteOutcome};

/// Why a write can never apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWrite {
    /// The new version is not the old one plus 1.
    #[error("a task begins with version 1 and each change adds 1")]
    Version,
    /// The event numbers do not rise, or the last is not the task's.
    #[error("the numbers of a task's events rise, and the task names the newest")]
    EventNumbers,
    /// An immutable field of the task changed.
    #[error("owner, principal, agent, correlation, context and birth of a task never change")]
    Identity,
    /// The push configuration has no id.
    #[error("a push configuration needs an id")]
    PushWithoutId,
    /// The new revision is not the old one plus 1.
    #[error("an objective begins with revision 1 and each change adds 1")]
    Revision,
    /// An immutable field of the objective, of a plan or of a plan task changed.
    #[error(
        "owner, principal, agent and birth of an objective never change, nor the birth of a plan, \
         nor whose and at which place a plan or a task is"
    )]
    ObjectiveIdentity,
    /// A plan or plan task names another objective, or a plan that does not exist.
    #[error("a plan is written with its objective, and a task of a plan after its plan")]
    WrongParent,
    /// The position in the objective or in the plan is taken.
    #[error("another plan of the objective, or task of the plan, has this place")]
    PositionTaken,
    /// The A2A task of a plan task does not exist, has another owner or context, or belongs to
    /// another plan task.
    #[error(
        "a task of a plan is done by one A2A task of the same owner, in the objective's \
         conversation, that does nothing else"
    )]
    TaskLink,
}

/// Whether `stored` may follow a task with this version and newest event number, which are 0 for a
/// new task.
pub(super) fn follows(
    (version, last_event): (u64, u64),
    stored: &StoredTask,
    events: &[NewEvent],
) -> Result<(), InvalidWrite> {
    if version.checked_add(1) != Some(stored.version) {
        return Err(InvalidWrite::Version);
    }
    let mut newest = last_event;
    for event in events {
        // SQLite's integers are signed.
        if event.number <= newest || i64::try_from(event.number).is_err() {
            return Err(InvalidWrite::EventNumbers);
        }
        newest = event.number;
    }
    let is_derivable = version == 0 && events.is_empty() && stored.has_derivable_events();
    if newest == stored.last_event || is_derivable {
        Ok(())
    } else {
        Err(InvalidWrite::EventNumbers)
    }
}

/// Whether each push configuration has an id.
pub(super) fn have_ids(push: &[PushConfig]) -> Result<(), InvalidWrite> {
    let all = push.iter().all(|config| config.id.is_some());
    if all { Ok(()) } else { Err(InvalidWrite::PushWithoutId) }
}

/// The stored revision of an objective before a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectiveRevision {
    pub(super) revision: u64,
    /// The immutable columns equal those of the change.
    pub(super) is_same: bool,
}

/// Whether the change may follow the stored objective; `None` when there is none.
pub(super) fn objective_follows(
    before: Option<ObjectiveRevision>,
    change: &ObjectiveChange,
) -> Result<(), WriteOutcome> {
    let revision = before.map(|before| before.revision);
    if revision != change.expected {
        return Err(WriteOutcome::Conflict { version: revision });
    }
    if before.is_some_and(|before| !before.is_same) {
        return Err(WriteOutcome::Refused(InvalidWrite::ObjectiveIdentity));
    }
    if revision.unwrap_or(0).checked_add(1) != Some(change.objective.revision) {
        return Err(WriteOutcome::Refused(InvalidWrite::Revision));
    }
    Ok(())
}
