//! Who is there, as others see it.

use a2a_policy::{AgentKey, Profile};
use a2a_protocol::AgentId;
use actix::prelude::*;
use serde::Serialize;

use super::Router;

/// An agent as others see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Its id.
    pub agent_id: AgentId,
    /// What is known of it.
    #[serde(flatten)]
    pub profile: Profile,
    /// Sessions with the agent's code in them.
    pub sessions: usize,
    /// Messages that wait or are being handled.
    pub pending: usize,
}

#[derive(Message)]
#[rtype(result = "Vec<AgentView>")]
pub(crate) struct ListAgents;

impl Handler<ListAgents> for Router {
    type Result = MessageResult<ListAgents>;

    fn handle(&mut self, _: ListAgents, _: &mut Self::Context) -> Self::Result {
        let view = |(key, agent, profile): (AgentKey, &AgentId, &Profile)| {
            let numbers = self.sessions[key.index()].all();
            let desks: Vec<_> =
                numbers.filter_map(|number| self.shared.desks.get(number)).collect();
            AgentView {
                agent_id: agent.clone(),
                profile: profile.clone(),
                sessions: desks.iter().filter(|desk| desk.slots.is_live()).count(),
                pending: desks.iter().map(|desk| desk.slots.taken()).sum(),
            }
        };
        let mut agents: Vec<_> = self.roster.iter().map(view).collect();
        agents.sort_by(|a, b| a.agent_id.cmp(&b.agent_id));
        MessageResult(agents)
    }
}
