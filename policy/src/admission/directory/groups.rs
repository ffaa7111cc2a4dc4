//! Group index: squads and c-suite as sorted key lists, so that a scope is found without a scan.

use std::collections::HashMap;

use super::{AgentKey, Profile};

/// The squads and the c-suite; every list is ascending, which is registration order.
#[derive(Debug, Default)]
pub(super) struct Groups {
    squads: HashMap<String, Vec<AgentKey>>,
    /// Agents without a squad, which form a group of their own.
    without_squad: Vec<AgentKey>,
    c_suite: Vec<AgentKey>,
}

impl Groups {
    pub(super) fn squad(&self, name: Option<&str>) -> &[AgentKey] {
        match name {
            Some(name) => self.squads.get(name).map_or(&[], Vec::as_slice),
            None => &self.without_squad,
        }
    }

    pub(super) fn c_suite(&self) -> &[AgentKey] {
        &self.c_suite
    }

    pub(super) fn enter(&mut self, key: AgentKey, profile: &Profile) {
        match &profile.squad {
            Some(name) => match self.squads.get_mut(name) {
                Some(squad) => put(squad, key),
                None => drop(self.squads.insert(name.clone(), vec![key])),
            },
            None => put(&mut self.without_squad, key),
        }
        if profile.c_suite {
            put(&mut self.c_suite, key);
        }
    }

    pub(super) fn leave(&mut self, key: AgentKey, profile: &Profile) {
        match &profile.squad {
            Some(name) => {
                let squad = self.squads.get_mut(name);
                // Squad names come from outside: drop the entry of an empty squad.
                if squad.is_some_and(|squad| take(squad, key)) {
                    self.squads.remove(name);
                }
            }
            None => drop(take(&mut self.without_squad, key)),
        }
        take(&mut self.c_suite, key);
    }
}

fn put(keys: &mut Vec<AgentKey>, key: AgentKey) {
    // A new agent is appended; only a profile change inserts in between.
    if let Err(slot) = keys.binary_search(&key) {
        keys.insert(slot, key);
    }
}

/// Removes the agent; returns whether the list is empty now.
fn take(keys: &mut Vec<AgentKey>, key: AgentKey) -> bool {
    if let Ok(slot) = keys.binary_search(&key) {
        keys.remove(slot);
    }
    keys.is_empty()
}
