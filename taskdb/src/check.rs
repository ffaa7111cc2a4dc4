//! Which changes make no sense whatever is stored; the same for SQLite and its twin.

use a2a_protocol::operation::PushConfig;

use super::{NewEvent, StoredTask};

/// Why a change can never fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// The new version does not follow the old one.
    #[error("a task begins with version 1 and each change adds 1")]
    Version,
    /// The events are not numbered one after the other.
    #[error("the numbers of a task's events rise, and the task names the newest")]
    EventNumbers,
    /// The task became another one.
    #[error("owner, principal, agent, correlation, context and birth of a task never change")]
    Identity,
    /// Nobody could name the configuration.
    #[error("a push configuration needs an id")]
    PushWithoutId,
    /// The new revision does not follow the old one.
    #[error("an objective begins with revision 1 and each change adds 1")]
    Revision,
    /// The objective, a plan or a task of one became another one.
    #[error(
        "owner, principal, agent and birth of an objective never change, nor the birth of a plan, \
         nor whose and at which place a plan or a task is"
    )]
    ObjectiveIdentity,
    /// A plan or a task of one is written with an objective that it is not of.
    #[error("a plan is written with its objective, and a task of a plan after its plan")]
    Stray,
    /// Two would stand at the same place.
    #[error("another plan of the objective, or task of the plan, has this place")]
    PlaceTaken,
    /// Its A2A task is not one that can do it.
    #[error(
        "a task of a plan is done by one A2A task of the same owner, in the objective's \
         conversation, that does nothing else"
    )]
    Link,
}

/// Whether `stored` may follow a task of this version with this newest event; 0 and 0 stand for
/// no task.
pub(super) fn follows(
    (version, last_event): (u64, u64),
    stored: &StoredTask,
    events: &[NewEvent],
) -> Result<(), Misfit> {
    if version.checked_add(1) != Some(stored.version) {
        return Err(Misfit::Version);
    }
    let mut newest = last_event;
    for event in events {
        // SQLite's integers end here.
        if event.number <= newest || i64::try_from(event.number).is_err() {
            return Err(Misfit::EventNumbers);
        }
        newest = event.number;
    }
    let told = version == 0 && events.is_empty() && stored.tells_all();
    if newest == stored.last_event || told { Ok(()) } else { Err(Misfit::EventNumbers) }
}

/// Whether each wish can be named.
pub(super) fn named(push: &[PushConfig]) -> Result<(), Misfit> {
    let all = push.iter().all(|config| config.id.is_some());
    if all { Ok(()) } else { Err(Misfit::PushWithoutId) }
}
