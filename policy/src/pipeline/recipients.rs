//! Whom a message reaches: names become agents, and those it may not reach are left out.

use a2a_protocol::body::{Scope, Verdict};
use a2a_protocol::{AgentId, Body, Envelope, Outcome};

use super::{Floor, Refusal};
use crate::{AgentKey, Asked, Decision, Now, Profile, Roster};

/// The recipients of a message.
pub(super) struct Resolved {
    /// Those it reaches, ascending.
    pub(super) known: Vec<AgentKey>,
    /// Names in a fan-out that nobody has, or that the sender may not reach: it cannot tell which.
    pub(super) unknown: Vec<AgentId>,
    /// Who an escalated review goes to.
    senior: Option<AgentKey>,
}

impl Resolved {
    /// Whom the message is for.
    pub(super) fn of(message: &Envelope, floor: &impl Floor, now: Now) -> Result<Self, Refusal> {
        let roster = floor.roster();
        let found = roster.recipients(message).map_err(|mut unknown| {
            let may_reach = |key| decide(message, key, floor).is_some_and(|d| d.allowed);
            // A sender that guesses names is not helped for ever.
            if !floor.is_refused_too_often(&message.from.agent_id, now) {
                unknown.near = roster.nearest(&unknown.agent, may_reach);
            }
            // With a suggestion it is a question.
            let end = if unknown.near.is_some() { "" } else { "." };
            Refusal::new(
                Outcome::UnknownRecipient,
                format!(
                    "{unknown}{end} Ask the bus who is there, or wait until the agent has joined."
                ),
            )
        })?;
        let mut to = Self { known: found.known, unknown: found.unknown, senior: None };
        to.escalate(message, floor);
        to.tell_the_requester(message, floor);
        let limit = floor.max_recipients();
        if to.known.len() > limit {
            let reason = format!(
                "The message would reach {} agents; one may reach at most {limit} (limits.max_recipients). Choose a smaller scope.",
                to.known.len()
            );
            return Err(Refusal::new(Outcome::Forbidden, reason));
        }
        Ok(to)
    }

    /// An escalated review goes to the agent it names; when that is one the task was with all
    /// along, the next tier hears of it as well.
    fn escalate(&mut self, message: &Envelope, floor: &impl Floor) {
        let Body::ReviewResponse(body) = &message.body else { return };
        if body.verdict != Verdict::Escalated {
            return;
        }
        let roster = floor.roster();
        let named = self.known.first().copied();
        let task = floor.ledger().and_then(|ledger| ledger.get(&body.task_id));
        let is_senior = |agent: &AgentId| task.is_some_and(|task| !task.concerns(agent));
        if named.and_then(|key| roster.id(key)).is_some_and(is_senior) {
            self.senior = named;
            return;
        }
        self.senior = roster.senior_to(&message.from.agent_id);
        if let Some(senior) = self.senior
            && let Err(place) = self.known.binary_search(&senior)
        {
            self.known.insert(place, senior);
        }
    }

    /// The answer to a task that was handed on also goes to whoever asked for it first.
    fn tell_the_requester(&mut self, message: &Envelope, floor: &impl Floor) {
        let Body::TaskResponse(body) = &message.body else { return };
        let task = floor.ledger().and_then(|ledger| ledger.get(&body.task_id));
        let handed_on = task.filter(|task| !task.handed_on_by.is_empty());
        if let Some(requester) = handed_on.and_then(|task| floor.roster().key(&task.requester))
            && let Err(place) = self.known.binary_search(&requester)
        {
            self.known.insert(place, requester);
        }
    }

    pub(super) fn senior<'a>(&self, roster: &'a Roster) -> Option<&'a AgentId> {
        roster.id(self.senior?)
    }

    /// Leaves out whom the sender may not reach; a message that reaches nobody for that reason is
    /// refused with the rule.
    pub(super) fn keep_the_allowed(
        &mut self,
        message: &Envelope,
        floor: &impl Floor,
    ) -> Result<(), Refusal> {
        if self.known.is_empty() && self.unknown.is_empty() {
            return Ok(());
        }
        let from = sender(message, floor.roster());
        let (kind, scope) = (message.kind(), scope(message));
        let rule = match floor.access().decide_for_all(from, kind, scope) {
            Some(Decision { allowed: true, .. }) => return Ok(()),
            Some(Decision { rule, .. }) => rule.to_owned(),
            None => match self.leave_out(message, floor) {
                Some(rule) => rule,
                None => {
                    // Whoever is not told cannot be the one to decide.
                    self.senior = self.senior.filter(|senior| self.known.contains(senior));
                    return Ok(());
                }
            },
        };
        Err(Refusal::new(
            Outcome::Forbidden,
            format!(
                "The access rule `{rule}` does not let `{}` send this {kind} there. Ask a person to change the rule, or send it to somebody you may write to.",
                message.from.agent_id
            ),
        ))
    }

    /// Asks for each recipient. The rule that left nobody, if none is left.
    fn leave_out(&mut self, message: &Envelope, floor: &impl Floor) -> Option<String> {
        let roster = floor.roster();
        let rules = floor.access().narrow(sender(message, roster), message.kind(), scope(message));
        let named = match &message.body {
            Body::KnowledgeShare(body) => &body.relevant_to[..],
            _ => &[],
        };
        let is_named = |agent: &AgentId| {
            named.contains(agent) || message.to.as_ref().is_some_and(|to| to.agent_id == *agent)
        };
        let mut refused_by = None;
        let mut hidden = Vec::new();
        self.known.retain(|key| {
            let Some(to) = roster.id(*key).zip(roster.profile(*key)) else { return false };
            let Decision { allowed, rule } = rules.decide(to);
            if !allowed {
                refused_by.get_or_insert(rule);
                if is_named(to.0) {
                    hidden.push(to.0.clone());
                }
            }
            allowed
        });
        let direct = message.kind().needs_recipient();
        if self.known.is_empty() && (direct || hidden.is_empty()) {
            return refused_by.map(ToOwned::to_owned);
        }
        self.unknown.append(&mut hidden);
        None
    }
}

fn sender<'a>(message: &'a Envelope, roster: &'a Roster) -> (&'a AgentId, &'a Profile) {
    static NEW: Profile = Profile::NEW;
    let from = &message.from.agent_id;
    (from, roster.key(from).and_then(|key| roster.profile(key)).unwrap_or(&NEW))
}

fn scope(message: &Envelope) -> Option<Scope> {
    match &message.body {
        Body::Broadcast(body) => Some(body.scope),
        _ => None,
    }
}

fn decide<'a>(message: &Envelope, to: AgentKey, floor: &'a impl Floor) -> Option<Decision<'a>> {
    let roster = floor.roster();
    let to = roster.id(to).zip(roster.profile(to))?;
    let (from, kind) = (sender(message, roster), message.kind());
    Some(floor.access().decide(&Asked { from, to, kind, scope: scope(message) }))
}
