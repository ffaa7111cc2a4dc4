//! Dead letters: deliveries without an attempt left. Listed, redelivered or dropped.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use a2a_journal::{EventRecord, Record};
use a2a_policy::{Caller, QueueEntry};
use a2a_protocol::{AgentId, Event, MessageId};
use actix::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::{MAX_SCAN, Part, Router};
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::context::Clock;
use crate::bus::message::{StoredMessage, Submission};
use crate::bus::notice;

/// A dead letter as people see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
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

/// A delivery that no attempt is left for.
pub(super) struct DeadLetter {
    pub(super) entry: QueueEntry<Arc<StoredMessage>>,
    pub(super) reason: String,
}

/// All dead letters, oldest first.
#[derive(Default)]
pub(super) struct DeadLetters {
    all: BTreeMap<(u64, AgentId), DeadLetter>,
    bytes: usize,
}

impl DeadLetters {
    pub(super) fn insert(&mut self, key: (u64, AgentId), dead: DeadLetter) {
        self.bytes += dead.entry.bytes;
        if let Some(before) = self.all.insert(key, dead) {
            self.bytes -= before.entry.bytes;
        }
    }

    fn remove(&mut self, key: &(u64, AgentId)) -> Option<DeadLetter> {
        let dead = self.all.remove(key)?;
        self.bytes -= dead.entry.bytes;
        Some(dead)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes of all dead letters; a message counts once for each recipient.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Maximum dead letters dropped for one that arrives; more exceed the limit only after it was
/// lowered.
const DROPPED_AT_ONCE: usize = 16;

/// Lists dead letters in their order, a bounded number at a time.
#[derive(Message)]
#[rtype(result = "Part<DeadLetterView, (u64, AgentId)>")]
pub(crate) struct ListDeadLetters {
    pub(crate) after: Option<(u64, AgentId)>,
}

impl Handler<ListDeadLetters> for Router {
    type Result = MessageResult<ListDeadLetters>;

    fn handle(
        &mut self,
        ListDeadLetters { after }: ListDeadLetters,
        _: &mut Self::Context,
    ) -> Self::Result {
        let view = |((seq, agent), dead): (&(u64, AgentId), &DeadLetter)| DeadLetterView {
            seq: *seq,
            message_id: dead.entry.item.message.message_id,
            sender: dead.entry.by.clone(),
            agent_id: agent.clone(),
            attempts: dead.entry.attempts,
            reason: dead.reason.clone(),
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.dead.all.range((from, Bound::Unbounded));
        let found: Vec<_> = rest.by_ref().take(MAX_SCAN).map(view).collect();
        let last = found.last().map(|last| (last.seq, last.agent_id.clone()));
        MessageResult(Part { next: last.filter(|_| rest.next().is_some()), found })
    }
}

/// Redelivers a dead letter, or drops it; `false` when there is none.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct ResolveDeadLetter {
    pub(crate) seq: u64,
    pub(crate) agent: AgentId,
    pub(crate) again: bool,
}

impl Handler<ResolveDeadLetter> for Router {
    type Result = bool;

    fn handle(&mut self, request: ResolveDeadLetter, ctx: &mut Self::Context) -> bool {
        let ResolveDeadLetter { seq, agent, again } = request;
        self.resolve_dead_letter(seq, &agent, again, ctx)
    }
}

impl Router {
    pub(super) fn resolve_dead_letter(
        &mut self,
        seq: u64,
        agent: &AgentId,
        again: bool,
        ctx: &mut Context<Self>,
    ) -> bool {
        let key = (seq, agent.clone());
        if again && !self.directory.contains(agent) {
            return false; // removed: the message would never be taken
        }
        let Some(dead) = self.dead.remove(&key) else { return false };
        let facts = match again.then(|| self.reopen_assignment(&dead.entry, ctx)) {
            None => Vec::new(),
            Some(Some(facts)) => facts,
            Some(None) => {
                // The task went another way: redelivery would repeat its work.
                self.dead.insert(key, dead);
                return false;
            }
        };
        let record = Record::Event(EventRecord {
            of: Some(seq),
            message_id: Some(dead.entry.item.message.message_id),
            agent_id: Some(agent.clone()),
            facts,
            ..self.bus.event(if again { Event::Returned } else { Event::Dropped })
        });
        self.bus.append(Append { record, on_commit: OnCommit::Nothing });
        if again {
            self.requeue(agent, QueueEntry { attempts: 0, ..dead.entry });
        }
        true
    }
}

/// A delivery used its last attempt: its sender is notified, then it becomes a dead letter.
///
/// In this order, so that a crash in between repeats the last attempt and the notice instead of
/// losing the notice.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AttemptsExhausted {
    pub(crate) agent: AgentId,
    pub(crate) entry: QueueEntry<Arc<StoredMessage>>,
    pub(crate) reason: String,
    pub(crate) on_commit: OnCommit,
}

impl Handler<AttemptsExhausted> for Router {
    type Result = ();

    fn handle(&mut self, exhausted: AttemptsExhausted, ctx: &mut Self::Context) {
        let AttemptsExhausted { agent, entry, reason, on_commit } = exhausted;
        self.dead_letter(Event::DeadLetter, &agent, entry, reason, on_commit, ctx);
    }
}

impl Router {
    /// Dead-letters a delivery: notifies its sender and fails its task.
    pub(super) fn dead_letter(
        &mut self,
        event: Event,
        agent: &AgentId,
        entry: QueueEntry<Arc<StoredMessage>>,
        reason: String,
        on_commit: OnCommit,
        ctx: &mut Context<Self>,
    ) {
        let trace = entry.item.trace();
        tracing::warn!(%agent, seq = entry.seq, trace = %trace.id(), reason, "a message became a dead letter");
        self.bus.stats.dead_letters.add(1);
        let now = self.bus.clock.now();
        let notice = notice::late_failure(event, &entry.item.message, agent, &reason, now);
        if let Some(notice) = notice {
            let submission = Submission::from_message(notice, Clock::instant());
            self.route(&Caller::Bus, submission.with_trace(Some(Arc::new(trace))), None, ctx);
        }
        let facts = self.fail_assignment(&entry, &reason, now, ctx);
        let record = Record::Event(EventRecord {
            of: Some(entry.seq),
            message_id: Some(entry.item.message.message_id),
            agent_id: Some(agent.clone()),
            attempt: Some(entry.attempts),
            reason: Some(reason.clone()),
            facts,
            ..self.bus.event(event)
        });
        self.bus.append(Append { record, on_commit });
        self.dead.insert((entry.seq, agent.clone()), DeadLetter { entry, reason });
        for _ in 0..DROPPED_AT_ONCE {
            let fits = self.dead.len() <= self.bus.settings.max_dead_letters
                && self.dead.bytes() <= self.dead_letter_bytes;
            // The newest one stays, whatever the limits.
            if fits || self.dead.len() <= 1 {
                break;
            }
            let Some(((seq, agent), _)) = self.dead.all.first_key_value() else { break };
            let (seq, agent) = (*seq, agent.clone());
            tracing::warn!(%agent, seq, "dead letters exceeded their limit; dropped the oldest");
            self.resolve_dead_letter(seq, &agent, false, ctx);
        }
    }
}
