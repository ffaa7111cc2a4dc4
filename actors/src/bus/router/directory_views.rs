//! Queries of the directory: agents, their presence, and which of them a caller may reach.

use a2a_policy::{
    AccessQuery, AgentKey, Directory, Explanation, Holder, Profile, RateSettings, Reach,
};
use a2a_protocol::body::Scope;
use a2a_protocol::{AgentId, Kind, Timestamp};
use actix::prelude::*;
use chrono::SubsecRound;
use schemars::JsonSchema;
use serde::Serialize;

use super::{MAX_SCAN, Part, Router};

/// Maximum agents scanned for one answer: a directory may have 200,000, and this runs on the bus
/// thread.
const SCAN_LIMIT: usize = 2_000;

/// Whether an agent is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It has a session, a waiting call or messages in flight, or its last call was less than 15
    /// seconds ago.
    Online,
    /// It is registered and not connected; messages to it wait.
    Offline,
}

/// An agent as others see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Its id.
    pub agent_id: AgentId,
    /// What is known of it.
    #[serde(flatten)]
    pub profile: Profile,
    /// Whether it is connected, or was a moment ago.
    pub presence: Presence,
    /// When it was last there, since the bus started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Sessions with the agent's code in them.
    pub sessions: usize,
    /// Whether it has a session, or a call that waits for messages, at this moment.
    pub connected: bool,
    /// Messages that wait or are being handled.
    pub pending: usize,
    /// How many bytes they have.
    pub pending_bytes: usize,
}

/// Lists agents by name. One message scans a bounded number; the caller continues at `next`, so
/// that other messages are handled in between.
#[derive(Message)]
#[rtype(result = "Part<AgentView, AgentId>")]
pub(crate) struct ListAgents {
    /// Only agents that this one may write to, and itself.
    pub(crate) viewer: Option<AgentId>,
    pub(crate) after: Option<AgentId>,
    pub(crate) limit: usize,
}

impl Handler<ListAgents> for Router {
    type Result = MessageResult<ListAgents>;

    fn handle(&mut self, ask: ListAgents, _: &mut Self::Context) -> Self::Result {
        let view_filter = self.view_filter(ask.viewer.as_ref());
        let mut part = Part::default();
        let mut all = self.directory.after(ask.after.as_ref()).enumerate();
        while let Some((scanned, agent)) = all.next() {
            if !self.directory.is_apart(agent.0) && view_filter.includes(agent) {
                part.found.push(self.view(agent));
            }
            if part.found.len() == ask.limit || scanned + 1 == MAX_SCAN {
                part.next = all.next().map(|_| agent.1.clone());
                break;
            }
        }
        MessageResult(part)
    }
}

/// One agent, including those set apart.
#[derive(Message)]
#[rtype(result = "Option<AgentView>")]
pub(crate) struct FindAgent {
    /// `None` in the reply when this agent may not write to it.
    pub(crate) viewer: Option<AgentId>,
    pub(crate) agent: AgentId,
}

impl Handler<FindAgent> for Router {
    type Result = MessageResult<FindAgent>;

    fn handle(
        &mut self,
        FindAgent { viewer, agent }: FindAgent,
        _: &mut Self::Context,
    ) -> Self::Result {
        let key = self.directory.key(&agent);
        let found = key.and_then(|key| Some((key, &agent, self.directory.profile(key)?)));
        let found = found.filter(|found| self.view_filter(viewer.as_ref()).includes(*found));
        MessageResult(found.map(|found| self.view(found)))
    }
}

/// Whether, and by which rule, one agent may write to another; `None` when either is unknown.
#[derive(Message)]
#[rtype(result = "Option<Explanation>")]
pub(crate) struct Explain {
    pub(crate) from: AgentId,
    pub(crate) to: AgentId,
    pub(crate) kind: Kind,
    pub(crate) scope: Option<Scope>,
}

impl Handler<Explain> for Router {
    type Result = MessageResult<Explain>;

    fn handle(&mut self, ask: Explain, _: &mut Self::Context) -> Self::Result {
        let party = |agent| self.directory.key(agent).and_then(|key| self.directory.profile(key));
        let explanation = party(&ask.from).zip(party(&ask.to)).map(|(from, to)| {
            self.access.explain(&AccessQuery {
                from: (&ask.from, from),
                to: (&ask.to, to),
                kind: ask.kind,
                scope: ask.scope,
            })
        });
        MessageResult(explanation)
    }
}

/// Holder of a name in any case, and its spelling.
#[derive(Message)]
#[rtype(result = "Option<(String, Holder)>")]
pub(crate) struct FindName(pub(crate) String);

impl Handler<FindName> for Router {
    type Result = MessageResult<FindName>;

    fn handle(&mut self, FindName(name): FindName, _: &mut Self::Context) -> Self::Result {
        let found = self.directory.holder(&name);
        MessageResult(found.map(|(name, holder)| (name.to_owned(), holder)))
    }
}

/// Agents that a caller may assign tasks to, and its rate limits; for the extended agent card.
#[derive(Message)]
#[rtype(result = "ReachableAgents")]
pub(crate) struct ListReachable {
    /// Sender name of the caller's messages.
    pub(crate) from: AgentId,
    /// Maximum number of agents.
    pub(crate) most: usize,
}

/// Agents within reach of a caller.
#[derive(Debug, Clone)]
pub struct ReachableAgents {
    /// Agents that accept its tasks, the earliest known first.
    pub agents: Vec<(AgentId, Profile)>,
    /// There may be others.
    pub more: bool,
    /// Rate limits of the caller.
    pub rates: RateSettings,
}

impl Handler<ListReachable> for Router {
    type Result = MessageResult<ListReachable>;

    fn handle(
        &mut self,
        ListReachable { from, most }: ListReachable,
        _: &mut Self::Context,
    ) -> Self::Result {
        let unknown = Profile::default();
        let profile = self.directory.key(&from).and_then(|key| self.directory.profile(key));
        let profile = profile.unwrap_or(&unknown);
        let (mut agents, mut more) = (Vec::new(), false);
        for (at, (key, id, other)) in self.directory.iter().enumerate() {
            if at >= SCAN_LIMIT || agents.len() >= most {
                more = true;
                break;
            }
            let is_agent =
                !self.directory.is_apart(key) && !Directory::is_reserved(id) && *id != from;
            let asked = AccessQuery {
                from: (&from, profile),
                to: (id, other),
                kind: Kind::TaskRequest,
                scope: None,
            };
            if is_agent && self.access.decide(&asked).allowed {
                agents.push((id.clone(), other.clone()));
            }
        }
        MessageResult(ReachableAgents { agents, more, rates: *self.rate_limits.settings() })
    }
}

/// The agents that a viewer may see.
struct ViewFilter<'a>(Option<(&'a AgentId, Reach<'a>)>);

impl ViewFilter<'_> {
    fn includes(&self, (_, agent, profile): (AgentKey, &AgentId, &Profile)) -> bool {
        let Self(Some((viewer, reach))) = self else { return true };
        *viewer == agent || reach.includes((agent, profile))
    }
}

impl Router {
    /// The agents that `viewer` may see; without a viewer, all agents.
    fn view_filter<'a>(&'a self, viewer: Option<&'a AgentId>) -> ViewFilter<'a> {
        static NEW: Profile = Profile::NEW;
        ViewFilter(viewer.map(|viewer| {
            let profile = self.directory.key(viewer).and_then(|key| self.directory.profile(key));
            (viewer, self.access.reach((viewer, profile.unwrap_or(&NEW))))
        }))
    }

    fn view(&self, (key, agent, profile): (AgentKey, &AgentId, &Profile)) -> AgentView {
        let now = self.bus.clock.now();
        let numbers = self.sessions[key.index()].all();
        let mailboxes: Vec<_> =
            numbers.filter_map(|number| self.bus.mailboxes.get(number)).collect();
        let sessions = mailboxes.iter().filter(|mailbox| mailbox.capacity.is_live()).count();
        let polled = mailboxes.iter().filter(|mailbox| mailbox.is_polled(now.uptime)).count() > 0;
        let seen = mailboxes.iter().filter_map(|mailbox| mailbox.last_seen.get()).max();
        let ago = seen.map(|seen| now.uptime.saturating_sub(seen));
        // A polling agent holds messages until their lease ends; one that died is offline after
        // that.
        let holds = mailboxes.iter().any(|mailbox| mailbox.inbox.borrow().in_flight() > 0);
        let grace = self.bus.settings.presence_grace;
        let here = sessions > 0 || polled || holds || ago.is_some_and(|ago| ago < grace);
        let last =
            if sessions > 0 || polled { Some(now.utc) } else { ago.map(|ago| now.utc - ago) };
        AgentView {
            agent_id: agent.clone(),
            profile: profile.clone(),
            presence: if here { Presence::Online } else { Presence::Offline },
            last_seen: last.map(|last| last.trunc_subsecs(3).into()),
            sessions,
            connected: sessions > 0 || polled,
            pending: mailboxes.iter().map(|mailbox| mailbox.capacity.taken()).sum(),
            pending_bytes: mailboxes.iter().map(|mailbox| mailbox.capacity.bytes()).sum(),
        }
    }
}
