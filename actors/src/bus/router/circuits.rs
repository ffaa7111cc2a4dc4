//! Circuits: tripped by the breaker or an operator, announced once, reset.

use std::time::Duration;

use a2a_journal::{EventRecord, Fact, Record};
use a2a_policy::{Caller, Circuit, CircuitKey, CircuitState, Now};
use a2a_protocol::{AgentId, CorrelationId, Event};
use actix::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::Router;
use crate::bus::commit::effects::OnCommit;
use crate::bus::commit::writer::Append;
use crate::bus::context::Clock;
use crate::bus::message::Submission;
use crate::bus::notice;

/// Prefix of the fact keys of circuits.
pub(super) const KEY: &str = "circuit:";

/// A circuit as people see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitView {
    /// The circuit.
    #[serde(flatten)]
    pub circuit: Circuit,
    /// Whether it refuses everything, or lets a few through to see.
    pub state: CircuitState,
    /// Until it lets a few through; absent when only a person can reset it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl CircuitView {
    fn new(circuit: &Circuit, now: Now) -> Self {
        let ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self {
            circuit: circuit.clone(),
            state: circuit.state(now),
            retry_after_ms: circuit.retry_after(now).map(ms),
        }
    }
}

impl Router {
    /// Opens a circuit: recorded, in force, and announced once to every participant.
    pub(super) fn open_circuit(&mut self, circuit: Circuit, now: Now, ctx: &mut Context<Self>) {
        tracing::warn!(circuit = %circuit.key, reason = circuit.reason.as_str(), evidence = circuit.evidence, "circuit opened");
        let mut facts = vec![fact(&circuit.key, Some(&circuit))];
        let lapsed = self.breaker.sweep(now);
        let evicted = self.breaker.trip(circuit.clone());
        let gone = lapsed.iter().chain(&evicted).filter(|key| **key != circuit.key);
        facts.extend(gone.map(|key| fact(key, None)));
        let record = Record::Event(EventRecord {
            reason: Some(format!("{}: {}", circuit.reason.as_str(), circuit.evidence)),
            facts,
            ..self.bus.event(Event::Tripped)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Nothing });
        self.bus.stats.tripped.add(1);
        for agent in &circuit.participants {
            if self.directory.contains(agent)
                && let Some(notice) = notice::stopped(agent, &circuit, now)
            {
                self.route(
                    &Caller::Bus,
                    Submission::from_message(notice, Clock::instant()),
                    None,
                    ctx,
                );
            }
        }
    }

    /// Participants of the tasks of a conversation: the breaker forgets them sooner than the
    /// ledger.
    fn participants_of(&self, conversation: CorrelationId) -> Vec<AgentId> {
        let tasks = self.ledger.iter().flat_map(|ledger| ledger.of_conversation(conversation));
        let participants = tasks.flat_map(|task| {
            let reviewer = task.review.as_ref().map(|review| &review.reviewer);
            [Some(&task.requester), Some(&task.assignee), reviewer].into_iter().flatten()
        });
        participants.cloned().collect()
    }

    /// Records that a circuit was closed by progress or by an operator.
    pub(super) fn record_circuit_closed(&mut self, key: &CircuitKey, why: &str) {
        tracing::info!(circuit = %key, why, "circuit closed");
        let record = Record::Event(EventRecord {
            reason: Some(format!("{key}: {why}")),
            facts: vec![fact(key, None)],
            ..self.bus.event(Event::Closed)
        });
        self.bus.append(Append { record, on_commit: OnCommit::Nothing });
    }
}

/// The fact key of a circuit in the journal.
#[must_use]
pub fn circuit_fact(key: &CircuitKey) -> String {
    format!("{KEY}{key}")
}

fn fact(key: &CircuitKey, circuit: Option<&Circuit>) -> Fact {
    // A circuit always serialises; if it did not, forgetting it would be the lesser harm.
    let value = circuit.and_then(|circuit| serde_json::to_string(circuit).ok());
    Fact { key: circuit_fact(key).into(), value: value.map(Into::into) }
}

#[derive(Message)]
#[rtype(result = "Vec<CircuitView>")]
pub(crate) struct ListCircuits;

impl Handler<ListCircuits> for Router {
    type Result = MessageResult<ListCircuits>;

    fn handle(&mut self, _: ListCircuits, _: &mut Self::Context) -> Self::Result {
        let now = self.bus.clock.now();
        let mut views: Vec<_> =
            self.breaker.circuits().map(|circuit| CircuitView::new(circuit, now)).collect();
        views.sort_by_key(|view| std::cmp::Reverse(view.circuit.since));
        MessageResult(views)
    }
}

/// An operator trips a circuit, which stays open until it is reset.
#[derive(Message)]
#[rtype(result = "CircuitView")]
pub(crate) struct TripCircuit {
    pub(crate) key: CircuitKey,
    pub(crate) reason: String,
}

impl Handler<TripCircuit> for Router {
    type Result = MessageResult<TripCircuit>;

    fn handle(&mut self, request: TripCircuit, ctx: &mut Self::Context) -> Self::Result {
        let TripCircuit { key, reason } = request;
        let now = self.bus.clock.now();
        let participants: Vec<AgentId> = match &key {
            CircuitKey::Pair { from, to, .. } => {
                [Some(from), to.as_ref()].into_iter().flatten().cloned().collect()
            }
            CircuitKey::Correlation(conversation) => self.participants_of(*conversation),
        };
        let circuit = self.breaker.trip_manually(key, reason, participants, now);
        let view = CircuitView::new(&circuit, now);
        self.open_circuit(circuit, now, ctx);
        MessageResult(view)
    }
}

/// An operator resets a circuit; `false` when it was not open.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct ResetCircuit(pub(crate) CircuitKey);

impl Handler<ResetCircuit> for Router {
    type Result = bool;

    fn handle(&mut self, ResetCircuit(key): ResetCircuit, _: &mut Self::Context) -> bool {
        let was_open = self.breaker.reset(&key).is_some();
        if was_open {
            self.record_circuit_closed(&key, "reset by a person");
        }
        was_open
    }
}
