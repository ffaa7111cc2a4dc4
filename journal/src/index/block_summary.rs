//! Summary of the messages in a block, by which a search skips blocks without a match.

use a2a_protocol::{Kind, Outcome};

use crate::index::bloom::{About, BloomFilter, term};
use crate::index::facets::{facets, time_and_outcome};
use crate::index::terms::RecordTerms;

/// Times, kinds, outcomes and terms of the messages in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockSummary {
    /// The earliest and the latest time, in milliseconds since 1970.
    pub times: (i64, i64),
    /// A bit for each kind.
    pub kinds: u32,
    /// A bit for each outcome.
    pub outcomes: u32,
    /// Bytes of the records, uncompressed.
    pub size: u32,
    /// Bytes of the compressed block.
    pub stored: u32,
    pub terms: BloomFilter,
}

/// The bit of a kind. Its position in the enum is stored: new kinds are added at the end.
pub(crate) fn kind_bit(kind: Kind) -> u32 {
    1 << kind as u32
}

/// The bit of an outcome; as for kinds, new ones are added at the end.
pub(crate) fn outcome_bit(outcome: Outcome) -> u32 {
    1 << outcome as u32
}

/// Builds summaries in reused buffers, message by message.
#[derive(Debug)]
pub(crate) struct SummaryBuilder {
    times: (i64, i64),
    kinds: u32,
    outcomes: u32,
    terms: Vec<u64>,
}

impl Default for SummaryBuilder {
    fn default() -> Self {
        Self { times: (i64::MAX, i64::MIN), kinds: 0, outcomes: 0, terms: Vec::new() }
    }
}

impl SummaryBuilder {
    pub fn clear(&mut self) {
        let mut terms = std::mem::take(&mut self.terms);
        terms.clear();
        *self = Self { terms, ..Self::default() };
    }

    /// Adds a message by the terms that were computed at its commit.
    pub fn add_with_terms(&mut self, record: &RecordTerms, terms: &[u64]) {
        self.times = (self.times.0.min(record.ms), self.times.1.max(record.ms));
        self.outcomes |= record.outcome;
        self.kinds |= record.kind;
        self.terms.extend_from_slice(terms);
    }

    /// Adds a message by parsing its record.
    pub fn add(&mut self, line: &[u8]) {
        if let Some((time, outcome)) = time_and_outcome(line) {
            let ms = time.timestamp_millis();
            self.times = (self.times.0.min(ms), self.times.1.max(ms));
            self.outcomes |= outcome.map_or(0, outcome_bit);
        }
        let facets = facets(line);
        self.kinds |= facets.kind.map_or(0, kind_bit);
        let mut add = |about, bytes: &[u8]| self.terms.push(term(about, bytes));
        for agent in &facets.agents {
            add(About::Agent, agent.as_bytes());
        }
        for (about, id) in [
            (About::Message, facets.message_id.map(|id| id.as_uuid())),
            (About::Correlation, facets.correlation.map(|id| id.as_uuid())),
            (About::Task, facets.task.map(|id| id.as_uuid())),
        ] {
            if let Some(id) = id {
                add(about, id.as_bytes());
            }
        }
    }

    pub fn finish(&mut self) -> BlockSummary {
        let Self { times, kinds, outcomes, terms } = self;
        let (times, kinds, outcomes) = (*times, *kinds, *outcomes);
        BlockSummary { times, kinds, outcomes, size: 0, stored: 0, terms: BloomFilter::of(terms) }
    }
}

impl BlockSummary {
    /// The summary that excludes nothing.
    pub fn all() -> Self {
        let (kinds, outcomes) = (u32::MAX, u32::MAX);
        let times = (i64::MIN, i64::MAX);
        Self { times, kinds, outcomes, size: 0, stored: 0, terms: BloomFilter::all() }
    }

    pub fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.times.0.to_be_bytes());
        out.extend_from_slice(&self.times.1.to_be_bytes());
        out.extend_from_slice(&self.kinds.to_be_bytes());
        out.extend_from_slice(&self.outcomes.to_be_bytes());
        out.extend_from_slice(&self.size.to_be_bytes());
        out.extend_from_slice(&self.stored.to_be_bytes());
        self.terms.push(out);
    }

    /// Decodes a summary; returns it with the bytes that follow.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (from, rest) = bytes.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let (kinds, rest) = rest.split_first_chunk()?;
        let (outcomes, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (stored, rest) = rest.split_first_chunk()?;
        let (terms, rest) = BloomFilter::read(rest)?;
        let summary = Self {
            times: (i64::from_be_bytes(*from), i64::from_be_bytes(*to)),
            kinds: u32::from_be_bytes(*kinds),
            outcomes: u32::from_be_bytes(*outcomes),
            size: u32::from_be_bytes(*size),
            stored: u32::from_be_bytes(*stored),
            terms,
        };
        Some((summary, rest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use a2a_protocol::{AgentId, Envelope, RecipientOutcome};
    use chrono::{DateTime, TimeDelta, Utc};
    use proptest::prelude::*;

    use super::*;
    use crate::index::terms::BatchTerms;
    use crate::record::chain::Head;
    use crate::record::encode::Encoder;
    use crate::{MessageRecord, Received, Record};

    /// A message record whose agents differ from those in the message.
    fn record(message: &Envelope, bytes: &[u8]) -> MessageRecord {
        let agent = |name: &str| name.parse::<AgentId>().unwrap();
        let recipient =
            |name| RecipientOutcome { agent_id: agent(name), outcome: Outcome::Delivered };
        MessageRecord {
            seq: 1,
            time: DateTime::from_timestamp_millis(1_771_698_600_007).unwrap(),
            outcome: Outcome::Queued,
            message_id: Some(message.message_id),
            by: Some(agent("somebody.else")),
            via: Some("operator:\"roman\"".into()),
            trace: None,
            received: Received::Json(bytes.into()),
            message: Some(Arc::new(message.clone())),
            bytes: bytes.len() as u64,
            took_us: 7,
            fingerprint: Some(7),
            recipients: Arc::new([recipient("ann"), recipient("Bob_2-x")]),
            reason: Some("\"agentId\":\"nobody\"".to_owned()),
            retry_after_ms: None,
            errors: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// The summaries of a record by its line and by its terms.
    fn both(line: MessageRecord) -> [SummaryBuilder; 2] {
        let mut encoder = Encoder::default();
        encoder.encode(Head::START, &[Record::Message(line)]).unwrap();
        let (mut by_line, mut by_terms) = (SummaryBuilder::default(), SummaryBuilder::default());
        by_line.add(encoder.entries[0].of(&encoder.bytes));
        for (record, terms) in encoder.terms.iter() {
            by_terms.add_with_terms(record, terms);
        }
        [by_line, by_terms]
    }

    fn assert_same(line: MessageRecord) -> SummaryBuilder {
        let [mut by_line, mut by_terms] = both(line);
        for gather in [&mut by_line, &mut by_terms] {
            gather.terms.sort_unstable();
        }
        assert_eq!(by_line.terms, by_terms.terms);
        assert_eq!(by_line.finish(), by_terms.finish());
        by_line
    }

    /// Writes every letter of all strings as an escape.
    fn escaped(json: &[u8]) -> Vec<u8> {
        fn write(value: &serde_json::Value, out: &mut String) {
            use serde_json::Value::{Array, Object, String};
            match value {
                String(text) => {
                    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
                    out.push_str(&format!("\"{}\"", units.collect::<Vec<_>>().concat()));
                }
                Array(list) => {
                    for (n, value) in list.iter().enumerate() {
                        out.push_str(if n == 0 { "[" } else { ",\n" });
                        write(value, out);
                    }
                    out.push_str(if list.is_empty() { "[]" } else { "]" });
                }
                Object(fields) => {
                    for (n, (key, value)) in fields.iter().enumerate() {
                        out.push_str(if n == 0 { "{" } else { ",\n" });
                        write(&String(key.clone()), out);
                        out.push(':');
                        write(value, out);
                    }
                    out.push_str(if fields.is_empty() { "{}" } else { "}" });
                }
                other => out.push_str(&other.to_string()),
            }
        }
        let mut out = String::new();
        write(&serde_json::from_slice(json).unwrap(), &mut out);
        out.into_bytes()
    }

    #[test]
    fn terms_of_a_parsed_message_equal_those_of_its_line() {
        for kind in Kind::ALL {
            let message = kind.example_message();
            let plain = message.to_json();
            for bytes in [escaped(&plain), plain] {
                // Parsed as from outside.
                let message = Envelope::parse(&bytes).unwrap();
                let gather = assert_same(record(&message, &bytes));
                // Both recipients, the sender, `from` and perhaps `to`; two ids, perhaps a task.
                let agents = 4 + usize::from(message.to.is_some());
                let ids = 2 + usize::from(message.body.task_id().is_some());
                assert_eq!(gather.terms.len(), agents + ids, "{kind:?}");
                assert_eq!(
                    (gather.kinds, gather.outcomes),
                    (kind_bit(*kind), outcome_bit(Outcome::Queued))
                );
                let anonymous = MessageRecord {
                    by: None,
                    message_id: None,
                    recipients: Arc::new([]),
                    ..record(&message, &bytes)
                };
                assert_same(anonymous);
            }
        }
    }

    #[test]
    fn times_are_the_written_ones() {
        let message = Kind::Broadcast.example_message();
        let day: DateTime<Utc> = "2016-12-31T23:59:59Z".parse().unwrap();
        let leap: DateTime<Utc> = "2016-12-31T23:59:60.5Z".parse().unwrap();
        let far = [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC];
        let fine = day + TimeDelta::nanoseconds(1_999_999);
        for time in [day, leap, fine].into_iter().chain(far) {
            assert_same(MessageRecord { time, ..record(&message, &message.to_json()) });
        }
    }

    #[test]
    fn record_without_parsed_message_has_no_terms() {
        let mut batch = BatchTerms::default();
        let mut expected = Vec::new();
        for (seq, kind) in (1..).zip(Kind::ALL) {
            let message = kind.example_message();
            let line = MessageRecord { seq, ..record(&message, &message.to_json()) };
            let line = MessageRecord { message: line.message.filter(|_| seq % 3 != 2), ..line };
            batch.add(&line);
            if line.message.is_some() {
                let [mut alone, _] = both(line);
                alone.terms.sort_unstable();
                expected.push((seq, alone.kinds, alone.terms));
            }
        }
        let found = batch.iter().map(|(record, terms)| {
            let mut terms = terms.to_vec();
            terms.sort_unstable();
            (record.seq, record.kind, terms)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn any_participants_give_the_same_terms_both_ways(
            names in prop::collection::vec("[A-Za-z0-9][A-Za-z0-9._-]{0,20}", 3..40),
            kind in prop::sample::select(Kind::ALL.to_vec()),
            ids in prop::array::uniform2(any::<u64>()),
        ) {
            let mut message = kind.example_message();
            let id = |n: u64| format!("0192a4c8-7e1a-7b3c-9d4e-{:012X}", n >> 16);
            let agent = |n: usize| names[n].parse::<AgentId>().unwrap();
            message.from.agent_id = agent(0);
            message.from.session_key = None;
            if let Some(to) = &mut message.to {
                to.agent_id = agent(1);
            }
            message.message_id = id(ids[0]).parse().unwrap();
            message.correlation_id = id(ids[1]).parse().unwrap();
            let recipients = (2..names.len())
                .map(|n| RecipientOutcome { agent_id: agent(n), outcome: Outcome::Delivered })
                .collect();
            let bytes = message.to_json();
            assert_same(MessageRecord { recipients, ..record(&message, &bytes) });
            assert_same(record(&message, &escaped(&bytes)));
        }
    }
}
