//! Agent directory: names, profiles and groups, and which agents a message addresses.

mod groups;
mod profile;
mod seniority;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Body, Envelope};
use indexmap::{IndexMap, IndexSet};

use crate::{Holder, NameTaken, Names};
use groups::Groups;
pub(crate) use profile::tier_number;
pub use profile::{BadProfile, Profile};

/// An agent's index in the directory. Never reused for another agent while the bus runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentKey(usize);

impl AgentKey {
    /// The index from 0, for tables parallel to the directory.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// An unknown recipient, with a similar name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent `{agent}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct NoSuchAgent {
    /// The name in the message.
    pub agent: AgentId,
    /// The most similar name the sender may write to, set from [`Directory::nearest`].
    pub near: Option<AgentId>,
}

/// The recipients a message addresses, before access rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipients {
    /// Known agents, ascending and unique. Never includes the sender of a fan-out.
    pub known: Vec<AgentKey>,
    /// Unknown names in a fan-out, unique, in message order.
    pub unknown: Vec<AgentId>,
}

/// Why a profile update was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotUpdate {
    /// The profile is invalid.
    #[error("the profile of `{agent}` is refused: {reason}")]
    Profile {
        /// The agent it was for.
        agent: AgentId,
        /// The violation.
        reason: BadProfile,
    },
    /// The name is reserved.
    #[error("`{0}` is a name of the bus or of people; choose another for the agent")]
    Reserved(AgentId),
    /// Another agent or a client has the name.
    #[error(transparent)]
    Taken(#[from] NameTaken),
    /// The directory is full.
    #[error(
        "there is no room for `{agent}`: the bus knows {capacity} agents, as many as it may; raise the limit on agents"
    )]
    Full {
        /// The agent that was to be added.
        agent: AgentId,
        /// The configured maximum.
        capacity: usize,
    },
}

/// Names that no agent may have: the bus and operators use them, or they are URL paths.
const RESERVED: &[&str] = &[
    "system",
    "human",
    "operator", // not an agent
    "bus",
    "agents",
    "a2a",
    "v1",
    "message",
    "tasks",
    "task",
    "card",
    "extendedAgentCard", // URL paths
    "schemas",
    "healthz",
    "readyz",
    "metrics",
    "objectives",
    "plans",
    "console",
    "mcp",
    "openapi.json",
];
/// Names for messages that operators send.
const PEOPLE: &[&str] = &["human", "operator"];

/// All registered agents.
#[derive(Debug, Default)]
pub struct Directory {
    agents: IndexMap<AgentId, Entry>,
    /// The same agents in name order, for paging.
    by_name: BTreeMap<AgentId, AgentKey>,
    groups: Groups,
    /// Agents in no scope, reachable by name only, in registration order.
    apart: BTreeSet<AgentKey>,
    open: bool,
    capacity: usize,
    /// The names in `agents`, without reserved names.
    names: Names,
    /// The clients that have a token, including those that never called.
    claimed: Names,
    /// Removed entries, which keep their index.
    removed: usize,
}

#[derive(Debug)]
struct Entry {
    profile: Profile,
    /// The parsed tier number.
    tier: Option<u32>,
    /// Listed in the configuration: may send even when the directory is closed.
    listed: bool,
    /// The profile was set at run time, which overrides the configuration.
    registered: bool,
    /// What the name identifies.
    kind: EntryKind,
}

/// What a directory entry identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Agent,
    /// Known only from messages that survived a restart: an agent, unless a client claims the name.
    Presumed,
    /// A client of the A2A gateway: no agent can send, attach or register under its name.
    Client,
    /// Removed. The entry keeps the index, so that no other agent gets it.
    Removed,
}

impl Entry {
    fn new(profile: Profile, listed: bool, registered: bool) -> Self {
        let kind = EntryKind::Agent;
        Self { tier: profile.tier_number(), profile, listed, registered, kind }
    }
}

impl Directory {
    /// An empty directory. An `open` one admits unlisted senders, up to `capacity` agents.
    #[must_use]
    pub fn new(open: bool, capacity: usize) -> Self {
        Self { open, capacity, ..Self::default() }
    }

    /// Whether the name is reserved: no agent may have it.
    #[must_use]
    pub fn is_reserved(agent: &AgentId) -> bool {
        RESERVED.iter().any(|name| agent.as_str().eq_ignore_ascii_case(name))
    }

    /// Whether operators send under this name; agents never do.
    #[must_use]
    pub fn is_for_people(name: &AgentId) -> bool {
        PEOPLE.iter().any(|person| name.as_str().eq_ignore_ascii_case(person))
    }

    /// Whether the name has an inbox for responses: agents and operators.
    #[must_use]
    pub fn may_be_answered(name: &AgentId) -> bool {
        Self::is_for_people(name) || !Self::is_reserved(name)
    }

    /// Adds an agent; `None` when it is known already.
    pub fn insert(&mut self, agent: AgentId, profile: Profile, listed: bool) -> Option<AgentKey> {
        let key = match self.agents.entry(agent) {
            indexmap::map::Entry::Occupied(mut slot) => {
                if slot.get().kind != EntryKind::Removed {
                    return None;
                }
                let key = AgentKey(slot.index());
                self.removed -= 1;
                self.by_name.insert(slot.key().clone(), key);
                self.groups.enter(key, &profile);
                slot.insert(Entry::new(profile, listed, false));
                key
            }
            indexmap::map::Entry::Vacant(slot) => {
                let key = AgentKey(slot.index());
                self.by_name.insert(slot.key().clone(), key);
                self.groups.enter(key, &profile);
                slot.insert(Entry::new(profile, listed, false));
                key
            }
        };
        if let Some((agent, _)) =
            self.agents.get_index(key.0).filter(|(a, _)| !Self::is_reserved(a))
        {
            self.names.keep(agent.as_str(), Holder::Agent);
        }
        Some(key)
    }

    /// Checks that an agent can have this name: no client has it, and no agent in another case.
    ///
    /// # Errors
    /// [`NameTaken`] with the holder.
    pub fn check_agent_name(&self, name: &AgentId) -> Result<(), NameTaken> {
        match self.live(name) {
            Some((_, entry)) if entry.kind == EntryKind::Client => {
                self.names.check(name.as_str(), Holder::Agent)
            }
            Some(_) => Ok(()),
            None => {
                self.claimed.check(name.as_str(), Holder::Agent)?;
                self.names.check(name.as_str(), Holder::Agent)
            }
        }
    }

    /// Checks that a client can have this name: no agent has it, in any case.
    ///
    /// # Errors
    /// [`NameTaken`] with the holder.
    pub fn check_client_name(&self, name: &AgentId) -> Result<(), NameTaken> {
        match self.live(name) {
            Some((_, entry)) if entry.kind == EntryKind::Presumed => Ok(()),
            _ => self.names.check(name.as_str(), Holder::Client),
        }
    }

    /// Replaces the set of clients that have a token. Returns those whose name an agent already
    /// has.
    pub fn claim(&mut self, clients: &[AgentId]) -> Vec<NameTaken> {
        self.claimed = Names::default();
        let mut refused = Vec::new();
        for client in clients {
            let free = self.check_client_name(client);
            match free.and_then(|()| self.claimed.take(client.as_str(), Holder::Client)) {
                Ok(()) if self.contains(client) => self.set_client(client),
                Ok(()) => {}
                Err(taken) => refused.push(taken),
            }
        }
        refused
    }

    /// Marks a known entry as a client, which is reachable by name only.
    pub fn set_client(&mut self, client: &AgentId) {
        self.set_apart(client);
        if let Some(entry) = self.agents.get_mut(client) {
            entry.kind = EntryKind::Client;
            self.names.release(client.as_str());
            self.names.keep(client.as_str(), Holder::Client);
        }
    }

    /// Marks an agent as known only from messages that survived a restart.
    pub fn presume(&mut self, agent: &AgentId) {
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.kind = EntryKind::Presumed;
        }
    }

    /// Marks a [presumed](Self::presume) entry as an agent.
    pub fn confirm(&mut self, agent: &AgentId) {
        if let Some(entry) = self.agents.get_mut(agent)
            && entry.kind == EntryKind::Presumed
        {
            entry.kind = EntryKind::Agent;
        }
    }

    /// The holder of a name, compared case-insensitively, with its spelling.
    #[must_use]
    pub fn holder(&self, name: &str) -> Option<(&str, Holder)> {
        self.names.holder(name).or_else(|| self.claimed.holder(name))
    }

    /// Removes an agent. The agent gets the same index when it returns.
    pub fn remove(&mut self, agent: &AgentId) -> Option<AgentKey> {
        let key = self.key(agent)?;
        let entry = self.agents.get_mut(agent)?;
        self.groups.leave(key, &entry.profile);
        entry.kind = EntryKind::Removed;
        entry.profile = Profile::default();
        (entry.tier, entry.listed, entry.registered) = (None, false, false);
        self.apart.remove(&key);
        self.by_name.remove(agent);
        self.removed += 1;
        self.names.release(agent.as_str());
        Some(key)
    }

    fn live(&self, agent: &AgentId) -> Option<(AgentKey, &Entry)> {
        let (slot, _, entry) = self.agents.get_full(agent)?;
        (entry.kind != EntryKind::Removed).then_some((AgentKey(slot), entry))
    }

    /// Replaces an agent's profile, or adds the agent.
    ///
    /// A configured agent can be updated and stays listed. An agent added here is not listed: only
    /// the configuration decides which agents may send when the directory is closed.
    ///
    /// # Errors
    /// [`CannotUpdate`]; nothing has changed then.
    pub fn update(&mut self, agent: AgentId, profile: Profile) -> Result<AgentKey, CannotUpdate> {
        if Self::is_reserved(&agent) {
            return Err(CannotUpdate::Reserved(agent));
        }
        let profile = match profile.check() {
            Ok(profile) => profile,
            Err(reason) => return Err(CannotUpdate::Profile { agent, reason }),
        };
        self.check_agent_name(&agent)?;
        if let Some(key) = self.key(&agent) {
            self.replace(key, |entry| Entry {
                kind: entry.kind,
                ..Entry::new(profile, entry.listed, true)
            });
            return Ok(key);
        }
        if self.len() >= self.capacity {
            return Err(CannotUpdate::Full { agent, capacity: self.capacity });
        }
        let full = CannotUpdate::Full { agent: agent.clone(), capacity: self.capacity };
        let key = self.insert(agent, profile, false).ok_or(full)?;
        self.replace(key, |entry| Entry::new(entry.profile.clone(), false, true));
        Ok(key)
    }

    /// Applies a new configuration: whether the directory is open, and which agents are listed.
    /// Removes no agent, since messages may wait for it; an agent that is no longer listed becomes
    /// an unlisted one. Returns the listed agents that are not known yet, for the caller to
    /// [insert](Self::insert).
    pub fn reconfigure(
        &mut self,
        open: bool,
        listed: Vec<(AgentId, Profile)>,
    ) -> Vec<(AgentId, Profile)> {
        self.open = open;
        let mut listed: IndexMap<AgentId, Profile> = listed.into_iter().collect();
        for slot in 0..self.agents.len() {
            let key = AgentKey(slot);
            if self.agents.get_index(slot).is_some_and(|(_, e)| e.kind == EntryKind::Removed) {
                continue;
            }
            let now = self.id(key).and_then(|agent| listed.swap_remove(agent));
            self.replace(key, |entry| {
                let is_listed = now.is_some();
                // The profile of an agent that was never listed did not come from the
                // configuration.
                let keeps = entry.registered || (!is_listed && !entry.listed);
                let profile = if keeps { entry.profile.clone() } else { now.unwrap_or_default() };
                let kind = match entry.kind {
                    EntryKind::Presumed if is_listed => EntryKind::Agent,
                    kind => kind,
                };
                Entry { kind, ..Entry::new(profile, is_listed, entry.registered) }
            });
        }
        listed.into_iter().collect()
    }

    fn replace(&mut self, key: AgentKey, with: impl FnOnce(&Entry) -> Entry) {
        let Some((_, entry)) = self.agents.get_index_mut(key.0) else { return };
        let new = with(entry);
        if !self.apart.contains(&key) && new.profile != entry.profile {
            self.groups.leave(key, &entry.profile);
            self.groups.enter(key, &new.profile);
        }
        *entry = new;
    }

    /// Takes an agent out of all scopes, so that it is reachable by name only. For agents that are
    /// part of the server, and for clients.
    pub fn set_apart(&mut self, agent: &AgentId) {
        if let Some((slot, _, entry)) = self.agents.get_full(agent) {
            let key = AgentKey(slot);
            if self.apart.insert(key) {
                self.groups.leave(key, &entry.profile);
            }
        }
    }

    /// Whether the agent is in no scope.
    #[must_use]
    pub fn is_apart(&self, key: AgentKey) -> bool {
        self.apart.contains(&key)
    }

    /// Whether the configuration lists the agent.
    #[must_use]
    pub fn is_listed(&self, key: AgentKey) -> bool {
        self.agents.get_index(key.0).is_some_and(|(_, entry)| entry.listed)
    }

    /// The agent's key; `None` when it is unknown or removed.
    #[must_use]
    pub fn key(&self, agent: &AgentId) -> Option<AgentKey> {
        self.live(agent).map(|(key, _)| key)
    }

    /// The agent's id, for a key of this directory.
    #[must_use]
    pub fn id(&self, key: AgentKey) -> Option<&AgentId> {
        self.agents.get_index(key.0).map(|(agent, _)| agent)
    }

    /// The agent's profile, for a key of this directory.
    #[must_use]
    pub fn profile(&self, key: AgentKey) -> Option<&Profile> {
        self.agents.get_index(key.0).map(|(_, entry)| &entry.profile)
    }

    /// The number of agents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.agents.len() - self.removed
    }

    /// Whether there is no agent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the agent is known.
    #[must_use]
    pub fn contains(&self, agent: &AgentId) -> bool {
        self.live(agent).is_some()
    }

    /// Whether the agent may send: listed, or the directory is open and not full.
    #[must_use]
    pub fn admits(&self, agent: &AgentId) -> bool {
        match self.live(agent) {
            Some((_, entry)) => entry.listed || self.open,
            None => self.open && self.len() < self.capacity,
        }
    }

    /// The agents after `name` in name order; all of them for `None`.
    pub fn after(
        &self,
        name: Option<&AgentId>,
    ) -> impl Iterator<Item = (AgentKey, &AgentId, &Profile)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let named = self.by_name.range::<AgentId, _>((from, Bound::Unbounded));
        named.filter_map(|(agent, key)| Some((*key, agent, self.profile(*key)?)))
    }

    /// Every agent with its key and profile, in registration order.
    pub fn iter(&self) -> impl Iterator<Item = (AgentKey, &AgentId, &Profile)> {
        let numbered = self.agents.iter().enumerate();
        let live = numbered.filter(|(_, (_, entry))| entry.kind != EntryKind::Removed);
        live.map(|(i, (agent, entry))| (AgentKey(i), agent, &entry.profile))
    }

    /// The recipients a message addresses. In a fan-out, unknown names are collected and the
    /// message still reaches the others.
    ///
    /// # Errors
    /// [`NoSuchAgent`] when the only recipient is unknown. It has no suggestion: the access rules
    /// decide which names the sender may see.
    pub fn recipients(&self, message: &Envelope) -> Result<Recipients, NoSuchAgent> {
        let from = &message.from.agent_id;
        let to = message.to.as_ref().map(|to| &to.agent_id);
        let (mut known, named) = match &message.body {
            Body::Broadcast(body) => (self.in_scope(from, body.scope), &[][..]),
            Body::KnowledgeShare(body) if body.relevant_to.is_empty() => {
                (self.in_scope(from, Scope::Squad), &[][..])
            }
            Body::KnowledgeShare(body) => (Vec::new(), &body.relevant_to[..]),
            _ => return self.only(to),
        };
        let mut unknown = IndexSet::new();
        let mut named_known = Vec::new();
        for agent in named.iter().chain(to).filter(|agent| *agent != from) {
            match self.key(agent) {
                Some(key) => named_known.push(key),
                None => drop(unknown.insert(agent)),
            }
        }
        if !named_known.is_empty() {
            known.append(&mut named_known);
            known.sort_unstable();
            known.dedup();
        }
        Ok(Recipients { known, unknown: unknown.into_iter().cloned().collect() })
    }

    fn only(&self, to: Option<&AgentId>) -> Result<Recipients, NoSuchAgent> {
        let unknown = |agent: &AgentId| NoSuchAgent { agent: agent.clone(), near: None };
        let key = to.map(|agent| self.key(agent).ok_or_else(|| unknown(agent))).transpose()?;
        Ok(Recipients { known: key.into_iter().collect(), unknown: Vec::new() })
    }

    fn in_scope(&self, from: &AgentId, scope: Scope) -> Vec<AgentKey> {
        let sender = self.key(from);
        let others = |keys: &[AgentKey]| {
            // One copy and one shift: a scope may hold ten thousand.
            let mut keys = keys.to_vec();
            if let Some(slot) = sender.and_then(|sender| keys.binary_search(&sender).ok()) {
                keys.remove(slot);
            }
            keys
        };
        match scope {
            Scope::Org => {
                let everyone = self.iter().map(|(key, ..)| key);
                everyone.filter(|key| Some(*key) != sender && !self.apart.contains(key)).collect()
            }
            Scope::CSuite => others(self.groups.c_suite()),
            Scope::Squad => {
                let squad = self.agents.get(from).and_then(|entry| entry.profile.squad.as_deref());
                others(self.groups.squad(squad))
            }
        }
    }

    /// The known name most similar to `agent` that `may_reach` accepts: a suggestion must not
    /// reveal agents the sender may not reach. Never suggests an agent that is in no scope.
    #[must_use]
    pub fn nearest(
        &self,
        agent: &AgentId,
        may_reach: impl Fn(AgentKey) -> bool,
    ) -> Option<AgentId> {
        const NEAR: f64 = 0.82;
        const LOOK_AT: usize = 1_000;
        let similarity = |known: &AgentId| strsim::jaro_winkler(known.as_str(), agent.as_str());
        let looked_at = self.iter().take(LOOK_AT);
        let scored = looked_at.map(|(key, known, _)| (similarity(known), key, known));
        let near = scored.filter(|(score, key, _)| {
            *score >= NEAR && !self.apart.contains(key) && may_reach(*key)
        });
        near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, _, known)| known.clone())
    }
}

#[cfg(test)]
mod tests;
