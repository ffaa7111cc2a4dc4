//! Who is there: agents, what they are, and whom a message reaches.

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

/// An agent's place in the roster: never reused while the bus runs, cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentKey(usize);

impl AgentKey {
    /// The place as a number from 0, for tables that run beside the roster.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A recipient nobody knows, with a name that is near.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent `{agent}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct NoSuchAgent {
    /// The name in the message.
    pub agent: AgentId,
    /// The nearest name the sender may write to, once [`Directory::nearest`] was asked for it.
    pub near: Option<AgentId>,
}

/// Whom a message is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipients {
    /// The agents it reaches, ascending, each once; the sender of a fan-out is never among them.
    pub known: Vec<AgentKey>,
    /// Names in a fan-out that nobody has, each once, in the order of the message.
    pub unknown: Vec<AgentId>,
}

/// Why a profile was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotUpdate {
    /// What it says.
    #[error("the profile of `{agent}` is refused: {reason}")]
    Profile {
        /// Whose.
        agent: AgentId,
        /// What is wrong with it.
        reason: BadProfile,
    },
    /// The name is not one for agents.
    #[error("`{0}` is a name of the bus or of people; choose another for the agent")]
    Reserved(AgentId),
    /// The name belongs to another agent, or to a client.
    #[error(transparent)]
    Taken(#[from] NameTaken),
    /// There are too many agents already.
    #[error(
        "there is no room for `{agent}`: the bus knows {capacity} agents, as many as it may; raise the limit on agents"
    )]
    Full {
        /// Who.
        agent: AgentId,
        /// How many there may be.
        capacity: usize,
    },
}

/// Names no agent may take: the bus and people speak under them.
const RESERVED: &[&str] = &[
    "system",
    "human",
    "operator", // who is no agent
    "bus",
    "agents",
    "a2a",
    "v1",
    "message",
    "tasks",
    "task",
    "card",
    "extendedAgentCard", // paths
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
/// Names under which people speak.
const PEOPLE: &[&str] = &["human", "operator"];

/// Every agent the bus knows.
#[derive(Debug, Default)]
pub struct Directory {
    agents: IndexMap<AgentId, Entry>,
    /// The same in the order of their names, for lists in pages.
    by_name: BTreeMap<AgentId, AgentKey>,
    groups: Groups,
    /// Who is reached by name only, in the order of joining.
    apart: BTreeSet<AgentKey>,
    open: bool,
    capacity: usize,
    /// The names of `agents`; those of the bus and of people are not in it.
    names: Names,
    /// The clients that have a token, whether they ever called or not.
    claimed: Names,
    /// Entries that were removed and keep their place.
    removed: usize,
}

#[derive(Debug)]
struct Entry {
    profile: Profile,
    /// The number of its tier, read once.
    tier: Option<u32>,
    /// Named in the configuration: may send even when the directory is closed.
    listed: bool,
    /// It was said while the bus runs what it is, which counts more than the configuration.
    registered: bool,
    /// What the name stands for.
    kind: EntryKind,
}

/// What an entry of the roster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Agent,
    /// Known only because messages from it or for it survived a restart: an agent, unless a
    /// client claims the name.
    Presumed,
    /// A caller of the A2A gateway: no agent can send, attach or register under its name.
    Client,
    /// It was removed; the place stays, so that no other agent ever gets its key.
    Removed,
}

impl Entry {
    fn new(profile: Profile, listed: bool, registered: bool) -> Self {
        let kind = EntryKind::Agent;
        Self { tier: profile.tier_number(), profile, listed, registered, kind }
    }
}

impl Directory {
    /// A roster; an `open` one admits senders nobody listed, until there are `capacity`.
    #[must_use]
    pub fn new(open: bool, capacity: usize) -> Self {
        Self { open, capacity, ..Self::default() }
    }

    /// Whether `agent` is a name no agent may take.
    #[must_use]
    pub fn is_reserved(agent: &AgentId) -> bool {
        RESERVED.iter().any(|name| agent.as_str().eq_ignore_ascii_case(name))
    }

    /// Whether people speak under this name; agents never do.
    #[must_use]
    pub fn is_for_people(name: &AgentId) -> bool {
        PEOPLE.iter().any(|person| name.as_str().eq_ignore_ascii_case(person))
    }

    /// Whether whoever speaks under this name has an inbox for the answers: agents and people.
    #[must_use]
    pub fn may_be_answered(name: &AgentId) -> bool {
        Self::is_for_people(name) || !Self::is_reserved(name)
    }

    /// Adds an agent; `None` when it is known already.
    pub fn insert(&mut self, agent: AgentId, profile: Profile, listed: bool) -> Option<AgentKey> {
        let key = match self.agents.entry(agent) {
            indexmap::map::Entry::Occupied(mut place) => {
                if place.get().kind != EntryKind::Removed {
                    return None;
                }
                let key = AgentKey(place.index());
                self.removed -= 1;
                self.by_name.insert(place.key().clone(), key);
                self.groups.enter(key, &profile);
                place.insert(Entry::new(profile, listed, false));
                key
            }
            indexmap::map::Entry::Vacant(place) => {
                let key = AgentKey(place.index());
                self.by_name.insert(place.key().clone(), key);
                self.groups.enter(key, &profile);
                place.insert(Entry::new(profile, listed, false));
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

    /// Whether an agent can have this name: no client has it, and no agent in another case.
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

    /// Whether a client can have this name: no agent has it in any case.
    ///
    /// # Errors
    /// [`NameTaken`] with the holder.
    pub fn check_client_name(&self, name: &AgentId) -> Result<(), NameTaken> {
        match self.live(name) {
            Some((_, entry)) if entry.kind == EntryKind::Presumed => Ok(()),
            _ => self.names.check(name.as_str(), Holder::Client),
        }
    }

    /// The clients that have a token now, in place of those that were claimed before. Returns
    /// those that cannot have their name, because an agent has it.
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

    /// Notes that the name of a known entry is a client's. It is reached by name only.
    pub fn set_client(&mut self, client: &AgentId) {
        self.set_apart(client);
        if let Some(entry) = self.agents.get_mut(client) {
            entry.kind = EntryKind::Client;
            self.names.release(client.as_str());
            self.names.keep(client.as_str(), Holder::Client);
        }
    }

    /// Notes that an agent is known only by messages that survived a restart.
    pub fn presume(&mut self, agent: &AgentId) {
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.kind = EntryKind::Presumed;
        }
    }

    /// Notes that what was [presumed](Self::presume) is an agent.
    pub fn confirm(&mut self, agent: &AgentId) {
        if let Some(entry) = self.agents.get_mut(agent)
            && entry.kind == EntryKind::Presumed
        {
            entry.kind = EntryKind::Agent;
        }
    }

    /// Who holds a name in any case, as it is spelled.
    #[must_use]
    pub fn holder(&self, name: &str) -> Option<(&str, Holder)> {
        self.names.holder(name).or_else(|| self.claimed.holder(name))
    }

    /// Forgets an agent. Its place stays and is taken again when it returns.
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
        let (place, _, entry) = self.agents.get_full(agent)?;
        (entry.kind != EntryKind::Removed).then_some((AgentKey(place), entry))
    }

    /// Gives an agent another profile, or adds the agent.
    ///
    /// Agents from the configuration may be changed as well, and stay listed. One that is added
    /// is not listed by that: who may send when the directory is closed is for the configuration
    /// to say.
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

    /// What the configuration says from now on: whether it is open, and who is listed. Nobody is
    /// forgotten, since messages may wait for them: who is listed no more is an agent that nobody
    /// listed. Names those that are listed and not known, for the caller to [add](Self::insert).
    pub fn reconfigure(
        &mut self,
        open: bool,
        listed: Vec<(AgentId, Profile)>,
    ) -> Vec<(AgentId, Profile)> {
        self.open = open;
        let mut listed: IndexMap<AgentId, Profile> = listed.into_iter().collect();
        for place in 0..self.agents.len() {
            let key = AgentKey(place);
            if self.agents.get_index(place).is_some_and(|(_, e)| e.kind == EntryKind::Removed) {
                continue;
            }
            let now = self.id(key).and_then(|agent| listed.swap_remove(agent));
            self.replace(key, |entry| {
                let is_listed = now.is_some();
                // What is known of one that was never listed was not the configuration's to say.
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

    /// Sets an agent apart: it is reached by its name, and belongs to no scope. For those who are
    /// part of the server, or only callers of it.
    pub fn set_apart(&mut self, agent: &AgentId) {
        if let Some((place, _, entry)) = self.agents.get_full(agent) {
            let key = AgentKey(place);
            if self.apart.insert(key) {
                self.groups.leave(key, &entry.profile);
            }
        }
    }

    /// Whether the agent at a place is set apart.
    #[must_use]
    pub fn is_apart(&self, key: AgentKey) -> bool {
        self.apart.contains(&key)
    }

    /// Whether the configuration lists the agent at a place.
    #[must_use]
    pub fn is_listed(&self, key: AgentKey) -> bool {
        self.agents.get_index(key.0).is_some_and(|(_, entry)| entry.listed)
    }

    /// The agent's place.
    #[must_use]
    pub fn key(&self, agent: &AgentId) -> Option<AgentKey> {
        self.live(agent).map(|(key, _)| key)
    }

    /// The agent at a place this roster gave out.
    #[must_use]
    pub fn id(&self, key: AgentKey) -> Option<&AgentId> {
        self.agents.get_index(key.0).map(|(agent, _)| agent)
    }

    /// What is known about the agent at a place this roster gave out.
    #[must_use]
    pub fn profile(&self, key: AgentKey) -> Option<&Profile> {
        self.agents.get_index(key.0).map(|(_, entry)| &entry.profile)
    }

    /// How many agents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.agents.len() - self.removed
    }

    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the agent is known.
    #[must_use]
    pub fn contains(&self, agent: &AgentId) -> bool {
        self.live(agent).is_some()
    }

    /// Whether the agent may send: listed, or the roster is open and has room for it.
    #[must_use]
    pub fn admits(&self, agent: &AgentId) -> bool {
        match self.live(agent) {
            Some((_, entry)) => entry.listed || self.open,
            None => self.open && self.len() < self.capacity,
        }
    }

    /// The agents whose names come after `name`, in that order; all of them without one.
    pub fn after(
        &self,
        name: Option<&AgentId>,
    ) -> impl Iterator<Item = (AgentKey, &AgentId, &Profile)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let named = self.by_name.range::<AgentId, _>((from, Bound::Unbounded));
        named.filter_map(|(agent, key)| Some((*key, agent, self.profile(*key)?)))
    }

    /// Every agent with its place and profile, in the order in which they joined.
    pub fn iter(&self) -> impl Iterator<Item = (AgentKey, &AgentId, &Profile)> {
        let numbered = self.agents.iter().enumerate();
        let live = numbered.filter(|(_, (_, entry))| entry.kind != EntryKind::Removed);
        live.map(|(i, (agent, entry))| (AgentKey(i), agent, &entry.profile))
    }

    /// Whom a message is for. In a fan-out a name nobody has is only set aside: the others can
    /// still be told.
    ///
    /// # Errors
    /// [`NoSuchAgent`] when nobody has the name of the only recipient; without a near name,
    /// since which names the sender may hear of is for the access rules to say.
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
            if let Some(place) = sender.and_then(|sender| keys.binary_search(&sender).ok()) {
                keys.remove(place);
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

    /// The name most like `agent` among those that `may_reach` lets through: a suggestion must
    /// not tell a sender of agents that are none of its business. Those set apart are no agents
    /// that anybody would look for.
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
