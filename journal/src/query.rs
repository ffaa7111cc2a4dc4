//! Queries: reads committed records from the tail and the index, while the journal writes.
//!
//! # Constraints
//! - A batch is visible as soon as its commit returns.
//! - Every call is bounded: it scans at most 64 MiB of records and returns at most 8 MiB, and 1,000
//!   records. A cursor continues where it stopped, so that no reader blocks a thread for long.
//! - A message to thousands of recipients has thousands of events. They count against the limits.
//!
//! # Flow of a query
//! ```text
//! Query ─▶ QueryPlan ─▶ tail, newest first           (records that sled lacks)
//!                    ─▶ blocks whose BlockSummary may match (bloom filter, times, kinds, outcomes)
//!                    ─▶ QueryPlan::matches each record (facets, text) ─▶ PageBuilder adds the events
//! ```
//!
//! # Modules
//! `reader` is the trait, `disk_reader` and [`crate::memory`] implement it, `offline` opens a journal
//! without a server. `page_builder`, `message_history` and `fact_events` collect the results of the
//! three kinds of reads, `text` matches words.

pub(crate) mod disk_reader;
pub(crate) mod fact_events;
pub(crate) mod message_history;
pub(crate) mod offline;
pub(crate) mod page_builder;
pub(crate) mod reader;
pub(crate) mod text;

use a2a_protocol::{AgentId, CorrelationId, Kind, MessageId, Outcome, TaskId};
use chrono::{DateTime, Utc};
use memchr::memmem::Finder;

use crate::index::block_summary::{BlockSummary, kind_bit, outcome_bit};
use crate::index::bloom::{About, term};
use crate::index::facets::{facets, time_and_outcome};
use crate::query::text::TextQuery;

/// Conditions on message records. A record must meet every one that is set.
#[derive(Debug, Clone)]
pub struct Query {
    /// Sender, `from`, or recipient (for a refused message the intended one).
    pub agent: Option<AgentId>,
    /// Kind of the message.
    pub kind: Option<Kind>,
    /// Recorded at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Recorded before this time.
    pub until: Option<DateTime<Utc>>,
    /// Conversation of the message.
    pub correlation: Option<CorrelationId>,
    /// The `taskId` in the payload of the message.
    pub task: Option<TaskId>,
    /// Outcome of the message.
    pub outcome: Option<Outcome>,
    /// Words that must all occur in the record, in any case, except in its hashes.
    pub text: Option<String>,
    /// Only records with a lower number: the `next` of the page before.
    pub before: Option<u64>,
    /// Maximum number of records, from 1 to [`crate::MAX_PAGE`].
    pub limit: usize,
}

impl Default for Query {
    /// The newest 50 records.
    fn default() -> Self {
        Self {
            agent: None,
            kind: None,
            since: None,
            until: None,
            correlation: None,
            task: None,
            outcome: None,
            text: None,
            before: None,
            limit: 50,
        }
    }
}

/// A prepared [`Query`], to be matched with many blocks and records. The only implementation of the
/// conditions.
#[derive(Debug, Clone, Default)]
pub struct QueryPlan {
    agent: Option<AgentId>,
    kind: Option<Kind>,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    message: Option<MessageId>,
    correlation: Option<CorrelationId>,
    task: Option<TaskId>,
    outcome: Option<Outcome>,
    text: Option<TextQuery>,
    /// Terms that the bloom filter of a block must contain.
    terms: Vec<u64>,
    /// Strings that a record must contain to be parsed at all, unless it has escapes.
    needles: Vec<Finder<'static>>,
}

impl QueryPlan {
    /// Prepares the conditions of a query; its `before` and `limit` are ignored.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        Self {
            agent: query.agent.clone(),
            kind: query.kind,
            since: query.since,
            until: query.until,
            correlation: query.correlation,
            task: query.task,
            outcome: query.outcome,
            text: query.text.as_deref().and_then(TextQuery::of),
            ..Self::default()
        }
        .ready()
    }

    /// Matches the records of one message.
    #[must_use]
    pub fn of_message(id: MessageId) -> Self {
        Self { message: Some(id), ..Self::default() }.ready()
    }

    fn ready(mut self) -> Self {
        self.terms.extend(self.agent.as_ref().map(|a| term(About::Agent, a.as_str().as_bytes())));
        for (about, id) in [
            (About::Message, self.message.map(|id| id.as_uuid())),
            (About::Correlation, self.correlation.map(|id| id.as_uuid())),
            (About::Task, self.task.map(|id| id.as_uuid())),
        ] {
            self.terms.extend(id.map(|id| term(about, id.as_bytes())));
        }
        // Ids may be written in either case and are no needles.
        let words = [self.agent.as_ref().map(AgentId::as_str), self.kind.map(Kind::as_str)];
        let quoted = words.into_iter().flatten().map(|word| format!("\"{word}\""));
        self.needles.extend(quoted.map(|word| Finder::new(word.as_bytes()).into_owned()));
        self
    }

    /// Whether every block must be read, because the summaries cannot exclude any.
    pub(crate) fn reads_everything(&self) -> bool {
        self.text.is_some()
    }

    /// Whether a block may contain a match.
    pub(crate) fn may_match(&self, block: &BlockSummary) -> bool {
        let time = |ms| DateTime::from_timestamp_millis(ms);
        self.kind.is_none_or(|kind| block.kinds & kind_bit(kind) != 0)
            && self.outcome.is_none_or(|outcome| block.outcomes & outcome_bit(outcome) != 0)
            && self.since.is_none_or(|since| time(block.times.1).is_none_or(|to| to >= since))
            && self.until.is_none_or(|until| time(block.times.0).is_none_or(|from| from < until))
            && self.terms.iter().all(|term| block.terms.may_contain(*term))
    }

    /// Whether a record matches. For callers that scan lines without the index.
    #[must_use]
    pub fn wants(&self, line: &str) -> bool {
        self.matches(line.as_bytes(), &mut Vec::new())
    }

    /// Like [`QueryPlan::wants`], with a reused buffer.
    pub(crate) fn matches(&self, line: &[u8], scratch: &mut Vec<u8>) -> bool {
        if self.since.is_some() || self.until.is_some() || self.outcome.is_some() {
            let Some((time, outcome)) = time_and_outcome(line) else { return false };
            if self.since.is_some_and(|since| time < since)
                || self.until.is_some_and(|until| time >= until)
                || self.outcome.is_some_and(|wanted| outcome != Some(wanted))
            {
                return false;
            }
        }
        self.facets_match(line) && self.text.as_ref().is_none_or(|text| text.are_in(line, scratch))
    }

    fn facets_match(&self, line: &[u8]) -> bool {
        if self.terms.is_empty() && self.kind.is_none() {
            return true;
        }
        let missing = self.needles.iter().any(|needle| needle.find(line).is_none());
        if missing && memchr::memmem::find(line, b"\\u").is_none() {
            return false;
        }
        let facets = facets(line);
        self.kind.is_none_or(|kind| facets.kind == Some(kind))
            && self.message.is_none_or(|id| facets.message_id == Some(id))
            && self.correlation.is_none_or(|id| facets.correlation == Some(id))
            && self.task.is_none_or(|id| facets.task == Some(id))
            && self.agent.as_ref().is_none_or(|a| facets.agents.iter().any(|x| x == a.as_str()))
    }
}
