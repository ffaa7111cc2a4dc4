//! The way of a message from the edge to the journal, stage by stage.
//!
//! [`admit`] is the whole of it. Nothing here is irreversible: what is reserved can be
//! released, and only the journal makes it count.

use std::sync::Arc;

use a2a_protocol::{
    AgentId, Code, Envelope, OpenCircuit, Outcome, RecipientOutcome, Report, Violation,
};
use chrono::TimeDelta;

use super::DedupMatch;
use super::recipients::Resolved;
use crate::{
    AccessRules, AgentKey, Audience, Breaker, BreakerDecision, BreakerInput, Change, Circuit,
    CircuitKey, Directory, InboxFull, Ledger, LedgerRefusal, Limited, Now, WorkProgress,
};

/// Who hands the message in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// This agent, proven by a token or by holding its handle.
    Agent(AgentId),
    /// A person; sending in an agent's name has to be meant.
    Operator {
        /// Who it is.
        name: Arc<str>,
        /// The agent in whose name the person says to send.
        on_behalf_of: Option<AgentId>,
    },
    /// Somebody on this machine, where no tokens are asked for: the message is believed.
    Local,
    /// The task service, in the name of one of its callers.
    Service {
        /// In whose name.
        agent: AgentId,
        /// Who that is to the gateway, such as `client:acme`.
        via: Arc<str>,
        /// It was [assessed](assess) when the caller asked, and charged then.
        assessed: bool,
    },
    /// The bus itself.
    Bus,
}

/// A message at the door, read already: stages size, parse and validate are behind it.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Who hands it in.
    pub caller: &'a Caller,
    /// The message, or what is wrong with it.
    pub message: Result<&'a Envelope, &'a Report>,
    /// How many bytes of it are kept.
    pub bytes: usize,
    /// What [`crate::Fingerprints`] makes of it.
    pub fingerprints: crate::Fingerprints,
}

impl Incoming<'_> {
    /// Who is charged for a refusal: the agent as far as it is proven, or as it says where nobody is
    /// asked. People are not.
    fn sender(&self) -> Option<&AgentId> {
        match self.caller {
            Caller::Agent(agent) | Caller::Service { agent, .. } => Some(agent),
            Caller::Local => self.message.ok().map(|message| &message.from.agent_id),
            Caller::Operator { .. } | Caller::Bus => None,
        }
    }
}

/// What the stages look at and change.
pub trait AdmissionState {
    /// Who is there.
    fn directory(&self) -> &Directory;
    /// Who may write to whom.
    fn access(&self) -> &AccessRules;
    /// Who owes whom which work; `None` when nobody keeps count.
    fn ledger(&self) -> Option<&Ledger>;
    /// What goes in circles.
    fn breaker(&mut self) -> &mut Breaker;
    /// How many agents one message may reach.
    fn max_recipients(&self) -> usize;
    /// Whether the id was accepted before.
    fn seen(&self, message: &Envelope, fingerprint: u64) -> Option<DedupMatch>;
    /// Charges the sender.
    ///
    /// # Errors
    /// The limit that was reached.
    fn charge(&mut self, message: &Envelope, to: &[AgentKey], now: Now) -> Result<(), Limited>;
    /// Charges the sender for a message that is refused before [`AdmissionState::charge`].
    ///
    /// # Errors
    /// The sender was refused too often.
    fn charge_refusal(&mut self, sender: &AgentId, now: Now) -> Result<(), Limited>;
    /// Whether [`AdmissionState::charge_refusal`] would refuse.
    fn is_refused_too_often(&self, sender: &AgentId, now: Now) -> bool;
    /// Whether all inboxes together can hold so many bytes more. They are held once, however many
    /// recipients there are.
    ///
    /// # Errors
    /// When they cannot.
    fn check_capacity(&self, message: &Envelope, bytes: usize) -> Result<(), InboxFull>;
    /// Takes a place in the inbox of a session of `agent`; `Delivered` when the session is free.
    ///
    /// # Errors
    /// When there is no place.
    fn reserve(
        &mut self,
        agent: AgentKey,
        message: &Envelope,
        bytes: usize,
    ) -> Result<Outcome, InboxFull>;
}

/// What is to be done with the message.
#[derive(Debug, PartialEq)]
pub enum AdmissionVerdict {
    /// Write it down and deliver it.
    Accepted(Accepted),
    /// Answer with the receipt of record `seq`.
    Duplicate {
        /// The number of the first record.
        seq: u64,
    },
    /// Write the refusal down and answer with it.
    Refused(Refusal),
}

/// An accepted message: for each recipient a place is reserved, or there was none.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The outcome as a whole.
    pub outcome: Outcome,
    /// The outcome for each.
    pub recipients: Vec<RecipientOutcome>,
    /// What it does to the ledger.
    pub change: Option<Change>,
    /// The circuit it closes, because it showed that the conversation moves again.
    pub closes: Option<CircuitKey>,
}

/// Why a message is not accepted.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    /// The word.
    pub outcome: Outcome,
    /// The sentence.
    pub reason: String,
    /// When trying again makes sense.
    pub retry_after_ms: Option<u64>,
    /// Everything wrong with an invalid message.
    pub errors: Vec<Violation>,
    /// The recipients, where each has an outcome.
    pub recipients: Vec<RecipientOutcome>,
    /// The circuit that refused it.
    pub circuit: Option<Box<OpenCircuit>>,
    /// The circuit that has to be opened, because this message was one too many.
    pub opens: Option<Box<Circuit>>,
}

impl Refusal {
    pub(super) fn new(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
            retry_after_ms: None,
            errors: Vec::new(),
            recipients: Vec::new(),
            circuit: None,
            opens: None,
        }
    }
}

/// How far ahead of our clock a sender's may be.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// Sends a message through every stage and says what is to be done with it.
pub fn admit(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
) -> AdmissionVerdict {
    match charged_stages(incoming, state, now, false) {
        Ok(verdict) => verdict,
        Err(refusal) => AdmissionVerdict::Refused(refusal),
    }
}

/// Whether a message that will be sent later, when it is its turn, would be taken: it is charged
/// and counted now, and nothing is reserved.
///
/// # Errors
/// Why it is not taken.
pub fn assess(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
) -> Result<(), Refusal> {
    charged_stages(incoming, state, now, true).map(drop)
}

/// The stages, with a charge for those who are refused before the stage that charges: finding out
/// what is wrong with a message costs as much as delivering it.
fn charged_stages(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
    only_assess: bool,
) -> Result<AdmissionVerdict, Refusal> {
    let mut charged = false;
    let result = stages(incoming, state, now, only_assess, &mut charged);
    if result.is_err()
        && !charged
        && let Some(sender) = incoming.sender()
    {
        state.charge_refusal(sender, now).map_err(limited)?;
    }
    result
}

fn stages(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
    only_assess: bool,
    charged: &mut bool,
) -> Result<AdmissionVerdict, Refusal> {
    // Size, parse, validate: done by the edge; here its findings count.
    let message = incoming.message.map_err(invalid)?;
    check_clock(message, now)?;
    // Identity: the sender is who it says, and may speak at all.
    check_identity(incoming.caller, message, state.directory())?;
    // Resolve: names and scopes become agents.
    let mut to = Resolved::of(message, state, now)?;
    // Duplicate: an id is accepted once.
    match state.seen(message, incoming.fingerprints.message) {
        Some(DedupMatch::Same { seq }) => return Ok(AdmissionVerdict::Duplicate { seq }),
        Some(DedupMatch::Different { seq }) => {
            let reason = format!(
                "The messageId was accepted before with another body or from another sender (record {seq}). Make a new id for a new message."
            );
            return Err(Refusal::new(Outcome::Conflict, reason));
        }
        None => {}
    }
    // The notices of the bus itself are subject to nothing but the room for them.
    if *incoming.caller == Caller::Bus {
        *charged = true;
        return reserve(message, incoming.bytes, &to, state).map(AdmissionVerdict::Accepted);
    }
    // Access: who may write to whom, with what.
    to.retain_allowed(message, state)?;
    // Ledger: answers fit what was asked.
    let change = match state.ledger() {
        Some(ledger) => {
            ledger.check(message, to.senior(state.directory()), now).map_err(refused)?
        }
        None => None,
    };
    // What was assessed before has been charged and counted.
    if !only_assess && matches!(incoming.caller, Caller::Service { assessed: true, .. }) {
        *charged = true;
        let accepted = reserve(message, incoming.bytes, &to, state)?;
        return Ok(AdmissionVerdict::Accepted(Accepted { change, ..accepted }));
    }
    // Rate limit: how much the sender may say. What is refused further on has been charged: a
    // flood into a stopped conversation or a full inbox is a flood.
    *charged = true;
    state.charge(message, &to.known, now).map_err(limited)?;
    // Breaker: what goes in circles is stopped.
    let only = match to.known.as_slice() {
        [only] => state.directory().id(*only).cloned(),
        _ => None,
    };
    let input = BreakerInput {
        from: &message.from.agent_id,
        to: only.as_ref().map_or(Audience::Many(to.known.len()), Audience::One),
        correlation: message.correlation_id,
        kind: message.kind(),
        content: incoming.fingerprints.content,
        task: message.body.task_id(),
        progress: change.as_ref().map_or(WorkProgress::None, |change| change.progress),
    };
    match state.breaker().check(&input, now) {
        BreakerDecision::Pass => {}
        BreakerDecision::Refused(circuit) => return Err(circuit_refusal(circuit, now)),
        BreakerDecision::Trips(circuit) => {
            let refusal = circuit_refusal(&circuit, now);
            return Err(Refusal { opens: Some(Box::new(circuit)), ..refusal });
        }
    }
    // Reserve: a place in each recipient's inbox.
    let accepted = match only_assess {
        true => none_reserved(&to)?,
        false => reserve(message, incoming.bytes, &to, state)?,
    };
    let closes = state.breaker().accept(&input, now);
    Ok(AdmissionVerdict::Accepted(Accepted { change, closes, ..accepted }))
}

fn invalid(report: &Report) -> Refusal {
    let errors = report.violations().to_vec();
    let reason = "The message breaks rules of the protocol; see `errors`.";
    Refusal { errors, ..Refusal::new(Outcome::Invalid, reason) }
}

fn check_clock(message: &Envelope, now: Now) -> Result<(), Refusal> {
    if message.timestamp.to_utc() <= now.utc + CLOCK_SKEW {
        return Ok(());
    }
    let sentence = "The timestamp lies more than 5 minutes in the future. Write the current time, and check the clock.";
    let violation = Violation::new("/timestamp", Code::BadTimestamp, sentence);
    Err(Refusal { errors: vec![violation], ..Refusal::new(Outcome::Invalid, sentence) })
}

fn check_identity(
    caller: &Caller,
    message: &Envelope,
    directory: &Directory,
) -> Result<(), Refusal> {
    let from = &message.from.agent_id;
    let forbidden = |reason: String| Err(Refusal::new(Outcome::Forbidden, reason));
    match caller {
        Caller::Bus => Ok(()),
        Caller::Agent(agent) | Caller::Service { agent, .. } if agent != from => forbidden(
            format!("You are `{agent}`, but `from.agentId` says `{from}`. Send under your own id."),
        ),
        Caller::Operator { .. } if Directory::is_for_people(from) => Ok(()),
        Caller::Operator { on_behalf_of, .. } if on_behalf_of.as_ref() != Some(from) => {
            forbidden(format!(
                "An operator may send in the name of `{from}` only by saying so: mark the message as sent on behalf of `{from}`."
            ))
        }
        _ if Directory::is_reserved(from) => forbidden(format!(
            "`{from}` is a name of the bus, of people or of a path; no agent may send under it."
        )),
        // Whoever the gateway lets in is admitted.
        Caller::Service { .. } => Ok(()),
        _ if !directory.admits(from) => forbidden(format!(
            "`{from}` is not among the agents of this bus, and it takes no new ones. Add it to [[agents]] in the configuration, or open the directory."
        )),
        _ => match directory.check_agent_name(from) {
            Ok(()) => Ok(()),
            Err(taken) => forbidden(format!("{}.", first_upper(&taken.to_string()))),
        },
    }
}

fn first_upper(sentence: &str) -> String {
    let mut sentence = sentence.to_owned();
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    sentence
}

fn refused(refusal: LedgerRefusal) -> Refusal {
    Refusal::new(refusal.outcome(), first_upper(&format!("{refusal}.")))
}

/// What an open circuit answers.
fn circuit_refusal(circuit: &Circuit, now: Now) -> Refusal {
    let wait = circuit.retry_after(now).map(|wait| wait.as_millis());
    let wait = wait.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
    let then = match wait {
        Some(ms) => format!("Wait {ms} ms, then go on only with something that moves a task"),
        None => "It stays so until a person resets it".to_owned(),
    };
    let reason = format!(
        "Stopped ({}): {}. {then}; a person can look at `{}` and reset it.",
        circuit.reason.as_str(),
        circuit.evidence.trim_end_matches('.'),
        circuit.key
    );
    Refusal {
        retry_after_ms: wait,
        circuit: Some(Box::new(OpenCircuit {
            scope: circuit.key.scope(),
            circuit: circuit.key.to_string(),
            since: circuit.since.into(),
        })),
        ..Refusal::new(Outcome::CircuitOpen, reason)
    }
}

fn limited(limited: Limited) -> Refusal {
    let wait = u64::try_from(limited.retry_after.as_millis()).unwrap_or(u64::MAX);
    Refusal {
        retry_after_ms: Some(wait),
        ..Refusal::new(
            Outcome::RateLimited,
            format!("{}. Wait {wait} ms before the next.", limited.limit),
        )
    }
}

/// What a message that is only assessed is accepted with.
fn none_reserved(to: &Resolved) -> Result<Accepted, Refusal> {
    if to.known.is_empty() {
        let reason = "There is nobody by that name whom you can write to.";
        return Err(Refusal::new(Outcome::UnknownRecipient, reason));
    }
    Ok(Accepted { outcome: Outcome::Queued, recipients: Vec::new(), change: None, closes: None })
}

fn reserve(
    message: &Envelope,
    bytes: usize,
    to: &Resolved,
    state: &mut impl AdmissionState,
) -> Result<Accepted, Refusal> {
    let capacity = if to.known.is_empty() { Ok(()) } else { state.check_capacity(message, bytes) };
    let (mut delivered, mut queued, mut full) = (0, 0, None);
    let mut recipients = Vec::with_capacity(to.known.len() + to.unknown.len());
    for key in &to.known {
        let reserved = capacity.and_then(|()| state.reserve(*key, message, bytes));
        let outcome = match reserved {
            Ok(outcome) => outcome,
            Err(error) => {
                full = Some(error);
                Outcome::QueueFull
            }
        };
        delivered += usize::from(outcome == Outcome::Delivered);
        queued += usize::from(outcome == Outcome::Queued);
        if let Some(agent_id) = state.directory().id(*key) {
            recipients.push(RecipientOutcome { agent_id: agent_id.clone(), outcome });
        }
    }
    let full_one = recipients.last().map(|last| last.agent_id.clone());
    recipients.extend(to.unknown.iter().map(|agent_id| RecipientOutcome {
        agent_id: agent_id.clone(),
        outcome: Outcome::UnknownRecipient,
    }));
    let outcome = match (delivered, queued, full) {
        (0, 0, Some(error)) => {
            let who = match (error, &full_one) {
                (InboxFull::AllBytes { .. }, _) | (_, None) => "The bus".to_owned(),
                (_, Some(agent)) => format!("`{agent}`"),
            };
            let reason = format!("{who} takes no more: {error}. Send it again later.");
            return Err(Refusal {
                retry_after_ms: Some(1_000),
                recipients,
                ..Refusal::new(Outcome::QueueFull, reason)
            });
        }
        (0, 0, None) if !recipients.is_empty() => {
            let reason = "None of the agents named is one you can write to. Ask the bus who is there, or wait until they have joined.";
            return Err(Refusal { recipients, ..Refusal::new(Outcome::UnknownRecipient, reason) });
        }
        (_, 0, _) => Outcome::Delivered, // to everyone who has a place, or to an empty scope
        _ => Outcome::Queued,
    };
    Ok(Accepted { outcome, recipients, change: None, closes: None })
}
