//! Admission pipeline: the stages a submitted message passes between the edge and the journal.
//!
//! [`admit`] runs them all; `stages` lists them in order. Nothing here is irreversible: a
//! reservation can be released, and only the journal commits a message.

use std::sync::Arc;

use a2a_protocol::{
    AgentId, Body, Code, CorrelationId, Envelope, OpenCircuit, Outcome, RecipientOutcome, Report,
    Violation,
};
use chrono::TimeDelta;

use super::DedupMatch;
use super::recipients::Resolved;
use crate::{
    AccessRules, AgentKey, Audience, Breaker, BreakerDecision, BreakerInput, Change, Circuit,
    CircuitKey, Directory, InboxFull, Ledger, LedgerRefusal, Limited, Now, SendCause, WorkProgress,
};

/// The caller that submits a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// An agent, authenticated by a token or by holding its handle in process.
    Agent(AgentId),
    /// An operator with a token. Sending in an agent's name must be explicit.
    Operator {
        /// The operator's name.
        name: Arc<str>,
        /// The agent in whose name the operator sends; `None` when the operator did not ask for
        /// that.
        on_behalf_of: Option<AgentId>,
    },
    /// A local connection where authentication is off: the `from` of the message is trusted.
    Local,
    /// The task service, on behalf of an A2A client.
    Service {
        /// The name the message is sent under.
        agent: AgentId,
        /// The client's name at the gateway, such as `client:acme`.
        via: Arc<str>,
        /// Whether [`assess`] already charged this message when the client called.
        assessed: bool,
    },
    /// The bus itself.
    Bus,
}

/// A submitted message. Its size, syntax and schema are already checked.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The caller that submits it.
    pub caller: &'a Caller,
    /// The message, or why it is invalid.
    pub message: Result<&'a Envelope, &'a Report>,
    /// The size in bytes that counts against capacity limits.
    pub bytes: usize,
    /// The message's [`crate::Fingerprints`].
    pub fingerprints: crate::Fingerprints,
    /// The conversation of the message that led to it, if the sender states it.
    pub cause: Option<CorrelationId>,
}

impl Incoming<'_> {
    /// The agent that is charged for a refusal: the authenticated agent, or the claimed sender
    /// where authentication is off. Operators and the bus are not charged.
    fn sender(&self) -> Option<&AgentId> {
        match self.caller {
            Caller::Agent(agent) | Caller::Service { agent, .. } => Some(agent),
            Caller::Local => self.message.ok().map(|message| &message.from.agent_id),
            Caller::Operator { .. } | Caller::Bus => None,
        }
    }
}

/// State that the stages read and change; the router implements it.
pub trait AdmissionState {
    /// The registered agents.
    fn directory(&self) -> &Directory;
    /// The access rules.
    fn access(&self) -> &AccessRules;
    /// The task ledger; `None` when it is disabled.
    fn ledger(&self) -> Option<&Ledger>;
    /// The circuit breaker.
    fn breaker(&mut self) -> &mut Breaker;
    /// The number of agents one message may reach (`limits.max_recipients`).
    fn max_recipients(&self) -> usize;
    /// The earlier message with the same id, if there is one.
    fn find_duplicate(&self, message: &Envelope, fingerprint: u64) -> Option<DedupMatch>;
    /// Charges the sender's rate limits.
    ///
    /// # Errors
    /// The limit that was exceeded.
    fn charge(&mut self, message: &Envelope, to: &[AgentKey], now: Now) -> Result<(), Limited>;
    /// Charges the sender for a message that is refused before [`AdmissionState::charge`].
    ///
    /// # Errors
    /// The limit on refusals was exceeded.
    fn charge_refusal(&mut self, sender: &AgentId, now: Now) -> Result<(), Limited>;
    /// Whether the task service streams this message to a client of A2A.
    fn is_streamed(&self, message: &Envelope, to: &[AgentKey]) -> bool;
    /// What led an agent to send, if the bus knows.
    fn cause(&self, sender: &AgentId, now: Now) -> SendCause;
    /// Whether [`AdmissionState::charge_refusal`] would refuse.
    fn is_refused_too_often(&self, sender: &AgentId, now: Now) -> bool;
    /// Checks that all inboxes together can hold `bytes` more. The bytes count once, whatever the
    /// number of recipients.
    ///
    /// # Errors
    /// The limit for all inboxes is exceeded.
    fn check_capacity(&self, message: &Envelope, bytes: usize) -> Result<(), InboxFull>;
    /// Reserves capacity in the inbox of a session of `agent`; `Delivered` when the session is
    /// idle.
    ///
    /// # Errors
    /// The inbox is full.
    fn reserve(
        &mut self,
        agent: AgentKey,
        message: &Envelope,
        bytes: usize,
    ) -> Result<Outcome, InboxFull>;
}

/// The decision about one submitted message.
#[derive(Debug, PartialEq)]
pub enum AdmissionVerdict {
    /// Append it to the journal and deliver it.
    Accepted(Accepted),
    /// Return the receipt of record `seq`.
    Duplicate {
        /// The sequence number of the first record.
        seq: u64,
    },
    /// Log the refusal and return it.
    Refused(Refusal),
}

/// An accepted message, with the outcome of the reservation for each recipient.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The overall outcome.
    pub outcome: Outcome,
    /// The outcome per recipient.
    pub recipients: Vec<RecipientOutcome>,
    /// The change to apply to the ledger, if the message is about an assignment.
    pub change: Option<Change>,
    /// The half-open circuit that this message closes, because it makes progress.
    pub closes: Option<CircuitKey>,
}

/// Why a message is not accepted.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    /// The outcome in the receipt.
    pub outcome: Outcome,
    /// The explanation, one or more sentences.
    pub reason: String,
    /// The time in milliseconds after which a retry can succeed; `None` when a retry cannot help.
    pub retry_after_ms: Option<u64>,
    /// All violations of an invalid message.
    pub errors: Vec<Violation>,
    /// The outcome per recipient, where each has one.
    pub recipients: Vec<RecipientOutcome>,
    /// The open circuit that refused the message.
    pub circuit: Option<Box<OpenCircuit>>,
    /// The circuit to open, because this message exceeded its limit.
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

/// How far a sender's clock may be ahead of ours.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// Whether the message is sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It is: reserve capacity for it.
    Admit,
    /// It is sent later: charge and count it only.
    Assess,
}

/// Runs a message through every stage and returns the verdict.
pub fn admit(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
) -> AdmissionVerdict {
    match charged_stages(incoming, state, now, Mode::Admit) {
        Ok(verdict) => verdict,
        Err(refusal) => AdmissionVerdict::Refused(refusal),
    }
}

/// Checks whether a message that is sent later, when its task is scheduled, would be accepted. The
/// message is charged and counted now; no capacity is reserved.
///
/// # Errors
/// The refusal.
pub fn assess(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
) -> Result<(), Refusal> {
    charged_stages(incoming, state, now, Mode::Assess).map(drop)
}

/// Runs the stages, and charges for refusals before the rate limit stage too: validating a message
/// costs as much as delivering it.
fn charged_stages(
    incoming: &Incoming<'_>,
    state: &mut impl AdmissionState,
    now: Now,
    mode: Mode,
) -> Result<AdmissionVerdict, Refusal> {
    let mut charged = false;
    let result = stages(incoming, state, now, mode, &mut charged);
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
    mode: Mode,
    charged: &mut bool,
) -> Result<AdmissionVerdict, Refusal> {
    // Size, parse, validate: the edge did these; a violation refuses the message here.
    let message = incoming.message.map_err(invalid)?;
    check_clock(message, now)?;
    // Identity: the caller may send under this name.
    check_identity(incoming.caller, message, state.directory())?;
    // Resolve: names and scopes to agents.
    let mut to = Resolved::of(message, state, now)?;
    // Dedup: each id is accepted once.
    match state.find_duplicate(message, incoming.fingerprints.message) {
        Some(DedupMatch::Same { seq }) => return Ok(AdmissionVerdict::Duplicate { seq }),
        Some(DedupMatch::Different { seq }) => {
            let reason = format!(
                "The messageId was accepted before with another body or from another sender (record {seq}). Make a new id for a new message."
            );
            return Err(Refusal::new(Outcome::Conflict, reason));
        }
        None => {}
    }
    // Notices of the bus skip every check except capacity.
    if *incoming.caller == Caller::Bus {
        *charged = true;
        return reserve(message, incoming.bytes, &to, state).map(AdmissionVerdict::Accepted);
    }
    // Access: may the sender send this kind to these recipients.
    to.retain_allowed(message, state)?;
    // Ledger: a response must match its request.
    let change = match state.ledger() {
        Some(ledger) => {
            ledger.check(message, to.senior(state.directory()), now).map_err(refused)?
        }
        None => None,
    };
    // `assess` already charged and counted this message.
    if mode == Mode::Admit && matches!(incoming.caller, Caller::Service { assessed: true, .. }) {
        *charged = true;
        let accepted = reserve(message, incoming.bytes, &to, state)?;
        return Ok(AdmissionVerdict::Accepted(Accepted { change, ..accepted }));
    }
    // Rate limit. A refusal by a later stage stays charged: a flood into an open circuit or a full
    // inbox is still a flood.
    *charged = true;
    state.charge(message, &to.known, now).map_err(limited)?;
    // Breaker: refuse messages of a loop.
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
        sketch: incoming.fingerprints.sketch,
        is_news: is_news(message, &to.known, state),
        cause: cause(incoming, message, state, now),
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
    // Capacity: reserve space in each recipient's inbox.
    let accepted = match mode {
        Mode::Admit => reserve(message, incoming.bytes, &to, state)?,
        Mode::Assess => none_reserved(&to)?,
    };
    let closes = state.breaker().accept(&input, now);
    Ok(AdmissionVerdict::Accepted(Accepted { change, closes, ..accepted }))
}

/// Whether a status update is news whatever its text.
fn is_news(message: &Envelope, to: &[AgentKey], state: &impl AdmissionState) -> bool {
    let Body::StatusUpdate(update) = &message.body else { return false };
    update.has_snapshot() || state.is_streamed(message, to)
}

/// What led the sender to send. People and clients of A2A act on their own.
fn cause(
    incoming: &Incoming<'_>,
    message: &Envelope,
    state: &impl AdmissionState,
    now: Now,
) -> SendCause {
    match (incoming.cause, incoming.caller) {
        (Some(conversation), _) => SendCause::Message(conversation),
        (None, Caller::Agent(_) | Caller::Local) => state.cause(&message.from.agent_id, now),
        (None, Caller::Operator { .. } | Caller::Service { .. } | Caller::Bus) => {
            SendCause::Nothing
        }
    }
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
        // The gateway authenticated the client already.
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

/// The refusal of a message by an open circuit.
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

/// The result for a message that is only assessed: no reservation.
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
    let full_agent = recipients.last().map(|last| last.agent_id.clone());
    recipients.extend(to.unknown.iter().map(|agent_id| RecipientOutcome {
        agent_id: agent_id.clone(),
        outcome: Outcome::UnknownRecipient,
    }));
    let outcome = match (delivered, queued, full) {
        (0, 0, Some(error)) => {
            let holder = match (error, &full_agent) {
                (InboxFull::AllBytes { .. }, _) | (_, None) => "The bus".to_owned(),
                (_, Some(agent)) => format!("`{agent}`"),
            };
            let reason = format!("{holder} takes no more: {error}. Send it again later.");
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
        (_, 0, _) => Outcome::Delivered, // every recipient with capacity, or an empty scope
        _ => Outcome::Queued,
    };
    Ok(Accepted { outcome, recipients, change: None, closes: None })
}
