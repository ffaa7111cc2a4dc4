//! Who belongs together, kept ready so that a scope is found without looking at everyone.

use std::collections::HashMap;

use super::{AgentKey, Profile};

/// The squads and the c-suite; every list is ascending, that is in the order of joining.
#[derive(Debug, Default)]
pub(super) struct Groups {
    squads: HashMap<String, Vec<AgentKey>>,
    /// Agents without a squad form one together.
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
                // Names come from outside: a squad that nobody is in is not remembered.
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
    // Who joins now goes last; only who changes a group later goes in between.
    if let Err(place) = keys.binary_search(&key) {
        keys.insert(place, key);
    }
}

/// Takes the agent out; whether nobody is left.
fn take(keys: &mut Vec<AgentKey>, key: AgentKey) -> bool {
    if let Ok(place) = keys.binary_search(&key) {
        keys.remove(place);
    }
    keys.is_empty()
}
