//! What a block's records have in common: enough to tell that none of them is wanted.

use a2a_protocol::{Kind, Outcome};

use crate::facets::{facets, time_and_outcome};
use crate::filter::{About, Filter, term};

/// Times, kinds, outcomes and terms of the records in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The earliest and the latest time, in milliseconds since 1970.
    pub times: (i64, i64),
    /// A bit for each kind.
    pub kinds: u32,
    /// A bit for each outcome.
    pub outcomes: u32,
    /// Bytes of the block's lines, and of the block in sled.
    pub size: u32,
    pub stored: u32,
    pub terms: Filter,
}

/// The bit of a kind. Its place in the list is stored: new words go to the end.
pub(crate) fn kind_bit(kind: Kind) -> u32 {
    1 << kind as u32
}

/// The bit of an outcome; as for kinds, the list only grows at its end.
pub(crate) fn outcome_bit(outcome: Outcome) -> u32 {
    1 << outcome as u32
}

/// Gathers a summary record by record, in buffers that are used again.
#[derive(Debug)]
pub(crate) struct Gather {
    times: (i64, i64),
    kinds: u32,
    outcomes: u32,
    terms: Vec<u64>,
}

impl Default for Gather {
    fn default() -> Self {
        Self { times: (i64::MAX, i64::MIN), kinds: 0, outcomes: 0, terms: Vec::new() }
    }
}

impl Gather {
    pub fn clear(&mut self) {
        let mut terms = std::mem::take(&mut self.terms);
        terms.clear();
        *self = Self { terms, ..Self::default() };
    }

    /// Adds a record.
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

    pub fn finish(&mut self) -> Summary {
        let Self { times, kinds, outcomes, terms } = self;
        let (times, kinds, outcomes) = (*times, *kinds, *outcomes);
        Summary { times, kinds, outcomes, size: 0, stored: 0, terms: Filter::of(terms) }
    }
}

impl Summary {
    /// The summary that rules nothing out.
    pub fn all() -> Self {
        let (kinds, outcomes) = (u32::MAX, u32::MAX);
        let times = (i64::MIN, i64::MAX);
        Self { times, kinds, outcomes, size: 0, stored: 0, terms: Filter::all() }
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

    /// Reads a summary from the front of `bytes`; returns what follows it.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (from, rest) = bytes.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let (kinds, rest) = rest.split_first_chunk()?;
        let (outcomes, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (stored, rest) = rest.split_first_chunk()?;
        let (terms, rest) = Filter::read(rest)?;
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
