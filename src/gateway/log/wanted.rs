//! Whether one line of the log is wanted by a question: for lines that are read one after the
//! other, as they are written or from the files, where the journal's index is no help.

use a2a_protocol::{AgentId, CorrelationId, Kind, Outcome, TaskId};
use a2a_store::Query;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

/// A question, ready to be asked of single lines.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    agent: Option<AgentId>,
    kind: Option<Kind>,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    correlation: Option<CorrelationId>,
    task: Option<TaskId>,
    outcome: Option<Outcome>,
    /// In lower case.
    words: Vec<String>,
}

/// What of a line every question starts from.
#[derive(Debug, Deserialize)]
pub struct Glance {
    /// Its number.
    pub seq: u64,
    /// When it was written.
    pub time: DateTime<Utc>,
    /// For an event: what happened.
    pub event: Option<String>,
    /// For an event: the number of the record it belongs to.
    pub of: Option<u64>,
    /// For an event: whom it happened to.
    #[serde(rename = "agentId")]
    pub agent_id: Option<String>,
}

impl Wanted {
    /// What this question wants.
    #[must_use]
    pub fn of(query: &Query) -> Self {
        let words = query.text.as_deref().unwrap_or_default();
        Self {
            agent: query.agent.clone(),
            kind: query.kind,
            since: query.since,
            until: query.until,
            correlation: query.correlation,
            task: query.task,
            outcome: query.outcome,
            words: words.split_whitespace().map(str::to_lowercase).collect(),
        }
    }

    /// Whether every line is wanted.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.since.is_none() && self.until.is_none() && self.asks_only_when()
    }

    /// Whether only times matter.
    fn asks_only_when(&self) -> bool {
        self.agent.is_none() && self.asks_for_no_record()
    }

    /// Whether nothing is asked that only the record of a message can answer.
    fn asks_for_no_record(&self) -> bool {
        self.kind.is_none()
            && self.correlation.is_none()
            && self.task.is_none()
            && self.outcome.is_none()
            && self.words.is_empty()
    }

    /// Whether lines of this time are too late for the question.
    #[must_use]
    pub fn is_over(&self, time: DateTime<Utc>) -> bool {
        self.until.is_some_and(|until| time >= until)
    }

    fn is_in_time(&self, time: DateTime<Utc>) -> bool {
        self.since.is_none_or(|since| time >= since) && !self.is_over(time)
    }

    /// Whether a record is wanted. One that cannot be read is wanted only by those who want
    /// everything.
    #[must_use]
    pub fn wants_record(&self, line: &str) -> bool {
        if self.is_everything() {
            return true;
        }
        let Ok(glance) = serde_json::from_str::<Glance>(line) else { return false };
        if !self.is_in_time(glance.time) {
            return false;
        }
        self.asks_only_when()
            || serde_json::from_str(line).is_ok_and(|record| self.is_about(&record, line))
    }

    /// Whether an event is wanted, given whether the record it belongs to is.
    pub fn wants_event(&self, event: &Glance, record_is_wanted: impl FnOnce(u64) -> bool) -> bool {
        let when = || self.is_in_time(event.time);
        match event.of {
            _ if self.is_everything() => true,
            Some(of) => !self.is_over(event.time) && record_is_wanted(of),
            None => {
                let about_agent =
                    |agent: &AgentId| event.agent_id.as_deref() == Some(agent.as_str());
                self.asks_for_no_record() && self.agent.as_ref().is_none_or(about_agent) && when()
            }
        }
    }

    fn is_about(&self, record: &Value, line: &str) -> bool {
        let message = &record["message"];
        let word = |value: &Value, wanted: &str| value.as_str() == Some(wanted);
        let id = |value: &Value| value.as_str().map(str::to_ascii_lowercase);
        self.kind.is_none_or(|kind| word(&message["type"], kind.as_str()))
            && self.outcome.is_none_or(|outcome| word(&record["outcome"], outcome.as_str()))
            && self
                .correlation
                .is_none_or(|wanted| id(&message["correlationId"]) == Some(wanted.to_string()))
            && self
                .task
                .is_none_or(|wanted| id(&message["payload"]["taskId"]) == Some(wanted.to_string()))
            && self.agent.as_ref().is_none_or(|agent| is_party(record, agent.as_str()))
            && (self.words.is_empty() || self.words_are_in(record, line))
    }

    /// Every word somewhere in the record but its hashes, as it stands there or with escapes
    /// undone.
    fn words_are_in(&self, record: &Value, line: &str) -> bool {
        let seal = line.rfind(",\"prev\":\"").unwrap_or(line.len());
        let mut text = line[..seal].to_lowercase();
        text.push('\n');
        gather(record, &mut text);
        self.words.iter().all(|word| text.contains(word))
    }
}

fn is_party(record: &Value, agent: &str) -> bool {
    let message = &record["message"];
    let recipients = record["recipients"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parties = [&message["from"], &message["to"]].into_iter().chain(recipients);
    let mut names = std::iter::once(&record["by"]).chain(parties.map(|party| &party["agentId"]));
    names.any(|name| name.as_str() == Some(agent))
}

fn gather(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => {
            text.push_str(&string.to_lowercase());
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, text)),
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "prev" && *key != "hash") {
                text.push_str(&key.to_lowercase());
                text.push('\n');
                gather(value, text);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::log::query::read_query;

    const TALK: &str = "0192a4c8-7e1a-7b3c-9d4e-00000000000a";
    const TASK: &str = "0192a4c8-7e1a-7b3c-9d4e-00000000000b";

    fn wanted(parameters: &[(&str, &str)]) -> Wanted {
        let now = "2026-02-21T18:30:00Z".parse().unwrap();
        Wanted::of(&read_query(parameters.iter().copied(), now, true).unwrap())
    }

    fn record() -> String {
        format!(
            r#"{{"seq":7,"time":"2026-02-21T18:30:00.000Z","outcome":"queued","by":"bob","message":{{"from":{{"agentId":"roman"}},"to":{{"agentId":"tim"}},"type":"task_request","correlationId":"{}","payload":{{"taskId":"{TASK}","title":"Caf\u00c9 \"x\""}}}},"recipients":[{{"agentId":"ann","outcome":"queued"}}],"prev":"dead","hash":"beef"}}"#,
            TALK.to_uppercase()
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
            assert!(wanted(yes).wants_record(&line), "{yes:?}");
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
            assert!(!wanted(no).wants_record(&line), "{no:?}");
        }
        assert!(!wanted(&[("agent", "tim")]).wants_record("no line"));
    }

    #[test]
    fn an_event_goes_with_its_record() {
        let event = |line: &str| serde_json::from_str::<Glance>(line).unwrap();
        let of = event(r#"{"seq":8,"time":"2026-02-21T18:30:00.000Z","event":"delivered","of":7}"#);
        let tim = wanted(&[("agent", "tim")]);
        assert!(tim.wants_event(&of, |seq| seq == 7) && !tim.wants_event(&of, |_| false));
        let late = wanted(&[("agent", "tim"), ("until", "2026-02-21T18:30:00Z")]);
        assert!(!late.wants_event(&of, |_| true));
        let joined = event(
            r#"{"seq":9,"time":"2026-02-21T18:30:00.000Z","event":"joined","agentId":"tim"}"#,
        );
        assert!(tim.wants_event(&joined, |_| false));
        assert!(wanted(&[]).wants_event(&joined, |_| false));
        assert!(!wanted(&[("agent", "ann")]).wants_event(&joined, |_| true));
        assert!(!wanted(&[("text", "tim")]).wants_event(&joined, |_| true));
    }
}
