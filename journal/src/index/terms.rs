//! Index terms of a message record, hashed from the parsed message at its commit.
//!
//! [`crate::index::facets`] derives the same terms by parsing the line. The bus mostly has the parsed
//! message at a commit, so that the indexer need not parse it again. A test in
//! [`crate::index::block_summary`] proves that both ways agree.

use a2a_protocol::Envelope;

use crate::MessageRecord;
use crate::index::block_summary::{kind_bit, outcome_bit};
use crate::index::bloom::{About, term};
use crate::record::encode::written_ms;

/// The fields that one record adds to a summary, and the number of its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordTerms {
    pub seq: u64,
    /// Its time, in milliseconds since 1970.
    pub ms: i64,
    /// The bits of its kind and of its outcome.
    pub kind: u32,
    pub outcome: u32,
    /// Number of its terms; each recipient is one, so that there may be many.
    terms: u32,
}

/// The terms of a batch: of its records with parsed messages, in order.
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

    /// Adds a record, if it has a parsed message.
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

    /// Each record with its terms.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordTerms, &[u64])> {
        let mut rest = &self.terms[..];
        self.each.iter().map(move |record| {
            let terms;
            (terms, rest) = rest.split_at_checked(record.terms as usize).unwrap_or((rest, &[]));
            (record, terms)
        })
    }
}
