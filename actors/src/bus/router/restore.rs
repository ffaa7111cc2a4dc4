//! Recovery: rebuilds the router's state from the journal at the start.

use std::collections::HashMap;
use std::sync::Arc;

use a2a_journal::Recovered;
use a2a_policy::{Assignment, Circuit, DedupRecord, Directory, Profile, QueueEntry};
use a2a_protocol::{AgentId, Body, Envelope, Trace};
use actix::prelude::*;
use chrono::{DateTime, Utc};

use super::dead_letters::{AttemptsExhausted, DeadLetter};
use super::{Router, circuits, directory};
use crate::bus::commit::effects::OnCommit;
use crate::bus::message::{HeldBytes, StoredMessage, StoredMessageParts};

impl Router {
    /// Restores directory, facts, dedup index, pending deliveries and dead letters, in this order.
    pub(super) fn restore(&mut self, recovered: Recovered, ctx: &mut Context<Self>) {
        for (agent, profile) in self.bus.settings.agents.clone() {
            self.ensure_agent(agent, profile, true, ctx);
        }
        for (agent, profile) in self.bus.settings.built_in.clone() {
            self.ensure_agent(agent.clone(), profile, true, ctx);
            self.directory.set_apart(&agent);
        }
        for agent in recovered.agents {
            self.ensure_agent(agent, Profile::default(), false, ctx);
        }
        for (key, value) in &recovered.facts {
            self.restore_fact(key, value, ctx);
        }
        for seen in recovered.seen {
            let remembered = DedupRecord { seq: seen.seq, fingerprint: seen.fingerprint };
            self.dedup.insert(seen.message_id, remembered);
        }
        let mut restored = RestoredMessages::new(self.bus.held.clone());
        for p in recovered.pending {
            let kept = PersistedMessage { trace: p.trace, time: p.time, message: &p.message };
            let Some(entry) = restored.entry(p.seq, p.by, p.attempts, kept) else { continue };
            self.presume(&p.agent_id, ctx);
            if Directory::may_be_answered(&entry.by) {
                self.presume(&entry.by, ctx);
            }
            if !is_answer(&entry) {
                self.directory.confirm(&p.agent_id);
            }
            if self.is_cancelled(&entry) {
                self.settle_cancelled(p.agent_id, &entry);
            } else if entry.attempts >= self.bus.settings.retry.attempts {
                // Each attempt ended with the process; another would, too.
                let reason =
                    "the last attempt did not come back: the bus was stopped or killed during it"
                        .to_owned();
                let agent = p.agent_id;
                ctx.notify(AttemptsExhausted {
                    agent,
                    entry,
                    reason,
                    on_commit: OnCommit::Nothing,
                });
            } else {
                self.requeue(&p.agent_id, entry);
            }
        }
        // After the pending deliveries: a client never gets the name of an agent that has messages.
        let clients = self.bus.settings.clients.clone();
        self.claim_names(&clients);
        for d in recovered.dead_letters {
            let kept = PersistedMessage { trace: d.trace, time: d.time, message: &d.message };
            if let Some(entry) = restored.entry(d.seq, d.by, d.attempts, kept) {
                self.dead.insert((d.seq, d.agent_id), DeadLetter { entry, reason: d.reason });
            }
        }
    }

    pub(super) fn restore_fact(&mut self, key: &str, value: &str, ctx: &mut Context<Self>) {
        let read = if let Some(Ok(id)) = key.strip_prefix(Assignment::KEY).map(str::parse) {
            Assignment::from_stored(id, value).map(|task| {
                if let Some(ledger) = &mut self.ledger {
                    ledger.restore(task);
                }
            })
        } else if key.starts_with(circuits::KEY) {
            serde_json::from_str::<Circuit>(value).map(|circuit| drop(self.breaker.trip(circuit)))
        } else if let Some(Ok(agent)) = key.strip_prefix(directory::KEY).map(str::parse::<AgentId>)
        {
            serde_json::from_str(value).map(|profile| drop(self.enter(agent, profile, ctx)))
        } else {
            tracing::warn!(key, "journal holds a fact of an unknown kind; ignored it");
            return;
        };
        if let Err(error) = read {
            tracing::error!(%error, key, "fact in the journal could not be parsed");
        }
    }
}

/// Whether a client may get this message: an answer to a task or a report on it. Any other message
/// in an inbox shows that the inbox is an agent's.
pub(super) fn is_answer(entry: &QueueEntry<Arc<StoredMessage>>) -> bool {
    matches!(entry.item.message.body, Body::TaskResponse(_) | Body::StatusUpdate(_))
}

/// A message as the journal has it.
pub(super) struct PersistedMessage<'a> {
    pub(super) trace: Option<Arc<Trace>>,
    pub(super) time: DateTime<Utc>,
    pub(super) message: &'a Arc<[u8]>,
}

/// Recovered messages by sequence number. Each is parsed once and shared by all its deliveries and
/// dead letters.
pub(super) struct RestoredMessages {
    held: HeldBytes,
    restored: HashMap<u64, Option<Arc<StoredMessage>>>,
}

impl RestoredMessages {
    pub(super) fn new(held: HeldBytes) -> Self {
        Self { held, restored: HashMap::new() }
    }

    /// Queue entry of message `seq` for one recipient; `None` when it cannot be parsed.
    pub(super) fn entry(
        &mut self,
        seq: u64,
        by: AgentId,
        attempts: u32,
        kept: PersistedMessage<'_>,
    ) -> Option<QueueEntry<Arc<StoredMessage>>> {
        let stored = self.restored.entry(seq);
        let stored = stored.or_insert_with(|| restored(seq, by, kept, &self.held));
        stored.as_ref().map(|stored| stored.entry(attempts))
    }
}

fn restored(
    seq: u64,
    by: AgentId,
    kept: PersistedMessage<'_>,
    held: &HeldBytes,
) -> Option<Arc<StoredMessage>> {
    match Envelope::parse(kept.message) {
        Ok(message) => {
            let parts = StoredMessageParts {
                seq,
                by,
                message: Arc::new(message),
                bytes: Arc::clone(kept.message),
                trace: kept.trace,
                accepted: kept.time,
                recovered: true,
            };
            Some(StoredMessage::new(parts, held))
        }
        Err(report) => {
            tracing::error!(seq, %report, "accepted message could not be parsed");
            None
        }
    }
}
