//! Who may have which name: clients are claimed here, and names are looked up.

use std::sync::Arc;

use a2a_policy::{Holder, NameTaken, Profile, QueueEntry};
use a2a_protocol::{AgentId, Body};
use actix::prelude::*;

use super::Router;
use crate::bus::message::StoredMessage;

/// The A2A clients that have a token now, in place of those claimed before. The reply names those
/// that cannot have their name, because an agent has it.
#[derive(Message)]
#[rtype(result = "Vec<NameTaken>")]
pub(crate) struct ClaimNames(pub(crate) Vec<AgentId>);

impl Handler<ClaimNames> for Router {
    type Result = MessageResult<ClaimNames>;

    fn handle(&mut self, ClaimNames(clients): ClaimNames, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.claim_names(&clients))
    }
}

/// Who holds a name in any case, as it is spelled.
#[derive(Message)]
#[rtype(result = "Option<(String, Holder)>")]
pub(crate) struct FindName(pub(crate) String);

impl Handler<FindName> for Router {
    type Result = MessageResult<FindName>;

    fn handle(&mut self, FindName(name): FindName, _: &mut Self::Context) -> Self::Result {
        let found = self.roster.holder(&name);
        MessageResult(found.map(|(name, holder)| (name.to_owned(), holder)))
    }
}

impl Router {
    pub(super) fn claim_names(&mut self, clients: &[AgentId]) -> Vec<NameTaken> {
        let unnamed = &self.bus.settings.unnamed;
        // No agent can have these, not even one that an older version let in.
        for name in unnamed.iter().filter(|name| self.roster.contains(name)).collect::<Vec<_>>() {
            self.roster.set_client(name);
        }
        let all: Vec<_> = clients.iter().chain(unnamed).cloned().collect();
        self.roster.claim(&all)
    }

    /// Makes a name known that is on record only in a message that survived a restart: the name
    /// is an agent's or a client's.
    pub(super) fn presume(&mut self, agent: &AgentId, ctx: &mut Context<Self>) {
        if self.ensure_agent(agent.clone(), Profile::default(), false, ctx) {
            self.roster.presume(agent);
        }
    }
}

/// Whether a message is what a client gets: an answer to a task or a report on it. Anything else
/// in an inbox shows that the inbox is an agent's.
pub(super) fn is_answer(entry: &QueueEntry<Arc<StoredMessage>>) -> bool {
    matches!(entry.item.message.body, Body::TaskResponse(_) | Body::StatusUpdate(_))
}
