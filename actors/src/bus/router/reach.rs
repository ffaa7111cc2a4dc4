//! What a caller of A2A may reach, and how much it may send: for the extended agent card.

use a2a_policy::{Asked, Profile, RateSettings, Roster};
use a2a_protocol::{AgentId, Kind};
use actix::prelude::*;

use super::Router;

/// How many agents are looked at for one answer: a directory may have 200,000, and this runs on the
/// thread of the bus.
const LOOKED_AT: usize = 2_000;

/// Which agents a caller may give tasks, and its limits.
#[derive(Message)]
#[rtype(result = "Reach")]
pub(crate) struct ListReachable {
    /// The name under which its messages travel.
    pub(crate) from: AgentId,
    /// How many agents at most.
    pub(crate) most: usize,
}

/// What a caller may reach.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Agents that take its tasks, those known longest first.
    pub agents: Vec<(AgentId, Profile)>,
    /// There may be others.
    pub more: bool,
    /// How much it may send.
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
        let profile = self.roster.key(&from).and_then(|key| self.roster.profile(key));
        let profile = profile.unwrap_or(&unknown);
        let (mut agents, mut more) = (Vec::new(), false);
        for (at, (key, id, other)) in self.roster.iter().enumerate() {
            if at >= LOOKED_AT || agents.len() >= most {
                more = true;
                break;
            }
            let is_agent = !self.roster.is_apart(key) && !Roster::is_reserved(id) && *id != from;
            let asked = Asked {
                from: (&from, profile),
                to: (id, other),
                kind: Kind::TaskRequest,
                scope: None,
            };
            if is_agent && self.access.decide(&asked).allowed {
                agents.push((id.clone(), other.clone()));
            }
        }
        MessageResult(Reach { agents, more, rates: *self.limits.settings() })
    }
}
