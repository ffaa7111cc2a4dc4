//! What the pipeline looks at and changes, as the router holds it.

use a2a_policy::{
    AccessRules, AgentKey, Audience, Breaker, Floor, InboxFull, Ledger, Limited, Now, Roster,
    SeenBefore,
};
use a2a_protocol::{AgentId, Body, Envelope, Outcome};

use super::Router;
use crate::bus::notice;

impl Floor for Router {
    fn roster(&self) -> &Roster {
        &self.roster
    }

    fn access(&self) -> &AccessRules {
        &self.access
    }

    fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    fn breaker(&mut self) -> &mut Breaker {
        &mut self.breaker
    }

    fn max_recipients(&self) -> usize {
        self.max_recipients
    }

    fn seen(&self, message: &Envelope, fingerprint: u64) -> Option<SeenBefore> {
        self.seen.check(&message.message_id, fingerprint)
    }

    fn charge(&mut self, message: &Envelope, to: &[AgentKey], now: Now) -> Result<(), Limited> {
        let audience = match to {
            [only] => self.roster.id(*only).map_or(Audience::Many(1), Audience::One),
            many => Audience::Many(many.len()),
        };
        // The answer to a task of a gateway's caller was paid for by the caller.
        let answers = matches!(message.body, Body::TaskResponse(_));
        if answers && to.iter().any(|key| self.is_intercepted(*key, message)) {
            return Ok(());
        }
        self.limits.charge(&message.from.agent_id, audience, message.priority, now)
    }

    fn charge_refusal(&mut self, sender: &AgentId, now: Now) -> Result<(), Limited> {
        self.limits.charge_refusal(sender, now)
    }

    fn is_refused_too_often(&self, sender: &AgentId, now: Now) -> bool {
        self.limits.wait_after_refusals(sender, now).is_some()
    }

    fn has_room(&self, message: &Envelope, bytes: usize) -> Result<(), InboxFull> {
        // Notices have room beyond the limit here as they have in each inbox.
        let times = if is_notice(message) { 2 } else { 1 };
        let limit = self.pending_bytes;
        if self.bus.held.get().saturating_add(bytes) > limit.saturating_mul(times) {
            return Err(InboxFull::AllBytes { limit });
        }
        Ok(())
    }

    fn reserve(
        &mut self,
        agent: AgentKey,
        message: &Envelope,
        bytes: usize,
    ) -> Result<Outcome, InboxFull> {
        let sessions = &mut self.sessions[agent.index()];
        let number = sessions.choose(&message.from.agent_id, message, &self.bus.mailboxes);
        // Notices are exempt from limits; there are never more than messages given up.
        let exempt = is_notice(message);
        let outcome = self.bus.mailboxes.take_slot(number, exempt, bytes)?;
        self.reserved.push(number);
        Ok(outcome)
    }
}

fn is_notice(message: &Envelope) -> bool {
    message.from.agent_id.as_str() == notice::SYSTEM
}

impl Router {
    /// Whether the task service takes this message for the agent.
    fn is_intercepted(&self, agent: AgentKey, message: &Envelope) -> bool {
        let sessions = &self.sessions[agent.index()];
        sessions.is_intercepted(&message.from.agent_id, message, &self.bus.mailboxes)
    }
}
