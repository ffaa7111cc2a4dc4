//! Report of a run as text and as JSON, with advice on the limits that were reached.

use std::io::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::counters::{Counters, Latencies};
use super::run_control::EndReason;
use super::{LoadResult, Mode};
use crate::cli::stdout::output;
use crate::cli::{Answer, Format};

/// A finished run.
pub(super) struct RunReport {
    pub(super) mode: Mode,
    /// Part of the ids of its agents and messages.
    pub(super) run: String,
    pub(super) concurrency: usize,
    pub(super) load: LoadResult,
    pub(super) ended: EndReason,
    /// Reason why the run was aborted.
    pub(super) why: Option<String>,
}

impl RunReport {
    pub(super) fn print(&self, format: Format) -> anyhow::Result<Answer> {
        let mut out = output(format);
        if format == Format::Text {
            for line in self.lines() {
                writeln!(out, "{line}")?;
            }
        } else {
            writeln!(out, "{}", self.json())?;
        }
        out.flush()?;
        let is_good = self.why.is_none() && self.load.left == 0 && self.load.counters.accepted > 0;
        Ok(if is_good { Answer::Yes } else { Answer::No })
    }

    fn json(&self) -> Value {
        let LoadResult { counters, sending, whole, agents, left } = &self.load;
        let mut body = json!({
            "mode": self.mode.word(),
            "run": self.run,
            "ended": self.ended,
            "seconds": whole.as_secs_f64(),
            "concurrency": self.concurrency,
            "sent": counters.sent,
            "accepted": counters.accepted,
            "refused": counters.refused,
            "unanswered": counters.unanswered,
            "acceptedPerSecond": rate(counters.accepted, *sending),
            "heldUpSeconds": counters.held_up.as_secs_f64(),
            "left": left,
            "advice": self.advice(),
        });
        match self.mode {
            Mode::Messages => {
                body["agents"] = json!(agents);
                body["acknowledged"] = json!(counters.acknowledged);
                body["acknowledgedPerSecond"] = json!(rate(counters.acknowledged, *whole));
            }
            Mode::Tasks => body["states"] = json!(counters.ended),
        }
        let times = self.times().into_iter().map(|(_, key, times)| (key.to_owned(), times.json()));
        body["latencyMs"] = Value::Object(times.collect::<Map<_, _>>());
        body
    }

    /// Measured latencies with their labels for text and JSON.
    fn times(&self) -> Vec<(&'static str, &'static str, &Latencies)> {
        let Counters { answer, end_to_end, .. } = &self.load.counters;
        match self.mode {
            Mode::Messages => {
                vec![("receipt", "receipt", answer), ("end to end", "endToEnd", end_to_end)]
            }
            Mode::Tasks => vec![("answer", "answer", answer)],
        }
    }

    fn lines(&self) -> Vec<String> {
        let LoadResult { counters, sending, whole, agents, .. } = &self.load;
        let per = |count, time: &Duration| format!("{count} ({:.1}/s)", rate(count, *time));
        let mut lines = vec![format!(
            "{}: {:.1} s, {} at once",
            self.mode.word(),
            whole.as_secs_f64(),
            self.concurrency
        )];
        if self.mode == Mode::Messages {
            lines.push(format!("agents        {agents}, from bench-{}-001 on", self.run));
        }
        lines.push(format!("sent          {}", counters.sent));
        lines.push(format!("accepted      {}", per(counters.accepted, sending)));
        if self.mode == Mode::Messages {
            lines.push(format!("acknowledged  {}", per(counters.acknowledged, whole)));
        }
        lines.extend(counters.ended.iter().map(|(state, count)| format!("{state:<12}  {count}")));
        lines.push(format!("refused       {}", counts(counters)));
        if counters.unanswered > 0 {
            lines.push(format!("unanswered    {}", counters.unanswered));
        }
        lines.push(String::new());
        lines.extend(self.table());
        lines.extend(self.advice().into_iter().map(|advice| format!("\n{advice}")));
        lines
    }

    fn table(&self) -> Vec<String> {
        let times = self.times();
        let Some((_, _, first)) = times.first() else { return Vec::new() };
        let names = first.figures().into_iter().map(|(name, _)| format!("{name:>10}"));
        let mut lines = vec![format!("{:<10}{}", "ms", names.collect::<String>())];
        for (name, _, times) in times {
            let figures = match times.is_empty() {
                true => "         –".repeat(times.figures().len()),
                false => times.figures().iter().map(|(_, ms)| format!("{ms:>10.2}")).collect(),
            };
            lines.push(format!("{name:<10}{figures}"));
        }
        lines
    }

    /// Lists the limits reached, the settings to change, and what the run leaves behind.
    fn advice(&self) -> Vec<String> {
        let LoadResult { counters, left, .. } = &self.load;
        let mut advice = Vec::new();
        match (self.ended, &self.why) {
            (_, Some(why)) => advice.push(format!("The run was stopped: {why}")),
            (EndReason::Interrupted, None) => advice.push("It was stopped early.".to_owned()),
            (EndReason::Maximum, None) => {
                advice.push("It was stopped after the longest time a run may take.".to_owned());
            }
            (EndReason::Count | EndReason::Duration | EndReason::Refused, None) => {}
        }
        advice
            .extend(counters.reasons.iter().filter_map(|(code, reason)| self.limit(code, reason)));
        if counters.unanswered > 0 {
            let what = match self.mode {
                Mode::Messages if *left == 0 => {
                    "were not answered; those that were accepted have been dealt with"
                }
                Mode::Messages => "were not answered; some of them may have been accepted",
                Mode::Tasks => "were not answered in time; their tasks may still go on",
            };
            advice.push(format!("{} calls {what}.", counters.unanswered));
        }
        if *left > 0 {
            advice.push(format!(
                "{left} still wait: see `openclaw-a2a log --text bench-{}`.",
                self.run
            ));
        }
        advice.push(match self.mode {
            Mode::Messages => "What was sent stays in the log; the agents are removed.".to_owned(),
            Mode::Tasks => {
                "What was sent stays in the log, and the tasks in the database until they expire."
                    .to_owned()
            }
        });
        advice
    }

    /// Advice on one limit.
    fn limit(&self, code: &str, reason: &str) -> Option<String> {
        let count = self.load.counters.refused.get(code)?;
        let held_up = self.load.counters.held_up.as_secs_f64();
        let next = match (code, self.mode) {
            ("rate_limited", Mode::Messages) if held_up == 0.0 => {
                "other agents went on in their place, so nothing stood still. To have none refused raise per_agent_per_minute, per_pair_per_minute and burst in [limits].".to_owned()
            }
            ("rate_limited", Mode::Messages) => format!(
                "senders stood still for {held_up:.1} s altogether. Raise per_agent_per_minute, per_pair_per_minute and burst in [limits], or let more agents send: --agents."
            ),
            ("rate_limited", Mode::Tasks) => format!(
                "callers stood still for {held_up:.1} s altogether, as all of them are one to the server. Raise per_agent_per_minute, per_pair_per_minute and burst in [limits]."
            ),
            ("queue_full", Mode::Messages) => "raise inbox in [limits].".to_owned(),
            ("queue_full", Mode::Tasks) => "raise queue_per_context in [tasks].".to_owned(),
            ("unavailable", _) => {
                "the journal could not keep up or could not be written: see `openclaw-a2a doctor`, and max_requests in [http].".to_owned()
            }
            _ => return None,
        };
        Some(format!("{count} were refused ({code}: {reason}): {next}"))
    }
}

fn counts(counters: &Counters) -> String {
    let each: Vec<_> =
        counters.refused.iter().map(|(word, count)| format!("{count} {word}")).collect();
    match each.len() {
        0 => "0".to_owned(),
        1 => each.concat(),
        _ => format!("{} ({})", counters.all_refused(), each.join(", ")),
    }
}

fn rate(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(mode: Mode, change: impl FnOnce(&mut LoadResult)) -> RunReport {
        let counters = Counters::new().unwrap();
        let second = Duration::from_secs(1);
        let mut load =
            LoadResult { counters, sending: second, whole: second * 2, agents: 3, left: 0 };
        change(&mut load);
        let (run, ended) = ("x".to_owned(), EndReason::Count);
        RunReport { mode, run, concurrency: 2, load, ended, why: None }
    }

    #[test]
    fn advice_names_the_limit_and_its_settings() {
        let limited =
            |load: &mut LoadResult| load.counters.refuse("rate_limited".into(), "Wait.".into());
        let advice = |report: &RunReport| report.advice().join("\n");
        assert!(!advice(&report(Mode::Messages, |_| {})).contains("refused"));
        let in_turn = advice(&report(Mode::Messages, limited));
        assert!(
            in_turn.contains("nothing stood still") && in_turn.contains("[limits]"),
            "{in_turn}"
        );
        let delayed = advice(&report(Mode::Messages, |load| {
            limited(load);
            load.counters.held_up = Duration::from_secs(7);
        }));
        assert!(delayed.contains("7.0 s") && delayed.contains("--agents"), "{delayed}");
        let left = advice(&report(Mode::Messages, |load| {
            load.left = 2;
            load.counters.unanswered = 1;
        }));
        assert!(left.contains("2 still wait") && left.contains("may have been"), "{left}");
    }

    #[test]
    fn rates_use_the_time_of_their_phase() {
        let report = report(Mode::Messages, |load| {
            load.counters.accepted = 100;
            load.counters.acknowledged = 100;
            load.counters.answer.record(Duration::from_millis(5));
        });
        let json = report.json();
        assert_eq!(
            (&json["acceptedPerSecond"], &json["acknowledgedPerSecond"]),
            (&json!(100.0), &json!(50.0))
        );
        let lines = report.lines().join("\n");
        assert!(lines.contains("accepted      100 (100.0/s)"), "{lines}");
        assert!(
            lines.contains("receipt         5.00") || lines.contains("receipt         5."),
            "{lines}"
        );
        assert!(lines.contains("end to end         –"), "{lines}");
    }
}
