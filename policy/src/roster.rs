//! Who is there: agents, what they are, and whom a message reaches.

use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Body, Envelope};
use indexmap::IndexMap;
use serde::Serialize;

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

/// What is known about an agent beyond its id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Its role, such as `Staff Engineer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Its squad; agents without one form a squad together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub squad: Option<String>,
    /// Its tier, such as `T3-Staff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Whether it belongs to the c-suite.
    pub c_suite: bool,
}

/// A recipient nobody knows, with names that are near.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent `{agent}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct NoSuchAgent {
    /// The name in the message.
    pub agent: AgentId,
    /// The nearest known name.
    pub near: Option<AgentId>,
}

/// Names no agent may take: the bus and people speak under them.
const RESERVED: &[&str] = &["system", "human", "operator"];

/// Every agent the bus knows.
#[derive(Debug, Default)]
pub struct Roster {
    agents: IndexMap<AgentId, Entry>,
    open: bool,
    capacity: usize,
}

#[derive(Debug)]
struct Entry {
    profile: Profile,
    /// Named in the configuration: may send even when the directory is closed.
    listed: bool,
}

impl Roster {
    /// A roster; an `open` one admits senders nobody listed, until there are `capacity`.
    #[must_use]
    pub fn new(open: bool, capacity: usize) -> Self {
        Self { agents: IndexMap::new(), open, capacity }
    }

    /// Whether `agent` is a name no agent may take.
    #[must_use]
    pub fn is_reserved(agent: &AgentId) -> bool {
        RESERVED.iter().any(|name| agent.as_str().eq_ignore_ascii_case(name))
    }

    /// Adds an agent; `None` when it is known already.
    pub fn insert(&mut self, agent: AgentId, profile: Profile, listed: bool) -> Option<AgentKey> {
        match self.agents.entry(agent) {
            indexmap::map::Entry::Occupied(_) => None,
            indexmap::map::Entry::Vacant(place) => {
                let key = AgentKey(place.index());
                place.insert(Entry { profile, listed });
                Some(key)
            }
        }
    }

    /// The agent's place.
    #[must_use]
    pub fn key(&self, agent: &AgentId) -> Option<AgentKey> {
        self.agents.get_index_of(agent).map(AgentKey)
    }

    /// The agent at a place this roster gave out.
    #[must_use]
    pub fn id(&self, key: AgentKey) -> Option<&AgentId> {
        self.agents.get_index(key.0).map(|(agent, _)| agent)
    }

    /// Whether the agent is known.
    #[must_use]
    pub fn contains(&self, agent: &AgentId) -> bool {
        self.agents.contains_key(agent)
    }

    /// Whether the agent may send: listed, or the roster is open and has room for it.
    #[must_use]
    pub fn admits(&self, agent: &AgentId) -> bool {
        match self.agents.get(agent) {
            Some(entry) => entry.listed || self.open,
            None => self.open && self.agents.len() < self.capacity,
        }
    }

    /// Every agent with its place and profile, in the order in which they joined.
    pub fn iter(&self) -> impl Iterator<Item = (AgentKey, &AgentId, &Profile)> {
        let numbered = self.agents.iter().enumerate();
        numbered.map(|(i, (agent, entry))| (AgentKey(i), agent, &entry.profile))
    }

    /// Whom a message is for, each once; the sender of a fan-out is never among them.
    ///
    /// # Errors
    /// [`NoSuchAgent`] for a name in `to` or `relevantTo` that nobody has.
    pub fn recipients(&self, message: &Envelope) -> Result<Vec<AgentKey>, NoSuchAgent> {
        let from = &message.from.agent_id;
        let to = message.to.as_ref().map(|to| self.known(&to.agent_id)).transpose()?;
        let mut found = match &message.body {
            Body::Broadcast(body) => self.in_scope(from, body.scope),
            Body::KnowledgeShare(body) if body.relevant_to.is_empty() => {
                self.in_scope(from, Scope::Squad)
            }
            Body::KnowledgeShare(body) => {
                let named = body.relevant_to.iter().filter(|agent| *agent != from);
                let mut named =
                    named.map(|agent| self.known(agent)).collect::<Result<Vec<_>, _>>()?;
                named.sort_unstable();
                named.dedup();
                named
            }
            _ => return Ok(to.into_iter().collect()),
        };
        // Places are handed out in ascending order above, so one more is easily found.
        if let Some(to) = to.filter(|to| Some(*to) != self.key(from))
            && let Err(place) = found.binary_search(&to)
        {
            found.insert(place, to);
        }
        Ok(found)
    }

    fn known(&self, agent: &AgentId) -> Result<AgentKey, NoSuchAgent> {
        let unknown = || NoSuchAgent { agent: agent.clone(), near: self.nearest(agent) };
        self.key(agent).ok_or_else(unknown)
    }

    fn in_scope(&self, from: &AgentId, scope: Scope) -> Vec<AgentKey> {
        let sender = self.key(from);
        let squad = self.agents.get(from).and_then(|entry| entry.profile.squad.as_deref());
        let reached = |profile: &Profile| match scope {
            Scope::Org => true,
            Scope::CSuite => profile.c_suite,
            Scope::Squad => profile.squad.as_deref() == squad,
        };
        let agents = self.agents.values().enumerate().map(|(i, e)| (AgentKey(i), &e.profile));
        let others = agents.filter(|(key, _)| Some(*key) != sender);
        others.filter(|(_, profile)| reached(profile)).map(|(key, _)| key).collect()
    }

    fn nearest(&self, agent: &AgentId) -> Option<AgentId> {
        const NEAR: f64 = 0.82;
        const LOOK_AT: usize = 1_000;
        let similarity = |known: &AgentId| strsim::jaro_winkler(known.as_str(), agent.as_str());
        let scored = self.agents.keys().take(LOOK_AT).map(|known| (similarity(known), known));
        let near = scored.filter(|(score, _)| *score >= NEAR).max_by(|a, b| a.0.total_cmp(&b.0));
        near.map(|(_, known)| known.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2a_protocol::Kind;

    fn id(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    fn roster() -> Roster {
        let mut roster = Roster::new(true, 5);
        let profile = |squad: &str, c_suite| Profile {
            squad: Some(squad.into()),
            c_suite,
            ..Profile::default()
        };
        roster.insert(id("roman"), profile("core", false), true);
        roster.insert(id("tim"), profile("core", false), true);
        roster.insert(id("tony"), profile("web", false), false);
        roster.insert(id("xavier"), profile("web", true), false);
        roster
    }

    fn reached(message: &serde_json::Value) -> Vec<String> {
        let message = Envelope::parse(message.to_string().as_bytes()).unwrap();
        let roster = roster();
        let keys = roster.recipients(&message).unwrap();
        keys.into_iter().map(|key| roster.id(key).unwrap().to_string()).collect()
    }

    #[test]
    fn each_scope_reaches_its_agents_but_not_the_sender() {
        let mut message = serde_json::to_value(Kind::Broadcast.example_message()).unwrap();
        for (scope, agents) in [
            ("squad", vec!["tim"]),
            ("org", vec!["tim", "tony", "xavier"]),
            ("c-suite", vec!["xavier"]),
        ] {
            message["payload"]["scope"] = scope.into();
            assert_eq!(reached(&message), agents, "{scope}");
        }
        message["to"] = serde_json::json!({ "agentId": "tony" });
        assert_eq!(reached(&message), ["tony", "xavier"]);
        message["to"] = serde_json::json!({ "agentId": "roman" });
        assert_eq!(reached(&message), ["xavier"], "the sender is never among them");
    }

    #[test]
    fn a_closed_roster_admits_the_listed_and_a_full_one_nobody_new() {
        let mut roster = roster();
        assert!(roster.admits(&id("tony")) && roster.admits(&id("new")));
        roster.insert(id("fifth"), Profile::default(), false);
        assert!(roster.admits(&id("tony")) && !roster.admits(&id("new")));
        roster.open = false;
        assert!(roster.admits(&id("tim")) && !roster.admits(&id("tony")));
    }

    #[test]
    fn knowledge_reaches_whom_it_names_or_the_squad() {
        let mut message = serde_json::to_value(Kind::KnowledgeShare.example_message()).unwrap();
        message["payload"]["relevantTo"] = serde_json::json!(["tony", "tim", "roman", "tim"]);
        assert_eq!(reached(&message), ["tim", "tony"]);
        message["payload"]["relevantTo"] = serde_json::json!([]);
        assert_eq!(reached(&message), ["tim"]);
    }

    #[test]
    fn an_unknown_recipient_is_refused_with_the_nearest_name() {
        let mut message = serde_json::to_value(Kind::TaskRequest.example_message()).unwrap();
        message["to"]["agentId"] = "tonny".into();
        let message = Envelope::parse(message.to_string().as_bytes()).unwrap();
        let refused = roster().recipients(&message).unwrap_err();
        assert_eq!(refused.to_string(), "there is no agent `tonny`; did you mean `tony`?");
    }

    #[test]
    fn names_of_the_bus_and_of_people_are_reserved() {
        assert!(Roster::is_reserved(&id("system")) && Roster::is_reserved(&id("Human")));
        assert!(!Roster::is_reserved(&id("systems")));
    }
}
