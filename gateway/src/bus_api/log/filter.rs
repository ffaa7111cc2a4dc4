//! Filter over lines of the log as they are read: records by their own fields, events by the record
//! they belong to.

use a2a_journal::{Query, QueryPlan};
use a2a_protocol::AgentId;
use chrono::{DateTime, Utc};
use serde::Deserialize;

/// A query, ready to be matched against single lines.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    query: Query,
    plan: QueryPlan,
}

/// The fields of a line that every match starts from.
#[derive(Debug, Deserialize)]
pub struct LineHeader {
    /// Its sequence number.
    pub seq: u64,
    /// When it was written.
    pub time: DateTime<Utc>,
    /// For an event: what happened.
    pub event: Option<String>,
    /// For an event: the sequence number of its record.
    pub of: Option<u64>,
    /// For an event: the agent it concerns.
    #[serde(rename = "agentId")]
    pub agent_id: Option<String>,
}

impl LogFilter {
    /// The filter of this query.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        Self { query: query.clone(), plan: QueryPlan::of(query) }
    }

    /// Whether every line matches.
    #[must_use]
    pub fn matches_everything(&self) -> bool {
        let Query { agent, since, until, .. } = &self.query;
        since.is_none() && until.is_none() && agent.is_none() && self.needs_no_record()
    }

    /// Whether no condition needs the record of a message.
    fn needs_no_record(&self) -> bool {
        let Query { kind, correlation, task, outcome, text, .. } = &self.query;
        let no_text = text.as_ref().is_none_or(|text| text.trim().is_empty());
        kind.is_none() && correlation.is_none() && task.is_none() && outcome.is_none() && no_text
    }

    /// Whether lines of this time are too late for the query.
    #[must_use]
    pub fn is_over(&self, time: DateTime<Utc>) -> bool {
        self.query.until.is_some_and(|until| time >= until)
    }

    fn is_in_time(&self, time: DateTime<Utc>) -> bool {
        self.query.since.is_none_or(|since| time >= since) && !self.is_over(time)
    }

    /// Whether a record matches. One that cannot be parsed matches only an empty query.
    #[must_use]
    pub fn matches_record(&self, line: &str) -> bool {
        self.plan.wants(line)
    }

    /// Whether an event matches, given whether its record does.
    pub fn matches_event(
        &self,
        event: &LineHeader,
        record_is_wanted: impl FnOnce(u64) -> bool,
    ) -> bool {
        let when = || self.is_in_time(event.time);
        match event.of {
            _ if self.matches_everything() => true,
            Some(of) => !self.is_over(event.time) && record_is_wanted(of),
            None => {
                let about_agent =
                    |agent: &AgentId| event.agent_id.as_deref() == Some(agent.as_str());
                self.needs_no_record()
                    && self.query.agent.as_ref().is_none_or(about_agent)
                    && when()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus_api::log::query::read_query;

    const TALK: &str = "0192a4c8-7e1a-7b3c-9d4e-00000000000a";
    const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-00000000000b";

    fn wanted(parameters: &[(&str, &str)]) -> LogFilter {
        let now = "2026-02-21T18:30:00Z".parse().unwrap();
        LogFilter::of(&read_query(parameters.iter().copied(), now, true).unwrap())
    }

    fn record() -> String {
        format!(
            r#"{{"seq":7,"time":"2026-02-21T18:30:00.000Z","outcome":"queued","by":"bob","message":{{"from":{{"agentId":"roman"}},"to":{{"agentId":"tim"}},"type":"task_request","correlationId":"{}","payload":{{"taskId":"{TASK}","title":"Caf\u00c9 \"x\""}}}},"recipients":[{{"agentId":"ann","outcome":"queued"}}],"prev":"{}","hash":"{}"}}"#,
            TALK.to_uppercase(),
            "dead".repeat(16),
            "beef".repeat(16)
        )
    }

    #[test]
    fn a_record_is_wanted_by_what_it_is_about() {
        let line = record();
        for yes in [
            &[][..],
            &[("agent", "roman")],
            &[("agent", "tim")],
            &[("agent", "ann")],
            &[("agent", "bob"), ("outcome", "queued"), ("type", "task_request")],
            &[("correlation", TALK)],
            &[("task", TASK)],
            &[("since", "2026-02-21T18:30:00Z"), ("until", "2026-02-21T18:30:01Z")],
            &[("text", "café TITLE \"x\"")],
        ] {
            assert!(wanted(yes).matches_record(&line), "{yes:?}");
        }
        for no in [
            &[("agent", "eve")][..],
            &[("outcome", "delivered")],
            &[("type", "broadcast")],
            &[("correlation", TASK)],
            &[("task", TALK)],
            &[("since", "2026-02-21T18:30:01Z")],
            &[("until", "2026-02-21T18:30:00Z")],
            &[("text", "café beef")],
        ] {
            assert!(!wanted(no).matches_record(&line), "{no:?}");
        }
        assert!(!wanted(&[("agent", "tim")]).matches_record("no line"));
    }

    #[test]
    fn an_event_goes_with_its_record() {
        let event = |line: &str| serde_json::from_str::<LineHeader>(line).unwrap();
        let of = event(r#"{"seq":8,"time":"2026-02-21T18:30:00.000Z","event":"delivered","of":7}"#);
        let tim = wanted(&[("agent", "tim")]);
        assert!(tim.matches_event(&of, |seq| seq == 7) && !tim.matches_event(&of, |_| false));
        let late = wanted(&[("agent", "tim"), ("until", "2026-02-21T18:30:00Z")]);
        assert!(!late.matches_event(&of, |_| true));
        let joined = event(
            r#"{"seq":9,"time":"2026-02-21T18:30:00.000Z","event":"joined","agentId":"tim"}"#,
        );
        assert!(tim.matches_event(&joined, |_| false));
        assert!(wanted(&[]).matches_event(&joined, |_| false));
        assert!(!wanted(&[("agent", "ann")]).matches_event(&joined, |_| true));
        assert!(!wanted(&[("text", "tim")]).matches_event(&joined, |_| true));
    }
}
