//! Questions to the journal: which records are wanted, and how to tell.

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

/// Which records are wanted. A record must meet every condition that is set.
#[derive(Debug, Clone)]
pub struct Query {
    /// Sent by this agent, or in its name, or to it (or meant for it, if it was refused).
    pub agent: Option<AgentId>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// Answered at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Answered before this time.
    pub until: Option<DateTime<Utc>>,
    /// Of this conversation.
    pub correlation: Option<CorrelationId>,
    /// About this task: the `taskId` of the message's payload.
    pub task: Option<TaskId>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// With all of these words, in any case, anywhere in the record but its hashes.
    pub text: Option<String>,
    /// Only records with a lower number: the `next` of the page before.
    pub before: Option<u64>,
    /// How many at most; from 1 to [`crate::MAX_PAGE`].
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

/// A question, made ready to be asked of many blocks and lines. The one place that knows what
/// each condition means.
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
    /// What a block's filter is asked for.
    terms: Vec<u64>,
    /// What must stand in a line before it is worth reading, unless it holds escapes.
    marks: Vec<Finder<'static>>,
}

impl QueryPlan {
    /// Records that meet the conditions of a question; its `before` and `limit` are not asked.
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

    /// Records of one message.
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
        // Ids may be written in either case, so they make no mark.
        let words = [self.agent.as_ref().map(AgentId::as_str), self.kind.map(Kind::as_str)];
        let quoted = words.into_iter().flatten().map(|word| format!("\"{word}\""));
        self.marks.extend(quoted.map(|word| Finder::new(word.as_bytes()).into_owned()));
        self
    }

    /// Whether block after block has to be read, rather than the few with what is wanted.
    pub(crate) fn reads_everything(&self) -> bool {
        self.text.is_some()
    }

    /// Whether a block may hold a record that is wanted.
    pub(crate) fn may_match(&self, block: &BlockSummary) -> bool {
        let time = |ms| DateTime::from_timestamp_millis(ms);
        self.kind.is_none_or(|kind| block.kinds & kind_bit(kind) != 0)
            && self.outcome.is_none_or(|outcome| block.outcomes & outcome_bit(outcome) != 0)
            && self.since.is_none_or(|since| time(block.times.1).is_none_or(|to| to >= since))
            && self.until.is_none_or(|until| time(block.times.0).is_none_or(|from| from < until))
            && self.terms.iter().all(|term| block.terms.may_contain(*term))
    }

    /// Whether a record, given as its line, is wanted. For lines that are read one after the
    /// other, where no index is any help.
    #[must_use]
    pub fn wants(&self, line: &str) -> bool {
        self.matches(line.as_bytes(), &mut Vec::new())
    }

    /// The same, with memory that is used again.
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
        let missing = self.marks.iter().any(|mark| mark.find(line).is_none());
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
