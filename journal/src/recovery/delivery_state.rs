//! Delivery state: the fold over all records, from which a restart continues.
//!
//! Pure. The journal applies the records that it commits, recovery those that it reads, with the
//! same result. A record that matches nothing changes nothing, so that a log with a damaged line
//! still folds.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use a2a_protocol::{AgentId, Event, MessageId, RecipientOutcome};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::record::decode::Decoded;
use crate::record::{Removed, RemovedForm};
use crate::{EventRecord, Fact, MessageRecord, Record};

/// Open deliveries, present agents and facts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveryState {
    /// By number of the message record; removed with its last delivery.
    pub held: BTreeMap<u64, HeldMessage>,
    /// With the number of the record that added it.
    pub agents: BTreeMap<AgentId, u64>,
    /// The latest value of every key.
    pub facts: HashMap<Arc<str>, StoredFact>,
    /// What retention removed.
    pub marks: RemovalMarks,
}

/// The value of a fact, and the number of the record that set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFact {
    pub seq: u64,
    /// JSON text.
    pub value: Arc<str>,
}

/// How far removals have progressed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovalMarks {
    /// Of records, in both copies.
    pub records: Option<RemovalMark>,
    /// Of segments whose records the index has.
    pub files: Option<RemovalMark>,
}

/// The last removed record, and its day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovalMark {
    pub seq: u64,
    pub day: NaiveDate,
}

/// A message with at least one delivery that is pending or a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldMessage {
    pub message_id: MessageId,
    pub by: AgentId,
    pub time_ms: i64,
    pub copies: Vec<HeldCopy>,
}

/// The delivery to one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldCopy {
    pub agent_id: AgentId,
    pub attempts: u32,
    /// Why it is a dead letter; `None` while it is pending.
    pub dead: Option<String>,
}

impl DeliveryState {
    /// The number of entries, which determines the cost of a checkpoint.
    pub fn len(&self) -> usize {
        self.held.len() + self.agents.len() + self.facts.len()
    }

    pub fn apply(&mut self, line: &Record) {
        match line {
            Record::Message(line) => {
                self.apply_message(line);
                self.apply_facts(line.seq, &line.facts);
            }
            Record::Event(line) => {
                self.apply_facts(line.seq, &line.facts);
                self.ensure_agents(line.seq, &line.agents);
                self.removed(line.seq, &line.removed);
                let EventRecord { seq, event, of, attempt, reason, .. } = line;
                let (agent_id, reason) = (line.agent_id.as_ref(), reason.as_deref());
                self.event(*seq, *event, *of, agent_id, *attempt, reason);
            }
        }
    }

    fn apply_message(&mut self, line: &MessageRecord) {
        if line.outcome.is_accepted()
            && let (Some(id), Some(by)) = (line.message_id, &line.by)
        {
            self.accept(line.seq, id, by, line.time.timestamp_millis(), &line.recipients);
        }
    }

    fn apply_facts(&mut self, seq: u64, facts: &[Fact]) {
        for Fact { key, value } in facts {
            self.fact(seq, key, value.clone());
        }
    }

    fn fact(&mut self, seq: u64, key: &Arc<str>, value: Option<Arc<str>>) {
        match value {
            None => drop(self.facts.remove(key)),
            Some(value) => drop(self.facts.insert(Arc::clone(key), StoredFact { seq, value })),
        }
    }

    fn removed(&mut self, seq: u64, removed: &[Removed]) {
        for removed in removed {
            let mark = Some(RemovalMark { seq: removed.last, day: removed.to_day });
            match removed.what {
                RemovedForm::Records => self.marks.records = mark,
                RemovedForm::Files => self.marks.files = mark,
            }
            self.ensure_agents(seq, &removed.agents);
        }
    }

    fn ensure_agents(&mut self, seq: u64, agents: &[AgentId]) {
        for agent_id in agents {
            self.agents.insert(agent_id.clone(), seq);
        }
    }

    /// Agents and facts whose records are up to `last`. A removal must write them again, or an index
    /// that is rebuilt from the log would lack them.
    pub fn retained_up_to(&self, last: u64) -> (Vec<AgentId>, Vec<Fact>) {
        let agents = self.agents.iter().filter(|(_, seq)| **seq <= last);
        let facts = self.facts.iter().filter(|(_, known)| known.seq <= last);
        let mut facts: Vec<Fact> = facts
            .map(|(key, known)| Fact { key: key.clone(), value: Some(known.value.clone()) })
            .collect();
        facts.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        (agents.map(|(agent, _)| agent.clone()).collect(), facts)
    }

    pub fn apply_decoded(&mut self, line: &Decoded<'_>) {
        for (key, value) in line.facts() {
            self.fact(line.seq, &key.into(), value.map(|value| value.get().into()));
        }
        self.ensure_agents(line.seq, &line.agents());
        self.removed(line.seq, &line.removed());
        if let Some(event) = line.event() {
            self.event(
                line.seq,
                event,
                line.of,
                line.agent_id.as_ref(),
                line.attempt,
                line.reason.as_deref(),
            );
        } else if line.outcome().is_some_and(a2a_protocol::Outcome::is_accepted)
            && let (Some(id), Some(by), Some(time)) = (line.message_id, &line.by, line.time())
        {
            self.accept(line.seq, id, by, time.timestamp_millis(), &line.recipients());
        }
    }

    fn accept(
        &mut self,
        seq: u64,
        message_id: MessageId,
        by: &AgentId,
        time_ms: i64,
        recipients: &[RecipientOutcome],
    ) {
        let copies: Vec<HeldCopy> = recipients
            .iter()
            .filter(|recipient| recipient.outcome.is_accepted())
            .map(|r| HeldCopy { agent_id: r.agent_id.clone(), attempts: 0, dead: None })
            .collect();
        if !copies.is_empty() {
            self.held.insert(seq, HeldMessage { message_id, by: by.clone(), time_ms, copies });
        }
    }

    fn event(
        &mut self,
        seq: u64,
        event: Event,
        of: Option<u64>,
        agent_id: Option<&AgentId>,
        attempt: Option<u32>,
        reason: Option<&str>,
    ) {
        let Some(agent_id) = agent_id else { return };
        if event == Event::Joined {
            match self.agents.get_mut(agent_id) {
                Some(known) => *known = seq,
                None => drop(self.agents.insert(agent_id.clone(), seq)),
            }
            return;
        }
        if event == Event::Left {
            self.agents.remove(agent_id);
            return;
        }
        let Some(of) = of else { return };
        let Some(held) = self.held.get_mut(&of) else { return };
        let Some(at) = held.copies.iter().position(|copy| copy.agent_id == *agent_id) else {
            return;
        };
        let copy = &mut held.copies[at];
        match (event, copy.dead.is_some()) {
            (Event::Delivered | Event::AttemptFailed, false) => {
                copy.attempts = attempt.unwrap_or(copy.attempts);
            }
            (Event::Expired | Event::DeadLetter, false) => {
                copy.dead = Some(reason.unwrap_or(event.as_str()).to_owned());
            }
            (Event::Returned, true) => {
                copy.dead = None;
                copy.attempts = 0;
            }
            // A late acknowledgement still ends the delivery.
            (Event::Acknowledged | Event::Cancelled, _) | (Event::Dropped, true) => {
                held.copies.remove(at);
                if held.copies.is_empty() {
                    self.held.remove(&of);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use a2a_protocol::Outcome;

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    fn with_copies() -> DeliveryState {
        let mut state = DeliveryState::default();
        let recipients =
            [("tim", Outcome::Delivered), ("ann", Outcome::Queued), ("bob", Outcome::QueueFull)]
                .map(|(name, outcome)| RecipientOutcome { agent_id: agent(name), outcome });
        let id = "0192a4c8-7e1a-7b3c-9d4e-000000000001".parse().unwrap();
        state.accept(1, id, &agent("roman"), 5, &recipients);
        state
    }

    /// `name attempts` or `name attempts reason` for each copy of message 1.
    fn after(events: &[(Event, &str, Option<u32>)]) -> Vec<String> {
        let mut state = with_copies();
        for (event, name, attempt) in events {
            state.event(2, *event, Some(1), Some(&agent(name)), *attempt, Some("why"));
        }
        let copies = state.held.get(&1).map(|held| held.copies.as_slice()).unwrap_or_default();
        copies
            .iter()
            .map(|c| {
                let dead = c.dead.as_ref().map(|why| format!(" {why}")).unwrap_or_default();
                format!("{} {}{dead}", c.agent_id, c.attempts)
            })
            .collect()
    }

    #[test]
    fn each_event_has_its_effect_on_the_delivery() {
        use Event::*;
        type Case = (&'static [(Event, &'static str, Option<u32>)], &'static [&'static str]);
        let cases: &[Case] = &[
            (&[], &["tim 0", "ann 0"]),
            (&[(Delivered, "tim", Some(1))], &["tim 1", "ann 0"]),
            (&[(AttemptFailed, "tim", Some(3))], &["tim 3", "ann 0"]),
            (&[(Acknowledged, "tim", None)], &["ann 0"]),
            (&[(Acknowledged, "tim", None), (Acknowledged, "ann", None)], &[]),
            (&[(Cancelled, "tim", None)], &["ann 0"]),
            (&[(Expired, "tim", None)], &["tim 0 why", "ann 0"]),
            (
                &[(AttemptFailed, "ann", Some(5)), (DeadLetter, "ann", None)],
                &["tim 0", "ann 5 why"],
            ),
            (
                &[
                    (AttemptFailed, "ann", Some(5)),
                    (DeadLetter, "ann", None),
                    (Returned, "ann", None),
                ],
                &["tim 0", "ann 0"],
            ),
            (&[(DeadLetter, "ann", None), (Dropped, "ann", None)], &["tim 0"]),
            (&[(DeadLetter, "ann", None), (Acknowledged, "ann", None)], &["tim 0"]),
            // Events that match nothing are ignored.
            (&[(Dropped, "tim", None), (Returned, "tim", None)], &["tim 0", "ann 0"]),
            (&[(Acknowledged, "bob", None), (Acknowledged, "eve", None)], &["tim 0", "ann 0"]),
            (&[(DeadLetter, "ann", None), (Delivered, "ann", Some(2))], &["tim 0", "ann 0 why"]),
        ];
        for (events, expected) in cases {
            assert_eq!(&after(events), expected, "{events:?}");
        }
    }

    #[test]
    fn agents_join_once_and_events_without_a_message_are_ignored() {
        let mut state = with_copies();
        let before = state.clone();
        state.event(2, Event::Acknowledged, None, Some(&agent("tim")), None, None);
        state.event(2, Event::Acknowledged, Some(1), None, None, None);
        state.event(2, Event::Acknowledged, Some(2), Some(&agent("tim")), None, None);
        assert_eq!(state, before);
        state.event(2, Event::Joined, None, Some(&agent("tim")), None, None);
        state.event(2, Event::Joined, None, Some(&agent("tim")), None, None);
        assert_eq!(state.agents.len(), 1);
        state.event(3, Event::Left, None, Some(&agent("tim")), None, None);
        assert!(state.agents.is_empty());
    }
}
