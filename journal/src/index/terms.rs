//! What a record can be found by, in numbers, from the message as the caller has it.
//!
//! [`crate::index::facets`] reads the same out of a line. Whoever writes a record mostly has its
//! message at hand, so the indexer need not parse it again; a test beside [`crate::index::block_summary`]
//! holds both ways to the same result.

use a2a_protocol::Envelope;

use crate::MessageRecord;
use crate::index::block_summary::{kind_bit, outcome_bit};
use crate::index::bloom::{About, term};
use crate::record::encode::written_ms;

/// What one record adds to a summary, besides its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordTerms {
    pub seq: u64,
    /// Its time, in milliseconds since 1970.
    pub ms: i64,
    /// The bits of its kind and of its outcome.
    pub kind: u32,
    pub outcome: u32,
    /// How many terms it has; a recipient is one, so there may be many.
    terms: u32,
}

/// The marks of a batch: those of its records whose messages were at hand, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct BatchTerms {
    each: Vec<RecordTerms>,
    /// The terms of all of them, one after the other.
    terms: Vec<u64>,
}

impl BatchTerms {
    pub fn clear(&mut self) {
        self.each.clear();
        self.terms.clear();
    }

    /// Adds a record, if its message is at hand.
    pub fn add(&mut self, line: &MessageRecord) {
        let Some(message) = &line.message else { return };
        let before = self.terms.len();
        self.add_terms(line, message);
        self.each.push(RecordTerms {
            seq: line.seq,
            ms: written_ms(line.time),
            kind: kind_bit(message.kind()),
            outcome: outcome_bit(line.outcome),
            terms: (self.terms.len() - before) as u32,
        });
    }

    fn add_terms(&mut self, line: &MessageRecord, message: &Envelope) {
        let recipients = line.recipients.iter().map(|recipient| &recipient.agent_id);
        let named = [Some(&message.from.agent_id), message.to.as_ref().map(|to| &to.agent_id)];
        let agents = line.by.iter().chain(recipients).chain(named.into_iter().flatten());
        self.terms.extend(agents.map(|agent| term(About::Agent, agent.as_str().as_bytes())));
        let ids = [
            (About::Message, line.message_id.map(|id| id.as_uuid())),
            (About::Correlation, Some(message.correlation_id.as_uuid())),
            (About::Task, message.body.task_id().map(|id| id.as_uuid())),
        ];
        self.terms
            .extend(ids.iter().filter_map(|(about, id)| Some(term(*about, (*id)?.as_bytes()))));
    }

    /// Each mark with its terms.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordTerms, &[u64])> {
        let mut rest = &self.terms[..];
        self.each.iter().map(move |mark| {
            let terms;
            (terms, rest) = rest.split_at_checked(mark.terms as usize).unwrap_or((rest, &[]));
            (mark, terms)
        })
    }
}
