//! The way of a message from the edge to the journal, stage by stage.
//!
//! [`admit`] is the whole of it. Nothing here is irreversible: what is reserved can be
//! released, and only the journal makes it count.

use a2a_protocol::{AgentId, Code, Envelope, Outcome, RecipientOutcome, Report, Violation};
use chrono::TimeDelta;

use crate::seen::SeenBefore;
use crate::{AgentKey, InboxFull, Limited, Now, Roster};

/// Who hands the message in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// This agent, proven by a token or by holding its handle.
    Agent(AgentId),
    /// Somebody on this machine, where no tokens are asked for: the message is believed.
    Local,
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
    /// What [`crate::fingerprint`] makes of it.
    pub fingerprint: u64,
}

/// What the stages look at and change.
pub trait Floor {
    /// Who is there.
    fn roster(&self) -> &Roster;
    /// Whether the id was accepted before.
    fn seen(&self, message: &Envelope, fingerprint: u64) -> Option<SeenBefore>;
    /// Charges the sender.
    ///
    /// # Errors
    /// The limit that was reached.
    fn charge(&mut self, message: &Envelope, to: &[AgentKey], now: Now) -> Result<(), Limited>;
    /// Takes a place in the inbox of a session of `agent`; `Delivered` when the session is free.
    ///
    /// # Errors
    /// When there is no place.
    fn reserve(&mut self, agent: AgentKey, message: &Envelope) -> Result<Outcome, InboxFull>;
}

/// What is to be done with the message.
#[derive(Debug, PartialEq)]
pub enum Verdict {
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
}

impl Refusal {
    fn new(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
            retry_after_ms: None,
            errors: Vec::new(),
            recipients: Vec::new(),
        }
    }
}

/// How far ahead of our clock a sender's may be.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// Sends a message through every stage and says what is to be done with it.
pub fn admit(incoming: &Incoming<'_>, floor: &mut impl Floor, now: Now) -> Verdict {
    match stages(incoming, floor, now) {
        Ok(verdict) => verdict,
        Err(refusal) => Verdict::Refused(refusal),
    }
}

fn stages(incoming: &Incoming<'_>, floor: &mut impl Floor, now: Now) -> Result<Verdict, Refusal> {
    // Size, parse, validate: done by the edge; here its findings count.
    let message = incoming.message.map_err(invalid)?;
    check_clock(message, now)?;
    // Identity: the sender is who it says, and may speak at all.
    check_identity(incoming.caller, message, floor.roster())?;
    // Resolve: names and scopes become agents.
    let roster = floor.roster();
    let recipients = roster.recipients(message).map_err(|mut unknown| {
        unknown.near = roster.nearest(&unknown.agent, |_| true);
        Refusal::new(
            Outcome::UnknownRecipient,
            format!("{unknown}. Ask the bus who is there, or wait until the agent has joined."),
        )
    })?;
    let recipients = recipients.known;
    // Duplicate: an id is accepted once.
    match floor.seen(message, incoming.fingerprint) {
        Some(SeenBefore::Same { seq }) => return Ok(Verdict::Duplicate { seq }),
        Some(SeenBefore::Different { seq }) => {
            let reason = format!(
                "The messageId was accepted before with another body or from another sender (record {seq}). Make a new id for a new message."
            );
            return Err(Refusal::new(Outcome::Conflict, reason));
        }
        None => {}
    }
    // Rate limit: the notices of the bus are exempt.
    if *incoming.caller != Caller::Bus {
        floor.charge(message, &recipients, now).map_err(limited)?;
    }
    // Reserve: a place in each recipient's inbox.
    reserve(message, &recipients, floor).map(Verdict::Accepted)
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

fn check_identity(caller: &Caller, message: &Envelope, roster: &Roster) -> Result<(), Refusal> {
    let from = &message.from.agent_id;
    let forbidden = |reason: String| Err(Refusal::new(Outcome::Forbidden, reason));
    match caller {
        Caller::Bus => Ok(()),
        Caller::Agent(agent) if agent != from => forbidden(format!(
            "You are `{agent}`, but `from.agentId` says `{from}`. Send under your own id."
        )),
        _ if Roster::is_reserved(from) => forbidden(format!(
            "`{from}` is a name of the bus or of people; no agent may send under it."
        )),
        _ if !roster.admits(from) => forbidden(format!(
            "`{from}` is not among the agents of this bus, and it takes no new ones. Add it to [[agents]] in the configuration, or open the directory."
        )),
        _ => Ok(()),
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

fn reserve(
    message: &Envelope,
    recipients: &[AgentKey],
    floor: &mut impl Floor,
) -> Result<Accepted, Refusal> {
    let (mut delivered, mut queued, mut full) = (0, 0, None);
    let mut outcomes = Vec::with_capacity(recipients.len());
    for key in recipients {
        let outcome = match floor.reserve(*key, message) {
            Ok(outcome) => outcome,
            Err(error) => {
                full = Some(error);
                Outcome::QueueFull
            }
        };
        delivered += usize::from(outcome == Outcome::Delivered);
        queued += usize::from(outcome == Outcome::Queued);
        if let Some(agent_id) = floor.roster().id(*key) {
            outcomes.push(RecipientOutcome { agent_id: agent_id.clone(), outcome });
        }
    }
    let outcome = match (delivered, queued, full) {
        (0, 0, Some(error)) => {
            let who = outcomes.last().map_or("nobody", |last| last.agent_id.as_str());
            let reason = format!("`{who}` takes no more: {error}. Send it again later.");
            return Err(Refusal {
                retry_after_ms: Some(1_000),
                recipients: outcomes,
                ..Refusal::new(Outcome::QueueFull, reason)
            });
        }
        (_, 0, _) => Outcome::Delivered, // to everyone who has a place, or to an empty scope
        _ => Outcome::Queued,
    };
    Ok(Accepted { outcome, recipients: outcomes })
}
