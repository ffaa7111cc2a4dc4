//! Messages that were given up: listed, sent again, dropped.

use a2a_policy::Delivery;
use a2a_protocol::{AgentId, Event, MessageId};
use a2a_store::{EventLine, Line};
use actix::prelude::*;
use serde::Serialize;

use super::{Dead, Router};
use crate::audit::Then;
use crate::writer::Append;

/// A dead letter as people see it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterView {
    /// The number of its record.
    pub seq: u64,
    /// The message.
    pub message_id: MessageId,
    /// Who sent it.
    pub sender: AgentId,
    /// Who could not handle it.
    pub agent_id: AgentId,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong the last time.
    pub reason: String,
}

#[derive(Message)]
#[rtype(result = "Vec<DeadLetterView>")]
pub(crate) struct ListDeadLetters;

impl Handler<ListDeadLetters> for Router {
    type Result = MessageResult<ListDeadLetters>;

    fn handle(&mut self, _: ListDeadLetters, _: &mut Self::Context) -> Self::Result {
        let view = |((seq, agent), dead): (&(u64, AgentId), &Dead)| DeadLetterView {
            seq: *seq,
            message_id: dead.delivery.item.message.message_id,
            sender: dead.delivery.by.clone(),
            agent_id: agent.clone(),
            attempts: dead.delivery.attempts,
            reason: dead.reason.clone(),
        };
        MessageResult(self.dead.iter().map(view).collect())
    }
}

/// Sends a dead letter again, or throws it away; `false` when there is none.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct ResolveDeadLetter {
    pub(crate) seq: u64,
    pub(crate) agent: AgentId,
    pub(crate) again: bool,
}

impl Handler<ResolveDeadLetter> for Router {
    type Result = bool;

    fn handle(&mut self, request: ResolveDeadLetter, _: &mut Self::Context) -> bool {
        let ResolveDeadLetter { seq, agent, again } = request;
        self.resolve_dead_letter(seq, &agent, again)
    }
}

impl Router {
    pub(super) fn resolve_dead_letter(&mut self, seq: u64, agent: &AgentId, again: bool) -> bool {
        let Some(dead) = self.dead.remove(&(seq, agent.clone())) else { return false };
        let line = Line::Event(EventLine {
            of: Some(seq),
            message_id: Some(dead.delivery.item.message.message_id),
            agent_id: Some(agent.clone()),
            ..self.shared.event(if again { Event::Returned } else { Event::Dropped })
        });
        self.shared.append(Append { line, then: Then::Nothing });
        if again {
            self.deliver_again(agent, Delivery { attempts: 0, ..dead.delivery });
        }
        true
    }
}
