//! Recipient resolution: names and scopes to agents, without those the sender may not reach.

use a2a_protocol::body::{Scope, Verdict};
use a2a_protocol::{AgentId, Body, Envelope, Outcome};

use super::pipeline::{AdmissionState, Refusal};
use crate::{AccessQuery, AgentKey, Decision, Directory, Now, Profile};

/// The recipients of a message.
pub(super) struct Resolved {
    /// The agents it reaches, ascending.
    pub(super) known: Vec<AgentKey>,
    /// Names in a fan-out that do not exist or that the sender may not reach. The sender cannot
    /// distinguish the two.
    pub(super) unknown: Vec<AgentId>,
    /// The agent an escalated review goes to.
    senior: Option<AgentKey>,
}

impl Resolved {
    /// Resolves the recipients of a message.
    pub(super) fn of(
        message: &Envelope,
        state: &impl AdmissionState,
        now: Now,
    ) -> Result<Self, Refusal> {
        let directory = state.directory();
        let found = directory.recipients(message).map_err(|mut unknown| {
            let may_reach = |key| decide(message, key, state).is_some_and(|d| d.allowed);
            // Repeated wrong names get no suggestions: that would let a sender enumerate agents.
            if !state.is_refused_too_often(&message.from.agent_id, now) {
                unknown.near = directory.nearest(&unknown.agent, may_reach);
            }
            // A suggestion makes the sentence a question.
            let end = if unknown.near.is_some() { "" } else { "." };
            Refusal::new(
                Outcome::UnknownRecipient,
                format!(
                    "{unknown}{end} Ask the bus who is there, or wait until the agent has joined."
                ),
            )
        })?;
        let mut to = Self { known: found.known, unknown: found.unknown, senior: None };
        to.escalate(message, state);
        to.add_requester(message, state);
        let limit = state.max_recipients();
        if to.known.len() > limit {
            let reason = format!(
                "The message would reach {} agents; one may reach at most {limit} (limits.max_recipients). Choose a smaller scope.",
                to.known.len()
            );
            return Err(Refusal::new(Outcome::Forbidden, reason));
        }
        Ok(to)
    }

    /// Adds the recipient of an escalated review. If the message names an agent that already has a
    /// part in the assignment, the review goes to the next tier as well.
    fn escalate(&mut self, message: &Envelope, state: &impl AdmissionState) {
        let Body::ReviewResponse(body) = &message.body else { return };
        if body.verdict != Verdict::Escalated {
            return;
        }
        let directory = state.directory();
        let named = self.known.first().copied();
        let task = state.ledger().and_then(|ledger| ledger.get(&body.task_id));
        let is_senior = |agent: &AgentId| task.is_some_and(|task| !task.concerns(agent));
        if named.and_then(|key| directory.id(key)).is_some_and(is_senior) {
            self.senior = named;
            return;
        }
        self.senior = directory.senior_to(&message.from.agent_id);
        if let Some(senior) = self.senior
            && let Err(place) = self.known.binary_search(&senior)
        {
            self.known.insert(place, senior);
        }
    }

    /// Adds the original requester to the recipients of a delegated assignment's response.
    fn add_requester(&mut self, message: &Envelope, state: &impl AdmissionState) {
        let Body::TaskResponse(body) = &message.body else { return };
        let task = state.ledger().and_then(|ledger| ledger.get(&body.task_id));
        let handed_on = task.filter(|task| !task.handed_on_by.is_empty());
        if let Some(requester) = handed_on.and_then(|task| state.directory().key(&task.requester))
            && let Err(place) = self.known.binary_search(&requester)
        {
            self.known.insert(place, requester);
        }
    }

    pub(super) fn senior<'a>(&self, directory: &'a Directory) -> Option<&'a AgentId> {
        directory.id(self.senior?)
    }

    /// Removes the recipients the sender may not reach. If that leaves none, the message is refused
    /// with the name of the rule.
    pub(super) fn retain_allowed(
        &mut self,
        message: &Envelope,
        state: &impl AdmissionState,
    ) -> Result<(), Refusal> {
        if self.known.is_empty() && self.unknown.is_empty() {
            return Ok(());
        }
        let from = sender(message, state.directory());
        let (kind, scope) = (message.kind(), scope(message));
        let rule = match state.access().decide_for_all(from, kind, scope) {
            Some(Decision { allowed: true, .. }) => return Ok(()),
            Some(Decision { rule, .. }) => rule.to_owned(),
            None => match self.retain_each(message, state) {
                Some(rule) => rule,
                None => {
                    // An agent that does not receive the review cannot decide it.
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

    /// Evaluates the rules per recipient. Returns the refusing rule if no recipient remains.
    fn retain_each(&mut self, message: &Envelope, state: &impl AdmissionState) -> Option<String> {
        let directory = state.directory();
        let rules =
            state.access().narrow(sender(message, directory), message.kind(), scope(message));
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
            let Some(to) = directory.id(*key).zip(directory.profile(*key)) else { return false };
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

fn sender<'a>(message: &'a Envelope, directory: &'a Directory) -> (&'a AgentId, &'a Profile) {
    static NEW: Profile = Profile::NEW;
    let from = &message.from.agent_id;
    (from, directory.key(from).and_then(|key| directory.profile(key)).unwrap_or(&NEW))
}

fn scope(message: &Envelope) -> Option<Scope> {
    match &message.body {
        Body::Broadcast(body) => Some(body.scope),
        _ => None,
    }
}

fn decide<'a>(
    message: &Envelope,
    to: AgentKey,
    state: &'a impl AdmissionState,
) -> Option<Decision<'a>> {
    let directory = state.directory();
    let to = directory.id(to).zip(directory.profile(to))?;
    let (from, kind) = (sender(message, directory), message.kind());
    Some(state.access().decide(&AccessQuery { from, to, kind, scope: scope(message) }))
}
