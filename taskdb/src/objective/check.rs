//! Which change may follow which objective; the same for SQLite and its twin.

use super::super::{Misfit, Written};
use super::ObjectiveChange;

/// What is known of an objective before it is changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) revision: u64,
    /// What never changes is as in the change.
    pub(crate) is_same: bool,
}

/// Whether the change may follow what is there.
pub(crate) fn follows(before: Option<Before>, change: &ObjectiveChange) -> Result<(), Written> {
    let revision = before.map(|before| before.revision);
    if revision != change.expected {
        return Err(Written::Conflict { version: revision });
    }
    if before.is_some_and(|before| !before.is_same) {
        return Err(Written::Refused(Misfit::ObjectiveIdentity));
    }
    if revision.unwrap_or(0).checked_add(1) != Some(change.objective.revision) {
        return Err(Written::Refused(Misfit::Revision));
    }
    Ok(())
}
